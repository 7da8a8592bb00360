package reward

import (
	"fmt"
	"slices"
	"strings"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/reward/outcome"
)

// submission is the reward's view of an exported graph: what was submitted and what it rests on.
type submission struct {
	export   *evidence.Export
	nodes    map[string]*evidence.Node
	order    []*evidence.Node
	premises map[string][]string // derived claim to its premises, in edge order
	inputs   map[string][]string // node to what it was computed or grounded from (no control edges)
	claims   []outcome.Claim     // the submitted claims that the graph holds, in order
	turn     int                 // of the submission, else the last turn
}

func newSubmission(e *evidence.Export, turns int) *submission {
	s := &submission{
		export: e, nodes: map[string]*evidence.Node{}, premises: map[string][]string{}, inputs: map[string][]string{}, turn: max(turns-1, 0),
	}
	for i := range e.Nodes {
		s.nodes[e.Nodes[i].ID] = &e.Nodes[i]
		s.order = append(s.order, &e.Nodes[i])
	}
	for _, edge := range e.Edges {
		switch edge.Kind {
		case evidence.EdgeDerive:
			s.premises[edge.To] = append(s.premises[edge.To], edge.From)
		case evidence.EdgeCompute, evidence.EdgeGround:
			s.inputs[edge.To] = append(s.inputs[edge.To], edge.From)
		case evidence.EdgeControl: // does not ground
		}
	}
	grounding := map[string]evidence.ClaimGrounding{}
	for _, g := range e.Grounding {
		grounding[g.Claim] = g
	}
	for _, id := range e.Submitted {
		if n := s.nodes[id]; n != nil {
			g := grounding[id]
			s.claims = append(s.claims, outcome.Claim{Node: *n, Structural: isTrue(g.Structural), Lexical: isTrue(g.Lexical)})
		}
	}
	if s.made() && e.SubmitTurn >= 0 && e.SubmitTurn < turns {
		s.turn = e.SubmitTurn
	}
	return s
}

func isTrue(b *bool) bool { return b != nil && *b }

func (s *submission) made() bool { return len(s.claims) > 0 }

// turnOf is where a claim was made; without one, where the submission was.
func (s *submission) turnOf(claim string) int {
	if n := s.nodes[claim]; n != nil && n.Turn >= 0 {
		return n.Turn
	}
	return s.turn
}

// answer is the submitted claims' texts joined by newlines: the text that the official rules read.
func (s *submission) answer() string {
	texts := make([]string, len(s.claims))
	for i, c := range s.claims {
		texts[i] = c.Node.Text
	}
	return strings.Join(texts, "\n")
}

// closure marks the claims that the given ones rest on, themselves included.
func (s *submission) closure(ids []string) map[string]bool {
	seen := map[string]bool{}
	for stack := slices.Clone(ids); len(stack) > 0; {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[id] {
			continue
		}
		seen[id] = true
		stack = append(stack, s.premises[id]...)
	}
	return seen
}

// submitted lists the submitted claims, only the structurally grounded ones if grounded is set.
func (s *submission) submitted(grounded bool) []string {
	var ids []string
	for _, c := range s.claims {
		if c.Structural || !grounded {
			ids = append(ids, c.Node.ID)
		}
	}
	return ids
}

// evidence renders G* for a judge, one line per claim, premises first.
func (s *submission) evidence() string {
	in := s.closure(s.submitted(false))
	var b strings.Builder
	for _, n := range s.order {
		if !in[n.ID] {
			continue
		}
		switch n.Kind {
		case evidence.NodeAtomic:
			fmt.Fprintf(&b, "%s (bound from %s): %s\n", n.ID, strings.Join(s.sources(n.ID), ", "), n.Text)
		case evidence.NodeDerived:
			fmt.Fprintf(&b, "%s (derived from %s): %s (reasoning: %s)\n", n.ID, strings.Join(s.premises[n.ID], ", "), n.Text, n.Reasoning)
		}
	}
	return b.String()
}

// sources names the files that a claim's values come from, or says that there are none.
func (s *submission) sources(id string) []string {
	var out []string
	seen := map[string]bool{}
	for queue := []string{id}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if seen[at] {
			continue
		}
		seen[at] = true
		n := s.nodes[at]
		if n == nil || n.Untracked != "" {
			continue
		}
		if n.Kind == evidence.NodeSource {
			out = append(out, n.Name)
		}
		queue = append(queue, s.inputs[at]...)
	}
	if len(out) == 0 {
		return []string{"no data file"}
	}
	return out
}

// reached is how far the work got, submitted or not: 1 with an untainted atomic claim over data
// from a file, 0.5 with a value computed from a file, else 0. It is bounded, so repeating a step
// earns nothing.
func (s *submission) reached() float64 {
	state := map[string]bool{} // presence marks a visit, which also ends cycles in a broken export
	var grounded func(id string) bool
	grounded = func(id string) bool {
		if known, ok := state[id]; ok {
			return known
		}
		state[id] = false
		n := s.nodes[id]
		if n == nil || n.Untracked != "" || n.Tainted {
			return false
		}
		if n.Kind == evidence.NodeSource {
			state[id] = true
			return true
		}
		for _, from := range s.inputs[id] {
			if grounded(from) {
				state[id] = true
				return true
			}
		}
		return false
	}
	best := 0.0
	for _, n := range s.order {
		if n.Kind == evidence.NodeSource || n.Kind == evidence.NodeDerived || !grounded(n.ID) {
			continue
		}
		if n.Kind == evidence.NodeAtomic {
			return 1
		}
		best = 0.5
	}
	return best
}
