package policy

import "time"

const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 10 * time.Second
)

// RetryDelay says how long to wait before the next attempt and whether there may be one. try counts
// failed attempts from 1, jitter is in [0,1). Only what a second attempt can mend is retried: a
// retried sample is a fresh draw, and nothing of the failed one was kept.
func RetryDelay(e *Error, try int, spent, budget time.Duration, jitter float64) (time.Duration, bool) {
	if e.Outcome != Overloaded && e.Outcome != Unreachable {
		return 0, false
	}
	delay := maxDelay
	if try < 8 {
		delay = min(maxDelay, firstDelay<<(try-1))
	}
	delay = delay/2 + time.Duration(jitter*float64(delay/2))
	delay = max(delay, e.RetryAfter)
	return delay, spent+delay < budget
}
