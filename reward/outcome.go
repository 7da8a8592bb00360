package reward

import (
	"context"
	"fmt"
	"math"

	"github.com/verigraph/verigraph/reward/outcome"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// OutcomeItem is one submission put to an outcome judge.
type OutcomeItem struct {
	Question  string
	Reference string // the reference answer's text
	Answer    string // the submitted claims' texts, joined by newlines
	Evidence  string // the submitted claims' ancestors, one line each
}

// OutcomeVerdict is an outcome judge's word, three axes in [0, 1].
type OutcomeVerdict struct {
	Correctness  float64
	Completeness float64
	Faithfulness float64
	Reason       string
	Judge        string
	PromptHash   string
	Cached       bool
	Repaired     bool
}

// OutcomeJudge scores a submission against a reference answer where no rule exists. It is safe for
// concurrent use and returns an error that wraps ErrNoVerdict when the judge said nothing usable.
type OutcomeJudge interface {
	Outcome(ctx context.Context, item OutcomeItem) (OutcomeVerdict, error)
	Name() string
}

// Supports reports why answers to ref can't be scored with this configuration, or nil. Callers ask
// once per prompt at import, so that a missing judge is a config error and not an unscored run.
func (s *Scorer) Supports(ref task.Reference) error {
	switch {
	case len(ref.Answers) > 0:
		return nil
	case ref.Text == "":
		return fmt.Errorf("prompt %s: no reference answer", ref.PromptID)
	case s.outcome == nil && s.preset.Weights.Outcome != 0:
		return fmt.Errorf("prompt %s: a free-text reference answer needs an LLM judge; the rules judge scores named sub-answers only", ref.PromptID)
	}
	return nil
}

// outcomeResult is R_outcome with its parts before weights.
type outcomeResult struct {
	value   float64
	parts   []trajectory.Part
	correct *bool
}

func (s *Scorer) scoreOutcome(ctx context.Context, sub *submission, p task.Prompt, ref task.Reference) (outcomeResult, error) {
	if len(ref.Answers) > 0 {
		return s.byRule(sub, ref), nil
	}
	reason := ""
	switch {
	case !sub.made():
		reason = "no submission"
	case s.preset.Weights.Outcome == 0:
		reason = "not judged: its weight is 0"
	}
	if reason != "" {
		return outcomeResult{parts: []trajectory.Part{{Term: termOutcome, Name: "answer", Turn: sub.turn, Weight: 1, Reason: reason}}}, nil
	}
	if err := s.Supports(ref); err != nil {
		return outcomeResult{}, err
	}
	v, err := s.outcome.Outcome(ctx, OutcomeItem{
		Question: p.Question, Reference: ref.Text, Answer: sub.answer(), Evidence: sub.evidence(),
	})
	if err != nil {
		return outcomeResult{}, fmt.Errorf("outcome: %w", err)
	}
	r := outcomeResult{}
	for _, axis := range []struct {
		name  string
		value float64
	}{{"correctness", v.Correctness}, {"completeness", v.Completeness}, {"faithfulness", v.Faithfulness}} {
		if math.IsNaN(axis.value) || axis.value < 0 || axis.value > 1 {
			return outcomeResult{}, fmt.Errorf("outcome: %s %g is not between 0 and 1: %w", axis.name, axis.value, ErrNoVerdict)
		}
		r.value += axis.value / 3
		r.parts = append(r.parts, trajectory.Part{
			Term: termOutcome, Name: axis.name, Turn: sub.turn, Value: axis.value, Weight: 1.0 / 3,
			Reason: fmt.Sprintf("%s (prompt %.12s): %s", v.Judge, v.PromptHash, v.Reason),
		})
	}
	r.value = min(r.value, 1) // three thirds may sum to 1 + 1 ulp
	return r, nil
}

// byRule takes R_outcome from the training rule and the verdict on the whole answer from the
// official one, so that accuracy stays the benchmark's own figure.
func (s *Scorer) byRule(sub *submission, ref task.Reference) outcomeResult {
	subs := outcome.Training(sub.claims, ref.Answers, s.preset.Faithful)
	correct := sub.made() && outcome.AllRight(outcome.Official(sub.answer(), ref.Answers))
	r := outcomeResult{value: outcome.Share(subs), correct: &correct}
	for _, a := range subs {
		part := trajectory.Part{
			Term: termOutcome, Name: a.Name, Turn: sub.turnOf(a.Claim), Weight: 1 / float64(len(subs)), Reason: a.Reason,
		}
		if a.Right {
			part.Value, part.Reason = 1, "right"
		}
		r.parts = append(r.parts, part)
	}
	return r
}
