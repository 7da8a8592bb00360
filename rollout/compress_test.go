package rollout

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// longRun plays n turns, each with a long observation, and returns every prompt that was asked for.
func longRun(t *testing.T, m *Machine, e encoding, n int) (prompts [][]int32) {
	t.Helper()
	for turn := range n {
		g, more := m.Next().(Generate)
		if !more {
			return prompts
		}
		prompts = append(prompts, slices.Clone(g.Prompt))
		ids := e.encode(think + block("step"))
		m.Sampled(policy.Completion{IDs: ids, LogProbs: slices.Repeat([]float32{-1}, len(ids)), Finish: "stop", StopString: codeClose}, int64(turn), int64(turn))
		m.Observed("<tool_response>\n"+strings.Repeat("row ", 120)+"\n</tool_response>", turn == n-1)
	}
	return prompts
}

func TestCompressedContextBeginsASegmentThatHoldsExactlyWhatThePolicySaw(t *testing.T) {
	t.Parallel()
	e := encodings(t)[0]
	cfg := Defaults()
	cfg.Context, cfg.MaxTurnTokens, cfg.MaxResponseTokens = ContextCompress, 64, 600
	m := newMachine(t, e.tok, cfg)
	prompts := longRun(t, m, e, 9)
	require.Len(t, prompts, 9)
	require.Equal(t, trajectory.Submitted, m.Next().(End).Reason)
	segments := m.Segments()
	require.NoError(t, m.Check(segments))
	require.Greater(t, len(segments), 2)
	sampledTurns := map[int]int{}
	for _, s := range segments {
		require.Equal(t, prompts[0], s.PromptIDs, "the task prompt, and nothing more, is the prompt")
		require.LessOrEqual(t, len(s.ResponseIDs), cfg.MaxResponseTokens)
		whole := slices.Concat(s.PromptIDs, s.ResponseIDs)
		for _, sp := range s.Spans {
			if sp.Kind != trajectory.SpanSampled {
				continue
			}
			sampledTurns[sp.Turn]++
			// What stands before the sampled ids of a row is the very prompt that the engine was sent.
			require.Equal(t, prompts[sp.Turn], whole[:len(s.PromptIDs)+sp.Start], "turn %d", sp.Turn)
		}
	}
	for turn := range 9 {
		require.Equal(t, 1, sampledTurns[turn], "turn %d is trained once", turn)
	}
	first := e.encode(think + block("step"))
	require.Equal(t, first, segments[1].ResponseIDs[:len(first)], "the history begins with the very ids of the first turn")
	text := string(e.tok.Decode(segments[1].ResponseIDs))
	require.Contains(t, text, OmittedObservation)
	require.Equal(t, trajectory.SpanHistory, segments[1].Spans[0].Kind)
}

func TestAppendedContextEndsWhereCompressionWouldGoOn(t *testing.T) {
	t.Parallel()
	e := encodings(t)[0]
	cfg := Defaults()
	cfg.MaxTurnTokens, cfg.MaxResponseTokens = 64, 600
	m := newMachine(t, e.tok, cfg)
	require.Less(t, len(longRun(t, m, e, 9)), 9)
	require.Equal(t, trajectory.MaxTokens, m.Next().(End).Reason)
	require.Len(t, m.Segments(), 1)
}

func TestCompressionThatFreesNothingEndsTheTrajectory(t *testing.T) {
	t.Parallel()
	e := encodings(t)[0]
	cfg := Defaults()
	cfg.Context, cfg.MaxTurnTokens, cfg.MaxResponseTokens = ContextCompress, 64, 150
	m := newMachine(t, e.tok, cfg)
	longRun(t, m, e, 9)
	require.Equal(t, trajectory.MaxTokens, m.Next().(End).Reason)
	require.NoError(t, m.Check(m.Segments()))
}

func TestContextLimitHasItsOwnReasonWhenAnObservationReachesIt(t *testing.T) {
	t.Parallel()
	e := encodings(t)[0]
	cfg := Defaults()
	m := newMachine(t, e.tok, cfg)
	cfg.MaxContext = len(m.prompt) + 300
	m = newMachine(t, e.tok, cfg)
	longRun(t, m, e, 9)
	require.Equal(t, trajectory.ContextFull, m.Next().(End).Reason)
}

func TestABrokenTokenLogNeverBecomesARow(t *testing.T) {
	t.Parallel()
	e := encodings(t)[0]
	played := func() (*Machine, []trajectory.Segment) {
		m := newMachine(t, e.tok, Defaults())
		longRun(t, m, e, 3)
		s := m.Segments()
		require.NoError(t, m.Check(s))
		return m, s
	}
	sampledAt := func(s trajectory.Segment) int { return slices.Index(s.ResponseMask, 1) }
	for name, tc := range map[string]struct {
		harm func(*Machine, []trajectory.Segment)
		want string
	}{
		"an id changed":            {func(_ *Machine, s []trajectory.Segment) { s[0].ResponseIDs[3]++ }, "changed after"},
		"a prompt id changed":      {func(_ *Machine, s []trajectory.Segment) { s[0].PromptIDs[0]++ }, "changed after"},
		"a masked log-prob":        {func(_ *Machine, s []trajectory.Segment) { s[0].LogProbs[slices.Index(s[0].ResponseMask, 0)] = -1 }, "which has mask 0"},
		"mask one on a prompt's":   {func(_ *Machine, s []trajectory.Segment) { s[0].ResponseMask[slices.Index(s[0].ResponseMask, 0)] = 1 }, "mask at"},
		"a log-prob missing":       {func(_ *Machine, s []trajectory.Segment) { s[0].LogProbs = s[0].LogProbs[1:] }, "log-probs"},
		"a clamped log-prob":       {func(_ *Machine, s []trajectory.Segment) { s[0].LogProbs[sampledAt(s[0])] = -9999 }, "log-prob -9999"},
		"over the response limit":  {func(m *Machine, s []trajectory.Segment) { m.cfg.MaxResponseTokens = len(s[0].ResponseIDs) - 1 }, "the limits are"},
		"over the prompt limit":    {func(m *Machine, s []trajectory.Segment) { m.cfg.MaxPromptTokens = len(s[0].PromptIDs) - 1 }, "the limits are"},
		"a text that was not said": {func(m *Machine, _ []trajectory.Segment) { m.turns[1].Text += "!" }, "turn 1: the sampled ids decode"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, s := played()
			tc.harm(m, s)
			require.ErrorContains(t, m.Check(s), tc.want)
		})
	}
}

