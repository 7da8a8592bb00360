// Package line wires the production line: NATS queues, workers, reward servers, the leader and the
// feed, from one configuration. Every process of the project is a part of it.
package line

import (
	"context"
	"time"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/reward/service"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// promptSource hands PROMPTS to the worker and its groups on to TRAJECTORIES.
type promptSource struct {
	bus  *jetstream.Bus
	in   *jetstream.Queue[task.Dispatch]
	next *jetstream.Queue[trajectory.Group]
}

func (s promptSource) Receive(ctx context.Context) (rollout.Lease, error) {
	m, err := s.in.Receive(ctx)
	if err != nil {
		return nil, err
	}
	return promptLease{s, m}, nil
}

type promptLease struct {
	s promptSource
	m *jetstream.Message[task.Dispatch]
}

func (l promptLease) Dispatch() task.Dispatch { return l.m.Value }
func (l promptLease) Deliveries() int         { return l.m.Deliveries }

func (l promptLease) Finish(ctx context.Context, g trajectory.Group) error {
	if err := l.s.next.Publish(ctx, g.Dispatch.Run, g.Dispatch.ID, g); err != nil {
		return err
	}
	return l.m.Ack(ctx)
}

func (l promptLease) Retry(after time.Duration) error { return l.m.Nak(after) }

func (l promptLease) SetAside(ctx context.Context, reason string) error {
	return setAside(ctx, l.s.bus, l.m, l.m.Value, jetstream.Prompts, reason)
}

func setAside[T any](ctx context.Context, bus *jetstream.Bus, m *jetstream.Message[T], d task.Dispatch, stage, reason string) error {
	record := jetstream.AsideRecord{Dispatch: d.ID, Stage: stage, Reason: reason, Deliveries: m.Deliveries}
	if err := bus.PutSetAside(ctx, d.Run, d.ID, record); err != nil {
		return err
	}
	return m.Ack(ctx)
}

// groupSource hands TRAJECTORIES to the reward server and its groups on to SCORED.
type groupSource struct {
	bus  *jetstream.Bus
	in   *jetstream.Queue[trajectory.Group]
	next *jetstream.Queue[trajectory.ScoredGroup]
}

func (s groupSource) Receive(ctx context.Context) (service.Lease, error) {
	m, err := s.in.Receive(ctx)
	if err != nil {
		return nil, err
	}
	return groupLease{s, m}, nil
}

type groupLease struct {
	s groupSource
	m *jetstream.Message[trajectory.Group]
}

func (l groupLease) Group() trajectory.Group { return l.m.Value }
func (l groupLease) Deliveries() int         { return l.m.Deliveries }

func (l groupLease) Finish(ctx context.Context, g trajectory.ScoredGroup) error {
	d := g.Group.Dispatch
	if err := l.s.next.Publish(ctx, d.Run, d.ID, g); err != nil {
		return err
	}
	return l.m.Ack(ctx)
}

func (l groupLease) Retry(after time.Duration) error { return l.m.Nak(after) }

func (l groupLease) SetAside(ctx context.Context, reason string) error {
	return setAside(ctx, l.s.bus, l.m, l.m.Value.Dispatch, jetstream.Trajectories, reason)
}

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

func (s leaderStreams) SetAside(ctx context.Context) (map[string]bool, error) {
	return s.keys(ctx, jetstream.SetAside)
}

// OpenLeases: a group is in flight while some queue holds it.
func (s leaderStreams) OpenLeases(ctx context.Context) (map[string]bool, error) {
	return s.keys(ctx, jetstream.Prompts, jetstream.Trajectories, jetstream.Scored)
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
	_ rollout.Source     = promptSource{}
	_ service.Source     = groupSource{}
	_ service.References = references{}
	_ leader.Streams     = leaderStreams{}
	_ rollout.Files      = cachedFiles{}
)
