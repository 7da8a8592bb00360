package reward

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

type processResult struct {
	value float64
	parts []trajectory.Part
}

// scoreProcess is the share of turns with code whose cell succeeded, 0 without code.
func scoreProcess(t *trajectory.Trajectory) processResult {
	var r processResult
	ok := 0
	for i, turn := range t.Turns {
		if !turn.HasCode {
			continue
		}
		part := trajectory.Part{Term: termProcess, Name: fmt.Sprintf("cell %d", i), Turn: i, Reason: string(turn.Status)}
		if turn.Status == trajectory.CellOK {
			part.Value = 1
			ok++
		}
		r.parts = append(r.parts, part)
	}
	for i := range r.parts {
		r.parts[i].Weight = 1 / float64(len(r.parts))
	}
	if len(r.parts) > 0 {
		r.value = float64(ok) / float64(len(r.parts))
	}
	return r
}

// Values of a judged derived claim.
const (
	entailedValue    = 1.0
	notEntailedValue = -0.5
)

type inferResult struct {
	value    float64
	parts    []trajectory.Part
	verdicts []trajectory.Verdict
	restated float64 // share of the derived claims in scope that repeat a premise
	edges    int     // derive edges in scope
	gov      *trajectory.GovResult
	err      error
}

// scoreInfer is the mean over the derived claims in scope. One claim's edges share one verdict and
// count once, so padding a claim with premises moves nothing.
func (s *Scorer) scoreInfer(ctx context.Context, sub *submission, p task.Prompt, out outcomeResult) inferResult {
	claims := sub.derived(s.preset.Infer.Scope)
	if len(claims) == 0 {
		return inferResult{}
	}
	restated := 0
	for _, n := range claims {
		if n.Restates != "" {
			restated++
		}
	}
	r := inferResult{restated: float64(restated) / float64(len(claims)), edges: sub.edges(s.preset.Infer.Scope)}
	var judged []judged
	if s.preset.Infer.Strategy == StrategyGov {
		judged, r.gov, r.err = s.judgeGraph(ctx, sub, p, claims)
	} else {
		judged, r.err = s.judgeEdges(ctx, sub, p, claims)
	}
	for _, j := range judged {
		if j.verdict != nil {
			r.verdicts = append(r.verdicts, *j.verdict)
		}
	}
	if r.err != nil {
		return r
	}
	grounded, used := sub.closure(sub.submitted(true)), sub.used(out)
	var sum float64
	counted := 0
	for i, n := range claims {
		part := s.inferPart(n, judged[i], grounded[n.ID], used == nil || used[n.ID])
		if part.Weight != 0 {
			counted++
			sum += part.Value
		}
		r.parts = append(r.parts, part)
	}
	if counted > 0 {
		r.value = sum / float64(counted)
	}
	for i := range r.parts {
		if r.parts[i].Weight != 0 {
			r.parts[i].Weight = 1 / float64(counted)
		}
	}
	return r
}

// used marks what the values of required names rest on; nil where no rule says which these are.
func (s *submission) used(out outcomeResult) map[string]bool {
	if out.rule == nil {
		return nil
	}
	return s.closure(out.rule.Answering(s.claims, out.want))
}

// judged is what became of one derived claim: a verdict, or why there is none.
type judged struct {
	verdict *trajectory.Verdict
	// implied: false, since something that it rests on is.
	implied string
	// skipped: verification had stopped before it.
	skipped bool
}

