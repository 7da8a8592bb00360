package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Lease is one group that this worker holds. Exactly one of Finish, Retry and SetAside ends it.
type Lease interface {
	Dispatch() task.Dispatch
	// Deliveries counts how often the group was handed out, this time included.
	Deliveries() int
	// Finish stores the finished group durably and ends the lease.
	Finish(ctx context.Context, g trajectory.Group) error
	// Retry gives the group back; it is handed out again after the delay.
	Retry(after time.Duration) error
	// SetAside stores the group where a person can look at it.
	SetAside(ctx context.Context, reason string) error
}

// Source hands out groups. Receive blocks and is safe for concurrent use.
type Source interface {
	Receive(ctx context.Context) (Lease, error)
}

// Files brings a prompt's data files to this host, by content hash.
type Files interface {
	Fetch(ctx context.Context, digest string) (path string, err error)
}

// Worker takes groups and runs them, Groups at a time.
//
// Invariant: every lease ends in Finish, Retry or SetAside, also when ctx ends in the middle.
type Worker struct {
	Source Source
	Files  Files
	Runner *GroupRunner
	Groups int
	// MaxDeliver is the number of deliveries after which a group is set aside.
	MaxDeliver int
	Log        *zap.Logger
}

// Run works until ctx ends; it returns nil then, after every held group was given back.
func (w *Worker) Run(ctx context.Context) error {
	var slots errgroup.Group
	for range w.Groups {
		slots.Go(func() error { return w.slot(ctx) })
	}
	return slots.Wait()
}

func (w *Worker) slot(ctx context.Context) error {
	for {
		lease, err := w.Source.Receive(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("worker: %w", err)
		}
		if err := w.work(ctx, lease); err != nil {
			return err
		}
	}
}

func (w *Worker) work(ctx context.Context, lease Lease) error {
	d := lease.Dispatch()
	log := w.Log.With(zap.String("run", d.Run), zap.String("dispatch", d.ID))
	group, err := w.runGroup(ctx, d)
	// The lease is ended even when ctx is over: what was accepted is finished or handed back.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	switch {
	case err == nil:
		err = lease.Finish(end, group)
	case ctx.Err() != nil:
		log.Info("group handed back")
		err = lease.Retry(0)
	case lease.Deliveries() >= w.MaxDeliver:
		log.Error("group set aside", zap.Error(err), zap.Int("deliveries", lease.Deliveries()))
		err = lease.SetAside(end, err.Error())
	default:
		log.Warn("group will be tried again", zap.Error(err), zap.Int("deliveries", lease.Deliveries()))
		err = lease.Retry(retryDelay(lease.Deliveries()))
	}
	if err != nil && ctx.Err() == nil {
		// The broker redelivers a lease that was not ended; the group is not lost.
		log.Error("lease not ended", zap.Error(err))
	}
	return nil
}

// errAllLost: no member ended for the policy's reasons; the whole group is worth another delivery.
var errAllLost = errors.New("every member was lost")

func (w *Worker) runGroup(ctx context.Context, d task.Dispatch) (trajectory.Group, error) {
	files := make(map[string]string, len(d.Prompt.Files))
	for _, f := range d.Prompt.Files {
		path, err := w.Files.Fetch(ctx, f.SHA256)
		if err != nil {
			return trajectory.Group{}, fmt.Errorf("prompt %s: file %s: %w", d.Prompt.ID, f.Name, err)
		}
		files[f.Name] = path
	}
	group, err := w.Runner.Run(ctx, d, files)
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

func retryDelay(deliveries int) time.Duration {
	return min(time.Second<<min(max(deliveries-1, 0), 6), time.Minute)
}
