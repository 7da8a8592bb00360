package leader

import (
	"maps"
	"time"

	"github.com/verigraph/verigraph/task"
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
	// Admitted: a dispatch was created; it is published next.
	Admitted EventKind = "admitted"
	// Closed: a group left the line without being delivered in a batch.
	Closed EventKind = "closed"
	// InputEnded: no more prompts will come.
	InputEnded EventKind = "input_ended"
	// RoundsUsedUp: max_rounds went by without a full batch.
	RoundsUsedUp EventKind = "rounds_used_up"
	// PolicySet: the trainer has a new policy version, or paused or resumed dispatching.
	PolicySet EventKind = "policy_set"
	// Restored: the trainer went back to a checkpoint.
	Restored EventKind = "restored"
	// Committed: the trainer's checkpoint holds everything up to a batch.
	Committed EventKind = "committed"
	// Requeued: a person sent a prompt that was set aside back into the line.
	Requeued EventKind = "requeued"
)

// Event is one entry of the LEDGER log.
type Event struct {
	Kind     EventKind `json:"kind"`
	At       time.Time `json:"at,omitzero"`
	Dispatch string    `json:"dispatch,omitempty"`
	PromptID string    `json:"prompt_id,omitempty"`
	Rollouts int       `json:"rollouts,omitempty"`
	Outcomes Outcomes  `json:"outcomes,omitempty"`
	Reason   string    `json:"reason,omitempty"`

	// Of Admitted: everything that is needed to publish the dispatch, also again after a crash.
	Body *task.Dispatch `json:"body,omitempty"`
	// UID is the name that a trainer gave to the prompt of a request.
	UID string `json:"uid,omitempty"`

	// Of Closed. Value is the metric's value that did not vary; Again: the prompt is dispatched again;
	// Tokens is the longest response. Result is where a request's rows are.
	Value  string  `json:"value,omitempty"`
	Again  bool    `json:"again,omitempty"`
	Tokens int     `json:"tokens,omitempty"`
	Result *Result `json:"result,omitempty"`

	// Sequence is the batch that was being filled: it orders the two logs.
	Sequence int64 `json:"sequence,omitempty"`
	// UpTo is the last batch that a commit or the checkpoint of a restore holds.
	UpTo int64 `json:"up_to,omitempty"`
	// Policy is the state after PolicySet and Restored.
	Policy *Policy `json:"policy,omitempty"`
	// Dropped are the batches that a restore took back.
	Dropped []int64 `json:"dropped,omitempty"`
	// Step is the trainer's, of Committed and Restored.
	Step int64 `json:"step,omitempty"`
}

// Policy is what the trainer said about its policy last.
type Policy struct {
	Version int64 `json:"version"`
	// Incarnation counts the trainer's lives: calls of an earlier one are refused.
	Incarnation int64    `json:"incarnation"`
	Endpoints   []string `json:"endpoints,omitempty"`
	Paused      bool     `json:"paused,omitempty"`
	// Reflected is the last batch whose training this version holds.
	Reflected int64 `json:"reflected"`
}

// Result is where the rows of a request's group are.
type Result struct {
	Object string `json:"object"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Rows   int    `json:"rows"`
	// Trace is the traceparent that its scored group came with.
	Trace string `json:"trace,omitempty"`
}

// BatchRecord is one entry of the BATCHES log: the batch exists because this record does.
type BatchRecord struct {
	Sequence int64        `json:"sequence"`
	Epoch    int64        `json:"epoch"`
	Object   string       `json:"object"`
	Size     int64        `json:"size"`
	SHA256   string       `json:"sha256"`
	Groups   []BatchGroup `json:"groups"`
	Rows     int          `json:"rows"`
	// PolicyVersion is the version that the batch will be trained at if every batch before it makes one.
	PolicyVersion    int64     `json:"policy_version"`
	PolicyVersionMin int64     `json:"policy_version_min"`
	PolicyVersionMax int64     `json:"policy_version_max"`
	Validate         bool      `json:"validate,omitempty"`
	At               time.Time `json:"at,omitzero"`
}

// BatchGroup is one group of a batch with the outcomes of its members.
type BatchGroup struct {
	Dispatch string   `json:"dispatch"`
	Outcomes Outcomes `json:"outcomes"`
	Tokens   int      `json:"tokens,omitempty"`
	// Trace is the traceparent that its scored group came with.
	Trace string `json:"trace,omitempty"`
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

// Unaccounted is what the ledger cannot explain; anything but 0 that stays is an alarm.
func (l Ledger) Unaccounted() int {
	return l.Dispatched - (l.Delivered + l.Filtered + l.Stale + l.Unscored + l.Failed + l.SetAside + l.InFlight)
}

// Balanced reports whether dispatched equals the sum of all else.
func (l Ledger) Balanced() bool { return l.Unaccounted() == 0 }

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

// instead turns the delivered members of a group that as a whole does not go on into another outcome.
func (o Outcomes) instead(of Outcome) Outcomes {
	o = maps.Clone(o)
	if n := o[Delivered]; n > 0 {
		o[of] += n
	}
	delete(o, Delivered)
	return o
}
