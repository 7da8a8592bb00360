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
	// PolicySet: the trainer stated its policy version.
	PolicySet EventKind = "policy_set"
	// Acked: the trainer acknowledged every batch up to Sequence with its step.
	Acked EventKind = "acked"
	// Committed: a checkpoint holds everything up to Step; older batches may be freed.
	Committed EventKind = "committed"
	// Reopened: a set-aside group was handed out again.
	Reopened EventKind = "reopened"
	// RoundsSpent: the rounds of a batch were used up; counting starts anew.
	RoundsSpent EventKind = "rounds_spent"
)

// Event is one entry of the LEDGER log. Fields apply by kind.
type Event struct {
	Kind     EventKind `json:"kind"`
	Dispatch string    `json:"dispatch,omitempty"`
	PromptID string    `json:"prompt_id,omitempty"`
	Rollouts int       `json:"rollouts,omitempty"`
	Validate bool      `json:"validate,omitempty"`
	Outcomes Outcomes  `json:"outcomes,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	// Value is the metric's one value in a filtered group.
	Value       string `json:"value,omitempty"`
	Version     int64  `json:"version,omitempty"`
	Incarnation string `json:"incarnation,omitempty"`
	Sequence    int64  `json:"sequence,omitempty"`
	Step        int64  `json:"step,omitempty"`
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
	// Policy is the trainer's policy when the batch was numbered.
	Policy   PolicyState `json:"policy"`
	Validate bool        `json:"validate,omitempty"`
}

// PolicyState is what the trainer said of its weights. A trainer that restarts begins a new incarnation.
type PolicyState struct {
	Version     int64  `json:"version"`
	Incarnation string `json:"incarnation"`
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
	sizes    map[string]int   // admitted dispatches and their group sizes
	index    map[string]int64 // and their positions in admission order
	validate map[string]bool  // those of validation prompts
	prompts  map[string]bool
	closed   map[string]Outcomes
	ended    bool
	batches  []BatchRecord

	policy PolicyState
	// filtered counts groups filtered since the last training batch; byReason and byValue all of them.
	filtered int
	byReason map[string]int
	byValue  map[string]int
	acks     []Event // Acked, in order
	commit   int64   // last committed step
}

func newBooks(events []Event, batches []BatchRecord) *books {
	b := &books{
		sizes: map[string]int{}, index: map[string]int64{}, validate: map[string]bool{}, prompts: map[string]bool{},
		closed: map[string]Outcomes{}, byReason: map[string]int{}, byValue: map[string]int{},
	}
	for _, e := range events {
		b.event(e)
	}
	for _, r := range batches {
		b.batch(r)
	}
	// The logs are apart, so that the order of filtered groups and batches is lost: the rounds of the
	// batch in work start anew after a restart.
	b.filtered = 0
	return b
}

func (b *books) event(e Event) {
	switch e.Kind {
	case Admitted:
		b.index[e.Dispatch] = int64(len(b.sizes))
		b.sizes[e.Dispatch] = e.Rollouts
		b.prompts[e.PromptID] = true
		if e.Validate {
			b.validate[e.Dispatch] = true
		}
	case Closed:
		b.closed[e.Dispatch] = e.Outcomes
		b.byReason[e.Reason]++
		if e.Value != "" {
			b.byValue[e.Value]++
			b.filtered++
		}
	case Reopened:
		delete(b.closed, e.Dispatch)
	case InputEnded:
		b.ended = true
	case PolicySet:
		b.policy = PolicyState{Version: e.Version, Incarnation: e.Incarnation}
	case Acked:
		b.acks = append(b.acks, e)
	case Committed:
		b.commit = max(b.commit, e.Step)
	case RoundsSpent:
		b.filtered = 0
	}
}

func (b *books) batch(r BatchRecord) {
	b.batches = append(b.batches, r)
	if !r.Validate {
		b.filtered = 0
	}
	for _, g := range r.Groups {
		b.closed[g.Dispatch] = g.Outcomes
	}
}

// deliveredSince counts training groups that went into batches under the current policy.
func (b *books) deliveredSince() int {
	n := 0
	for i := len(b.batches) - 1; i >= 0 && (b.batches[i].Policy == b.policy || b.batches[i].Validate); i-- {
		if !b.batches[i].Validate {
			n += len(b.batches[i].Groups)
		}
	}
	return n
}

// openTraining counts open groups that are not validation, openValidation the others.
func (b *books) openTraining() int { return b.open() - b.openValidation() }

func (b *books) openValidation() int {
	n := 0
	for d := range b.validate {
		if _, left := b.closed[d]; !left {
			n++
		}
	}
	return n
}

// freed reports whether a committed checkpoint holds a batch, so that it is never read again.
func (b *books) freed(sequence int64) bool {
	for _, a := range b.acks {
		if a.Sequence >= sequence {
			return a.Step <= b.commit
		}
	}
	return false
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

// undelivered gives the delivered members of a group that as a whole does not go on another outcome.
func undelivered(o Outcomes, as Outcome) Outcomes {
	o = maps.Clone(o)
	o[as] += o[Delivered]
	delete(o, Delivered)
	return o
}
