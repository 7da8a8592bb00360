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
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

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

// builder grows ids and mask together.
type builder struct{ Row }

func (b *builder) add(ids []int32, mask int8) {
	b.IDs = append(b.IDs, ids...)
	for range ids {
		b.Mask = append(b.Mask, mask)
	}
}

// endTurn adds the end-of-turn token after a turn.
func (r *Renderer) endTurn(b *builder, trained bool) {
	b.add([]int32{r.chat.EndOfTurn()}, loss(trained && r.target.TrainEndOfTurn))
	end := len(b.IDs)
	if !r.target.TrainEndOfTurn {
		end--
	}
	b.ends = append(b.ends, end)
}

func loss(trained bool) int8 {
	if trained {
		return 1
	}
	return 0
}

// encoded renders text the way a rollout would have: see chat.ChatML.
func (r *Renderer) encoded(s *sft.Sample) Row {
	var b builder
	first := slices.IndexFunc(s.Messages, func(m sft.Message) bool { return m.Role == sft.User })
	system := ""
	if first > 0 {
		system = s.Messages[0].Content
	}
	b.add(r.chat.Prompt(system, s.Messages[first].Content), 0)
	for i := first + 1; i < len(s.Messages); i++ {
		m := s.Messages[i]
		if m.Role == sft.Assistant {
			b.add(r.said(m.Content), loss(m.Trained()))
			r.endTurn(&b, m.Trained())
			continue
		}
		b.add(r.chat.Delta(true, m.Content), 0)
	}
	return b.Row
}

// said encodes what the policy wrote: its tags of reasoning are the added tokens that it would have sampled,
// all else is ordinary characters.
func (r *Renderer) said(text string) []int32 {
	var out []int32
	for text != "" {
		at, which := len(text), -1
		for i, tag := range thinkTags {
			if p := strings.Index(text, tag); p >= 0 && p < at && r.think[i] >= 0 {
				at, which = p, i
			}
		}
		out = append(out, r.tok.Encode(text[:at])...)
		if which < 0 {
			break
		}
		out = append(out, r.think[which])
		text = text[at+len(thinkTags[which]):]
	}
	return out
}

// asTrainers encodes each message of the text outputs in one piece with added tokens matched, and masks the
// generation prompt by its number of ids.
func (r *Renderer) asTrainers(s *sft.Sample) Row {
	var b builder
	messages, _ := r.escaper.Escape(s)
	opening := "<|im_start|>assistant\n"
	if !r.target.Thinking {
		opening += emptyReasoning
	}
	header := len(r.tok.EncodeSpecial(opening))
	for i, m := range messages {
		if i > 0 && messages[i-1].Role == sft.Assistant {
			b.add(r.tok.Encode("\n"), 0)
		}
		if m.Role != sft.Assistant {
			b.add(r.tok.EncodeSpecial("<|im_start|>"+m.Role+"\n"+m.Content+"<|im_end|>\n"), 0)
			continue
		}
		ids := r.tok.EncodeSpecial(opening + m.Content)
		b.add(ids[:header], 0)
		b.add(ids[header:], loss(m.Trained()))
		r.endTurn(&b, m.Trained())
	}
	return b.Row
}

// stored takes the rollout's ids.
func (r *Renderer) stored(s *sft.Sample) Row {
	var b builder
	b.Stored = true
	e := s.Exact
	b.add(e.Prompt, 0)
	at, history := 0, 0
	for _, m := range s.Messages {
		if m.Role == sft.Assistant {
			history++
		}
	}
	history -= len(e.Turns)
	for range history { // turns that the segment repeats as context; they are never trained
		b.ends = append(b.ends, 0)
	}
	turn := 0
	for _, m := range s.Messages {
		if m.Role != sft.Assistant {
			continue
		}
		if history > 0 {
			history--
			continue
		}
		span := e.Turns[turn]
		turn++
		sampled := e.Response[span.Start:span.End]
		b.add(e.Response[at:span.Start], 0)
		at = span.End
		if n := len(sampled); n > 0 && sampled[n-1] == r.chat.EndOfTurn() {
			sampled = sampled[:n-1]
		} else if at < len(e.Response) && e.Response[at] == r.chat.EndOfTurn() {
			at++
		}
		b.add(sampled, loss(m.Trained()))
		r.endTurn(&b, m.Trained())
	}
	return b.Row
}

// matches compares the decoding of the stored ids with the messages. Where not even the prompt agrees, the
// ids are of another tokenizer or template, and only the text can be used.
func (r *Renderer) matches(s *sft.Sample) (bool, error) {
	var prompt, all strings.Builder
	seen := false
	for _, m := range s.Messages {
		if m.Role == sft.Assistant && !seen {
			prompt.WriteString(all.String())
			seen = true
		}
		all.WriteString("<|im_start|>" + m.Role + "\n")
		if m.Role == sft.Assistant && !r.target.Thinking {
			all.WriteString(emptyReasoning)
		}
		all.WriteString(m.Content + "<|im_end|>\n")
	}
	want := text(prompt.String())
	if got := text(string(r.tok.Decode(s.Exact.Prompt))); !strings.HasPrefix(got, want) {
		return false, nil
	}
	got := text(string(r.tok.Decode(s.Exact.Prompt)) + string(r.tok.Decode(s.Exact.Response)))
	if strings.TrimSuffix(got, "<|im_end|>") != text(strings.TrimSuffix(all.String(), "<|im_end|>\n")) {
		return false, fmt.Errorf("%w: sample %s", ErrContext, s.ID)
	}
	return true, nil
}

func text(s string) string { return norm.NFC.String(strings.ToValidUTF8(s, "\uFFFD")) }
