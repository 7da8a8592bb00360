package leader

import (
	"math"
	"math/bits"
	"slices"

	"github.com/verigraph/verigraph/task"
)

// entry is one dispatch in the books.
type entry struct {
	id       string
	promptID string
	uid      string // of a request
	size     int
	index    int64
	count    int // dispatches of the prompt before it
	validate bool
	request  bool
	// version is the policy version at admission; no token of the group is older.
	version int64
	// bound is the newest version that the group may hold: a restore took the later ones back.
	bound int64
	// body is what is published; nil once the prompt can't be dispatched again.
	body     *task.Dispatch
	left     bool
	outcomes Outcomes
	reason   string
	result   *Result
}

// books is the leader's own record, rebuilt from the logs. It is a plain value without I/O: the same
// entries give the same books.
type books struct {
	all       map[string]*entry
	open      map[string]*entry // of all, those that have not left
	order     []*entry
	latest    map[string]*entry // by prompt id
	requests  map[string]*entry // by uid, the latest attempt
	again     []*entry          // stale and requeued dispatches whose prompt waits for a new one
	total     Outcomes
	groups    int
	ended     bool
	batches   []BatchRecord
	dropped   map[int64]bool
	policy    Policy
	committed int64
	freed     int64
	endedFor  map[int64]int // groups that ended without being good, by the batch being filled
	reasons   map[string]int
	lengths   map[int]Outcomes // rollouts by outcome and length class
	usedUp    int
	losses    losses
	pending   int // training batches that the policy version does not hold yet
}

func newBooks() *books {
	return &books{
		all: map[string]*entry{}, open: map[string]*entry{}, latest: map[string]*entry{}, requests: map[string]*entry{},
		total: Outcomes{}, dropped: map[int64]bool{}, endedFor: map[int64]int{}, reasons: map[string]int{}, lengths: map[int]Outcomes{},
	}
}

// next is the sequence number of the batch that is being filled.
func (b *books) next() int64 { return int64(len(b.batches)) + 1 }

func (b *books) event(e Event) {
	switch e.Kind {
	case Admitted:
		b.admitted(e)
	case Closed:
		b.closed(e)
	case InputEnded:
		b.ended = true
	case RoundsUsedUp:
		b.usedUp++
		delete(b.endedFor, e.Sequence)
	case PolicySet:
		b.policy = *e.Policy
		b.countPending()
	case Restored:
		b.restored(e)
	case Committed:
		b.commit(e.UpTo)
	case Requeued:
		if d := b.all[e.Dispatch]; d != nil && d.left {
			b.back(d)
		}
	}
}

func (b *books) admitted(e Event) {
	if b.all[e.Dispatch] != nil {
		return
	}
	d := &entry{
		id: e.Dispatch, promptID: e.PromptID, uid: e.UID, request: e.UID != "", size: e.Rollouts, index: int64(len(b.order)),
		body: e.Body, bound: math.MaxInt64,
	}
	if e.Body != nil {
		d.index, d.version, d.validate = e.Body.Index, e.Body.PolicyVersion, e.Body.Validate
	}
	if old := b.latest[e.PromptID]; old != nil && !d.request {
		d.count, old.body = old.count+1, nil
		b.again = slices.DeleteFunc(b.again, func(a *entry) bool { return a == old })
	}
	b.all[d.id], b.open[d.id] = d, d
	b.order = append(b.order, d)
	if !d.request {
		b.latest[d.promptID] = d
	} else {
		if old := b.requests[d.uid]; old != nil {
			old.bound = math.MinInt64 // superseded: whatever it still brings is stale
			d.count, old.body, old.result = old.count+1, nil, nil
		}
		b.requests[d.uid] = d
	}
	b.groups += d.size
}

// leave books how a dispatch left. It is the only way out of open.
func (b *books) leave(id string, o Outcomes, tokens int) *entry {
	d := b.open[id]
	if d == nil {
		return nil
	}
	delete(b.open, id)
	d.left, d.outcomes = true, o
	b.losses.left(o)
	class := lengthClass(tokens)
	if b.lengths[class] == nil {
		b.lengths[class] = Outcomes{}
	}
	for k, n := range o {
		b.total[k] += n
		b.lengths[class][k] += n
	}
	return d
}

