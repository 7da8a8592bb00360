package rollout

import (
	"context"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/lease"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// journaled frees the journals of a group once its lease has ended for good. What a worker that dies in
// between leaves behind is freed when the group is delivered.
type journaled struct{ w *Worker }

// Receive implements Source.
func (s journaled) Receive(ctx context.Context) (lease.Lease[task.Dispatch, trajectory.Group], error) {
	held, err := s.w.Source.Receive(ctx)
	if err != nil {
		return nil, err
	}
	return journaledLease{held, s.w}, nil
}

type journaledLease struct {
	lease.Lease[task.Dispatch, trajectory.Group]
	w *Worker
}

func (l journaledLease) Finish(ctx context.Context, g trajectory.Group) error {
	if err := l.Lease.Finish(ctx, g); err != nil {
		return err
	}
	l.forget(ctx)
	return nil
}

func (l journaledLease) SetAside(ctx context.Context, reason string) error {
	if err := l.Lease.SetAside(ctx, reason); err != nil {
		return err
	}
	l.forget(ctx)
	return nil
}

func (l journaledLease) forget(ctx context.Context) {
	d := l.Value()
	if err := l.w.Runner.Journal.Forget(ctx, d); err != nil {
		l.w.Log.Warn("journal not freed", zap.String("dispatch", d.ID), zap.Error(err))
	}
}
