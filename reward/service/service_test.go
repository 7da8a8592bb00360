package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/lease"
	"github.com/verigraph/verigraph/reward/service"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

func TestMain(m *testing.M) { patience.Main(m) }

type heldGroup struct {
	deliveries int
	ended      chan string
	graph      evidence.Export
	scored     trajectory.ScoredGroup
}

func (l *heldGroup) Value() trajectory.Group {
	return trajectory.Group{
		Dispatch:     task.Dispatch{ID: "p-0", Run: "r", Prompt: task.Prompt{ID: "p"}, GroupSize: 2},
		Trajectories: []trajectory.Trajectory{{ID: task.RolloutID{Sample: 0}, Graph: l.graph}, {ID: task.RolloutID{Sample: 1}, Graph: l.graph}},
	}
}
func (l *heldGroup) Deliveries() int                           { return l.deliveries }
func (*heldGroup) Context(ctx context.Context) context.Context { return ctx }
func (l *heldGroup) Finish(_ context.Context, g trajectory.ScoredGroup) error {
	l.scored = g
	l.ended <- "finish"
	return nil
}

func (l *heldGroup) Retry(after time.Duration) error {
	if after == 0 {
		l.ended <- "handed back"
		return nil
	}
	l.ended <- "retry"
	return nil
}

func (l *heldGroup) SetAside(_ context.Context, reason string) error {
	l.ended <- "set aside: " + reason
	return nil
}

func (l *heldGroup) Drop() { l.ended <- "dropped" }

type source struct {
	leases chan lease.Lease[trajectory.Group, trajectory.ScoredGroup]
}

