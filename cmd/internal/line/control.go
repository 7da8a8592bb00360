package line

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/task"
)

// Next implements feed.Batches over changing leaders.
func (l *Lead) Next(ctx context.Context, seq int64, kind feed.Kind) (feed.Batch, bool, error) {
	for {
		cur, replaced, err := l.leading(ctx)
		if err != nil {
			return feed.Batch{}, false, err
		}
		changed := cur.Changed() // taken before looking, so that no change is missed
		for ; ; seq++ {
			r, dropped, ok := cur.Batch(seq)
			if !ok {
				break
			}
			if !dropped && kind.Takes(r.Validate) {
				return feed.Batch{
					Sequence: r.Sequence, Object: r.Object, Size: r.Size, SHA256: r.SHA256, Groups: len(r.Groups),
					Rollouts: r.Rollouts(), Rows: r.Rows, PolicyVersionMin: r.PolicyVersionMin, PolicyVersionMax: r.PolicyVersionMax,
					PolicyVersion: r.PolicyVersion, Validate: r.Validate, Epoch: r.Epoch,
				}, true, nil
			}
		}
		if cur.Complete() {
			return feed.Batch{}, false, nil
		}
		select {
		case <-changed:
		case <-replaced:
		case <-ctx.Done():
			return feed.Batch{}, false, ctx.Err()
		}
	}
}

// Last implements feed.Batches.
func (l *Lead) Last(ctx context.Context) (int64, error) {
	cur, _, err := l.leading(ctx)
	if err != nil {
		return 0, err
	}
	return cur.Last(), nil
}

// Freed implements feed.Batches.
func (l *Lead) Freed(ctx context.Context) (int64, error) {
	cur, _, err := l.leading(ctx)
	if err != nil {
		return 0, err
	}
	return cur.Committed(), nil
}

// control is the trainer's hand on the leader.
type control struct {
	*Lead
	references func(ctx context.Context, ref task.Reference) error
}

// wire gives a leader's refusal its place in the feed's table; anything else ended the leader or a wait of its own, and
// the call may be repeated.
func wire(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, leader.ErrOldIncarnation):
		return fmt.Errorf("%w: %w", feed.ErrIncarnation, err)
	case errors.Is(err, leader.ErrRefused):
		return fmt.Errorf("%w: %w", feed.ErrInvalid, err)
	case errors.Is(err, leader.ErrNotLeading):
		return fmt.Errorf("%w: %w", feed.ErrNotLeading, err)
	case ctx.Err() != nil:
		return err
	}
	return fmt.Errorf("%w: %w", feed.ErrStorage, err)
}

func policyOf(p feed.Policy) leader.Policy {
	return leader.Policy{Version: p.Version, Incarnation: p.Incarnation, Endpoints: p.Endpoints, Paused: p.Paused}
}

// Commit implements feed.Control.
func (c control) Commit(ctx context.Context, step, sequence int64) (int, error) {
	cur, _, err := c.leading(ctx)
	if err != nil {
		return 0, err
	}
	n, err := cur.Commit(ctx, step, sequence)
	return n, wire(ctx, err)
}

// SetPolicy implements feed.Control.
func (c control) SetPolicy(ctx context.Context, p feed.Policy, acknowledged int64) error {
	cur, _, err := c.leading(ctx)
	if err != nil {
		return err
	}
	if err := cur.SetPolicy(ctx, policyOf(p), acknowledged); err != nil {
		return wire(ctx, err)
	}
	return c.tellWorkers(ctx, cur)
}

// Restore implements feed.Control.
func (c control) Restore(ctx context.Context, step, base int64, p feed.Policy, mode string) ([]int64, error) {
	cur, _, err := c.leading(ctx)
	if err != nil {
		return nil, err
	}
	if mode == "" {
		mode = string(c.cfg.Leader.OnRestore)
	}
	dropped, err := cur.Restore(ctx, step, base, policyOf(p), leader.RestoreMode(mode))
	if err != nil {
		return nil, wire(ctx, err)
	}
	return dropped, c.tellWorkers(ctx, cur)
}

// PolicyKey is where workers find what the trainer said about its policy last (a leader.Policy).
func PolicyKey(run string) string { return "policy." + run }

func (c control) tellWorkers(ctx context.Context, cur *leader.Leader) error {
	if err := c.bus.PutState(ctx, PolicyKey(c.cfg.Run), cur.Policy()); err != nil {
		return fmt.Errorf("%w: %w", feed.ErrStorage, err)
	}
	return nil
}