func TestDriftIsCountedAndNothingIsRepaired(t *testing.T) {
	t.Parallel()
	for i, want := range []int{0, 1} { // canonical ids, then one id for each byte
		e := encodings(t)[i]
		m := newMachine(t, e.tok, Defaults())
		ids := e.encode(block("total"))
		play(t, m, []call{{ids, "stop", codeClose}})
		require.Equal(t, want, m.Drift(), e.name)
		require.Equal(t, ids, m.Segments()[0].ResponseIDs)
	}
}

// updatingPolicy raises the version while a call runs, and then waits to be canceled.
type updatingPolicy struct {
	inner Policy
	mu    sync.Mutex
	calls int
	after int
	raise func()
}

func (u *updatingPolicy) Complete(ctx context.Context, r policy.Request) (policy.Completion, error) {
	u.mu.Lock()
	u.calls++
	block := u.calls > u.after
	u.mu.Unlock()
	if !block {
		return u.inner.Complete(ctx, r)
	}
	u.raise()
	<-ctx.Done()
	return policy.Completion{}, ctx.Err()
}

func TestAGroupThatWouldEndTooStaleIsCanceledInTheMiddleOfItsCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t, cellReply("x"), cellReply("x"))
	var mu sync.Mutex
	version := int64(5)
	r.runner.Version = func() int64 { mu.Lock(); defer mu.Unlock(); return version }
	p := &updatingPolicy{inner: r.policy, after: 2, raise: func() { mu.Lock(); version = 7; mu.Unlock() }}
	r.runner.Policy = p
	g := &GroupRunner{Runner: r.runner, Log: zap.NewNop(), MaxStaleness: func() int64 { return 1 }, Recheck: time.Millisecond}
	d := task.Dispatch{ID: "p-0", Run: "r", Prompt: task.Prompt{ID: "p", Question: "Q?"}, GroupSize: 2}
	_, err := g.Run(t.Context(), d, nil)
	require.ErrorIs(t, err, errStale)
}

func TestAStaleGroupIsHandedOutAgainAndInTheEndSetAside(t *testing.T) {
	t.Parallel()
	for deliveries, want := range map[int]string{1: "retry", 3: "set aside: dispatch p-0: " + errStale.Error()} {
		l := newLease(deliveries)
		r := newRig(t, cellReply("x"), cellReply("x"))
		var mu sync.Mutex
		version := int64(5)
		r.runner.Version = func() int64 { mu.Lock(); defer mu.Unlock(); return version }
		r.runner.Policy = &updatingPolicy{inner: r.policy, after: 2, raise: func() { mu.Lock(); version = 9; mu.Unlock() }}
		w := worker(r, fakeFiles{}, l)
		w.Runner.MaxStaleness, w.Runner.Recheck = func() int64 { return 3 }, time.Millisecond
		require.Equal(t, want, work(t, w, l))
	}
}

func TestValidationPromptsAndAllowedAgesAreNotCanceled(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*task.Dispatch, *GroupRunner){
		"validation":         func(d *task.Dispatch, _ *GroupRunner) { d.Validate = true },
		"within the bound":   func(_ *task.Dispatch, g *GroupRunner) { g.MaxStaleness = func() int64 { return 100 } },
		"without any bound":  func(_ *task.Dispatch, g *GroupRunner) { g.MaxStaleness = nil },
		"one under the sway": func(_ *task.Dispatch, g *GroupRunner) { g.MaxStaleness = func() int64 { return 8 } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, cellReply("x"), cellReply("submit"))
			var mu sync.Mutex
			next := int64(0)
			r.runner.Version = func() int64 { mu.Lock(); defer mu.Unlock(); next += 2; return min(next, 10) }
			g := &GroupRunner{Runner: r.runner, Log: zap.NewNop(), MaxStaleness: func() int64 { return 0 }, Recheck: time.Hour}
			d := task.Dispatch{ID: "p-0", Run: "r", Prompt: task.Prompt{ID: "p", Question: "Q?"}, GroupSize: 1}
			change(&d, g)
			group, err := g.Run(t.Context(), d, nil)
			require.NoError(t, err)
			require.Equal(t, trajectory.Submitted, group.Trajectories[0].Termination)
		})
	}
}

func TestAnEndpointsOwnVersionsWinOverTheNewestKnown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.version = 9
	r.runner.Policy = stating{policy.Versions{Known: true, Start: 7, End: 8}, newRig(t, cellReply("submit")).policy}
	sp := r.run(t).Segments[0].Spans[0]
	require.Equal(t, [2]int64{7, 8}, [2]int64{sp.PolicyVersion, sp.PolicyVersionEnd})
}

type stating struct {
	v     policy.Versions
	inner Policy
}

func (s stating) Complete(ctx context.Context, r policy.Request) (policy.Completion, error) {
	c, err := s.inner.Complete(ctx, r)
	c.Versions = s.v
	return c, err
}
