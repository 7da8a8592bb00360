package viewer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

// maxText is how much of one text the trajectory page gets at first; the rest is asked for on its own.
const maxText = 16 << 10

// Text is the beginning of a text and how long the whole is, in bytes.
type Text struct {
	Text string `json:"text"`
	Size int    `json:"size"`
}

func clip(s string, limit int) Text {
	t := Text{s, len(s)}
	if len(s) > limit {
		for limit > 0 && s[limit]&0xC0 == 0x80 { // inside a character
			limit--
		}
		t.Text = s[:limit]
	}
	return t
}

// TurnView is one turn.
type TurnView struct {
	Index        int     `json:"index"`
	Reasoning    Text    `json:"reasoning"`
	Code         *Text   `json:"code"` // null where the turn has no cell
	Observation  Text    `json:"observation"`
	Status       string  `json:"status"`
	FinishReason string  `json:"finish_reason"`
	Sampled      int     `json:"sampled"`
	GenerateS    float64 `json:"generate_s"`
	ToolS        float64 `json:"tool_s"`
	// Reward is what the parts of this turn add up to; null without a score.
	Reward *float64          `json:"reward"`
	Parts  []trajectory.Part `json:"parts"`
	// Versions are the policy versions of its sampled tokens, oldest and newest; null without any.
	Versions *[2]int64 `json:"versions"`
}

// RolloutView is the trajectory page without tokens.
type RolloutView struct {
	ID          string            `json:"id"`
	Group       string            `json:"group"`
	Sample      int               `json:"sample"`
	Attempt     int               `json:"attempt"`
	Prompt      string            `json:"prompt"`
	Source      string            `json:"source"`
	Seed        int64             `json:"seed"`
	Termination string            `json:"termination"`
	Error       string            `json:"error"`
	TextOnly    bool              `json:"text_only"`
	Flags       []string          `json:"flags"`
	DriftTurns  int               `json:"drift_turns"`
	Timing      trajectory.Timing `json:"timing"`
	System      Text              `json:"system"`
	Question    Text              `json:"question"`
	Answer      Text              `json:"answer"`
	Turns       []TurnView        `json:"turns"`
	Segments    []SegmentView     `json:"segments"`
	Score       trajectory.Score  `json:"score"`
	Graph       GraphView         `json:"graph"`
	Broken      string            `json:"broken"` // the first broken token invariant
}

// SegmentView is a token sequence without its tokens.
type SegmentView struct {
	Prompt   int               `json:"prompt"`
	Response int               `json:"response"`
	Spans    []trajectory.Span `json:"spans"`
}

// GraphView is the evidence DAG, with what the page would otherwise have to work out.
type GraphView struct {
	evidence.Export
	// Live are the ids of G*, the submitted claims and their ancestors.
	Live []string `json:"live"`
	// Order is a topological order.
	Order []string `json:"order"`
}

func viewRollout(s *trajectory.Scored) RolloutView {
	t := &s.Trajectory
	v := RolloutView{
		ID: t.ID.String(), Group: t.ID.Dispatch, Sample: t.ID.Sample, Attempt: t.Attempt, Prompt: t.PromptID, Source: t.DataSource,
		Seed: t.Seed, Termination: string(t.Termination), Error: t.Error, TextOnly: t.TextOnly, Flags: t.Flags, DriftTurns: t.DriftTurns,
		Timing: t.Timing, System: clip(message(t, "system"), maxText), Question: clip(message(t, "user"), maxText),
		Answer: clip(t.Answer, maxText), Score: s.Score, Turns: make([]TurnView, len(t.Turns)), Graph: viewGraph(&t.Graph),
	}
	v.Timing.ScoreS = s.Score.ScoreS
	if err := t.Check(); err != nil && t.Termination.Rewarded() && !t.TextOnly {
		v.Broken = err.Error()
	}
	for i := range t.Turns {
		v.Turns[i] = viewTurn(s, i)
	}
	for i := range t.Segments {
		seg := &t.Segments[i]
		v.Segments = append(v.Segments, SegmentView{len(seg.PromptIDs), len(seg.ResponseIDs), seg.Spans})
	}
	return v
}

