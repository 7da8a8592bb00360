package leader

import (
	"context"
	"hash/fnv"

	"github.com/verigraph/verigraph/dataset/dispatch"
	"github.com/verigraph/verigraph/task"
)

// hold takes a prompt, or the end of the input, from the backlog without deciding about it.
func (l *Leader) hold(h Held[BacklogItem]) {
	if h.Value.Final {
		l.final = &h
		return
	}
	if h.Value.Validate {
		l.validation = append(l.validation, h)
		return
	}
	l.pools.Push(h, h.Value.Prompt.DataSource, 0)
}

// admit dispatches held prompts as the capacity allows, and ends the input after the last of them.
func (l *Leader) admit(ctx context.Context) error {
	for len(l.validation) > 0 { // needs no capacity: it does not age and is never replaced
		h := l.validation[0]
		l.validation = l.validation[1:]
		if err := l.admitOne(ctx, h); err != nil {
			h.Release()
			return err
		}
	}
	for l.pools.Len() > 0 && l.capacity() > 0 {
		h, _ := l.pools.Pop()
		if err := l.admitOne(ctx, h); err != nil {
			h.Release()
			return err
		}
	}
	if l.final == nil || l.pools.Len() > 0 {
		return nil
	}
	// Prompts that a leader held when it died come back later than the end of the input.
	if n, err := l.deps.Streams.Waiting(ctx); err != nil || n > 0 {
		return err
	}
	if err := l.record(ctx, Event{Kind: InputEnded}); err != nil {
		return err
	}
	final := l.final
	l.final = nil
	return final.Ack(ctx)
}

func (l *Leader) capacity() int {
	good := 0
	for _, h := range l.buffer {
		if !h.Value.Group.Dispatch.Validate {
			good++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cfg.Capacity(dispatch.Load{
		Running: l.books.openTraining() - good, Good: good, Delivered: l.books.deliveredSince(),
	})
}

// admitOne creates the dispatch of a prompt. One that the ledger knows already was admitted by a
// leader that died before the ack: it is published again, which the queue recognises.
func (l *Leader) admitOne(ctx context.Context, h Held[BacklogItem]) error {
	p := h.Value.Prompt
	d := l.dispatch(*p, h.Value.Validate)
	l.mu.Lock()
	_, left := l.books.closed[d.ID]
	index, known := l.books.index[d.ID]
	if d.Index = index; !known {
		d.Index = int64(len(l.books.sizes))
	}
	d.PolicyVersion = l.books.policy.Version
	l.mu.Unlock()
	if left {
		return h.Ack(ctx)
	}
	if !known {
		e := Event{Kind: Admitted, Dispatch: d.ID, PromptID: p.ID, Rollouts: d.GroupSize, Validate: d.Validate}
		if err := l.record(ctx, e); err != nil {
			return err
		}
	}
	if err := l.deps.Streams.Publish(ctx, d); err != nil {
		return err
	}
	return h.Ack(ctx)
}

func (l *Leader) dispatch(p task.Prompt, validate bool) task.Dispatch {
	id := task.NewDispatchID(p.ID, 0)
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return task.Dispatch{
		ID: id, Run: l.cfg.Run, Prompt: p, GroupSize: l.cfg.GroupSize, Validate: validate,
		// Seeds hang on the dispatch's name, not on the order of arrival.
		Seed: l.cfg.Seed ^ int64(h.Sum64()>>1),
	}
}