func (s source) Receive(ctx context.Context) (lease.Lease[trajectory.Group, trajectory.ScoredGroup], error) {
	select {
	case l := <-s.leases:
		return l, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type refs struct{ err error }

func (r refs) Reference(context.Context, string, string) (task.Reference, error) {
	return task.Reference{PromptID: "p"}, r.err
}

type scorer func(context.Context, trajectory.Trajectory) trajectory.Score

func (f scorer) Score(ctx context.Context, t trajectory.Trajectory, _ task.Prompt, _ task.Reference) trajectory.Score {
	return f(ctx, t)
}

func serve(t *testing.T, l *heldGroup, r refs, s scorer) string {
	t.Helper()
	src := source{make(chan lease.Lease[trajectory.Group, trajectory.ScoredGroup], 1)}
	src.leases <- l
	server := &service.Server{Source: src, References: r, Scorer: s, Groups: 2, MaxDeliver: 3, Log: zap.NewNop()}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	how := patience.Receive(t, l.ended, "the end of the lease")
	cancel()
	require.NoError(t, patience.Receive(t, done, "its end"))
	return how
}

func newLease(deliveries int) *heldGroup {
	return &heldGroup{deliveries: deliveries, ended: make(chan string, 2)}
}

func TestGroupLeavesScoredAsAWholeInSampleOrder(t *testing.T) {
	t.Parallel()
	l := newLease(1)
	how := serve(t, l, refs{}, func(_ context.Context, tr trajectory.Trajectory) trajectory.Score {
		return trajectory.Score{Status: trajectory.ScoreOK, Reward: float64(tr.ID.Sample)}
	})
	require.Equal(t, "finish", how)
	require.Len(t, l.scored.Scores, 2)
	require.Equal(t, 1.0, l.scored.Scores[1].Reward)
}

func TestVerdictsSayWhichSubmittedClaimsAreSupported(t *testing.T) {
	t.Parallel()
	derived := evidence.Export{
		Schema: evidence.Schema, Submitted: []string{"c2"},
		Nodes: []evidence.Node{
			{ID: "file:t.csv", Kind: evidence.NodeSource, Name: "t.csv", Turn: -1, Statement: -1},
			{ID: "c1", Kind: evidence.NodeAtomic, Text: "34.65", Fields: []evidence.Field{{Name: "m", Text: "34.65"}}, Values: []evidence.Value{{Name: "m", Kind: evidence.KindNumber}}},
			{ID: "c2", Kind: evidence.NodeDerived, Text: "It is low."},
		},
		Edges: []evidence.Edge{{From: "file:t.csv", To: "c1", Kind: evidence.EdgeGround, Role: "m"}, {From: "c1", To: "c2", Kind: evidence.EdgeDerive}},
	}
	derived.Grounding = derived.ComputeGrounding()
	for kind, want := range map[trajectory.VerdictKind]string{
		trajectory.Entailed: "true", trajectory.NotEntailed: "false", trajectory.Abstained: "null", trajectory.NoVerdict: "null",
	} {
		l := newLease(1)
		l.graph = derived
		how := serve(t, l, refs{}, func(context.Context, trajectory.Trajectory) trajectory.Score {
			return trajectory.Score{Status: trajectory.ScoreOK, Verdicts: []trajectory.Verdict{{Claim: "c2", Kind: kind, Reason: "because"}}}
		})
		require.Equal(t, "finish", how)
		got, err := json.Marshal(l.scored.Group.Trajectories[1].Graph.Grounding[0].Supported)
		require.NoError(t, err)
		require.Equal(t, want, string(got), kind)
		require.Nil(t, derived.Grounding[0].Supported, "what was received stays as it is")
	}
	l := newLease(1)
	l.graph = derived
	serve(t, l, refs{}, func(context.Context, trajectory.Trajectory) trajectory.Score {
		return trajectory.Score{Status: trajectory.ScoreLost, Verdicts: []trajectory.Verdict{{Claim: "c2", Kind: trajectory.Entailed}}}
	})
	require.Nil(t, l.scored.Group.Trajectories[0].Graph.Grounding[0].Supported, "a lost rollout was never put to a judge")
}

func TestMissingReferenceIsRetriedThenSetAsideAndNeverAZero(t *testing.T) {
	t.Parallel()
	never := func(context.Context, trajectory.Trajectory) trajectory.Score { panic("scored without a reference") }
	require.Equal(t, "retry", serve(t, newLease(1), refs{errors.New("no reference answer")}, never))
	require.Equal(t, "set aside: no reference answer", serve(t, newLease(3), refs{errors.New("no reference answer")}, never))
}

func TestPanicOfAScorerIsAFailureOfOursAndNoScore(t *testing.T) {
	t.Parallel()
	how := serve(t, newLease(3), refs{}, func(context.Context, trajectory.Trajectory) trajectory.Score { panic("bug") })
	require.Contains(t, how, "set aside")
	require.Contains(t, how, "panic while scoring")
}

func TestServerHandsBackTheGroupOnStop(t *testing.T) {
	t.Parallel()
	l := newLease(1)
	src := source{make(chan lease.Lease[trajectory.Group, trajectory.ScoredGroup], 1)}
	src.leases <- l
	started := make(chan struct{}, 2)
	server := &service.Server{
		Source: src, References: refs{}, Groups: 1, MaxDeliver: 3, Log: zap.NewNop(),
		Scorer: scorer(func(ctx context.Context, _ trajectory.Trajectory) trajectory.Score {
			started <- struct{}{}
			<-ctx.Done()
			return trajectory.Score{Status: trajectory.ScoreUnscored}
		}),
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	patience.Receive(t, started, "the work")
	cancel()
	require.NoError(t, patience.Receive(t, done, "its end"))
	require.Equal(t, "handed back", patience.Receive(t, l.ended, "the end of the lease"))
}

type gate chan struct{}

func (g gate) Admit(ctx context.Context) error {
	select {
	case <-g:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// counting is a source that says when it was asked.
type counting struct {
	source
	asked chan struct{}
}

func (c counting) Receive(ctx context.Context) (lease.Lease[trajectory.Group, trajectory.ScoredGroup], error) {
	c.asked <- struct{}{}
	return c.source.Receive(ctx)
}

func TestPausedServerTakesNoGroupUntilItsGateOpens(t *testing.T) {
	t.Parallel()
	l := newLease(1)
	src := counting{source{make(chan lease.Lease[trajectory.Group, trajectory.ScoredGroup], 1)}, make(chan struct{}, 8)}
	src.leases <- l
	g := make(gate)
	server := &service.Server{
		Source: src, References: refs{}, Groups: 1, MaxDeliver: 3, Log: zap.NewNop(), Gate: g,
		Scorer: scorer(func(context.Context, trajectory.Trajectory) trajectory.Score {
			return trajectory.Score{Status: trajectory.ScoreOK}
		}),
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	g <- struct{}{} // the slot waits at the gate: nothing was taken before
	require.Equal(t, "finish", patience.Receive(t, l.ended, "the end of the lease"))
	require.Len(t, src.asked, 1)
	cancel()
	require.NoError(t, patience.Receive(t, done, "its end"))
}
