package leader

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/task"
)

// The rules of this file are told from the logs, the backlog and what the workers know, not from the leader's books.

// lives are the dispatches by the logs.
type lives struct {
	admitted map[string]Event
	latest   map[string]string // by prompt
	left     map[string]bool
	again    map[string]string // prompts that have to be dispatched again, by what happened to which dispatch
}

func (w *world) lives() lives {
	l := lives{map[string]Event{}, map[string]string{}, map[string]bool{}, map[string]string{}}
	for _, r := range w.durable.batches {
		for _, g := range r.Groups {
			l.left[g.Dispatch] = true
		}
	}
	for _, e := range w.durable.events {
		switch e.Kind {
		case Admitted:
			l.admitted[e.Dispatch], l.latest[e.PromptID] = e, e.Dispatch
			delete(l.again, e.PromptID)
		case Closed:
			l.left[e.Dispatch] = true
			if e.Again {
				l.again[l.admitted[e.Dispatch].PromptID] = e.Dispatch
			}
		case Restored:
			for _, seq := range e.Dropped {
				for _, g := range w.durable.batches[seq-1].Groups {
					l.again[l.admitted[g.Dispatch].PromptID] = g.Dispatch
				}
			}
		}
	}
	return l
}

// open are the dispatches that have not left, for training or for validation.
func (l lives) open(validate bool) (out []string) {
	for id, e := range l.admitted {
		if !l.left[id] && e.Body.Validate == validate {
			out = append(out, id)
		}
	}
	return out
}

// waiting are the prompts of the backlog's first n items that were never dispatched.
func (w *world) waiting(l lives, n int, validate bool) (out []string) {
	for _, it := range w.durable.backlog[:n] {
		if it.Prompt != nil && it.Validate == validate && l.latest[it.Prompt.ID] == "" {
			out = append(out, it.Prompt.ID)
		}
	}
	return out
}

// checkPublished holds whenever a group is handed to the workers: nobody has it, and there is room for it.
func (w *world) checkPublished(d task.Dispatch) {
	l := w.lives()
	_, works := w.durable.work[d.ID]
	_, waits := w.durable.scored[d.ID]
	if works || waits || w.durable.aside[d.ID] || l.left[d.ID] {
		w.fail("dispatch %s is published again: in work %t, scored %t, set aside %t, left %t", d.ID, works, waits, w.durable.aside[d.ID], l.left[d.ID])
	}
	if l.admitted[d.ID].Dispatch == "" {
		w.fail("dispatch %s is published and stands in no log", d.ID)
	}
	if n := len(l.open(true)) + len(l.open(false)); n > w.cfg.MaxGroups {
		w.fail("%d groups are dispatched at once, the bound is %d", n, w.cfg.MaxGroups)
	}
}

// checkSize holds for a batch at the moment when it is there: full, or nothing can fill it.
func (w *world) checkSize(r BatchRecord) {
	n, l := len(r.Groups), w.lives()
	if n > w.cfg.BatchGroups {
		w.fail("batch %d holds %d groups, the bound is %d", r.Sequence, n, w.cfg.BatchGroups)
	}
	if n == w.cfg.BatchGroups {
		return
	}
	if open := l.open(r.Validate); len(open) > 0 && (r.Validate || w.cfg.Filter.Exhausted == ExhaustedSkip) {
		w.fail("batch %d (validation %t) holds %d groups while %v are in work", r.Sequence, r.Validate, n, open)
	}
	if wait := w.waiting(l, w.read, true); r.Validate && len(wait) > 0 {
		w.fail("batch %d holds %d groups while %v wait", r.Sequence, n, wait)
	}
	if r.Validate || w.cfg.Filter.Exhausted != ExhaustedSkip || w.cfg.MaxStaleness != NoStaleness || len(l.open(true)) > 0 {
		return
	}
	if wait := w.waiting(l, len(w.durable.backlog), false); len(wait)+len(l.again) > 0 {
		w.fail("batch %d holds %d groups while %v wait and %v come again", r.Sequence, n, wait, l.again)
	}
}

