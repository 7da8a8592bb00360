package rollout

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/lease"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// fakeLease records how it ended.
type fakeLease struct {
	d          task.Dispatch
	deliveries int
	ended      chan string
	group      trajectory.Group
}

func (l *fakeLease) Value() task.Dispatch                      { return l.d }
func (l *fakeLease) Deliveries() int                           { return l.deliveries }
func (*fakeLease) Context(ctx context.Context) context.Context { return ctx }
func (l *fakeLease) Finish(_ context.Context, g trajectory.Group) error {
	l.group = g
	l.ended <- "finish"
	return nil
}

func (l *fakeLease) Retry(after time.Duration) error {
	if after == 0 {
		l.ended <- "handed back"
	} else {
		l.ended <- "retry"
	}
	return nil
}

func (l *fakeLease) SetAside(_ context.Context, reason string) error {
	l.ended <- "set aside: " + reason
	return nil
}

func (l *fakeLease) Drop() { l.ended <- "dropped" }

// held is a group that the worker holds.
type held = lease.Lease[task.Dispatch, trajectory.Group]

type fakeSource struct {
	mu     sync.Mutex
	leases []held
}

func (s *fakeSource) Receive(ctx context.Context) (held, error) {
	s.mu.Lock()
	if len(s.leases) > 0 {
		l := s.leases[0]
		s.leases = s.leases[1:]
		s.mu.Unlock()
		return l, nil
	}
	s.mu.Unlock()
	<-ctx.Done()
	return nil, ctx.Err()
}

type fakeFiles struct{ err error }

func (f fakeFiles) Fetch(context.Context, string) (string, func(), error) {
	return "/nowhere", func() {}, f.err
}

func newLease(deliveries int) *fakeLease {
	d := task.Dispatch{ID: "p-0", Run: "r", GroupSize: 2, Prompt: task.Prompt{ID: "p", Question: "Q?", Files: []task.File{{Name: "a.csv", SHA256: "x"}}}}
	return &fakeLease{d: d, deliveries: deliveries, ended: make(chan string, 2)}
}

func worker(r *rig, files Files, leases ...held) *Worker {
	r.runner.Config.MaxAttempts = 1
	return &Worker{
		Source: &fakeSource{leases: leases}, Files: files, Groups: 1, MaxDeliver: 3, Log: zap.NewNop(),
		Runner: &GroupRunner{Runner: r.runner, Log: zap.NewNop()},
	}
}

// work runs the worker until the lease ended and returns how.
func work(t *testing.T, w *Worker, l *fakeLease) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	how := patience.Receive(t, l.ended, "the end of the lease")
	cancel()
	require.NoError(t, patience.Receive(t, done, "its end"))
	require.Empty(t, l.ended, "a lease ends once")
	return how
}

func TestAPromptIsSampledAsItAsksAndItsGroupSaysSo(t *testing.T) {
	t.Parallel()
	pointer := func(v int) *int { return &v }
	zero, half := 0.0, 0.5
	r := newRig(t, cellReply("submit"), cellReply("submit"), cellReply("submit"), cellReply("submit"))
	r.runner.Config.MaxTurnTokens = 3000
	configured := r.runner.Config.Sampling
	plain, asked := newLease(1), newLease(1)
	asked.d.Prompt.Sampling = &task.Sampling{Temperature: &zero, TopP: &half, TopK: pointer(3), MaxTokens: pointer(2000)}
	for _, l := range []*fakeLease{asked, plain} { // what one prompt asks for is not seen by the next
		require.Equal(t, "finish", work(t, worker(r, fakeFiles{}, l), l))
	}
	want := trajectory.Sampling{Temperature: 0, TopP: 0.5, TopK: 3, RepetitionPenalty: 1, MaxTokens: 2000}
	require.Equal(t, want, asked.group.Sampling)
	configured.MaxTokens = 3000
	require.Equal(t, configured, plain.group.Sampling)
	for i, call := range r.policy.calls {
		got := asked.group.Sampling
		if i >= 2 {
			got = plain.group.Sampling
		}
		require.Equal(t, got, call.Sampling)
		require.Equal(t, got.MaxTokens, call.MaxTokens)
	}
	require.Len(t, r.policy.calls, 4)

	more := newLease(1)
	more.d.Prompt.Sampling = &task.Sampling{MaxTokens: pointer(9999)}
	r.policy.replies = []reply{cellReply("submit"), cellReply("submit")}
	require.Equal(t, "finish", work(t, worker(r, fakeFiles{}, more), more))
	require.Equal(t, 3000, more.group.Sampling.MaxTokens, "the worker's own bound stays")
}

func TestWorkerFinishesAGroupWithAllItsMembers(t *testing.T) {
	t.Parallel()
	l := newLease(1)
	require.Equal(t, "finish", work(t, worker(newRig(t, cellReply("submit"), reply{text: "no"}), fakeFiles{}, l), l))
	require.Len(t, l.group.Trajectories, 2)
	for i, tr := range l.group.Trajectories {
		require.Equal(t, i, tr.ID.Sample)
	}
}

func TestGroupWhoseMembersAreAllLostIsRetriedThenSetAside(t *testing.T) {
	t.Parallel()
	down := reply{err: &policy.Error{Outcome: policy.Unreachable, Err: errors.New("down")}}
	l := newLease(1)
	require.Equal(t, "retry", work(t, worker(newRig(t, down, down), fakeFiles{}, l), l))
	l = newLease(3)
	require.Contains(t, work(t, worker(newRig(t, down, down), fakeFiles{}, l), l), "set aside: every member was lost")
}

func TestGroupWithOneRewardedMemberGoesOnWithItsLostOnes(t *testing.T) {
	t.Parallel()
	l := newLease(1)
	r := newRig(t, cellReply("submit"), reply{err: &policy.Error{Outcome: policy.Unreachable, Err: errors.New("down")}})
	require.Equal(t, "finish", work(t, worker(r, fakeFiles{}, l), l))
}

func TestMissingDataFileIsOurFailureAndNamesTheFile(t *testing.T) {
	t.Parallel()
	l := newLease(3)
	how := work(t, worker(newRig(t), fakeFiles{err: errors.New("object not found")}, l), l)
	require.Contains(t, how, "set aside")
	require.Contains(t, how, "a.csv")
}

// blockingPolicy waits until its call is canceled.
type blockingPolicy struct{ started chan struct{} }

func (b blockingPolicy) Complete(ctx context.Context, _ policy.Request) (policy.Completion, error) {
	b.started <- struct{}{}
	<-ctx.Done()
	return policy.Completion{}, ctx.Err()
}

func TestWorkerHandsBackUnfinishedGroupOnStop(t *testing.T) {
	t.Parallel()
	l := newLease(1)
	r := newRig(t)
	w := worker(r, fakeFiles{}, l)
	p := blockingPolicy{started: make(chan struct{}, 2)}
	r.runner.Policy = p
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	patience.Receive(t, p.started, "the work")
	cancel()
	require.NoError(t, patience.Receive(t, done, "its end"))
	require.Equal(t, "handed back", patience.Receive(t, l.ended, "the end of the lease"))
}