// judgeEdges asks for every derived claim on its own.
func (s *Scorer) judgeEdges(ctx context.Context, sub *submission, p task.Prompt, claims []*evidence.Node) ([]judged, error) {
	out := make([]judged, len(claims))
	errs := make([]error, len(claims))
	slots := make(chan struct{}, s.parallel)
	var wg sync.WaitGroup
	for i, n := range claims {
		if s.unasked(n) {
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			v, err := s.verdict(ctx, sub, p, n)
			out[i].verdict, errs[i] = &v, err
		})
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

// unasked reports claims that no judge is asked about.
func (s *Scorer) unasked(n *evidence.Node) bool {
	return n.Restates != "" && s.preset.Infer.Restated == HandleZero
}

// inferPart has weight 0 where the claim is left out of the mean, else 1.
func (s *Scorer) inferPart(n *evidence.Node, j judged, grounded, used bool) trajectory.Part {
	part := trajectory.Part{Term: termInfer, Name: n.ID, Turn: n.Turn, Weight: 1}
	v := j.verdict
	switch {
	case j.skipped:
		part.Weight, part.Reason = 0, "not judged: verification had stopped"
	case j.implied != "" && s.unasked(n), v == nil && j.implied == "":
		part.Reason = "restates " + n.Restates
	case j.implied != "":
		part.Value, part.Reason = notEntailedValue, j.implied
	case v.Kind == trajectory.Abstained:
		part.Weight, part.Reason = 0, "abstained: "+v.Reason
	case v.Kind == trajectory.NotEntailed:
		part.Value, part.Reason = notEntailedValue, "not entailed: "+v.Reason
	case !grounded && s.preset.Infer.Ungrounded == HandleZero:
		part.Reason = "entailed, over ungrounded premises"
	case !used && s.preset.Infer.Beside == HandleZero:
		part.Reason = "entailed, beside the answer"
	default:
		part.Value, part.Reason = entailedValue, "entailed: "+v.Reason
	}
	return part
}

func (s *Scorer) verdict(ctx context.Context, sub *submission, p task.Prompt, n *evidence.Node) (trajectory.Verdict, error) {
	v, err := s.judge.Entails(ctx, sub.step(p, n))
	return s.checked(sub, n, v, err)
}

// checked names the claim that a verdict is on and refuses kinds that no judge may say.
func (s *Scorer) checked(sub *submission, n *evidence.Node, v trajectory.Verdict, err error) (trajectory.Verdict, error) {
	if err == nil && v.Kind != trajectory.Entailed && v.Kind != trajectory.NotEntailed && v.Kind != trajectory.Abstained {
		err = fmt.Errorf("verdict %q: %w", v.Kind, ErrNoVerdict)
	}
	v.Claim, v.Premises = n.ID, sub.premises[n.ID]
	if v.Judge == "" {
		v.Judge = s.judge.Name()
	}
	if err != nil {
		v.Kind, v.Reason = trajectory.NoVerdict, err.Error()
		return v, fmt.Errorf("infer: %s: %w", n.ID, err)
	}
	return v, nil
}

// step is a derived claim as a judge sees it.
func (s *submission) step(p task.Prompt, n *evidence.Node) Step {
	step := Step{Question: p.Question, Reasoning: n.Reasoning, Conclusion: n.Text}
	for _, id := range s.premises[n.ID] {
		if prem := s.nodes[id]; prem != nil {
			step.Premises = append(step.Premises, prem.Text)
		}
	}
	return step
}

// edges counts the derive edges into the derived claims in scope.
func (s *submission) edges(scope Scope) int {
	n := 0
	for _, d := range s.derived(scope) {
		n += len(s.premises[d.ID])
	}
	return n
}

// derived lists the derived claims in scope, in the order of their making.
func (s *submission) derived(scope Scope) []*evidence.Node {
	in := map[string]bool{}
	if scope == ScopeSubmitted {
		in = s.closure(s.submitted(false))
	}
	var out []*evidence.Node
	for _, n := range s.order {
		if n.Kind == evidence.NodeDerived && (scope == ScopeAll || in[n.ID]) {
			out = append(out, n)
		}
	}
	return out
}

// standingKind is what a submission amounts to.
type standingKind string

const (
	standMissing    standingKind = "no submission"
	standUngrounded standingKind = "no submitted claim is structurally grounded"
	standEmpty      standingKind = "the submission says nothing on the question"
	standAnswered   standingKind = "answered"
)

// standing ranks the submission. Empty is grounded and yet no answer: where sub-answers are named,
// no grounded claim gives any of them; or every grounded claim only repeats a premise and nothing
// is right.
func standing(sub *submission, out outcomeResult) standingKind {
	if !sub.made() {
		return standMissing
	}
	grounded, own := false, false
	for _, c := range sub.claims {
		grounded = grounded || c.Structural
		own = own || c.Structural && c.Node.Restates == ""
	}
	switch {
	case !grounded:
		return standUngrounded
	case out.value == 0 && !own, out.rule != nil && !out.rule.Attempted(sub.claims, out.want):
		return standEmpty
	}
	return standAnswered
}

// penalties are the submission penalty, softened by the work done, and the one on restatements.
func (s *Scorer) penalties(sub *submission, stand standingKind, process, restated float64) []trajectory.Part {
	var parts []trajectory.Part
	amount := map[standingKind]float64{
		standMissing:    s.preset.MissingSubmissionPenalty,
		standUngrounded: s.preset.UngroundedSubmissionPenalty,
		standEmpty:      s.preset.EmptySubmissionPenalty,
	}[stand]
	if amount != 0 {
		progress := (process + sub.reached()) / 2
		reason := string(stand)
		if s.preset.ProgressRelief != 0 {
			reason = fmt.Sprintf("%s; progress %.2f", stand, progress)
		}
		parts = append(parts, trajectory.Part{
			Term: termPenalty, Name: "submission", Turn: sub.turn, Value: amount + s.preset.ProgressRelief*progress, Weight: 1, Reason: reason,
		})
	}
	if s.preset.RestatedPenalty != 0 && restated > 0 {
		parts = append(parts, trajectory.Part{
			Term: termPenalty, Name: "restated", Turn: sub.turn, Value: restated, Weight: s.preset.RestatedPenalty,
			Reason: "derived claims that repeat a premise",
		})
	}
	return parts
}
