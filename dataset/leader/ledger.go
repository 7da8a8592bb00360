package leader

import (
	"maps"

	"github.com/verigraph/verigraph/trajectory"
)

// Outcome is how a rollout left the line.
type Outcome string

// Outcomes, as the ledger names them.
const (
	Delivered Outcome = "delivered"
	Filtered  Outcome = "filtered"
	Stale     Outcome = "stale"
	Unscored  Outcome = "unscored"
	Failed    Outcome = "failed"
	SetAside  Outcome = "set_aside"
)

// Outcomes counts rollouts by outcome.
type Outcomes map[Outcome]int

// EventKind says what a ledger event records.
type EventKind string

// Event kinds.
const (
	// Admitted: a dispatch was created and published.
	Admitted EventKind = "admitted"
	// Closed: a group left the line without being delivered.
	Closed EventKind = "closed"
	// InputEnded: no more prompts will come.
	InputEnded EventKind = "input_ended"
)

// Event is one entry of the LEDGER log.
type Event struct {
	Kind     EventKind `json:"kind"`
	Dispatch string    `json:"dispatch,omitempty"`
	PromptID string    `json:"prompt_id,omitempty"`
	Rollouts int       `json:"rollouts,omitempty"`
	Outcomes Outcomes  `json:"outcomes,omitempty"`
	Reason   string    `json:"reason,omitempty"`
}

// BatchRecord is one entry of the BATCHES log: the batch exists because this record does.
type BatchRecord struct {
	Sequence         int64        `json:"sequence"`
	Epoch            int64        `json:"epoch"`
	Object           string       `json:"object"`
	Size             int64        `json:"size"`
	SHA256           string       `json:"sha256"`
	Groups           []BatchGroup `json:"groups"`
	Rows             int          `json:"rows"`
	PolicyVersionMin int64        `json:"policy_version_min"`
	PolicyVersionMax int64        `json:"policy_version_max"`
}

// BatchGroup is one group of a batch with the outcomes of its members.
type BatchGroup struct {
	Dispatch string   `json:"dispatch"`
	Outcomes Outcomes `json:"outcomes"`
}

// Rollouts counts the batch's delivered rollouts.
func (b BatchRecord) Rollouts() int {
	n := 0
	for _, g := range b.Groups {
		n += g.Outcomes[Delivered]
	}
	return n
}

// Ledger counts rollouts. InFlight comes from open leases, never by subtraction, so that the two
// sides of the balance can disagree.
type Ledger struct {
	Dispatched int `json:"dispatched"`
	Delivered  int `json:"delivered"`
	Filtered   int `json:"filtered"`
	Stale      int `json:"stale"`
	Unscored   int `json:"unscored"`
	Failed     int `json:"failed"`
	SetAside   int `json:"set_aside"`
	InFlight   int `json:"in_flight"`
}

// Balanced reports whether dispatched equals the sum of all else.
func (l Ledger) Balanced() bool {
	return l.Dispatched == l.Delivered+l.Filtered+l.Stale+l.Unscored+l.Failed+l.SetAside+l.InFlight
}

// books is the leader's own record, rebuilt from the logs. It is a plain value without I/O.
type books struct {
	sizes   map[string]int   // admitted dispatches and their group sizes
	index   map[string]int64 // and their positions in admission order
	prompts map[string]bool
	closed  map[string]Outcomes
	ended   bool
	batches []BatchRecord
}

func newBooks(events []Event, batches []BatchRecord) *books {
	b := &books{sizes: map[string]int{}, index: map[string]int64{}, prompts: map[string]bool{}, closed: map[string]Outcomes{}}
	for _, e := range events {
		b.event(e)
	}
	for _, r := range batches {
		b.batch(r)
	}
	return b
}

func (b *books) event(e Event) {
	switch e.Kind {
	case Admitted:
		b.index[e.Dispatch] = int64(len(b.sizes))
		b.sizes[e.Dispatch] = e.Rollouts
		b.prompts[e.PromptID] = true
	case Closed:
		b.closed[e.Dispatch] = e.Outcomes
	case InputEnded:
		b.ended = true
	}
}

func (b *books) batch(r BatchRecord) {
	b.batches = append(b.batches, r)
	for _, g := range r.Groups {
		b.closed[g.Dispatch] = g.Outcomes
	}
}

// open counts admitted dispatches that have not left.
func (b *books) open() int { return len(b.sizes) - len(b.closed) }

func (b *books) complete() bool { return b.ended && b.open() == 0 }

// ledger takes the dispatches with an open lease from outside.
func (b *books) ledger(leases map[string]bool) Ledger {
	total := Outcomes{}
	for _, o := range b.closed {
		for k, n := range o {
			total[k] += n
		}
	}
	l := Ledger{
		Delivered: total[Delivered], Filtered: total[Filtered], Stale: total[Stale],
		Unscored: total[Unscored], Failed: total[Failed], SetAside: total[SetAside],
	}
	for d, n := range b.sizes {
		l.Dispatched += n
		if _, left := b.closed[d]; leases[d] && !left {
			l.InFlight += n
		}
	}
	return l
}

// outcomesOf counts the members of a group that is about to be delivered.
func outcomesOf(scores []trajectory.Score) Outcomes {
	o := Outcomes{}
	for _, s := range scores {
		switch s.Status {
		case trajectory.ScoreOK:
			o[Delivered]++
		case trajectory.ScoreUnscored, trajectory.ScoreUnjudgeable:
			o[Unscored]++
		default:
			o[Failed]++
		}
	}
	return o
}

// undelivered turns the delivered members of a group that as a whole does not go on into failed ones.
func undelivered(o Outcomes) Outcomes {
	o = maps.Clone(o)
	o[Failed] += o[Delivered]
	delete(o, Delivered)
	return o
}