// Request implements feed.Control.
func (c control) Request(ctx context.Context, asked []feed.Asked) ([]string, error) {
	cur, _, err := c.leading(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]leader.Asked, len(asked))
	for i, a := range asked {
		if ref := a.Submission.Reference; ref != nil {
			if err := c.references(ctx, *ref); err != nil {
				return nil, fmt.Errorf("%w: %w", feed.ErrStorage, err)
			}
		}
		list[i] = leader.Asked{
			UID: a.UID, Prompt: a.Submission.Prompt, Rollouts: a.Rollouts, Validate: a.Submission.Validate, Trace: newTrace(ctx, c.tracer, c.cfg.Run),
		}
	}
	dispatches, err := cur.Request(ctx, list)
	return dispatches, wire(ctx, err)
}

// Ended implements feed.Control.
func (c control) Ended(ctx context.Context, dispatches []string) (int, feed.Group, error) {
	for {
		cur, replaced, err := c.leading(ctx)
		if err != nil {
			return 0, feed.Group{}, err
		}
		changed := cur.Changed()
		for i, d := range dispatches {
			a, ok := cur.Answer(d)
			if !ok {
				continue
			}
			g := feed.Group{Reason: a.Reason, Replaced: a.Replaced}
			if a.Result != nil {
				g.Object, g.Size, g.SHA256, g.Rows = a.Result.Object, a.Result.Size, a.Result.SHA256, a.Result.Rows
			}
			c.leaves(ctx, d)
			return i, g, nil
		}
		select {
		case <-changed:
		case <-replaced:
		case <-ctx.Done():
			return 0, feed.Group{}, ctx.Err()
		}
	}
}

// Sent implements feed.Control.
func (c control) Sent(ctx context.Context, dispatch string) {
	if cur := c.current(); cur != nil {
		c.delivered(ctx, cur, dispatch)
		cur.Forget(ctx, dispatch)
	}
}

// SetAside implements feed.Control.
func (c control) SetAside(ctx context.Context) ([]feed.Aside, error) {
	records, err := c.bus.SetAsideRecords(ctx, c.cfg.Run)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", feed.ErrStorage, err)
	}
	out := make([]feed.Aside, len(records))
	for i, r := range records {
		out[i] = feed.Aside{Dispatch: r.Dispatch, Stage: r.Stage, Reason: r.Reason, Deliveries: r.Deliveries}
	}
	return out, nil
}

// Requeue implements feed.Control.
func (c control) Requeue(ctx context.Context, dispatch string) error {
	cur, _, err := c.leading(ctx)
	if err != nil {
		return err
	}
	return wire(ctx, cur.Requeue(ctx, dispatch))
}

// cursors stores cursors in the state bucket.
type cursors struct {
	bus *jetstream.Bus
	run string
	// acknowledged is told of the batches that the trainer has acknowledged now.
	acknowledged func(ctx context.Context, from, to int64, start time.Time)

	mu    sync.Mutex
	acked map[int64]time.Time // when the trainer acknowledged, for the summary
}

func (c *cursors) key(cursor string) string { return "cursor." + c.run + "." + task.Slug(cursor) }

// Position implements feed.Cursors.
func (c *cursors) Position(ctx context.Context, cursor string) (p feed.Position, err error) {
	if p, err = jetstream.CurrentState[feed.Position](ctx, c.bus, c.key(cursor)); err != nil {
		return p, fmt.Errorf("%w: %w", feed.ErrStorage, err)
	}
	return p, nil
}

// shown is a position for people: it may lag behind for a moment, and writes nothing.
func (c *cursors) shown(ctx context.Context, cursor string) (p feed.Position, err error) {
	_, err = c.bus.GetState(ctx, c.key(cursor), &p)
	return p, err
}

// Change implements feed.Cursors.
func (c *cursors) Change(ctx context.Context, cursor string, f func(feed.Position) (feed.Position, error)) (feed.Position, error) {
	start := time.Now()
	var before feed.Position
	var refused error
	p, err := jetstream.UpdateState(ctx, c.bus, c.key(cursor), func(p feed.Position) (feed.Position, error) {
		before = p
		p, refused = f(p)
		return p, refused
	})
	switch {
	case refused != nil:
		return before, refused
	case err != nil:
		return before, fmt.Errorf("%w: %w", feed.ErrStorage, err)
	}
	if cursor == feed.TrainerCursor {
		c.acknowledged(ctx, before.Acknowledged+1, p.Acknowledged, start)
		c.mu.Lock()
		defer c.mu.Unlock()
		for s := before.Acknowledged + 1; s <= p.Acknowledged; s++ {
			c.acked[s] = time.Now()
		}
	}
	return p, nil
}

var (
	_ feed.Batches = (*Lead)(nil)
	_ feed.Control = control{}
	_ feed.Cursors = (*cursors)(nil)
)
