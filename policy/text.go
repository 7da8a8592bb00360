package policy

import (
	"context"

	"github.com/verigraph/verigraph/trajectory"
)

// TextRequest is one generation of a server that gives no token ids.
type TextRequest struct {
	// ID goes out as X-Request-Id.
	ID        string
	Messages  []trajectory.Message
	MaxTokens int
	Sampling  trajectory.Sampling
	Seed      int64
	// Stop strings end the generation; such servers leave them out of the text.
	Stop []string
}

// Text is an answer in words only. It can be read and judged, and never trained on as a sample of a
// policy.
type Text struct {
	Content string
	// Finish is stop or length.
	Finish string
}

// TextPolicy generates text; openaichat.Client is one.
type TextPolicy interface {
	Chat(ctx context.Context, r TextRequest) (Text, error)
}
