package policy

import (
	"context"
	"sync"
	"time"
)

// Waiting adds up the time that a trajectory waited for something that is not its own: a paused policy, a
// place at an endpoint, a session. It is safe for concurrent use; waits of one trajectory don't overlap.
type Waiting struct {
	mu    sync.Mutex
	done  time.Duration
	since time.Time // zero while nothing is waited for
}

type waitingKey struct{}

// WithWaiting gives a context whose waits are added up.
func WithWaiting(ctx context.Context) (context.Context, *Waiting) {
	w := &Waiting{}
	return context.WithValue(ctx, waitingKey{}, w), w
}

// BeginWaiting starts a wait, which the function that it returns ends.
func BeginWaiting(ctx context.Context, now func() time.Time) (end func()) {
	w, ok := ctx.Value(waitingKey{}).(*Waiting)
	if !ok {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = now()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.done += now().Sub(w.since)
		w.since = time.Time{}
	}
}

// Total is the time waited so far, a wait that goes on included.
func (w *Waiting) Total(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		return w.done
	}
	return w.done + now.Sub(w.since)
}
