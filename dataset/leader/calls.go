package leader

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/verigraph/verigraph/task"
)

// SetPolicy tells the leader what the trainer's policy is now. acknowledged is the last batch that the
// trainer has acknowledged: its training, and that of all before it, is in this version.
func (l *Leader) SetPolicy(ctx context.Context, p Policy, acknowledged int64) error {
	return l.do(ctx, func(ctx context.Context) error {
		old := read(l, func(b *books) Policy { return b.policy })
		if err := l.checkPolicy(p, old); err != nil {
			return err
		}
		if p.Incarnation == old.Incarnation && p.Version < old.Version {
			return fmt.Errorf("%w: policy version %d after %d; a restore goes back", ErrRefused, p.Version, old.Version)
		}
		p.Reflected = old.Reflected
		if p.Version != old.Version {
			p.Reflected = max(old.Reflected, acknowledged)
		}
		return l.record(ctx, Event{Kind: PolicySet, Policy: &p})
	})
}

func (l *Leader) checkPolicy(p, old Policy) error {
	if p.Incarnation < old.Incarnation {
		return fmt.Errorf("%w: %d, the current one is %d", ErrOldIncarnation, p.Incarnation, old.Incarnation)
	}
	if p.Version < 0 {
		return fmt.Errorf("%w: policy version %d", ErrRefused, p.Version)
	}
	for _, e := range p.Endpoints {
		if _, _, err := net.SplitHostPort(e); err != nil {
			return fmt.Errorf("%w: endpoint %q is not HOST:PORT", ErrRefused, e)
		}
		if !l.cfg.allowed(e) {
			return fmt.Errorf("%w: endpoint %q matches no pattern of leader.allow_endpoints", ErrRefused, e)
		}
	}
	return nil
}

// RestoreMode says what a restore does with batches of rolled-back policies.
type RestoreMode string

// Restore modes.
const (
	// Regenerate takes batches back that hold tokens of versions after the checkpoint; their prompts
	// are dispatched again.
	Regenerate RestoreMode = "regenerate"
	// Replay serves all batches after the checkpoint again.
	Replay RestoreMode = "replay"
)

// Restore goes back to the checkpoint of a step, which holds every batch up to base. p is the policy of
// the checkpoint. Repeating it changes nothing more.
func (l *Leader) Restore(ctx context.Context, step, base int64, p Policy, mode RestoreMode) (dropped []int64, err error) {
	err = l.do(ctx, func(ctx context.Context) error {
		if mode != Regenerate && mode != Replay {
			return fmt.Errorf("%w: restore mode %q, want regenerate or replay", ErrRefused, mode)
		}
		old := read(l, func(b *books) Policy { return b.policy })
		if err := l.checkPolicy(p, old); err != nil {
			return err
		}
		if committed := read(l, func(b *books) int64 { return b.committed }); base < committed {
			return fmt.Errorf("%w: step %d needs batches from %d, those up to %d were freed by a commit", ErrRefused, step, base+1, committed)
		}
		p.Reflected = base
		if mode == Regenerate {
			dropped = read(l, func(b *books) (seqs []int64) {
				for _, r := range b.batches[base:] {
					if !r.Validate && !b.dropped[r.Sequence] && r.PolicyVersionMax > p.Version {
						seqs = append(seqs, r.Sequence)
					}
				}
				return seqs
			})
		}
		return l.record(ctx, Event{Kind: Restored, Step: step, UpTo: base, Policy: &p, Dropped: dropped, Reason: string(mode)})
	})
	return dropped, err
}

// Commit says that the trainer's checkpoint of a step holds every batch up to sequence: nothing before
// it will be asked for again, and what it needed is freed. It returns how many batches were freed.
func (l *Leader) Commit(ctx context.Context, step, sequence int64) (freed int, err error) {
	err = l.do(ctx, func(ctx context.Context) error {
		before, last := read(l, func(b *books) int64 { return b.committed }), read(l, (*books).next)-1
		if sequence > last {
			return fmt.Errorf("%w: commit of batch %d, the newest is %d", ErrRefused, sequence, last)
		}
		if sequence > before {
			if err := l.record(ctx, Event{Kind: Committed, Step: step, UpTo: sequence}); err != nil {
				return err
			}
		}
		freed = l.free(ctx)
		return nil
	})
	return freed, err
}

