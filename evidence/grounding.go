package evidence

import (
	"fmt"
	"strings"
)

// ComputeGrounding returns S and N of the submitted claims, in the order of Submitted, from nodes
// and edges alone. R and J are kept where e.Grounding has them for the same claim.
func (e *Export) ComputeGrounding() []ClaimGrounding {
	v := e.view()
	grounded := v.grounded()
	denied := e.denials()
	old := map[string]ClaimGrounding{}
	for _, g := range e.Grounding {
		old[g.Claim] = g
	}
	out := make([]ClaimGrounding, 0, len(e.Submitted))
	for _, id := range e.Submitted {
		s, n := v.structural(id, grounded, denied), v.lexical(id)
		structural, lexical := s == "", n == ""
		g := ClaimGrounding{
			Claim: id, Structural: &structural, Lexical: &lexical,
			Replayed: old[id].Replayed, Supported: old[id].Supported, Why: s,
		}
		switch {
		case s == "" && n != "":
			g.Why = n
		case s == "" && (isFalse(g.Replayed) || isFalse(g.Supported)):
			g.Why = old[id].Why
		}
		out = append(out, g)
	}
	return out
}

func isFalse(b *bool) bool { return b != nil && !*b }

// structural returns why a claim is not structurally grounded, "" if it is.
func (v *view) structural(id string, grounded []bool, denied map[string]string) string {
	at, ok := v.index[id]
	if !ok {
		return id + " is not in the graph"
	}
	for _, node := range v.claimsBelow(at) {
		n := &v.e.Nodes[node]
		why := ""
		switch {
		case n.Tainted:
			why = "it was made after the session was tainted"
		case n.Kind == NodeDerived:
			if len(v.premises(node)) == 0 {
				why = "it has no premises"
			}
		case n.Kind == NodeAtomic:
			why = v.ungrounded(node, grounded)
		}
		if why == "" {
			why = denied[n.ID]
		}
		if why != "" {
			return n.ID + ": " + why
		}
	}
	return ""
}

// ungrounded returns why an atomic claim's values do not ground it.
func (v *view) ungrounded(node int, grounded []bool) string {
	n := &v.e.Nodes[node]
	reaches := map[string]bool{}
	for _, edge := range v.in[node] {
		if edge.kind == EdgeGround && grounded[edge.node] {
			reaches[edge.role] = true
		}
	}
	for _, name := range n.Given {
		reaches[name] = true
	}
	kinds := map[string]string{}
	for _, value := range n.Values {
		kinds[value.Name] = value.Kind
	}
	some := false
	for _, f := range n.Fields {
		some = some || reaches[f.Name]
		if !reaches[f.Name] && boundNumber(kinds[f.Name], f.Text) {
			return fmt.Sprintf("the value of {%s} (%s) reaches no source", short(f.Name), short(f.Text))
		}
	}
	if !some {
		return "all its values are constants"
	}
	return ""
}

// boundNumber reports whether a rendered value must be grounded. Text and booleans may be
// constants, unless they smuggle a number.
func boundNumber(kind, text string) bool {
	switch kind {
	case KindNumber, KindDate, KindList:
		return true
	}
	return hasDigit(text) || givenRules.hasNumber(text)
}

// lexical returns which number of a claim, or of a claim that it rests on, comes from nowhere. The
// ancestors count since a number that one of them made up is no news in what is derived from it.
func (v *view) lexical(id string) string {
	at, ok := v.index[id]
	if !ok {
		return id + " is not in the graph"
	}
	for _, node := range v.claimsBelow(at) {
		if n := &v.e.Nodes[node]; len(n.NewNumbers) > 0 {
			return n.ID + ": states " + short(strings.Join(n.NewNumbers, ", ")) + ", which nothing holds"
		}
	}
	return ""
}
