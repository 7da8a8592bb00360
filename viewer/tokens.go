package viewer

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/trajectory"
)

// TokenPage is a stretch of one segment. The lists run beside each other; positions count from the segment's
// first prompt token.
type TokenPage struct {
	Segment int      `json:"segment"`
	Offset  int      `json:"offset"`
	Total   int      `json:"total"`
	Prompt  int      `json:"prompt"` // how many of Total are prompt tokens
	IDs     []int32  `json:"ids"`
	Texts   []string `json:"texts"` // empty without a tokenizer
	Mask    []int8   `json:"mask"`
	// LogProbs are 0 where the mask is 0.
	LogProbs []float32         `json:"log_probs"`
	Spans    []trajectory.Span `json:"spans"` // in positions of the response
	// Warning says why the texts may be wrong.
	Warning string `json:"warning"`
}

const maxTokens = 5000

var errOutside = errors.New("outside of the rollout")

func tokenPage(t *trajectory.Trajectory, tok *tokenizer.Tokenizer, segment, offset, limit int) (TokenPage, error) {
	if segment < 0 || segment >= len(t.Segments) {
		return TokenPage{}, fmt.Errorf("segment: %d of %d: %w", segment, len(t.Segments), errOutside)
	}
	s := &t.Segments[segment]
	p := TokenPage{Segment: segment, Offset: offset, Total: len(s.PromptIDs) + len(s.ResponseIDs), Prompt: len(s.PromptIDs), Spans: s.Spans}
	if offset < 0 || offset > p.Total {
		return p, fmt.Errorf("offset: %d of %d: %w", offset, p.Total, errOutside)
	}
	end := min(offset+min(limit, maxTokens), p.Total)
	for i := offset; i < end; i++ {
		if i < p.Prompt {
			p.IDs, p.Mask, p.LogProbs = append(p.IDs, s.PromptIDs[i]), append(p.Mask, 0), append(p.LogProbs, 0)
			continue
		}
		k := i - p.Prompt
		p.IDs = append(p.IDs, s.ResponseIDs[k])
		mask, lp := int8(0), float32(0)
		if k < len(s.ResponseMask) && k < len(s.LogProbs) { // a damaged file may hold fewer
			mask, lp = s.ResponseMask[k], s.LogProbs[k]
		}
		p.Mask, p.LogProbs = append(p.Mask, mask), append(p.LogProbs, lp)
	}
	if tok != nil {
		for _, id := range p.IDs {
			p.Texts = append(p.Texts, tokenText(tok.TokenBytes(id)))
		}
		p.Warning = misfit(t, s, tok)
	}
	return p, nil
}

// tokenText shows bytes that are no character on their own as \xNN.
func tokenText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n <= 1 {
			fmt.Fprintf(&out, `\x%02X`, b[0])
		} else {
			out.WriteRune(r)
		}
		b = b[n:]
	}
	return out.String()
}

// misfit compares the decoding of a segment's first sampled span with the turn's text: another tokenizer
// would show words that the policy never wrote.
func misfit(t *trajectory.Trajectory, s *trajectory.Segment, tok *tokenizer.Tokenizer) string {
	for _, span := range s.Spans {
		if span.Kind != trajectory.SpanSampled || span.Turn < 0 || span.Turn >= len(t.Turns) || span.End > len(s.ResponseIDs) || span.Start > span.End {
			continue
		}
		got, want := string(tok.Decode(s.ResponseIDs[span.Start:span.End])), t.Turns[span.Turn].Text
		if !strings.HasPrefix(want, strings.ToValidUTF8(got, "")) && !strings.HasPrefix(got, want) {
			return fmt.Sprintf("the tokenizer does not decode turn %d to its text: it is not the one of this run", span.Turn)
		}
		return ""
	}
	return ""
}
