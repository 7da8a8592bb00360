package rollout

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verigraph/verigraph/task"
)

// errStale: the group would be dropped as too old when it is done. A new delivery of it starts from
// the newest version.
var errStale = errors.New("canceled: the group's oldest tokens are already older than max_staleness allows")

// groupAge follows the oldest policy version that any member of a group sampled with. A nil one
// never grows old.
type groupAge struct {
	oldest  atomic.Int64 // version + 1; 0 is none yet
	newest  func() int64
	allowed func() int64
}

func (g *GroupRunner) newAge(d task.Dispatch) *groupAge {
	if g.MaxStaleness == nil || d.Validate {
		return nil
	}
	return &groupAge{newest: g.Runner.Version, allowed: g.MaxStaleness}
}

func (a *groupAge) used(version int64) {
	if a == nil || version < 0 {
		return
	}
	for {
		old := a.oldest.Load()
		if old != 0 && old <= version+1 || a.oldest.CompareAndSwap(old, version+1) {
			return
		}
	}
}

func (a *groupAge) tooOld() bool {
	if a == nil {
		return false
	}
	oldest := a.oldest.Load()
	return oldest != 0 && a.newest()-(oldest-1) > a.allowed()
}

// watch cancels the context that it returns when the group grows too old, so that calls in flight
// end too. stop returns after the watching has ended.
func (a *groupAge) watch(ctx context.Context, every time.Duration) (context.Context, func()) {
	if a == nil {
		return ctx, func() {}
	}
	if every <= 0 {
		every = time.Second
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if a.tooOld() {
					cancel(errStale)
					return
				}
			}
		}
	})
	return ctx, func() {
		cancel(nil)
		watching.Wait()
	}
}
