package reward

import (
	"context"
	"fmt"
	"sync"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/reward/gov"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// walk is one verification by graph over the claims in scope.
type walk struct {
	s      *Scorer
	sub    *submission
	prompt task.Prompt
	claims []*evidence.Node // all claims in scope, in the order of their making
	at     map[string]int

	mu       sync.Mutex
	verdicts map[int]trajectory.Verdict
}

// judgeGraph goes through the derivation DAG in topological order. An atomic claim is true if it is
// structurally grounded (and replayed, where replay ran), without a judge call.
func (s *Scorer) judgeGraph(ctx context.Context, sub *submission, p task.Prompt, derived []*evidence.Node) ([]judged, *trajectory.GovResult, error) {
	w := &walk{s: s, sub: sub, prompt: p, at: map[string]int{}, verdicts: map[int]trajectory.Verdict{}}
	in := map[string]bool{}
	for _, d := range derived {
		for id := range sub.closure([]string{d.ID}) {
			in[id] = true
		}
	}
	for _, n := range sub.order {
		if in[n.ID] && (n.Kind == evidence.NodeAtomic || n.Kind == evidence.NodeDerived) {
			w.at[n.ID] = len(w.claims)
			w.claims = append(w.claims, n)
		}
	}
	g, err := gov.New(w.nodes(), w.terminals(), s.preset.Infer.Gov)
	if err != nil {
		return nil, nil, fmt.Errorf("infer: %w", err)
	}
	r, err := g.Verify(ctx, w.ask, s.parallel)
	out := make([]judged, len(derived))
	if err != nil {
		for i, d := range derived { // what was said before the failure is kept for people
			if v, ok := w.verdicts[w.at[d.ID]]; ok {
				out[i].verdict = &v
			}
		}
		return out, nil, err
	}
	for i, d := range derived {
		out[i] = w.judged(r, w.at[d.ID])
	}
	report := &trajectory.GovResult{Valid: r.Valid, Calls: r.Calls, CallsSaved: r.Saved, Units: len(g.Units())}
	if r.First >= 0 {
		report.FirstFailing = w.claims[r.First].ID
	}
	return out, report, nil
}

// nodes are the claims as the verification sees them.
func (w *walk) nodes() []gov.Node {
	holds := w.sub.grounded(w.claims)
	out := make([]gov.Node, len(w.claims))
	for i, n := range w.claims {
		out[i] = gov.Node{Cell: n.Turn, Base: n.Kind == evidence.NodeAtomic, Holds: holds[n.ID], Inherit: w.s.unasked(n)}
		for _, id := range w.sub.premises[n.ID] {
			if at, ok := w.at[id]; ok && n.Kind == evidence.NodeDerived {
				out[i].Premises = append(out[i].Premises, at)
			}
		}
	}
	return out
}

// terminals are the submitted claims in scope; without a submission every claim is one.
func (w *walk) terminals() []int {
	var out []int
	for _, id := range w.sub.submitted(false) {
		if at, ok := w.at[id]; ok {
			out = append(out, at)
		}
	}
	if w.s.preset.Infer.Scope == ScopeAll || len(out) == 0 {
		for i := range w.claims {
			out = append(out, i)
		}
	}
	return out
}

// grounded says of atomic claims whether each is structurally grounded and, where replay ran, gave
// the same text again.
func (s *submission) grounded(claims []*evidence.Node) map[string]bool {
	e := *s.export
	e.Submitted = nil
	for _, n := range claims {
		if n.Kind == evidence.NodeAtomic {
			e.Submitted = append(e.Submitted, n.ID)
		}
	}
	out := map[string]bool{}
	for _, g := range e.ComputeGrounding() {
		out[g.Claim] = isTrue(g.Structural) && (g.Replayed == nil || *g.Replayed)
	}
	for _, c := range s.claims { // what the worker stored of submitted claims wins
		if _, ok := out[c.Node.ID]; ok && !c.Structural {
			out[c.Node.ID] = false
		}
	}
	return out
}

func (w *walk) judged(r gov.Result, i int) judged {
	switch r.States[i] {
	case gov.Unjudged:
		return judged{skipped: true}
	case gov.Implied:
		return judged{implied: "false without a call: " + w.blame(r, i)}
	case gov.True, gov.False, gov.Abstained:
	}
	if v, ok := w.verdicts[i]; ok {
		return judged{verdict: &v}
	}
	return judged{} // a restatement
}

// blame names the premise that made a claim false.
func (w *walk) blame(r gov.Result, i int) string {
	for _, id := range w.sub.premises[w.claims[i].ID] {
		if at, ok := w.at[id]; ok && (r.States[at] == gov.False || r.States[at] == gov.Implied) {
			return "its premise " + id + " is false"
		}
	}
	return "a premise is false"
}

// ask puts one unit to the judge: a block in one call where the judge can, else step by step up to
// the first that does not follow.
func (w *walk) ask(ctx context.Context, r gov.Request) (gov.Answer, error) {
	if blocks, ok := w.s.judge.(BlockJudge); ok && len(r.Unit) > 1 {
		return w.askBlock(ctx, blocks, r)
	}
	answer := gov.Answer{Wrong: -1}
	for at, i := range r.Unit {
		n := w.claims[i]
		step := w.sub.step(w.prompt, n)
		if w.s.preset.Infer.Gov.Context == gov.Inclusive {
			step.Premises = w.texts(r.Context)
			for _, before := range r.Unit[:at] {
				step.Premises = append(step.Premises, w.claims[before].Text)
			}
		}
		v, err := w.s.judge.Entails(ctx, step)
		v, err = w.s.checked(w.sub, n, v, err)
		w.keep(i, v)
		switch {
		case err != nil:
			return gov.Answer{}, err
		case v.Kind == trajectory.NotEntailed:
			answer.Wrong = at
			return answer, nil
		case v.Kind == trajectory.Abstained:
			answer.Open = append(answer.Open, at)
		}
	}
	return answer, nil
}

func (w *walk) askBlock(ctx context.Context, judge BlockJudge, r gov.Request) (gov.Answer, error) {
	block := Block{Question: w.prompt.Question, Given: w.texts(r.Context)}
	for _, i := range r.Unit {
		block.Steps = append(block.Steps, w.sub.step(w.prompt, w.claims[i]))
	}
	first, v, err := judge.EntailsBlock(ctx, block)
	if err == nil && (first < -1 || first >= len(r.Unit)) {
		err = fmt.Errorf("step %d of %d: %w", first, len(r.Unit), ErrNoVerdict)
	}
	for at, i := range r.Unit {
		v := v
		v.Kind = trajectory.Entailed
		switch {
		case err != nil || first >= 0 && at > first:
			continue // asked for again
		case at == first:
			v.Kind = trajectory.NotEntailed
		}
		v, err := w.s.checked(w.sub, w.claims[i], v, nil)
		if err != nil {
			return gov.Answer{}, err
		}
		w.keep(i, v)
	}
	if err != nil {
		return gov.Answer{}, fmt.Errorf("infer: %s: %w", w.claims[r.Unit[0]].ID, err)
	}
	return gov.Answer{Wrong: first}, nil
}

func (w *walk) keep(i int, v trajectory.Verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verdicts[i] = v
}

func (w *walk) texts(claims []int) []string {
	out := make([]string, len(claims))
	for k, i := range claims {
		out[k] = w.claims[i].Text
	}
	return out
}
