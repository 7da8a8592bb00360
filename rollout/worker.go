package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/lease"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Source hands out groups.
type Source = lease.Source[task.Dispatch, trajectory.Group]

// Files brings a prompt's data files to this host, by content hash.
type Files interface {
	// Fetch gives a path that stays until release is called.
	Fetch(ctx context.Context, digest string) (path string, release func(), err error)
}

// Worker takes groups and runs them, Groups at a time.
type Worker struct {
	Source Source
	Files  Files
	Runner *GroupRunner
	Groups int
	// MaxDeliver is the number of deliveries after which a group is set aside.
	MaxDeliver int
	// Drain is how long groups in work may go on after the end of the context.
	Drain time.Duration
	Log   *zap.Logger
}

// Run works until ctx ends; it returns nil then, after every held group was given back.
func (w *Worker) Run(ctx context.Context) error {
	source := w.Source
	if w.Runner.Journal != nil {
		source = journaled{w}
	}
	loop := lease.Loop[task.Dispatch, trajectory.Group]{
		Source: source, Slots: w.Groups, MaxDeliver: w.MaxDeliver, Work: w.runGroup, Drain: w.Drain, Log: w.Log,
		Fields: func(d task.Dispatch) []zap.Field {
			return []zap.Field{zap.String("run", d.Run), zap.String("dispatch", d.ID)}
		},
	}
	if err := loop.Run(ctx); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// errAllLost: no member ended for the policy's reasons; the whole group is worth another delivery.
var errAllLost = errors.New("every member was lost")

func (w *Worker) runGroup(ctx context.Context, d task.Dispatch) (trajectory.Group, error) {
	files := make(map[string]string, len(d.Prompt.Files))
	for _, f := range d.Prompt.Files {
		path, release, err := w.Files.Fetch(ctx, f.SHA256)
		if err != nil {
			return trajectory.Group{}, fmt.Errorf("prompt %s: file %s: %w", d.Prompt.ID, f.Name, err)
		}
		defer release()
		files[f.Name] = path
	}
	group, err := w.Runner.Run(ctx, d, files)
	if errors.Is(err, errStale) && w.Runner.Journal != nil { // the next delivery samples anew
		err = errors.Join(err, w.Runner.Journal.Forget(ctx, d))
	}
	if err != nil {
		return group, err
	}
	for i := range group.Trajectories {
		if group.Trajectories[i].Termination.Rewarded() {
			return group, nil
		}
	}
	first := group.Trajectories[0]
	return group, fmt.Errorf("%w: %s: %s", errAllLost, first.Termination, first.Error)
}
