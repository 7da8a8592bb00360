package reward

import (
	"context"
	"fmt"

	"github.com/verigraph/verigraph/reward/outcome"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Task is how an outcome judge grades a submission.
type Task string

// Grading tasks. Axes: correctness, completeness, faithfulness against a reference, each in [0, 1].
// Closed: right or wrong against a reference. Open: no reference, a rubric of content and format,
// each 1 to 5, mapped to [0, 1] by (score - 1)/4.
const (
	TaskAxes   Task = "axes"
	TaskClosed Task = "closed"
	TaskOpen   Task = "open"
)

// OutcomeItem is one submission put to an outcome judge.
type OutcomeItem struct {
	Task      Task
	Question  string
	Reference string // the reference answer's text; empty for open tasks
	Rubric    string // what an open task's report must hold; may be empty
	Answer    string // the submitted claims' texts, joined by newlines
	Evidence  string // the submitted claims' ancestors, one line each
}

// Axis is one named grade in [0, 1].
type Axis struct {
	Name  string
	Value float64
}

// OutcomeVerdict is an outcome judge's word. R_outcome is the mean of its axes.
type OutcomeVerdict struct {
	Axes       []Axis
	Reason     string
	Judge      string
	PromptHash string
	Cached     bool
	Repaired   bool
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
	_, _, ruled, err := outcome.Select(ref)
	if err != nil {
		return err
	}
	grading, err := gradingOf(ref)
	if err != nil {
		return err
	}
	switch {
	case grading.hook != "":
		if s.hooks[grading.hook] == nil {
			return fmt.Errorf("prompt %s: meta.scorer: no scorer %q is configured", ref.PromptID, grading.hook)
		}
		return nil
	case ruled:
		return nil
	case ref.Text == "" && grading.task != TaskOpen:
		return fmt.Errorf("prompt %s: no reference answer", ref.PromptID)
	case s.preset.Weights.Outcome == 0:
		return nil
	case s.outcome == nil:
		return fmt.Errorf("prompt %s: a free-text reference answer needs an LLM judge; the rules judge scores named sub-answers only", ref.PromptID)
	}
	return nil
}

// outcomeResult is R_outcome with its parts before weights.
type outcomeResult struct {
	value   float64
	parts   []trajectory.Part
	correct *bool
	// method names the rule, judge or hook that gave the value.
	method string
	// rule and want are set where a rule scored; claims are then the claims that the parts stand in.
	rule   *outcome.Rule
	want   []task.NamedAnswer
	claims []string
	// got are the values that were given, by part.
	got []string
}

func (s *Scorer) scoreOutcome(ctx context.Context, sub *submission, p task.Prompt, ref task.Reference, t *trajectory.Trajectory) (outcomeResult, error) {
	grading, err := gradingOf(ref)
	if err != nil {
		return outcomeResult{}, err
	}
	if grading.hook != "" {
		return s.byHook(ctx, grading.hook, sub, p, ref, t)
	}
	rule, want, ruled, err := outcome.Select(ref)
	if err != nil {
		return outcomeResult{}, err
	}
	if ruled {
		return s.byRule(sub, rule, want), nil
	}
	return s.byJudge(ctx, sub, p, ref, grading)
}

// unjudged is an outcome of 0 that no judge was asked for.
func unjudged(sub *submission, method, reason string) outcomeResult {
	return outcomeResult{method: method, parts: []trajectory.Part{{Term: termOutcome, Name: "answer", Turn: sub.turn, Weight: 1, Reason: reason}}}
}

// byRule takes R_outcome from the rule as the preset says. The verdict on the whole answer comes from
// the same comparison, except for DABench, whose official one has no fault to mend, so that accuracy
// stays the benchmark's own figure there.
func (s *Scorer) byRule(sub *submission, rule outcome.Rule, want []task.NamedAnswer) outcomeResult {
	official := s.preset.OutcomeRule == OutcomeOfficial
	var subs []outcome.SubAnswer
	if official {
		subs = rule.Score(sub.answer(), want)
	} else {
		subs = rule.Train(sub.claims, want, s.preset.Faithful)
	}
	whole := subs
	switch {
	case official:
	case rule.Tagged:
		whole = rule.Score(sub.answer(), want)
	default:
		whole = rule.Train(sub.claims, want, false)
	}
	r := outcomeResult{value: outcome.Share(subs), method: rule.Name + " " + string(s.preset.OutcomeRule), rule: &rule, want: want}
	if !rule.Graded {
		correct := sub.made() && outcome.AllRight(whole)
		r.correct = &correct
	}
	for _, a := range subs {
		part := trajectory.Part{
			Term: termOutcome, Name: a.Name, Turn: sub.turnOf(a.Claim), Weight: 1 / float64(len(subs)), Value: a.Score, Reason: a.Reason,
		}
		if a.Right {
			part.Reason = "right"
		}
		r.parts = append(r.parts, part)
		r.claims, r.got = append(r.claims, a.Claim), append(r.got, a.Got)
	}
	return r
}