func (b *books) closed(e Event) {
	d := b.leave(e.Dispatch, e.Outcomes, e.Tokens)
	if d == nil {
		return
	}
	d.reason, d.result = e.Reason, e.Result
	if e.Value != "" {
		b.reasons[string(Filtered)+" "+e.Value] += d.size
	} else if d.result == nil {
		b.reasons[mainOutcome(e.Outcomes)] += d.size
	}
	switch {
	case e.Again:
		b.back(d)
	case d.request || e.Outcomes[SetAside] > 0:
	default:
		d.body = nil
		if !d.validate {
			b.endedFor[e.Sequence]++
		}
	}
}

// back puts a prompt among those that are dispatched again, once.
func (b *books) back(d *entry) {
	if d.body != nil && b.latest[d.promptID] == d && !slices.Contains(b.again, d) {
		b.again = append(b.again, d)
	}
}

// mainOutcome names why a whole group left.
func mainOutcome(o Outcomes) string {
	for _, k := range []Outcome{SetAside, Stale, Unscored, Failed} {
		if o[k] > 0 {
			return string(k)
		}
	}
	return string(Failed)
}

func (b *books) batch(r BatchRecord) {
	b.batches = append(b.batches, r)
	b.addPending(r)
	delete(b.endedFor, r.Sequence)
	for _, g := range r.Groups {
		b.leave(g.Dispatch, g.Outcomes, g.Tokens)
	}
}

// restored takes batches back: what they delivered is stale, and their prompts are dispatched again.
func (b *books) restored(e Event) {
	b.policy = *e.Policy
	for _, seq := range e.Dropped {
		if b.dropped[seq] {
			continue
		}
		b.dropped[seq] = true
		for _, g := range b.batches[seq-1].Groups {
			d := b.all[g.Dispatch]
			if d == nil {
				continue
			}
			n := d.outcomes[Delivered]
			d.outcomes = d.outcomes.instead(Stale)
			b.total[Delivered] -= n
			b.total[Stale] += n
			class := b.lengths[lengthClass(g.Tokens)]
			class[Delivered] -= n
			class[Stale] += n
			b.reasons["stale by restore"] += n
			b.back(d)
		}
	}
	b.countPending()
	if e.Reason == string(Replay) {
		return
	}
	for _, d := range b.open {
		if !d.validate && !d.request {
			d.bound = min(d.bound, e.Policy.Version)
		}
	}
}

// commit forgets what only a restore would need.
func (b *books) commit(sequence int64) {
	for s := b.committed + 1; s <= sequence && s <= int64(len(b.batches)); s++ {
		if b.dropped[s] {
			continue
		}
		for _, g := range b.batches[s-1].Groups {
			if d := b.all[g.Dispatch]; d != nil {
				d.body = nil
			}
		}
	}
	b.committed = max(b.committed, sequence)
}

// now is where the trainer is. Validation batches and batches that were taken back make no version.
func (b *books) now() clock {
	return clock{version: b.policy.Version, pending: int64(b.pending)}
}

// countPending counts anew after the version or the batches behind it changed.
func (b *books) countPending() {
	b.pending = 0
	for s := len(b.batches); s > int(b.policy.Reflected) && s > 0; s-- {
		b.addPending(b.batches[s-1])
	}
}

func (b *books) addPending(r BatchRecord) {
	if !r.Validate && !b.dropped[r.Sequence] {
		b.pending++
	}
}

// load counts groups against the capacity; buffered are the good ones.
func (b *books) load(buffered int) load {
	l := load{buffered: buffered, pending: b.pending}
	for _, d := range b.open {
		if d.request {
			continue
		}
		l.open++
		if !d.validate {
			l.running++
		}
	}
	l.running -= buffered
	return l
}

// inWork counts the groups that workers and reward servers have, of whatever kind.
func (b *books) inWork(buffered func(id string) bool) int {
	n := 0
	for id := range b.open {
		if !buffered(id) {
			n++
		}
	}
	return n
}

func (b *books) complete() bool { return b.ended && len(b.open) == 0 && len(b.again) == 0 }

// ledger takes the dispatches with an open lease from outside.
func (b *books) ledger(leases map[string]bool) Ledger {
	l := Ledger{
		Dispatched: b.groups,
		Delivered:  b.total[Delivered], Filtered: b.total[Filtered], Stale: b.total[Stale],
		Unscored: b.total[Unscored], Failed: b.total[Failed], SetAside: b.total[SetAside],
	}
	for id, d := range b.open {
		if leases[id] {
			l.InFlight += d.size
		}
	}
	return l
}

// lengthClass is the power of two that a response of n tokens fits into, from 256.
func lengthClass(n int) int { return 1 << max(bits.Len(uint(max(n, 1)-1)), 8) }
