package line

import (
	"context"
	"errors"
	"fmt"

	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/lease"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/task"
)

// journals keeps the journals of rollouts in the broker.
type journals struct{ bus *jetstream.Bus }

// Open implements rollout.Journal. A group that its queue no longer holds was finished by another worker
// while this one slept.
func (j journals) Open(ctx context.Context, id task.RolloutID) (rollout.Recorder, []rollout.Entry, error) {
	held, err := j.bus.Holds(ctx, jetstream.Prompts, id.Run, id.Dispatch)
	if err != nil {
		return nil, nil, err
	}
	if !held {
		return nil, nil, fmt.Errorf("its group has left the queue: %w", lease.ErrSuperseded)
	}
	log, entries, err := jetstream.OpenJournal[rollout.Entry](ctx, j.bus, id.Run, id.Dispatch, id.Sample)
	return recorder{log}, entries, err
}

// Forget implements rollout.Journal.
func (j journals) Forget(ctx context.Context, d task.Dispatch) error {
	return j.bus.FreeJournals(ctx, d.Run, d.ID, d.GroupSize)
}

type recorder struct {
	log *jetstream.Journal[rollout.Entry]
}

// Append implements rollout.Recorder.
func (r recorder) Append(ctx context.Context, e rollout.Entry) error {
	err := r.log.Append(ctx, e)
	if errors.Is(err, jetstream.ErrFenced) {
		return fmt.Errorf("%w: %w", lease.ErrSuperseded, err)
	}
	return err
}

var _ rollout.Journal = journals{}
