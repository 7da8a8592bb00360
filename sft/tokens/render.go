package tokens

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/verigraph/verigraph/sft"
)

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
