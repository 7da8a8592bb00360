// Package line wires the production line: NATS queues, workers, reward servers, the leader and the
// feed, from one configuration. Every process of the project is a part of it.
package line

import (
	"context"
	"time"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/tracing"
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
	to   string // the stream it hands on to
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

// Context implements lease.Lease.
func (l heldMessage[In, Out]) Context(ctx context.Context) context.Context {
	return tracing.Remote(ctx, l.m.Trace)
}

// Finish hands the trace on as it came: everything of a group stands below its dispatch.
func (l heldMessage[In, Out]) Finish(ctx context.Context, out Out) error {
	d := l.s.dispatchOut(out)
	if err := l.s.bus.PublishOnce(jetstream.WithTrace(ctx, l.m.Trace), l.s.to, d.Run, d.ID, out); err != nil {
		return err
	}
	return l.m.Ack(ctx)
}

func (l heldMessage[In, Out]) Retry(after time.Duration) error { return l.m.Nak(after) }

func (l heldMessage[In, Out]) SetAside(ctx context.Context, reason string) error {
	d := l.s.dispatchIn(l.m.Value)
	record := jetstream.AsideRecord{Dispatch: d.ID, Stage: l.s.name, Reason: reason, Deliveries: l.m.Deliveries}
	if err := l.s.bus.PutSetAside(ctx, d.Run, d.ID, record); err != nil {
		return err
	}
	return l.m.Ack(ctx)
}

func (l heldMessage[In, Out]) Drop() { l.m.Drop() }

// newStage opens a stage.
func newStage[In, Out any](ctx context.Context, bus *jetstream.Bus, run, from, to string, in func(In) task.Dispatch, out func(Out) task.Dispatch) (stage[In, Out], error) {
	s := stage[In, Out]{bus: bus, name: from, to: to, dispatchIn: in, dispatchOut: out}
	var err error
	s.in, err = jetstream.NewQueue[In](ctx, bus, from, run)
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

var (
	_ rollout.Source     = stage[task.Dispatch, trajectory.Group]{}
	_ service.Source     = stage[trajectory.Group, trajectory.ScoredGroup]{}
	_ service.References = references{}
	_ rollout.Files      = (*blob.Cache)(nil)
)