func viewTurn(s *trajectory.Scored, i int) TurnView {
	turn := &s.Trajectory.Turns[i]
	v := TurnView{
		Index: i, Reasoning: clip(reasoning(turn), maxText), Observation: clip(observation(turn), maxText), Status: string(turn.Status),
		FinishReason: turn.FinishReason, Sampled: turn.SampledIDs, GenerateS: turn.GenerateS, ToolS: turn.ToolS, Versions: versionsOf(s, i),
	}
	if turn.HasCode {
		code := clip(turn.Code, maxText)
		v.Code = &code
	}
	for _, p := range s.Score.Parts {
		if p.Turn == i {
			v.Parts = append(v.Parts, p)
		}
	}
	if i < len(s.Score.TurnRewards) {
		v.Reward = &s.Score.TurnRewards[i]
	}
	return v
}

func versionsOf(s *trajectory.Scored, turn int) (v *[2]int64) {
	for i := range s.Trajectory.Segments {
		for _, span := range s.Trajectory.Segments[i].Spans {
			if span.Kind != trajectory.SpanSampled || span.Turn != turn {
				continue
			}
			if v == nil {
				v = &[2]int64{span.PolicyVersion, span.PolicyVersionEnd}
			}
			v[0], v[1] = min(v[0], span.PolicyVersion), max(v[1], span.PolicyVersionEnd)
		}
	}
	return v
}

// reasoning is a turn's text before its cell, without the tags that mark reasoning.
func reasoning(t *trajectory.Turn) string {
	text := t.Text
	if t.HasCode {
		// The cell is the first block after the reasoning; a tag inside it is only text.
		after := max(strings.LastIndex(text, "</think>"), 0)
		if i := strings.Index(text[after:], "<code_interpreter>"); i >= 0 {
			text = text[:after+i]
		}
	}
	return strings.TrimSpace(strings.NewReplacer("<think>", "", "</think>", "").Replace(text))
}

func observation(t *trajectory.Turn) string {
	text := strings.TrimSpace(t.Observation)
	text = strings.TrimPrefix(text, "<tool_response>")
	return strings.Trim(strings.TrimSuffix(text, "</tool_response>"), "\n")
}

func message(t *trajectory.Trajectory, role string) string {
	i := slices.IndexFunc(t.Messages, func(m trajectory.Message) bool { return m.Role == role })
	if i < 0 {
		return ""
	}
	return t.Messages[i].Content
}

func viewGraph(g *evidence.Export) GraphView {
	v := GraphView{Export: *g, Live: []string{}, Order: []string{}}
	v.Cells = slices.Clone(g.Cells)
	for i := range v.Cells {
		v.Cells[i].Code = clip(v.Cells[i].Code, maxText).Text // the turn has the whole of it
	}
	live := g.Subgraph()
	for i := range live.Nodes {
		v.Live = append(v.Live, live.Nodes[i].ID)
	}
	for _, n := range g.Topological() {
		v.Order = append(v.Order, n.ID)
	}
	return v
}

// wholeText is one text of a rollout in full: system, question, answer, or reasoning, code, observation, raw
// of a turn.
func wholeText(t *trajectory.Trajectory, part string, turn int) (string, error) {
	switch part {
	case "system":
		return message(t, "system"), nil
	case "question":
		return message(t, "user"), nil
	case "answer":
		return t.Answer, nil
	}
	if turn < 0 || turn >= len(t.Turns) {
		return "", fmt.Errorf("turn: %d of %d turns", turn, len(t.Turns))
	}
	at := &t.Turns[turn]
	switch part {
	case "reasoning":
		return reasoning(at), nil
	case "code":
		return at.Code, nil
	case "observation":
		return observation(at), nil
	case "raw":
		return at.Text, nil
	}
	return "", fmt.Errorf("part: %q", part)
}
