// Package lease is the loop that every stage of the line runs: take a message, work on it, end its
// lease.
//
// Invariant: every lease that was received ends exactly once, in Finish (the result is durable in the
// next stage), Retry (it is handed out again), SetAside (a person has to look) or Drop (another process
// holds the message now), also when the context ends in the middle.
package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// Lease is one message that this process holds.
type Lease[In, Out any] interface {
	Value() In
	// Deliveries counts how often the message was handed out, this time included.
	Deliveries() int
	// Context is ctx with what came along with the message: the trace that it belongs to.
	Context(ctx context.Context) context.Context
	// Finish stores the result durably in the next stage and ends the lease.
	Finish(ctx context.Context, out Out) error
	// Retry gives the message back; it is handed out again after the delay.
	Retry(after time.Duration) error
	// SetAside stores the message where a person can look at it.
	SetAside(ctx context.Context, reason string) error
	// Drop ends the lease without a word to the broker, since another process holds the message.
	Drop()
}

// Source hands out leases. Receive blocks and is safe for concurrent use.
type Source[In, Out any] interface {
	Receive(ctx context.Context) (Lease[In, Out], error)
}

// Loop works on leases, Slots at a time.
type Loop[In, Out any] struct {
	Source Source[In, Out]
	Slots  int
	// MaxDeliver is the number of deliveries after which a message is set aside.
	MaxDeliver int
	Work       func(ctx context.Context, in In) (Out, error)
	// Drain is how long work that has begun may go on after the end of the context.
	Drain time.Duration
	// Fields name a message in the log.
	Fields func(In) []zap.Field
	Log    *zap.Logger
}

// endTimeout bounds the end of a lease after the context is over.
const endTimeout = 10 * time.Second

// Run works until ctx ends; it returns nil then, after every held message was finished within the drain
// time or given back.
func (l Loop[In, Out]) Run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	drained := make(chan struct{})
	var drain sync.WaitGroup
	drain.Go(func() {
		select {
		case <-ctx.Done():
		case <-drained:
			return
		}
		select {
		case <-time.After(l.Drain):
			cancel()
		case <-drained:
		}
	})
	var slots errgroup.Group
	for range l.Slots {
		slots.Go(func() error { return l.slot(ctx, work) })
	}
	err := slots.Wait()
	close(drained)
	drain.Wait()
	return err
}

// slot takes messages until ctx ends, and works on them until work does.
func (l Loop[In, Out]) slot(ctx, work context.Context) error {
	for {
		held, err := l.Source.Receive(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("receive: %w", err)
		}
		l.one(work, held)
	}
}

func (l Loop[In, Out]) one(ctx context.Context, held Lease[In, Out]) {
	log := l.Log.With(l.Fields(held.Value())...)
	ctx = held.Context(ctx)
	out, err := l.Work(ctx, held.Value())
	// The lease is ended even when ctx is over: what was accepted is finished or handed back.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	switch {
	case err == nil:
		err = held.Finish(end, out)
	case errors.Is(err, ErrSuperseded):
		log.Warn("dropped", zap.Error(err))
		held.Drop()
		return
	case ctx.Err() != nil:
		log.Info("handed back")
		err = held.Retry(0)
	case held.Deliveries() >= l.MaxDeliver:
		log.Error("set aside", zap.Error(err), zap.Int("deliveries", held.Deliveries()))
		err = held.SetAside(end, err.Error())
	default:
		log.Warn("will be tried again", zap.Error(err), zap.Int("deliveries", held.Deliveries()))
		err = held.Retry(RetryDelay(held.Deliveries()))
	}
	if err == nil {
		return
	}
	if ctx.Err() == nil {
		log.Error("lease not ended", zap.Error(err))
	}
	// The next stage or the broker is away: the work is repeated. The hold on the message ends in any
	// case, so that the broker hands it out again even if it does not hear this.
	_ = held.Retry(RetryDelay(held.Deliveries()))
}

// RetryDelay grows with the number of deliveries: 1s, 2s, 4s, ... up to a minute.
func RetryDelay(deliveries int) time.Duration {
	return min(time.Second<<min(max(deliveries-1, 0), 6), time.Minute)
}
