package compose

import (
	"context"
	"fmt"
	"strings"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/trajectory"
)

// PolicyWriter asks the policy, greedily and in a conversation of its own.
type PolicyWriter struct {
	Policy    rollout.Policy
	Tokenizer rollout.Tokenizer
	Chat      rollout.Chat
	Name      string
	// ID goes out as the request's id; it says which rollout is composed.
	ID        string
	MaxTokens int
}

var _ Writer = (*PolicyWriter)(nil)

// Model returns the served model's name.
func (w *PolicyWriter) Model() string { return w.Name }

// Write makes one call. An answer that was cut off is an error: half a report is none.
func (w *PolicyWriter) Write(ctx context.Context, system, user string) (string, error) {
	c, err := w.Policy.Complete(ctx, policy.Request{
		ID: w.ID + ".compose", Session: w.ID, Prompt: w.Chat.Prompt(system, user), MaxTokens: w.MaxTokens,
		Sampling:     trajectory.Sampling{Temperature: 0, TopP: 1, TopK: -1, RepetitionPenalty: 1},
		StopTokenIDs: []int32{w.Chat.EndOfTurn()},
	})
	if err != nil {
		return "", fmt.Errorf("compose: %w", err)
	}
	if c.Finish != "stop" {
		return "", fmt.Errorf("compose: the answer ended with %q after %d tokens", c.Finish, len(c.IDs))
	}
	ids := c.IDs
	if n := len(ids); n > 0 && ids[n-1] == w.Chat.EndOfTurn() {
		ids = ids[:n-1]
	}
	return strings.ToValidUTF8(string(w.Tokenizer.Decode(ids)), "\uFFFD"), nil
}
