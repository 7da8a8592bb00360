package lease

import "errors"

// ErrSuperseded is what Work returns when another process has taken the message over meanwhile: its
// result would be a second one, and giving the message back would take it from the other.
var ErrSuperseded = errors.New("taken over by another process")
