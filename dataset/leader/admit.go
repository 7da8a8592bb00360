package leader

import (
	"context"
	"hash/fnv"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/task"
)

// queue takes a message of the backlog. A prompt that the books know is a repeat, or was admitted by a
// leader that died before the ack.
func (l *Leader) queue(ctx context.Context, h Held[BacklogItem]) error {
	defer l.looked()
	if h.Value.Final {
		l.final = append(l.final, h)
		return nil
	}
	known := read(l, func(b *books) *entry { return b.latest[h.Value.Prompt.ID] })
	if known == nil {
		l.pool.add(h)
		return nil
	}
	if !known.left && known.body == nil { // its record does not say how to publish it
		d := l.dispatch(*h.Value.Prompt, known.count, h.Value.Validate)
		d.Index, d.PolicyVersion, d.Trace = known.index, known.version, h.Trace
		if err := l.deps.Streams.Publish(ctx, d); err != nil {
			return err
		}
	}
	return h.Ack(ctx)
}

// admit dispatches one prompt if there is room for it: first those that were dispatched before and
// have to be again, since they have waited longest, then what the pool chooses.
func (l *Leader) admit(ctx context.Context) (bool, error) {
	load := read(l, func(b *books) load { return b.load(l.goodGroups()) })
	paused := read(l, func(b *books) bool { return b.policy.Paused })
	train := !paused && l.cfg.capacity(load) > 0
	valid := !paused && load.open < l.cfg.MaxGroups
	if l.losing() && load.running > 0 {
		train = false
	}
	if l.deps.Share != nil {
		work := read(l, func(b *books) int { return b.inWork(l.buffered) })
		if work >= l.deps.Share(work+l.pool.count+read(l, func(b *books) int { return len(b.again) })) {
			train, valid = false, false
		}
	}
	if again := read(l, func(b *books) *entry {
		for _, d := range b.again {
			if d.body != nil && (train && !d.validate || valid && d.validate) {
				return d
			}
		}
		return nil
	}); again != nil {
		d := l.dispatch(again.body.Prompt, again.count+1, again.validate)
		d.Trace = again.body.Trace
		return true, l.publish(ctx, d, "")
	}
	c, ok := l.pool.take(train, valid)
	if !ok {
		return false, nil
	}
	it := c.item()
	if read(l, func(b *books) bool { return b.latest[it.Prompt.ID] != nil }) {
		return true, c.held.Ack(ctx) // the same prompt stood in the backlog twice
	}
	d := l.dispatch(*it.Prompt, 0, it.Validate)
	d.Trace = c.held.Trace
	if err := l.publish(ctx, d, ""); err != nil {
		c.held.Release()
		return false, err
	}
	return true, c.held.Ack(ctx)
}

// losing says so once when it begins and once when it is over.
func (l *Leader) losing() bool {
	losing := read(l, func(b *books) bool { return l.cfg.losing(&b.losses) })
	if losing != l.wasLosing {
		l.wasLosing = losing
		if losing {
			l.deps.Log.Error("dispatching pauses: one group at a time until fewer rollouts are lost",
				zap.String("reason", read(l, func(b *books) string { return b.losses.String() })))
		} else {
			l.deps.Log.Info("dispatching goes on: fewer rollouts are lost")
		}
	}
	return losing
}

// publish records a dispatch, then hands it to the workers.
func (l *Leader) publish(ctx context.Context, d task.Dispatch, uid string) error {
	e := Event{Kind: Admitted, Dispatch: d.ID, PromptID: d.Prompt.ID, Rollouts: d.GroupSize, Body: &d, UID: uid}
	if err := l.record(ctx, e); err != nil {
		return err
	}
	return l.deps.Streams.Publish(ctx, d)
}

// recover publishes what a leader before admitted and no queue holds.
func (l *Leader) recover(ctx context.Context) error {
	leases, err := l.deps.Streams.OpenLeases(ctx)
	if err != nil {
		return err
	}
	aside, err := l.deps.Streams.SetAside(ctx)
	if err != nil {
		return err
	}
	lost := read(l, func(b *books) (lost []*entry) {
		for _, d := range b.order {
			if !d.left && d.body != nil && !leases[d.id] && !aside[d.id] {
				lost = append(lost, d)
			}
		}
		return lost
	})
	for _, d := range lost {
		l.deps.Log.Info("dispatch published again", zap.String("dispatch", d.id))
		if err := l.deps.Streams.Publish(ctx, *d.body); err != nil {
			return err
		}
	}
	return l.closeSetAside(ctx)
}

func (l *Leader) dispatch(p task.Prompt, count int, validate bool) task.Dispatch {
	id := task.NewDispatchID(p.ID, count)
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	d := task.Dispatch{
		ID: id, Run: l.cfg.Run, Prompt: p, GroupSize: l.cfg.GroupSize, Validate: validate,
		// Seeds hang on the dispatch's name, not on the order of arrival.
		Seed: l.cfg.Seed ^ int64(h.Sum64()>>1),
	}
	if p.Sampling != nil && p.Sampling.N != nil {
		d.GroupSize = *p.Sampling.N
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d.Index, d.PolicyVersion = int64(len(l.books.order)), l.books.policy.Version
	return d
}

// endInput records the end of the input once every prompt before it is admitted.
func (l *Leader) endInput(ctx context.Context) error {
	if len(l.final) == 0 || l.pool.count > 0 {
		return nil
	}
	if !read(l, func(b *books) bool { return b.ended }) {
		if err := l.record(ctx, Event{Kind: InputEnded}); err != nil {
			return err
		}
	}
	for _, h := range l.final {
		if err := h.Ack(ctx); err != nil {
			return err
		}
	}
	l.final = nil
	return l.settle(ctx) // the last groups may be waiting for it
}

// closeSetAside closes the groups that were set aside since the last look.
func (l *Leader) closeSetAside(ctx context.Context) error {
	aside, err := l.deps.Streams.SetAside(ctx)
	if err != nil {
		return err
	}
	for id := range aside {
		d := read(l, func(b *books) *entry { return b.all[id] })
		switch {
		case d == nil || d.left && d.outcomes[SetAside] > 0:
			continue
		case d.left || l.buffered(id): // a second attempt was set aside, the first one came through
			if err := l.deps.Streams.ForgetSetAside(ctx, id); err != nil {
				return err
			}
			continue
		}
		e := Event{Kind: Closed, Dispatch: id, Outcomes: Outcomes{SetAside: d.size}, Reason: "set aside"}
		if err := l.record(ctx, e); err != nil {
			return err
		}
	}
	return nil
}
