package evidence

import (
	"errors"
	"fmt"
	"strings"
)

// maxProblems bounds what Validate reports of a damaged export.
const maxProblems = 20

// Validate checks that a stored export is one that a graph can have written: known schema, unique
// ids that fit their kinds, edges between nodes of it that their kinds allow, no cycle, submitted
// claims that exist, grounding in their order. It reports every problem, up to twenty.
func (e *Export) Validate() error {
	c := &checker{}
	if e.Schema != Schema {
		c.report("schema: %d is not %d", e.Schema, Schema)
		return errors.Join(c.problems...)
	}
	v := e.view()
	if len(v.index) != len(e.Nodes) {
		c.report("nodes: ids are not unique")
	}
	for i := range e.Nodes {
		c.node(&e.Nodes[i])
	}
	for i := range e.Edges {
		c.edge(v, &e.Edges[i])
	}
	if len(v.order()) != len(e.Nodes) {
		c.report("edges: they form a cycle")
	}
	c.claims(v)
	c.submission(v)
	return errors.Join(c.problems...)
}

type checker struct{ problems []error }

func (c *checker) report(format string, args ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, fmt.Errorf(format, args...))
	}
}

func (c *checker) node(n *Node) {
	ok := false
	switch n.Kind {
	case NodeSource:
		ok = n.ID == "file:"+n.Name && n.Name != ""
	case NodeVariable:
		ok = n.Version >= 1 && n.ID == versionID(n.Name, n.Version) && n.Name != ""
	case NodeValue:
		ok = strings.HasPrefix(n.ID, "v") && plainDigits(n.ID[1:])
	case NodeAtomic, NodeDerived:
		ok = strings.HasPrefix(n.ID, "c") && plainDigits(n.ID[1:])
	default:
		c.report("node %q: unknown kind %q", n.ID, n.Kind)
		return
	}
	if !ok {
		c.report("node %q: the id does not fit its kind %s", n.ID, n.Kind)
	}
}

// data are the kinds that hold data.
func data(kind NodeKind) bool {
	return kind == NodeSource || kind == NodeVariable || kind == NodeValue
}

func (c *checker) edge(v *view, edge *Edge) {
	from, ok := v.index[edge.From]
	to, known := v.index[edge.To]
	if !ok || !known {
		c.report("edge %q -> %q: an end is not in the graph", edge.From, edge.To)
		return
	}
	f, t := &v.e.Nodes[from], &v.e.Nodes[to]
	fits := false
	switch edge.Kind {
	case EdgeCompute, EdgeControl:
		fits = data(f.Kind) && data(t.Kind) && t.Kind != NodeSource
	case EdgeGround:
		fits = data(f.Kind) && t.Kind == NodeAtomic && edge.Role != ""
	case EdgeDerive:
		fits = f.isClaim() && t.Kind == NodeDerived
	}
	if !fits {
		c.report("edge %q -> %q: a %s edge can't join %s and %s", edge.From, edge.To, edge.Kind, f.Kind, t.Kind)
	}
}

func (c *checker) claims(v *view) {
	for i := range v.e.Nodes {
		n := &v.e.Nodes[i]
		switch {
		case n.Kind == NodeDerived && len(v.premises(i)) == 0:
			c.report("claim %s: no premises", n.ID)
		case n.Kind == NodeAtomic && len(n.Fields) == 0:
			c.report("claim %s: no placeholders", n.ID)
		case n.isClaim() && strings.TrimSpace(n.Text) == "":
			c.report("claim %s: no text", n.ID)
		}
	}
}

func (c *checker) submission(v *view) {
	e := v.e
	if (len(e.Submitted) > 0) != (e.SubmitTurn >= 0) {
		c.report("submit_turn: %d with %d submitted claims", e.SubmitTurn, len(e.Submitted))
	}
	seen := map[string]bool{}
	for _, id := range e.Submitted {
		i, ok := v.index[id]
		if !ok || !e.Nodes[i].isClaim() {
			c.report("submitted: %q is no claim of the graph", id)
		}
		if seen[id] {
			c.report("submitted: %q stands twice", id)
		}
		seen[id] = true
	}
	if len(e.Grounding) != len(e.Submitted) {
		c.report("grounding: %d entries for %d submitted claims", len(e.Grounding), len(e.Submitted))
		return
	}
	for i, g := range e.Grounding {
		if g.Claim != e.Submitted[i] {
			c.report("grounding: entry %d is %q, not %q", i, g.Claim, e.Submitted[i])
		}
	}
}
