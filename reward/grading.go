package reward

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// grading is what a reference says about how its free text is graded.
type grading struct {
	task   Task
	rubric string
	hook   string
}

// openSources are data sources whose items are research questions without a reference answer.
var openSources = map[string]bool{"dabstep_research": true, "research": true}

// gradingOf reads meta: judge_task (axes, closed, open), rubric or checklist, scorer (a hook's name).
func gradingOf(ref task.Reference) (grading, error) {
	var m struct {
		JudgeTask Task   `json:"judge_task"`
		Rubric    string `json:"rubric"`
		Checklist string `json:"checklist"`
		Scorer    string `json:"scorer"`
	}
	if len(ref.Meta) > 0 {
		if err := json.Unmarshal(ref.Meta, &m); err != nil {
			return grading{}, fmt.Errorf("prompt %s: meta: %w", ref.PromptID, err)
		}
	}
	g := grading{task: m.JudgeTask, rubric: m.Rubric, hook: m.Scorer}
	if g.rubric == "" {
		g.rubric = m.Checklist
	}
	switch {
	case g.task == "" && openSources[ref.DataSource]:
		g.task = TaskOpen
	case g.task == "":
		g.task = TaskAxes
	case g.task != TaskAxes && g.task != TaskClosed && g.task != TaskOpen:
		return g, fmt.Errorf("prompt %s: meta.judge_task: %q is none of axes, closed, open", ref.PromptID, g.task)
	}
	if g.task == TaskOpen && g.rubric == "" {
		g.rubric = ref.Text
	}
	return g, nil
}

func (s *Scorer) byJudge(ctx context.Context, sub *submission, p task.Prompt, ref task.Reference, g grading) (outcomeResult, error) {
	method := "judge " + string(g.task)
	switch {
	case !sub.made():
		return unjudged(sub, method, "no submission"), nil
	case s.preset.Weights.Outcome == 0:
		return unjudged(sub, method, "not judged: its weight is 0"), nil
	}
	if err := s.Supports(ref); err != nil {
		return outcomeResult{}, err
	}
	item := OutcomeItem{Task: g.task, Question: p.Question, Reference: ref.Text, Rubric: g.rubric, Answer: sub.answer(), Evidence: sub.evidence()}
	if g.task == TaskOpen {
		item.Reference = ""
	}
	v, err := s.outcome.Outcome(ctx, item)
	if err != nil {
		return outcomeResult{}, fmt.Errorf("outcome: %w", err)
	}
	return axes(v.Axes, sub, method+" "+v.Judge, fmt.Sprintf("%s (prompt %.12s): %s", v.Judge, v.PromptHash, v.Reason))
}

// axes is the mean of checked grades.
func axes(grades []Axis, sub *submission, method, reason string) (outcomeResult, error) {
	r := outcomeResult{method: method}
	if len(grades) == 0 {
		return r, fmt.Errorf("outcome: no axis is graded: %w", ErrNoVerdict)
	}
	n := float64(len(grades))
	for _, axis := range grades {
		if math.IsNaN(axis.Value) || axis.Value < 0 || axis.Value > 1 {
			return outcomeResult{}, fmt.Errorf("outcome: %s %g is not between 0 and 1: %w", axis.Name, axis.Value, ErrNoVerdict)
		}
		r.value += axis.Value / n
		r.parts = append(r.parts, trajectory.Part{
			Term: termOutcome, Name: axis.Name, Turn: sub.turn, Value: axis.Value, Weight: 1 / n, Reason: reason,
		})
	}
	r.value = min(r.value, 1) // three thirds may sum to 1 + 1 ulp
	return r, nil
}

// Grade is what a custom scorer says: a share in [0, 1], and whether the answer is right where it
// can tell.
type Grade struct {
	Score   float64
	Correct *bool
	Reason  string
	// Axes may break the score down; their mean then is the score.
	Axes []Axis
}

// Hook is a custom outcome scorer. It is safe for concurrent use; when it can't grade it returns an
// error that wraps ErrNoVerdict, and the rollout is unscored.
type Hook interface {
	Grade(ctx context.Context, item HookItem) (Grade, error)
}

// HookItem is what a custom scorer sees.
type HookItem struct {
	Prompt    task.Prompt
	Reference task.Reference
	Answer    string
	Evidence  string
	Claims    []HookClaim
	Ending    trajectory.Termination
}

// HookClaim is one submitted claim.
type HookClaim struct {
	ID         string `json:"id"`
	Kind       string `json:"kind"`
	Text       string `json:"text"`
	Structural bool   `json:"structural"`
	Lexical    bool   `json:"lexical"`
}

func (s *Scorer) byHook(ctx context.Context, name string, sub *submission, p task.Prompt, ref task.Reference, t *trajectory.Trajectory) (outcomeResult, error) {
	method := "scorer " + name
	if !sub.made() {
		return unjudged(sub, method, "no submission"), nil
	}
	hook := s.hooks[name]
	if hook == nil {
		return outcomeResult{}, s.Supports(ref)
	}
	item := HookItem{Prompt: p, Reference: ref, Answer: sub.answer(), Evidence: sub.evidence(), Ending: t.Termination}
	for _, c := range sub.claims {
		item.Claims = append(item.Claims, HookClaim{ID: c.Node.ID, Kind: string(c.Node.Kind), Text: c.Node.Text, Structural: c.Structural, Lexical: c.Lexical})
	}
	g, err := hook.Grade(ctx, item)
	if err != nil {
		return outcomeResult{}, fmt.Errorf("outcome: %s: %w", method, err)
	}
	grades := g.Axes
	if len(grades) == 0 {
		grades = []Axis{{"answer", g.Score}}
	}
	r, err := axes(grades, sub, method, g.Reason)
	r.correct = g.Correct
	return r, err
}
