// Package line wires the production line: NATS queues, workers, reward servers, the leader and the
// feed, from one configuration. Every process of the project is a part of it.
package line

import (
	"context"
	"encoding/json"
	"time"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/lease"
	"github.com/verigraph/verigraph/reward/service"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// stage takes messages from one queue and hands results to the next.
type stage[In, Out any] struct {
	bus  *jetstream.Bus
	name string // of the stream it takes from
	in   *jetstream.Queue[In]
	next *jetstream.Queue[Out]
	// dispatch says which group a message or a result belongs to.
	dispatchIn  func(In) task.Dispatch
	dispatchOut func(Out) task.Dispatch
}

func (s stage[In, Out]) Receive(ctx context.Context) (lease.Lease[In, Out], error) {
	m, err := s.in.Receive(ctx)
	if err != nil {
		return nil, err
	}
	return heldMessage[In, Out]{s, m}, nil
}

// heldMessage is a lease on a message of a stage.
type heldMessage[In, Out any] struct {
	s stage[In, Out]
	m *jetstream.Message[In]
}

func (l heldMessage[In, Out]) Value() In       { return l.m.Value }
func (l heldMessage[In, Out]) Deliveries() int { return l.m.Deliveries }

func (l heldMessage[In, Out]) Finish(ctx context.Context, out Out) error {
	d := l.s.dispatchOut(out)
	if err := l.s.next.Publish(ctx, d.Run, d.ID, out); err != nil {
		return err
	}
	return l.m.Ack(ctx)
}

func (l heldMessage[In, Out]) Retry(after time.Duration) error { return l.m.Nak(after) }

func (l heldMessage[In, Out]) SetAside(ctx context.Context, reason string) error {
	return SetAside(ctx, l.s.bus, l.m, l.s.dispatchIn(l.m.Value), l.s.name, reason)
}

// SetAside stores a message where a person can look at it, with all that a requeue needs.
func SetAside[T any](ctx context.Context, bus *jetstream.Bus, m *jetstream.Message[T], d task.Dispatch, stage, reason string) error {
	value, err := json.Marshal(m.Value)
	if err != nil {
		return err
	}
	record := jetstream.AsideRecord{Dispatch: d.ID, Stage: stage, Reason: reason, Deliveries: m.Deliveries, Value: value}
	if err := bus.PutSetAside(ctx, d.Run, d.ID, record); err != nil {
		return err
	}
	return m.Ack(ctx)
}

// newStage opens both queues of a stage.
func newStage[In, Out any](ctx context.Context, bus *jetstream.Bus, run, from, to string, in func(In) task.Dispatch, out func(Out) task.Dispatch) (stage[In, Out], error) {
	s := stage[In, Out]{bus: bus, name: from, dispatchIn: in, dispatchOut: out}
	var err error
	if s.in, err = jetstream.NewQueue[In](ctx, bus, from, run); err != nil {
		return s, err
	}
	s.next, err = jetstream.NewQueue[Out](ctx, bus, to, run)
	return s, err
}

func ofDispatch(d task.Dispatch) task.Dispatch             { return d }
func ofGroup(g trajectory.Group) task.Dispatch             { return g.Dispatch }
func ofScoredGroup(g trajectory.ScoredGroup) task.Dispatch { return g.Group.Dispatch }

// references reads reference answers.
type references struct{ bus *jetstream.Bus }

func (r references) Reference(ctx context.Context, run, promptID string) (ref task.Reference, err error) {
	err = r.bus.GetReference(ctx, run, task.Slug(promptID), &ref)
	return ref, err
}

// leaderStreams is the leader's side of the broker.
type leaderStreams struct {
	bus     *jetstream.Bus
	run     string
	backlog *jetstream.Queue[leader.BacklogItem]
	prompts *jetstream.Queue[task.Dispatch]
	scored  *jetstream.Queue[trajectory.ScoredGroup]
}

func (s leaderStreams) NextPrompt(ctx context.Context) (leader.Held[leader.BacklogItem], error) {
	return next(ctx, s.backlog)
}

func (s leaderStreams) NextScored(ctx context.Context) (leader.Held[trajectory.ScoredGroup], error) {
	return next(ctx, s.scored)
}

func next[T any](ctx context.Context, q *jetstream.Queue[T]) (leader.Held[T], error) {
	m, err := q.Receive(ctx)
	if err != nil {
		return leader.Held[T]{}, err
	}
	release := func() { _ = m.Nak(0) } // a nak that is lost costs one ack wait
	return leader.Held[T]{Value: m.Value, Ack: m.Ack, Release: release}, nil
}

func (s leaderStreams) Publish(ctx context.Context, d task.Dispatch) error {
	return s.prompts.Publish(ctx, s.run, d.ID, d)
}

func (s leaderStreams) Waiting(ctx context.Context) (int, error) {
	keys, err := s.keys(ctx, jetstream.Backlog)
	delete(keys, finalKey)
	return len(keys), err
}

func (s leaderStreams) SetAside(ctx context.Context) (map[string]bool, error) {
	return s.keys(ctx, jetstream.SetAside)
}

// OpenLeases: a group is in flight while some queue holds it; one that was admitted and not yet
// published is held by its prompt in the backlog, one that was just set aside by its record there.
func (s leaderStreams) OpenLeases(ctx context.Context) (map[string]bool, error) {
	open, err := s.keys(ctx, jetstream.Prompts, jetstream.Trajectories, jetstream.Scored, jetstream.SetAside)
	if err != nil {
		return nil, err
	}
	waiting, err := s.keys(ctx, jetstream.Backlog)
	for slug := range waiting {
		open[slug+"-0"] = true
	}
	return open, err
}

func (s leaderStreams) keys(ctx context.Context, streams ...string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, stream := range streams {
		keys, err := s.bus.Keys(ctx, stream, s.run)
		if err != nil {
			return nil, err
		}
		for k := range keys {
			out[k] = true
		}
	}
	return out, nil
}

// cachedFiles fetches data files by hash from the blob store into a directory.
type cachedFiles struct {
	store *blob.Store
	dir   string
}

func (f cachedFiles) Fetch(ctx context.Context, digest string) (string, error) {
	return f.store.Fetch(ctx, digest, f.dir)
}

var (
	_ rollout.Source     = stage[task.Dispatch, trajectory.Group]{}
	_ service.Source     = stage[trajectory.Group, trajectory.ScoredGroup]{}
	_ service.References = references{}
	_ leader.Streams     = leaderStreams{}
	_ rollout.Files      = cachedFiles{}
)
