package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/reward/items"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Scorer scores one rollout; *reward.Scorer is the real one.
type Scorer interface {
	Score(ctx context.Context, t trajectory.Trajectory, p task.Prompt, ref task.Reference) trajectory.Score
}

// Measuring turns stored rollouts into records. Safe for concurrent use.
type Measuring struct {
	Benchmark Benchmark
	// Official scores by the benchmark's own rules, Fixed by the mended ones; neither looks at evidence.
	Official, Fixed Scorer
	// Supporter judges J of the claims; nil leaves it out.
	Supporter Supporter
}

// MissingRecord stands for a sample of which nothing is stored.
func (m Measuring) MissingRecord(it items.Item, sample int) Record {
	return Record{
		Benchmark: m.Benchmark.Name, Item: it.Prompt.ID, Sample: sample, Types: m.Benchmark.TypesOf(it.Prompt.Meta),
		State: Missing, Reason: "no rollout is stored",
	}
}

// Record measures one stored rollout.
func (m Measuring) Record(ctx context.Context, it items.Item, t *trajectory.Trajectory) (Record, error) {
	r := m.MissingRecord(it, t.ID.Sample)
	r.State, r.Reason = Scored, ""
	r.Termination, r.Submitted, r.Answer = t.Termination, t.Termination == trajectory.Submitted, t.Answer
	r.count(t)
	if !t.Termination.Rewarded() {
		r.State, r.Reason = Lost, fmt.Sprintf("%s: %s", t.Termination, t.Error)
		return r, nil
	}
	r.ground(ctx, it, t, m.Supporter)
	if hidden(it.Reference) {
		r.State, r.Reason = Hidden, "the benchmark keeps its answer to itself"
		return r, ctx.Err()
	}
	official := m.Official.Score(ctx, *t, it.Prompt, it.Reference)
	if err := ctx.Err(); err != nil {
		return r, err
	}
	r.Method = official.Method
	if official.Status != trajectory.ScoreOK {
		r.State, r.Reason = Unscored, official.Reason
		if r.Reason == "" {
			r.Reason = string(official.Status)
		}
	} else {
		r.grade(m.Benchmark, official)
	}
	m.mended(ctx, it, t, &r)
	return r, ctx.Err()
}

// hidden: there is no answer, and the benchmark's rubric does not do without.
func hidden(ref task.Reference) bool {
	return len(ref.Answers) == 0 && ref.Text == "" && ref.DataSource != Research
}

// grade takes the headline value from the official score.
func (r *Record) grade(b Benchmark, s trajectory.Score) {
	value := s.Outcome
	for _, p := range s.Parts {
		if p.Term != "outcome" {
			continue
		}
		r.Parts++
		if p.Value == 1 {
			r.Right++
		}
		switch p.Name {
		case "content":
			r.Content = 1 + 4*p.Value
		case "format":
			r.Format = 1 + 4*p.Value
		}
	}
	switch {
	case b.Name == Research:
		r.Right, r.Parts = 0, 0
		if r.Content == 0 { // nothing was submitted: no judge was asked, and the papers' figure is 0
			value = 0
			break
		}
		value = (r.Content + r.Format) / 2 / 5
	case s.Correct != nil && b.Name != TableBench:
		value, r.Binary = truth(*s.Correct), true
	case s.Correct != nil || b.Judged:
		r.Binary = value == 0 || value == 1
	}
	r.Value = &value
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// mended scores by the fixed rule where there is one.
func (m Measuring) mended(ctx context.Context, it items.Item, t *trajectory.Trajectory, r *Record) {
	ref := it.Reference
	switch m.Benchmark.Name {
	case Research:
		return
	case DSBench: // the judge's comparison without the judge: choices and numbers by the generic matcher
		ref.Meta, ref.Answers, ref.Text = json.RawMessage(`{"rule":"match"}`), []task.NamedAnswer{{Name: "answer", Value: ref.Text}}, ""
	}
	s := m.Fixed.Score(ctx, *t, it.Prompt, ref)
	if s.Status != trajectory.ScoreOK {
		return
	}
	v := s.Outcome
	if r.Binary {
		v = truth(v == 1)
	}
	r.Fixed = &v
}

// count takes tokens and times. Every call sends the whole context again.
func (r *Record) count(t *trajectory.Trajectory) {
	r.Turns, r.Estimated = len(t.Turns), t.TextOnly
	for _, turn := range t.Turns {
		r.SampledTokens += turn.SampledIDs
		if turn.HasCode {
			r.Cells++
			if turn.Status == trajectory.CellOK {
				r.CellsOK++
			}
		}
	}
	r.PolicyS, r.SandboxS, r.QueueS = t.Timing.GenerateS, t.Timing.ToolS, t.Timing.QueueS
	for _, s := range t.Segments {
		for _, span := range s.Spans {
			if span.Kind == trajectory.SpanSampled {
				r.PromptTokens += len(s.PromptIDs) + span.Start
			}
		}
	}
	if !t.TextOnly {
		return
	}
	context := 0
	for _, msg := range t.Messages { // as the text-only runner counts: pieces of up to four bytes
		if msg.Role == "assistant" {
			r.PromptTokens += context
		}
		context += (len(msg.Content) + 3) / 4
	}
}

// ground takes the parts of grounding that the graph holds, and asks for J.
func (r *Record) ground(ctx context.Context, it items.Item, t *trajectory.Trajectory, s Supporter) {
	if !r.Submitted {
		return
	}
	if t.Agent != "" {
		r.words(ctx, it, t, s)
		return
	}
	for _, g := range t.Graph.Grounding {
		c := Claim{ID: g.Claim, Structural: g.Structural, Replayed: g.Replayed, Lexical: g.Lexical, Why: g.Why}
		if s != nil {
			c.ask(ctx, s, it.Prompt.Question, ClaimEvidence(&t.Graph, g.Claim), claimText(&t.Graph, g.Claim))
		}
		r.Claims = append(r.Claims, c)
	}
}

// words grounds a baseline's answer: its claims by a model, what its tools printed as evidence.
func (r *Record) words(ctx context.Context, it items.Item, t *trajectory.Trajectory, s Supporter) {
	if s == nil {
		r.ClaimsUnsplit = "no judge is configured"
		return
	}
	claims, err := s.Split(ctx, it.Prompt.Question, t.Answer)
	if err != nil {
		r.ClaimsUnsplit = err.Error()
		return
	}
	outputs := ToolOutputs(t)
	for i, text := range claims {
		c := Claim{ID: fmt.Sprintf("w%d", i+1)}
		if len(outputs) == 0 {
			no := false
			c.Supported, c.Why = &no, "no tool gave any output"
		} else {
			c.ask(ctx, s, it.Prompt.Question, outputs, text)
		}
		r.Claims = append(r.Claims, c)
	}
}

func (c *Claim) ask(ctx context.Context, s Supporter, question string, evidence []string, text string) {
	yes, reason, err := s.Supports(ctx, question, evidence, text)
	switch {
	case err != nil:
		c.Why = strings.TrimPrefix(c.Why+"; no verdict: "+err.Error(), "; ")
	default:
		c.Supported = &yes
		if !yes && c.Why == "" {
			c.Why = reason
		}
	}
}

func claimText(g *evidence.Export, id string) string {
	for i := range g.Nodes {
		if g.Nodes[i].ID == id {
			return g.Nodes[i].Text
		}
	}
	return ""
}
