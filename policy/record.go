package policy

import "time"

// Recorder sees every HTTP exchange begin and end, so that a call that never ends can be listed.
// Both methods are called from the goroutine of the call and must not block; every CallStarted is
// followed by exactly one CallEnded with the same Call.
type Recorder interface {
	CallStarted(Call)
	CallEnded(Call, CallResult)
}

// Call is one HTTP exchange.
type Call struct {
	// Kind is completions, models, tokenize, detokenize or weight_info.
	Kind string
	// RequestID and Session are those of the Request; empty for other kinds.
	RequestID string
	Session   string
	Endpoint  string
	// Try counts the exchanges of one Complete from 0.
	Try          int
	PromptTokens int
	Start        time.Time
}

// CallResult is how an exchange ended.
type CallResult struct {
	// Outcome is ok, canceled or an Outcome.
	Outcome string
	// Finish and SampledTokens are those of an accepted answer.
	Finish        string
	SampledTokens int
	// Status is the HTTP status, 0 without an answer.
	Status   int
	Duration time.Duration
	// Err is the failure, nil if Outcome is ok.
	Err error
}

type noRecorder struct{}

func (noRecorder) CallStarted(Call)           {}
func (noRecorder) CallEnded(Call, CallResult) {}
