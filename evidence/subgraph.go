package evidence

import (
	"slices"
	"strings"
)

// view indexes an export for walking. Edges with an unknown end are left out; Validate reports them.
type view struct {
	e     *Export
	index map[string]int
	in    [][]incoming
}

type incoming struct {
	node int
	kind EdgeKind
	role string
}

func (e *Export) view() *view {
	v := &view{e: e, index: make(map[string]int, len(e.Nodes)), in: make([][]incoming, len(e.Nodes))}
	for i := range e.Nodes {
		v.index[e.Nodes[i].ID] = i
	}
	for i := range e.Edges {
		edge := &e.Edges[i]
		from, ok := v.index[edge.From]
		to, known := v.index[edge.To]
		if ok && known {
			v.in[to] = append(v.in[to], incoming{from, edge.Kind, edge.Role})
		}
	}
	return v
}

// Node returns the node of that id.
func (e *Export) Node(id string) (Node, bool) {
	i := slices.IndexFunc(e.Nodes, func(n Node) bool { return n.ID == id })
	if i < 0 {
		return Node{}, false
	}
	return e.Nodes[i], true
}

// Premises returns a derived claim's premises, in the order in which they were given.
func (e *Export) Premises(claimID string) []Node {
	var out []Node
	for _, edge := range e.Edges {
		if edge.To == claimID && edge.Kind == EdgeDerive {
			if n, ok := e.Node(edge.From); ok {
				out = append(out, n)
			}
		}
	}
	return out
}

// Answer is the submitted claims' texts, joined by newlines.
func (e *Export) Answer() string {
	v := e.view()
	var texts []string
	for _, id := range e.Submitted {
		if i, ok := v.index[id]; ok {
			texts = append(texts, e.Nodes[i].Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Subgraph is G*: the submitted claims and all their ancestors, in the order of the whole graph.
// Refusals belong to no node and are left out.
func (e *Export) Subgraph() Export {
	v := e.view()
	keep := make([]bool, len(e.Nodes))
	var stack []int
	for _, id := range e.Submitted {
		if i, ok := v.index[id]; ok {
			stack = append(stack, i)
		}
	}
	v.mark(stack, keep, func(incoming) bool { return true })
	out := *e
	out.Refusals = nil
	out.Nodes, out.Edges = []Node{}, []Edge{}
	for i := range e.Nodes {
		if keep[i] {
			out.Nodes = append(out.Nodes, e.Nodes[i])
		}
	}
	for _, edge := range e.Edges {
		// An edge into a kept node comes from a kept node.
		if to, ok := v.index[edge.To]; ok && keep[to] {
			out.Edges = append(out.Edges, edge)
		}
	}
	return out
}

// mark walks from the nodes of stack against the edges that follow accepts.
func (v *view) mark(stack []int, seen []bool, follow func(incoming) bool) {
	for len(stack) > 0 {
		node := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[node] {
			continue
		}
		seen[node] = true
		for _, in := range v.in[node] {
			if !seen[in.node] && follow(in) {
				stack = append(stack, in.node)
			}
		}
	}
}

// claimsBelow is a claim and all claims it is derived from, in creation order.
func (v *view) claimsBelow(at int) []int {
	seen := make([]bool, len(v.e.Nodes))
	v.mark([]int{at}, seen, func(in incoming) bool { return in.kind == EdgeDerive })
	var out []int
	for i, ok := range seen {
		if ok {
			out = append(out, i)
		}
	}
	return out
}

func (v *view) premises(at int) []int {
	var out []int
	for _, in := range v.in[at] {
		if in.kind == EdgeDerive {
			out = append(out, in.node)
		}
	}
	return out
}

// Topological lists the nodes so that each stands after all it depends on: by depth, then by
// creation. Nodes on a cycle, which only a damaged export has, are left out.
func (e *Export) Topological() []Node {
	order := e.view().order()
	out := make([]Node, len(order))
	for i, node := range order {
		out[i] = e.Nodes[node]
	}
	return out
}

func (v *view) order() []int {
	n := len(v.e.Nodes)
	out := make([][]int, n)
	waiting := make([]int, n)
	for to := range v.in {
		waiting[to] = len(v.in[to])
		for _, in := range v.in[to] {
			out[in.node] = append(out[in.node], to)
		}
	}
	var level, order []int
	for i, w := range waiting {
		if w == 0 {
			level = append(level, i)
		}
	}
	for len(level) > 0 {
		slices.Sort(level)
		order = append(order, level...)
		var next []int
		for _, node := range level {
			for _, to := range out[node] {
				if waiting[to]--; waiting[to] == 0 {
					next = append(next, to)
				}
			}
		}
		level = next
	}
	return order
}

// grounded says of each node whether it reaches a source; see the package's invariants.
func (v *view) grounded() []bool {
	out := make([]bool, len(v.e.Nodes))
	for _, node := range v.order() {
		n := &v.e.Nodes[node]
		if n.Kind == NodeSource {
			out[node] = true
			continue
		}
		if n.Untracked != "" || n.Tainted {
			continue
		}
		for _, in := range v.in[node] {
			if (in.kind == EdgeCompute || in.kind == EdgeGround) && out[in.node] {
				out[node] = true
				break
			}
		}
	}
	return out
}
