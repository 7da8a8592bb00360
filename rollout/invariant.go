package rollout

import (
	"fmt"

	"github.com/verigraph/verigraph/trajectory"
)

// Encoder encodes text with added tokens matched, as a template would; *tokenizer.Tokenizer is one.
type Encoder interface {
	EncodeSpecial(text string) []int32
}

// Segments are the rows of the trajectory so far, each up to its last sampled id.
func (m *Machine) Segments() []trajectory.Segment {
	out := append([]trajectory.Segment(nil), m.done...)
	if seg, ok := m.log.segment(); ok {
		out = append(out, seg)
	}
	return out
}

// Check is run on every trajectory before it leaves. It gives the first broken invariant, beyond
// those of trajectory.Check: the ids are those that were appended, in that order and no others (so
// they only grew); no part is over its limit; and what has mask 1 decodes, turn by turn, to the
// assistant's texts.
func (m *Machine) Check(segments []trajectory.Segment) error {
	turn := map[int][]int32{}
	for i := range segments {
		s := &segments[i]
		if err := s.Check(); err != nil {
			return err
		}
		if got := idsSHA256(s); got != s.IDsSHA256 {
			return fmt.Errorf("segment %d: ids were changed after they were appended", i)
		}
		if len(s.PromptIDs) > m.cfg.MaxPromptTokens || len(s.ResponseIDs) > m.cfg.MaxResponseTokens {
			return fmt.Errorf("segment %d: %d prompt and %d response ids, the limits are %d and %d",
				i, len(s.PromptIDs), len(s.ResponseIDs), m.cfg.MaxPromptTokens, m.cfg.MaxResponseTokens)
		}
		for _, sp := range s.Spans {
			if sp.Kind == trajectory.SpanSampled {
				turn[sp.Turn] = append(turn[sp.Turn], s.ResponseIDs[sp.Start:sp.End]...)
			}
		}
	}
	for i, t := range m.turns {
		if text := m.text(turn[i]); text != t.Text {
			return fmt.Errorf("turn %d: the sampled ids decode to %q, the text is %q", i, head(text), head(t.Text))
		}
	}
	return nil
}

func head(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}

// Drift counts the turns whose text, encoded again, would give other ids than were sampled. It is
// normal (sampled ids are often not the canonical ones), counted, and never repaired.
func (m *Machine) Drift() int {
	enc, ok := m.tok.(Encoder)
	if !ok {
		return 0
	}
	n := 0
	for _, past := range m.history {
		again := enc.EncodeSpecial(string(m.tok.Decode(past.ids)))
		if !equalIDs(again, past.ids) {
			n++
		}
	}
	return n
}

func equalIDs(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
