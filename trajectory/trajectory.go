// Package trajectory holds what a rollout produced: turns, token segments, the evidence graph and
// why it ended, and later its score. Invariant (Check): in every segment ids, mask, log-probs and
// versions have equal length, mask-0 log-probs are 0.0, and the last token is a sampled one.
package trajectory

import (
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/task"
)

// Trajectory is one finished attempt of one rollout.
type Trajectory struct {
	ID         task.RolloutID `json:"id"`
	Attempt    int            `json:"attempt"`
	PromptID   string         `json:"prompt_id"`
	DataSource string         `json:"data_source"`
	// Seed is what its sessions were seeded with; a replay takes the same.
	Seed int64 `json:"seed,omitempty"`
	// HashSeed is the PYTHONHASHSEED of its sessions, which orders sets of texts; a replay takes the same.
	HashSeed uint32 `json:"hash_seed,omitempty"`
	// Clock is the date at which its sessions' clocks stood; empty is the real clock. A replay takes the same.
	Clock string `json:"clock,omitempty"`
	// Termination is why it ended.
	Termination Termination `json:"termination"`
	// Error is the failure's text when Termination is one of ours.
	Error string `json:"error,omitempty"`
	// TextOnly marks a trajectory without engine token ids; RL batches refuse it.
	TextOnly bool `json:"text_only,omitempty"`
	// Agent is codeact or direct for a baseline, which answers in words; empty is the evidence protocol.
	Agent string `json:"agent,omitempty"`

	Turns    []Turn          `json:"turns"`
	Segments []Segment       `json:"segments"`
	Messages []Message       `json:"messages"`
	Graph    evidence.Export `json:"graph"`
	// Answer is the submitted claims' texts joined by newlines.
	Answer string `json:"answer"`
	// Flags are observations a person should see (e.g. tainted, tool_tag_split).
	Flags []string `json:"flags,omitempty"`
	// DriftTurns counts turns whose text would be encoded to other ids than were sampled.
	DriftTurns int `json:"drift_turns,omitempty"`

	Timing Timing `json:"timing"`
}

// Message is one chat message as a person reads it; never the source of tokens.
type Message struct {
	Role    string `json:"role"` // system, user, assistant
	Content string `json:"content"`
}

// Turn is one model generation plus the observation that answers it.
type Turn struct {
	// Text is the decoding of the kept sampled ids.
	Text string `json:"text"`
	// Code is the cell, empty if the turn had none.
	Code string `json:"code,omitempty"`
	// HasCode tells an empty cell from no cell.
	HasCode bool `json:"has_code"`
	// Status is the cell's outcome; empty without a cell.
	Status CellStatus `json:"status,omitempty"`
	// Observation is the text placed in the next user turn.
	Observation string `json:"observation,omitempty"`
	// FinishReason is the engine's: stop, length, abort, repetition.
	FinishReason string  `json:"finish_reason"`
	SampledIDs   int     `json:"sampled_ids"`
	GenerateS    float64 `json:"generate_s"`
	ToolS        float64 `json:"tool_s"`
}

// CellStatus is the outcome of a cell: what the model's code did, never our failure.
type CellStatus string

// Cell statuses. The zero value means that no cell ran.
const (
	CellOK          CellStatus = "ok"
	CellSyntaxError CellStatus = "syntax_error"
	CellException   CellStatus = "exception"
	CellRefused     CellStatus = "refused" // a primitive was refused and not caught
	CellTimeout     CellStatus = "timeout" // wall or CPU limit; Result says whether the namespace is lost
	CellMemory      CellStatus = "out_of_memory"
	CellDied        CellStatus = "interpreter_died" // os._exit, a signal, a forged frame
	CellExit        CellStatus = "exit"             // exit() ended the cell, the session lives
)

// Segment is one append-only token sequence. PromptIDs are the first prompt; the rest is the
// response: sampled ids with mask 1, template and observation ids with mask 0.
type Segment struct {
	PromptIDs    []int32   `json:"prompt_ids"`
	ResponseIDs  []int32   `json:"response_ids"`
	ResponseMask []int8    `json:"response_mask"`
	LogProbs     []float32 `json:"log_probs"`
	Spans        []Span    `json:"spans"`
	// IDsSHA256 is the running SHA-256 over prompt and response ids (little-endian 32-bit words) in
	// the order in which they were appended.
	IDsSHA256 string `json:"ids_sha256,omitempty"`
}

// SpanKind says where a stretch of response ids came from.
type SpanKind string

// Span kinds.
const (
	SpanSampled     SpanKind = "sampled"
	SpanTemplate    SpanKind = "template"
	SpanObservation SpanKind = "observation"
	// SpanHistory is what a compressed context repeats of the segment before: earlier turns' ids.
	SpanHistory SpanKind = "history"
)

// Span covers ResponseIDs[Start:End]. For sampled spans PolicyVersion is the version at dispatch of
// the call and PolicyVersionEnd the version after it; they differ when the span is mixed.
type Span struct {
	Start            int      `json:"start"`
	End              int      `json:"end"`
	Kind             SpanKind `json:"kind"`
	Turn             int      `json:"turn"`
	PolicyVersion    int64    `json:"policy_version"`
	PolicyVersionEnd int64    `json:"policy_version_end"`
}

// Timing is where the time went, in seconds.
type Timing struct {
	QueueS    float64 `json:"queue_s"`    // waiting for a session or a slot; nobody's fault
	GenerateS float64 `json:"generate_s"` // policy calls
	ToolS     float64 `json:"tool_s"`     // cells, the static pass included
	ScoreS    float64 `json:"score_s"`
}
