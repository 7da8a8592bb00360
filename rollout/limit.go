package rollout

import (
	"context"
	"sync"
	"time"

	"github.com/verigraph/verigraph/policy"
)

// limitCheck is how soon the time is looked at again when it stood still meanwhile.
const limitCheck = 100 * time.Millisecond

// limit gives a context that ends after d of the trajectory's own time: by a clock that stands still while
// the policy is paused, and without the waits for a place or a session.
func limit(ctx context.Context, d time.Duration, clock func() time.Time) (context.Context, context.CancelFunc) {
	ctx, waiting := policy.WithWaiting(ctx)
	ctx, cancel := context.WithCancel(ctx)
	start := clock()
	var mu sync.Mutex
	var timer *time.Timer
	mu.Lock() // the timer may fire before it has its name
	defer mu.Unlock()
	timer = time.AfterFunc(d, func() {
		mu.Lock()
		defer mu.Unlock()
		now := clock()
		left := d - (now.Sub(start) - waiting.Total(now))
		if left <= 0 {
			cancel()
			return
		}
		if ctx.Err() == nil {
			timer.Reset(max(left, limitCheck))
		}
	})
	return ctx, func() {
		cancel()
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
	}
}

// clock is the time that trajectories are measured by.
func (r *Runner) clock() time.Time {
	if r.Clock != nil {
		return r.Clock()
	}
	return time.Now()
}
