package sft

import (
	"errors"
	"fmt"

	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/trajectory"
)

// dialogue is a stored trajectory taken apart: the opening messages, then turns[k] and the observation
// that answers it. history[k] is the first turn whose observation the context of turn k shows in full.
type dialogue struct {
	opening      []Message
	turns        []string
	observations []string
	history      []int
	compressed   bool
}

// errDialogue says that stored messages are not a conversation.
var errDialogue = errors.New("messages are not [system,] user, then assistant and user in turn")

// takeApart reads the messages; the segments say which observations were left out of a turn's context.
func takeApart(t *trajectory.Trajectory) (dialogue, error) {
	var d dialogue
	for i, m := range t.Messages {
		switch {
		case m.Role == System && i == 0:
			if m.Content != "" {
				d.opening = append(d.opening, Message{Role: System, Content: m.Content})
			}
		case m.Role == User && len(d.turns) == 0 && (len(d.opening) == 0 || d.opening[len(d.opening)-1].Role == System):
			d.opening = append(d.opening, Message{Role: User, Content: m.Content})
		case m.Role == Assistant && len(d.turns) == len(d.observations) && len(d.opening) > 0 && d.opening[len(d.opening)-1].Role == User:
			d.turns = append(d.turns, m.Content)
		case m.Role == User && len(d.turns) == len(d.observations)+1:
			d.observations = append(d.observations, m.Content)
		default:
			return d, fmt.Errorf("%w: message %d is of %q", errDialogue, i, m.Role)
		}
	}
	if len(d.turns) == 0 {
		return d, fmt.Errorf("%w: there is no assistant message", errDialogue)
	}
	d.history = make([]int, len(d.turns))
	for s := range t.Segments {
		d.markHistory(&t.Segments[s])
	}
	return d, nil
}

// markHistory: the history span of a segment carries the turn whose observation is its newest.
func (d *dialogue) markHistory(s *trajectory.Segment) {
	first := 0
	for _, sp := range s.Spans {
		switch {
		case sp.Kind == trajectory.SpanHistory:
			first, d.compressed = sp.Turn, true
		case sp.Kind == trajectory.SpanSampled && sp.Turn < len(d.history):
			d.history[sp.Turn] = first
		}
	}
}

// before are the messages that the policy saw when it began turn k.
func (d *dialogue) before(k int) []Message {
	out := make([]Message, 0, len(d.opening)+2*k+1)
	out = append(out, d.opening...)
	for j := range k {
		out = append(out, Message{Role: Assistant, Content: d.turns[j], Loss: flag(false)})
		observation := d.observations[j]
		if j < d.history[k] {
			observation = rollout.OmittedObservation
		}
		out = append(out, Message{Role: User, Content: observation})
	}
	return out
}

// upTo are the messages up to and with turn k, which is the only trained one.
func (d *dialogue) upTo(k int) []Message {
	return append(d.before(k), Message{Role: Assistant, Content: d.turns[k], Loss: flag(true)})
}

// exact gives the stored ids of a sample that ends with turn last; nil without segments. Turns before a
// compression have no span of their own in the segment: they cannot be trained in it.
func exact(t *trajectory.Trajectory, last int) *Exact {
	for i := range t.Segments {
		s := &t.Segments[i]
		var e *Exact
		for _, sp := range s.Spans {
			if sp.Kind != trajectory.SpanSampled || sp.Turn > last {
				continue
			}
			if e == nil {
				e = &Exact{Prompt: s.PromptIDs, Response: s.ResponseIDs}
			}
			if n := len(e.Turns); n > 0 && e.Turns[n-1].Turn == sp.Turn && e.Turns[n-1].End == sp.Start {
				e.Turns[n-1].End = sp.End
				continue
			}
			e.Turns = append(e.Turns, TurnSpan{Turn: sp.Turn, Start: sp.Start, End: sp.End})
		}
		if e != nil && e.Turns[len(e.Turns)-1].Turn == last {
			e.Response = e.Response[:e.Turns[len(e.Turns)-1].End]
			return e
		}
	}
	return nil
}
