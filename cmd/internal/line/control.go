package line

import (
	"context"
	"errors"
	"fmt"

	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/jetstream"
)

// control carries out what trainers and operators ask for over the feed.
type control struct{ s *RewardServer }

var _ feed.Control = control{}

func (c control) SetPolicy(ctx context.Context, p feed.Policy) error {
	return refusal(c.s.Leader.SetPolicy(ctx, leader.PolicyState{Version: p.Version, Incarnation: p.Incarnation}))
}

// Commit deletes the objects after the decision is durable; what a crash leaves behind is only space.
func (c control) Commit(ctx context.Context, step int64) (int, error) {
	free, err := c.s.Leader.Commit(ctx, step)
	if err != nil {
		return 0, refusal(err)
	}
	for _, object := range free {
		if err := c.s.blobs.Delete(ctx, object); err != nil {
			return 0, err
		}
	}
	return len(free), nil
}

func (c control) Restore(ctx context.Context, step int64) (int64, error) {
	at, err := c.s.Leader.RestorePoint(step)
	if err != nil {
		return 0, refusal(err)
	}
	return at, c.s.cursors.rewind(ctx, feed.TrainerCursor, at, step)
}

func (c control) ListSetAside(ctx context.Context) ([]feed.SetAside, error) {
	records, err := c.s.bus.ListSetAside(ctx, c.s.run)
	if err != nil {
		return nil, err
	}
	out := make([]feed.SetAside, len(records))
	for i, r := range records {
		out[i] = feed.SetAside{Dispatch: r.Dispatch, Stage: r.Stage, Reason: r.Reason, Deliveries: r.Deliveries}
	}
	return out, nil
}

func (c control) Requeue(ctx context.Context, dispatch string) error {
	return refusal(c.s.Leader.Requeue(ctx, dispatch, func(ctx context.Context) error {
		return c.s.bus.Requeue(ctx, c.s.run, dispatch)
	}))
}

// refusal gives what the caller did wrong the feed's error.
func refusal(err error) error {
	if errors.Is(err, leader.ErrInvalid) || errors.Is(err, jetstream.ErrNotSetAside) {
		return fmt.Errorf("%w: %w", feed.ErrInvalid, err)
	}
	return err
}
