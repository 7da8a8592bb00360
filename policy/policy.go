// Package policy is a token-exact client for the /v1/completions endpoint of vLLM and SGLang.
//
// Ids that the engine returned are the truth: an answer is accepted only if the echoed prompt ids
// equal the ones sent, the counts of ids, log-probs and usage agree, and every log-prob is finite
// and not the -9999 clamp. A missing token_ids is a hard error, never a fallback to text.
package policy

import (
	"fmt"
	"time"

	"github.com/verigraph/verigraph/trajectory"
)

// Request is one generation. Every sampling field is sent, zeros included.
type Request struct {
	// ID goes out as X-Request-Id: run/dispatch/sample.attempt.turn.
	ID string
	// Session goes out as X-Session-ID and keeps a trajectory on one endpoint.
	Session string
	// Prompt is the whole context as token ids.
	Prompt []int32
	// MaxTokens is the budget of this call (vLLM's default of 16 is never relied on).
	MaxTokens int
	Sampling  trajectory.Sampling
	Seed      int64
	// Stop strings are included in the output; StopTokenIDs end it as well.
	Stop         []string
	StopTokenIDs []int32
	// CacheSalt separates prefix caches of different weights.
	CacheSalt string
}

// Completion is an accepted answer.
type Completion struct {
	// IDs and LogProbs have equal length; log-probs are natural logarithms, <= 0 up to rounding.
	IDs      []int32
	LogProbs []float32
	// Finish is stop, length, abort or repetition.
	Finish string
	// StopString is the stop string that ended it, StopToken the stop id, if either did.
	StopString string
	StopToken  *int32
	// Text is the server's text: for logs only.
	Text string
	// WeightVersion is the server's own version where it states one, -1 otherwise.
	WeightVersion int64
	Duration      time.Duration
	// Versions is what the endpoint itself stated around the call.
	Versions Versions
}

// Versions are an endpoint's weight versions when a call was sent and after its answer came. Start
// may be older than what sampled the first token, never newer; End is never older than what sampled
// the last. They are equal unless an update may have happened in between.
type Versions struct {
	Known      bool
	Start, End int64
}

// Outcome classifies a failed call.
type Outcome string

// Outcomes of a call that brought no answer.
const (
	ContextFull Outcome = "context_full" // the policy's: the prompt reached the context limit
	Overloaded  Outcome = "overloaded"   // 429, 503
	Rejected    Outcome = "rejected"     // 400, 401, 404, a broken or incomplete answer: retrying won't help
	Unreachable Outcome = "unreachable"  // connection errors, 5xx, time-outs
)

// Error is a call that brought no answer. Its text holds no header and no key.
type Error struct {
	Outcome Outcome
	Status  int // HTTP status, 0 without an answer
	// RetryAfter is the server's wish, 0 if none.
	RetryAfter time.Duration
	Err        error
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("policy: %s: status %d: %v", e.Outcome, e.Status, e.Err)
	}
	return fmt.Sprintf("policy: %s: %v", e.Outcome, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
