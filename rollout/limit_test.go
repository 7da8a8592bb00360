package rollout

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/trajectory"
)

// slowPolicy answers after what takes its time.
type slowPolicy struct {
	*fakePolicy
	slow func(ctx context.Context)
}

func (p slowPolicy) Complete(ctx context.Context, r policy.Request) (policy.Completion, error) {
	p.slow(ctx)
	if ctx.Err() != nil {
		return policy.Completion{}, ctx.Err()
	}
	return p.fakePolicy.Complete(ctx, r)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Time in these bubbles is the runtime's fake clock.
func TestATrajectoriesTimeIsItsOwnAndNotThatOfAPausedPolicyOrOfAQueue(t *testing.T) {
	t.Parallel()
	const hours = 5 * time.Hour // the limit is 30 minutes
	for name, tc := range map[string]struct {
		slow func(ctx context.Context, pause func(time.Duration))
		want trajectory.Termination
	}{
		"a slow policy":               {func(ctx context.Context, _ func(time.Duration)) { sleep(ctx, hours) }, trajectory.TrajectoryTimeout},
		"a call that a pause freezes": {func(_ context.Context, pause func(time.Duration)) { pause(hours) }, trajectory.Submitted},
		"waiting for a place": {func(ctx context.Context, _ func(time.Duration)) {
			defer policy.BeginWaiting(ctx, time.Now)()
			sleep(ctx, hours)
		}, trajectory.Submitted},
		"slow before and after a pause": {func(ctx context.Context, pause func(time.Duration)) {
			sleep(ctx, 20*time.Minute)
			pause(hours)
			sleep(ctx, 20*time.Minute)
		}, trajectory.TrajectoryTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, cellReply("submit"))
				var mu sync.Mutex
				var paused time.Duration
				var since time.Time
				r.runner.Clock = func() time.Time {
					mu.Lock()
					defer mu.Unlock()
					if !since.IsZero() {
						return since.Add(-paused)
					}
					return time.Now().Add(-paused)
				}
				pause := func(d time.Duration) {
					mu.Lock()
					since = time.Now()
					mu.Unlock()
					sleep(context.WithoutCancel(t.Context()), d)
					mu.Lock()
					defer mu.Unlock()
					paused += time.Since(since)
					since = time.Time{}
				}
				r.runner.Policy = slowPolicy{r.policy, func(ctx context.Context) { tc.slow(ctx, pause) }}
				got := r.run(t)
				require.Equal(t, tc.want, got.Termination, got.Error)
				synctest.Wait()
			})
		})
	}
}

func TestAWaitIsAddedUpWhileItGoesOnAndEndsOnce(t *testing.T) {
	t.Parallel()
	ctx, waiting := policy.WithWaiting(t.Context())
	now := time.Unix(0, 0)
	end := policy.BeginWaiting(ctx, func() time.Time { return now })
	now = now.Add(time.Minute)
	require.Equal(t, time.Minute, waiting.Total(now), "while it goes on")
	end()
	now = now.Add(time.Hour)
	require.Equal(t, time.Minute, waiting.Total(now))
	policy.BeginWaiting(t.Context(), time.Now)() // nobody counts
}
