package sft

// Kind is what a sample teaches.
type Kind string

// Kinds of stage 1 are single turns; those of stage 2 are whole trajectories, and single turns of
// trajectories with a compressed context. Imported samples were finished elsewhere.
const (
	Planning   Kind = "planning"
	Bind       Kind = "bind"
	Infer      Kind = "infer"
	Submit     Kind = "submit_answer"
	Synthesis  Kind = "synthesis"
	Trajectory Kind = "trajectory"
	SingleTurn Kind = "trajectory_turn"
	Imported   Kind = "imported"
)

// AtomicKinds are the kinds of stage 1 in the order of reports.
var AtomicKinds = []Kind{Planning, Bind, Infer, Submit, Synthesis}

// Kinds are all kinds in the order of reports.
var Kinds = append(append([]Kind{}, AtomicKinds...), Trajectory, SingleTurn, Imported)

// Sample is one row of the corpus.
type Sample struct {
	// ID is RECORD#KIND, with .TURN where one turn is meant.
	ID         string
	Stage      int
	Kind       Kind
	Turn       int
	RecordID   string
	PromptID   string
	DataSource string
	Licence    string
	// Messages end with the last trained turn, except in imported samples. Every assistant message has
	// its loss flag.
	Messages []Message
	// Exact are the stored token ids of the messages, nil where only text is stored.
	Exact *Exact
	// Cut says that trailing turns were left out to fit the length limit.
	Cut bool
	// Tokens and TrainedTokens are 0 where no tokenizer is configured.
	Tokens, TrainedTokens int
}

// Exact is a stretch of a stored segment: Turns are where each assistant message of the sample has its
// sampled ids, in order.
type Exact struct {
	Prompt   []int32
	Response []int32
	Turns    []TurnSpan
}

// TurnSpan says that Response[Start:End] was sampled in a turn; history that a compressed context repeats
// has no span.
type TurnSpan struct{ Turn, Start, End int }

// TrainedTurns counts the assistant messages with loss.
func (s *Sample) TrainedTurns() int {
	n := 0
	for _, m := range s.Messages {
		if m.Trained() {
			n++
		}
	}
	return n
}

// Flagged reports whether some assistant message is context only.
func (s *Sample) Flagged() bool {
	for _, m := range s.Messages {
		if m.Role == Assistant && !m.Trained() {
			return true
		}
	}
	return false
}

var yes, no = true, false

// flag gives a pointer that is never written through.
func flag(v bool) *bool {
	if v {
		return &yes
	}
	return &no
}
