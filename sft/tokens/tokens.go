// Package tokens renders samples to ids and their loss mask.
//
// Invariants: stored ids are taken as they are and never encoded again; the mask comes from where ids were
// put, never from searching text; it is 1 on what the policy sampled in trained turns, and on the
// end-of-turn token behind them where the target is to learn it, and 0 on everything else: headers,
// template, observations, system prompt, question.
package tokens

import (
	"errors"
	"fmt"

	"github.com/verigraph/verigraph/policy/chat"
	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/sft"
)

// ErrContext says that stored ids are not those of the stored messages, although the prompt's are.
var ErrContext = errors.New("stored ids are not those of the messages")

// ErrTooLong says that no trained turn fits.
var ErrTooLong = errors.New("no trained turn fits")

// Renderer is safe for concurrent use.
type Renderer struct {
	tok     *tokenizer.Tokenizer
	chat    *chat.ChatML
	escaper *sft.Escaper
	target  sft.Target
	think   [2]int32 // the added tokens of <think> and </think>, -1 where the tokenizer has none
}

// New loads the target's tokenizer.
func New(target sft.Target, escaper *sft.Escaper) (*Renderer, error) {
	tok, err := tokenizer.Load(target.Tokenizer)
	if err != nil {
		return nil, fmt.Errorf("target.tokenizer: %w", err)
	}
	ml, err := chat.New(tok, chat.Thinking(target.Thinking))
	if err != nil {
		return nil, fmt.Errorf("target.tokenizer: %w", err)
	}
	r := &Renderer{tok: tok, chat: ml, escaper: escaper, target: target, think: [2]int32{-1, -1}}
	for i, tag := range thinkTags {
		if id, ok := tok.Special(tag); ok {
			r.think[i] = id
		}
	}
	return r, nil
}

// emptyReasoning is what the template writes behind a header where thinking is off.
const emptyReasoning = "<think>\n\n</think>\n\n"

var thinkTags = [2]string{"<think>", "</think>"}

// SHA256 and TemplateSHA256 name the tokenizer and the chat template.
func (r *Renderer) SHA256() string { return r.tok.SHA256() }

// TemplateSHA256 names the chat template.
func (r *Renderer) TemplateSHA256() string { return r.chat.SHA256() }

// Row is a rendered sample. IDs and Mask have equal length and the last id is trained.
type Row struct {
	IDs    []int32
	Mask   []int8
	Stored bool // from the ids of the rollout
	// ends are where each assistant message ends, its end-of-turn token included where it is trained.
	ends []int
}

// Trained counts the ids with loss.
func (r *Row) Trained() int {
	n := 0
	for _, m := range r.Mask {
		n += int(m)
	}
	return n
}

// Render gives the ids of a sample.
func (r *Renderer) Render(s *sft.Sample) (Row, error) {
	if r.target.Rendering == sft.RenderText {
		return r.asTrainers(s), nil
	}
	if s.Exact != nil {
		switch same, err := r.matches(s); {
		case err != nil:
			return Row{}, err
		case same:
			return r.stored(s), nil
		}
	}
	return r.encoded(s), nil
}

// Fit renders a sample, cutting off trailing messages until it has at most limit ids (0: no limit) and ends
// with a trained turn.
func (r *Renderer) Fit(s *sft.Sample, limit int) (Row, error) {
	row, err := r.Render(s)
	if err != nil {
		return row, err
	}
	keep, at, end := -1, 0, 0 // the last message that fits
	for i, m := range s.Messages {
		if m.Role != sft.Assistant {
			continue
		}
		if m.Trained() && (limit == 0 || row.ends[at] <= limit) {
			keep, end = i, row.ends[at]
		}
		at++
	}
	if keep < 0 {
		return row, fmt.Errorf("%w: sample %s has %d tokens", ErrTooLong, s.ID, len(row.IDs))
	}
	if keep < len(s.Messages)-1 && limit > 0 && len(row.IDs) > limit {
		s.Messages, s.Cut = s.Messages[:keep+1], true
	}
	row.IDs, row.Mask = row.IDs[:end], row.Mask[:end]
	s.Tokens, s.TrainedTokens = len(row.IDs), row.Trained()
	return row, nil
}
