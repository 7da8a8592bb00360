package reward

import (
	"regexp"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/reward/outcome"
	"github.com/verigraph/verigraph/trajectory"
)

// A guess between two words is right half of the time, so a right word pays only with something behind
// it. A number needs no such rule: it reaches a source, or stands in a premise that does.
//
// Invariant: no verdict and an abstention support nothing.

var spelled = regexp.MustCompile(`\p{L}+`)

// words finds what supports the sub-answers that hold no number.
type words struct {
	sub      *submission
	verdicts map[string]trajectory.VerdictKind
	inputs   map[string][]string // as submission.inputs, with control edges: a word may be chosen by a test on the data
	values   map[string]map[string]string
}

func newWords(sub *submission, verdicts []trajectory.Verdict) *words {
	w := &words{sub: sub, verdicts: map[string]trajectory.VerdictKind{}, inputs: map[string][]string{}, values: map[string]map[string]string{}}
	for _, v := range verdicts {
		w.verdicts[v.Claim] = v.Kind
	}
	for _, e := range sub.export.Edges {
		switch e.Kind {
		case evidence.EdgeCompute, evidence.EdgeControl:
			w.inputs[e.To] = append(w.inputs[e.To], e.From)
		case evidence.EdgeGround:
			if w.values[e.To] == nil {
				w.values[e.To] = map[string]string{}
			}
			w.values[e.To][e.Role] = e.From
		case evidence.EdgeDerive:
		}
	}
	return w
}

// worded reports whether a value is all words.
func worded(value string) bool {
	return spelled.MatchString(value) && !strings.ContainsFunc(value, isDigit)
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

// supported reports whether the word that claim id gives to a name has something behind it: a placeholder
// whose value the data made or chose; a claim among the premises that gives the name this word, itself
// supported; or else a judge's entailment of the claim and of every derived one that it rests on.
func (w *words) supported(id, name, value string) bool {
	n := w.sub.nodes[id]
	if n == nil {
		return false
	}
	if n.Kind == evidence.NodeAtomic {
		return w.rendered(n, value)
	}
	same := func(v string) bool { return strings.EqualFold(strings.TrimSpace(v), strings.TrimSpace(value)) }
	stated, entailed := false, n.Restates == ""
	below := w.sub.closure([]string{id})
	for _, p := range w.sub.order {
		if !below[p.ID] {
			continue
		}
		if p.Kind == evidence.NodeAtomic && slices.ContainsFunc(outcome.ValuesOf(p.Text, name), same) {
			stated = true
			if w.rendered(p, value) {
				return true
			}
		}
		entailed = entailed && (p.Kind != evidence.NodeDerived || p.Restates != "" || w.verdicts[p.ID] == trajectory.Entailed)
	}
	return entailed && !stated
}

// rendered reports whether all words of a value were filled in by placeholders over data.
func (w *words) rendered(claim *evidence.Node, value string) bool {
	var have []string
	for _, f := range claim.Fields {
		if slices.Contains(claim.Given, f.Name) || w.overData(w.values[claim.ID][f.Name]) {
			have = append(have, spelled.FindAllString(strings.ToLower(f.Text), -1)...)
		}
	}
	return !slices.ContainsFunc(spelled.FindAllString(strings.ToLower(value), -1), func(word string) bool { return !slices.Contains(have, word) })
}

// overData reports whether a node rests on a source, as data or by a decision.
func (w *words) overData(id string) bool {
	seen := map[string]bool{}
	for stack := []string{id}; len(stack) > 0; {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		n := w.sub.nodes[at]
		if seen[at] || n == nil || n.Untracked != "" || n.Tainted {
			continue
		}
		if n.Kind == evidence.NodeSource {
			return true
		}
		seen[at] = true
		stack = append(stack, w.inputs[at]...)
	}
	return false
}