// free deletes the objects of committed training batches. What cannot be deleted now is tried again
// with the next commit.
func (l *Leader) free(ctx context.Context) int {
	type garbage struct {
		record  BatchRecord
		dropped bool
	}
	list := read(l, func(b *books) (list []garbage) {
		for s := b.freed + 1; s <= b.committed; s++ {
			list = append(list, garbage{b.batches[s-1], b.dropped[s]})
		}
		return list
	})
	n := 0
	for _, g := range list {
		if g.record.Validate {
			l.update(func(b *books) { b.freed = g.record.Sequence })
			continue // read by other cursors
		}
		if err := l.deps.Objects.Delete(ctx, g.record.Object); err != nil {
			l.deps.Log.Sugar().Warnw("batch not freed", "object", g.record.Object, "error", err)
			return n
		}
		if l.deps.Forget != nil {
			for _, group := range g.record.Groups {
				if err := l.deps.Forget(ctx, group.Dispatch); err != nil {
					l.deps.Log.Sugar().Warnw("parts not freed", "dispatch", group.Dispatch, "error", err)
				}
			}
		}
		n++
		l.update(func(b *books) { b.freed = g.record.Sequence })
	}
	return n
}

// Requeue sends the prompt of a dispatch that was set aside back into the line as a new dispatch.
func (l *Leader) Requeue(ctx context.Context, dispatch string) error {
	return l.do(ctx, func(ctx context.Context) error {
		if err := l.closeSetAside(ctx); err != nil {
			return err
		}
		d := read(l, func(b *books) *entry { return b.all[dispatch] })
		if d == nil || !d.left || d.outcomes[SetAside] == 0 {
			return fmt.Errorf("%w: dispatch %q is not set aside", ErrRefused, dispatch)
		}
		if d.body != nil && !d.request {
			if err := l.record(ctx, Event{Kind: Requeued, Dispatch: dispatch}); err != nil {
				return err
			}
		}
		return l.deps.Streams.ForgetSetAside(ctx, dispatch)
	})
}

// Asked is one prompt of a request.
type Asked struct {
	// UID is the trainer's name of the group; asking for it again replaces the earlier attempt.
	UID      string
	Prompt   task.Prompt
	Rollouts int
	Validate bool
	// Trace is the prompt's traceparent.
	Trace string
}

// Request dispatches the prompts of one training step at once, past capacity and staleness, and
// returns the dispatch of each.
func (l *Leader) Request(ctx context.Context, asked []Asked) (dispatches []string, err error) {
	err = l.do(ctx, func(ctx context.Context) error {
		for i, a := range asked {
			if a.UID == "" || a.Rollouts < 1 {
				return fmt.Errorf("%w: prompt %d: uid %q with %d rollouts", ErrRefused, i, a.UID, a.Rollouts)
			}
		}
		for i, a := range asked {
			old := read(l, func(b *books) *entry { return b.requests[a.UID] })
			count := 0
			if old != nil {
				count = old.count + 1
				if old.result != nil {
					_ = l.deps.Objects.Delete(ctx, old.result.Object) // nobody will read it
				}
			}
			d := l.dispatch(a.Prompt, 0, a.Validate)
			d.ID, d.Index, d.GroupSize, d.Trace = task.NewDispatchID("request/"+a.UID, count), int64(i), a.Rollouts, a.Trace
			if err := l.publish(ctx, d, a.UID); err != nil {
				return err
			}
			dispatches = append(dispatches, d.ID)
		}
		return nil
	})
	return dispatches, err
}

// Answer is how a request's group ended.
type Answer struct {
	Result *Result // nil: it has no rows
	Reason string
	// Replaced: the same uid was asked for again.
	Replaced bool
}

// Answer returns how a dispatch of a request ended; ok is false while it runs.
func (l *Leader) Answer(dispatch string) (a Answer, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.books.all[dispatch]
	if d == nil || !d.request {
		return Answer{Reason: "not known"}, true
	}
	if l.books.requests[d.uid] != d {
		return Answer{Replaced: true, Reason: "asked for again"}, true
	}
	return Answer{Result: d.result, Reason: d.reason}, d.left
}

// Forget deletes the stored rows of a request's group once they were sent.
func (l *Leader) Forget(ctx context.Context, dispatch string) {
	if a, ok := l.Answer(dispatch); ok && a.Result != nil {
		_ = l.deps.Objects.Delete(ctx, a.Result.Object)
	}
}

// Policy returns what the trainer said last.
func (l *Leader) Policy() Policy {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.books.policy
	p.Endpoints = slices.Clone(p.Endpoints)
	return p
}
