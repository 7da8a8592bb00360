package leader

import (
	"reflect"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"
)

// wrote holds for a batch at the moment when it is there.
func (w *world) wrote(r BatchRecord) {
	w.checkSize(r)
	if r.Validate || w.cfg.MaxStaleness == NoStaleness {
		return
	}
	dropped, ahead := w.dropped(), 0
	for _, b := range w.durable.batches {
		if !b.Validate && !dropped[b.Sequence] && b.Sequence > w.trainer.position.Acknowledged && b.Sequence < r.Sequence {
			ahead++
		}
	}
	if ahead > w.cfg.MaxStaleness {
		w.fail("batch %d is numbered while %d wait for the trainer, the bound is %d", r.Sequence, ahead, w.cfg.MaxStaleness)
	}
}

func (w *world) dropped() map[int64]bool {
	out := map[int64]bool{}
	for _, e := range w.durable.events {
		for _, seq := range e.Dropped {
			out[seq] = true
		}
	}
	return out
}

// checkGroup holds for a group at the moment when it is trained on.
func (w *world) checkGroup(seq int64, dispatch string) {
	f := w.facts[dispatch]
	if f.validate {
		w.fail("batch %d for training holds the validation group %s", seq, dispatch)
	}
	if w.cfg.Filter.Enabled && !f.varies {
		w.fail("batch %d holds %s, which does not vary", seq, dispatch)
	}
	if age := w.trainer.version - f.oldest; w.cfg.MaxStaleness != NoStaleness && age > int64(w.cfg.MaxStaleness) {
		w.fail("batch %d is trained on at age %d, the bound is %d", seq, age, w.cfg.MaxStaleness)
	}
	for _, weights := range f.weights {
		if w.mode == Regenerate && !slices.Contains(w.trainer.made[:w.trainer.version+1], weights) {
			w.fail("batch %d holds tokens of %s that a rolled-back policy sampled", seq, dispatch)
		}
	}
}

// check holds for every schedule at rest.
func (w *world) check(report *lengthReport) {
	p, err := w.leader.Progress(w.t.Context())
	require.NoError(w.t, err)
	if !p.Ledger.Balanced() || p.Ledger.InFlight != 0 || len(w.durable.work)+len(w.durable.scored) > 0 {
		w.fail("ledger %+v with %d leases", p.Ledger, len(w.durable.work)+len(w.durable.scored))
	}
	whole := NewHistory(w.durable.events, w.durable.batches)
	if cut := w.readAlong(); !reflect.DeepEqual(cut.end(), whole.end()) {
		w.fail("logs that are read along give other books than the same logs read at once")
	}
	again, _ := New(w.cfg, w.leader.deps, whole)
	if q, _ := again.Progress(w.t.Context()); q.Ledger != p.Ledger {
		w.fail("rebuilt ledger %+v, want %+v", q.Ledger, p.Ledger)
	}
	w.checkPrompts()
	w.checkOutcomes(p.Ledger)
	var want []string
	for _, r := range w.leader.Batches() {
		_, stored := w.durable.objects[r.Object]
		if freed := !r.Validate && r.Sequence <= w.trainer.position.Committed.Sequence; freed == stored {
			w.fail("the object of batch %d (validation %t, committed %d) is stored: %t", r.Sequence, r.Validate, w.trainer.position.Committed.Sequence, stored)
		}
		if len(r.Groups) == 0 {
			w.fail("batch %d is empty", r.Sequence)
		}
		if r.Validate || w.leader.books.dropped[r.Sequence] {
			continue
		}
		for _, g := range r.Groups {
			want = append(want, g.Dispatch)
		}
	}
	if !slices.Equal(want, w.trainer.seen) {
		w.fail("the trainer's checkpoint lineage saw %v, the batches hold %v", w.trainer.seen, want)
	}
	if slices.Sort(want); len(slices.Compact(slices.Clone(want))) != len(want) {
		w.fail("a group was delivered twice: %v", want)
	}
	report.add(w)
}

// checkPrompts: a prompt is given up as stale after three further dispatches, not before, and never because of a restore.
func (w *world) checkPrompts() {
	const further = 3
	b := w.leader.books
	for _, d := range b.latest {
		if d.outcomes[Stale] > 0 && d.count < further {
			w.fail("prompt %s was given up after %d dispatches", d.promptID, d.count+1)
		}
	}
	for _, e := range w.durable.events {
		if e.Kind == Closed && e.Again && b.all[e.Dispatch].count >= further {
			w.fail("dispatch %s grew stale and comes again", e.Dispatch)
		}
		if e.Kind == Restored && w.mode == Replay && len(e.Dropped) > 0 {
			w.fail("a replay took batches %v back", e.Dropped)
		}
	}
}

// lengthReport counts prompts by how long their rollouts take.
type lengthReport struct {
	mu                sync.Mutex
	prompts, lost     map[string]int // by class: prompts, and those given up as stale
	stale, dispatches map[string]int
}

func (r *lengthReport) add(w *world) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range w.leader.books.latest {
		if d.validate || w.cfg.MaxStaleness == NoStaleness {
			continue
		}
		class := string(w.cfg.Stragglers) + "/short"
		if w.long[d.promptID] {
			class = string(w.cfg.Stragglers) + "/long"
		}
		r.prompts[class]++
		if d.outcomes[Stale] > 0 {
			r.lost[class]++
		}
		r.dispatches[class] += d.count + 1
		if w.started == 0 { // nothing crashed
			r.stale[class] += d.count
		}
	}
}
