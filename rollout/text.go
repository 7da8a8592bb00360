package rollout

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/trajectory"
)

// write makes a turn with a text-only policy. The same machine reads it: its text is encoded
// locally, by characters alone, so that no text can become the end of a turn. The ids are dropped
// at the end, since nobody sampled them.
func (r *run) write(ctx context.Context, m *Machine, g Generate) {
	if r.recall(m, g) {
		return
	}
	req := policy.TextRequest{
		ID:       r.out.ID.RequestID(r.out.Attempt, g.Turn),
		Messages: slices.DeleteFunc(append(slices.Clone(r.out.Messages), m.messages...), isEmptySystem), MaxTokens: g.MaxTokens,
		Sampling: r.Config.Sampling, Seed: turnSeed(r.seed, g.Turn, g.Sampled), Stop: []string{codeClose},
	}
	start := time.Now()
	t, err := r.Text.Chat(ctx, req)
	if err == nil && t.Finish == "stop" && r.reasons(t.Content) {
		// The stop string stood inside open reasoning, where it counts for nothing, and a chat cannot go
		// on from half a message: once more, without it.
		req.Stop = nil
		t, err = r.Text.Chat(ctx, req)
	}
	if err != nil {
		m.Failed(err)
		return
	}
	c := r.completion(t, g.MaxTokens)
	c.Duration = time.Since(start)
	r.sampled(ctx, m, g, c, -1, -1)
}

func isEmptySystem(m trajectory.Message) bool { return m.Role == "system" && m.Content == "" }

// encoder is what turns text into ids without matching control tokens.
type encoder interface{ Encode(text string) []int32 }

// reasons: the text ends inside open reasoning.
func (r *run) reasons(text string) bool {
	return policy.ScanTurn(r.Tokenizer, r.encode(text), codeClose).ThinkOpen
}

func (r *run) encode(text string) []int32 {
	if e, ok := r.Tokenizer.(encoder); ok {
		return e.Encode(text)
	}
	return nil
}

// completion gives the text the form of an answer. A server that stopped at the closing tag left it
// out: a text that ends inside a block gets it back.
func (r *run) completion(t policy.Text, limit int) policy.Completion {
	if t.Finish == "stop" && strings.Contains(t.Content, "<code_interpreter>") {
		closed := r.encode(t.Content + codeClose)
		if s := policy.ScanTurn(r.Tokenizer, closed, codeClose); s.Found && s.HasCode && s.N == len(closed) {
			t.Content += codeClose
		}
	}
	c := policy.Completion{IDs: r.encode(t.Content), Finish: t.Finish}
	if len(c.IDs) > limit { // another tokenizer counted differently
		c.IDs, c.Finish = c.IDs[:limit], "length"
	}
	c.LogProbs = make([]float32, len(c.IDs))
	return c
}
