package rollout

import (
	"context"

	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Tracer is told where attempts and their turns begin and end. The context that it gives back is that of all that
// happens in between. Safe for concurrent use.
type Tracer interface {
	Rollout(ctx context.Context, id task.RolloutID, attempt int) (context.Context, func(trajectory.Termination))
	Turn(ctx context.Context, turn int) (context.Context, func())
}

// began tells the tracer of an attempt.
func (r *Runner) began(ctx context.Context, d task.Dispatch, sample, attempt int) (context.Context, func(trajectory.Termination)) {
	if r.Tracer == nil {
		return ctx, func(trajectory.Termination) {}
	}
	return r.Tracer.Rollout(ctx, task.RolloutID{Run: d.Run, Dispatch: d.ID, Sample: sample}, attempt)
}

// turns keeps which turn of a rollout is being traced.
type turns struct {
	of      context.Context
	tracer  Tracer
	current int
	ctx     context.Context
	ended   func()
}

// at is the context of a turn; the one before ends.
func (t *turns) at(turn int) context.Context {
	if t.tracer == nil {
		return t.of
	}
	if t.ended == nil || t.current != turn {
		t.end()
		t.current = turn
		t.ctx, t.ended = t.tracer.Turn(t.of, turn)
	}
	return t.ctx
}

func (t *turns) end() {
	if t.ended != nil {
		t.ended()
		t.ended = nil
	}
}