// checkComplete holds at every moment: a run that says it is complete has nothing left.
func (w *world) checkComplete() {
	if !w.leader.Complete() {
		return
	}
	l, n := w.lives(), len(w.durable.backlog)
	wait := append(w.waiting(l, n, false), w.waiting(l, n, true)...)
	if open := append(l.open(false), l.open(true)...); len(wait)+len(open)+len(l.again) > 0 {
		w.fail("the run is complete while %v wait, %v are in work and %v come again", wait, open, l.again)
	}
}

// checkDropped holds for a restore: only what a policy that is gone has sampled is taken back.
func (w *world) checkDropped(sequences []int64) {
	for _, seq := range sequences {
		survives := true
		for _, g := range w.durable.batches[seq-1].Groups {
			for _, weights := range w.facts[g.Dispatch].weights {
				survives = survives && slices.Contains(w.trainer.made, weights)
			}
		}
		if survives {
			w.fail("batch %d is taken back although its policies survive", seq)
		}
	}
}

// checkOutcomes holds at rest: how groups left, and that the ledger counts them so.
func (w *world) checkOutcomes(ledger Ledger) {
	l := w.lives()
	for _, id := range w.prompts {
		if l.latest[id] == "" {
			w.fail("prompt %s was never dispatched", id)
		}
	}
	dispatched, delivered, aside, rounds := 0, 0, map[string]bool{}, map[int64]int{}
	for _, e := range l.admitted {
		dispatched += e.Body.GroupSize
	}
	for _, e := range w.durable.events {
		if e.Kind == RoundsUsedUp {
			rounds[e.Sequence] = 0
		}
		if e.Kind != Closed {
			continue
		}
		validate := l.admitted[e.Dispatch].Body.Validate
		aside[e.Dispatch] = aside[e.Dispatch] || e.Outcomes[SetAside] > 0
		if validate && e.Outcomes[Filtered]+e.Outcomes[Stale] > 0 {
			w.fail("validation group %s left as %v", e.Dispatch, e.Outcomes)
		}
		rolledBack := w.mode == Regenerate && w.trainer.incarnation > 0
		if w.cfg.MaxStaleness == NoStaleness && !rolledBack && e.Outcomes[Stale] > 0 {
			w.fail("group %s is stale (%s) without a bound on age", e.Dispatch, e.Reason)
		}
		if !validate && !e.Again && e.Outcomes[SetAside] == 0 {
			rounds[e.Sequence]++
		}
		// A full batch that waits for the trainer is no reason to end a round.
		if most := w.cfg.Filter.MaxRounds * w.cfg.BatchGroups; w.cfg.MaxStaleness == NoStaleness && rounds[e.Sequence] > most {
			w.fail("%d groups ended for batch %d and no round was used up, the bound is %d", rounds[e.Sequence], e.Sequence, most)
		}
	}
	for id := range w.durable.aside {
		if !aside[id] {
			w.fail("dispatch %s lies aside although it left otherwise", id)
		}
	}
	dropped := w.dropped()
	for _, r := range w.durable.batches {
		for _, g := range r.Groups {
			if !dropped[r.Sequence] {
				delivered += w.facts[g.Dispatch].rewarded
			}
		}
	}
	if ledger.Dispatched != dispatched || ledger.Delivered != delivered {
		w.fail("ledger %+v, want %d dispatched and %d delivered", ledger, dispatched, delivered)
	}
}

func TestAnEntryThatStandsTwiceInALogCountsOnce(t *testing.T) {
	t.Parallel()
	admitted := func(id string) Event {
		return Event{Kind: Admitted, Dispatch: id, PromptID: id, Rollouts: 2, Body: &task.Dispatch{ID: id, GroupSize: 2}}
	}
	filtered := Event{Kind: Closed, Dispatch: "a", Outcomes: Outcomes{Filtered: 2}}
	batch := BatchRecord{Sequence: 1, Groups: []BatchGroup{{Dispatch: "b", Outcomes: Outcomes{Delivered: 2}}}}
	late := Event{Kind: Closed, Dispatch: "b", Outcomes: Outcomes{SetAside: 2}, Sequence: 2}
	want := Ledger{Dispatched: 4, Filtered: 2, Delivered: 2}
	b := NewHistory([]Event{admitted("a"), admitted("a"), filtered, filtered, admitted("b")}, []BatchRecord{batch}).end()
	require.Equal(t, want, b.ledger(nil))
	b.event(late)
	require.Equal(t, want, b.ledger(nil), "what was delivered left already")
}
