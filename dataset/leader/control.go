package leader

import (
	"context"
	"errors"
	"fmt"
)

// command is a decision asked for from outside; the loop takes it like every other one.
type command struct {
	run    func(context.Context) error
	result chan error
}

// ErrNotLeading is returned when the leader is not running.
var ErrNotLeading = errors.New("the leader is not running")

// ErrInvalid is wrapped by requests that make no sense.
var ErrInvalid = errors.New("invalid request")

func (l *Leader) command(ctx context.Context, run func(context.Context) error) error {
	c := command{run: run, result: make(chan error, 1)}
	select {
	case l.commands <- c:
	case <-l.done:
		return ErrNotLeading
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-c.result:
		return err
	case <-l.done:
		return ErrNotLeading
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Policy is what the trainer last said.
func (l *Leader) Policy() PolicyState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.books.policy
}

// SetPolicy states the trainer's policy version. Versions do not decrease within an incarnation.
func (l *Leader) SetPolicy(ctx context.Context, p PolicyState) error {
	return l.command(ctx, func(ctx context.Context) error {
		now := l.Policy()
		switch {
		case now == p:
			return nil
		case p.Version < 0, p.Incarnation == now.Incarnation && p.Version < now.Version:
			return fmt.Errorf("%w: version %d after %d in incarnation %q", ErrInvalid, p.Version, now.Version, p.Incarnation)
		}
		return l.record(ctx, Event{Kind: PolicySet, Version: p.Version, Incarnation: p.Incarnation})
	})
}

// Acknowledged notes up to which batch the trainer read, and with which of its steps.
func (l *Leader) Acknowledged(ctx context.Context, sequence, step int64) error {
	return l.command(ctx, func(ctx context.Context) error {
		return l.record(ctx, Event{Kind: Acked, Sequence: sequence, Step: step})
	})
}

// Commit says that the trainer's checkpoint of a step is safe: batches acknowledged with that step or
// an earlier one are never read again. It returns the objects that may be deleted.
func (l *Leader) Commit(ctx context.Context, step int64) (free []string, err error) {
	err = l.command(ctx, func(ctx context.Context) error {
		l.mu.Lock()
		before := l.freedObjects()
		l.mu.Unlock()
		if err := l.record(ctx, Event{Kind: Committed, Step: step}); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for object := range l.freedObjects() {
			if !before[object] {
				free = append(free, object)
			}
		}
		return nil
	})
	return free, err
}

func (l *Leader) freedObjects() map[string]bool {
	out := map[string]bool{}
	for _, r := range l.books.batches {
		if l.books.freed(r.Sequence) {
			out[r.Object] = true
		}
	}
	return out
}

// RestorePoint is the last batch that a trainer restored from the checkpoint of a step has read:
// reading goes on after it. It fails for batches that a commit has freed.
func (l *Leader) RestorePoint(step int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if step < l.books.commit {
		return 0, fmt.Errorf("%w: step %d is older than the committed checkpoint of step %d", ErrInvalid, step, l.books.commit)
	}
	last := int64(0)
	for _, a := range l.books.acks {
		if a.Step <= step {
			last = max(last, a.Sequence)
		}
	}
	return last, nil
}

// Requeue opens a set-aside group again; publish hands it out.
func (l *Leader) Requeue(ctx context.Context, dispatch string, publish func(context.Context) error) error {
	return l.command(ctx, func(ctx context.Context) error {
		l.mu.Lock()
		outcomes, closed := l.books.closed[dispatch]
		l.mu.Unlock()
		if !closed || outcomes[SetAside] == 0 {
			return fmt.Errorf("%w: group %s is not set aside", ErrInvalid, dispatch)
		}
		// First the queue, then the books: a group that is open must have a lease.
		if err := publish(ctx); err != nil {
			return err
		}
		return l.record(ctx, Event{Kind: Reopened, Dispatch: dispatch})
	})
}
