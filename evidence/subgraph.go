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
	ends  []ends // beside e.Edges
}

type incoming struct {
	node int
	kind EdgeKind
	role string
}

// ends are the nodes that an edge joins, -1 where there is none of that id.
type ends struct{ from, to int }

func (e *Export) view() *view {
	v := &view{
		e: e, index: make(map[string]int, len(e.Nodes)),
		in: make([][]incoming, len(e.Nodes)), ends: make([]ends, len(e.Edges)),
	}
	for i := range e.Nodes {
		v.index[e.Nodes[i].ID] = i
	}
	degree := make([]int, len(e.Nodes))
	last := ends{-1, -1}
	for i := range e.Edges {
		// Edges into one node stand together, and ids are long: look one up once.
		if i == 0 || e.Edges[i].To != e.Edges[i-1].To {
			last.to = v.find(e.Edges[i].To)
		}
		last.from = v.find(e.Edges[i].From)
		v.ends[i] = last
		if last.from >= 0 && last.to >= 0 {
			degree[last.to]++
		}
	}
	all := make([]incoming, 0, len(e.Edges))
	for node, d := range degree {
		at := len(all)
		all = all[:at+d]
		v.in[node] = all[at : at : at+d]
	}
	for i, end := range v.ends {
		if end.from >= 0 && end.to >= 0 {
			v.in[end.to] = append(v.in[end.to], incoming{end.from, e.Edges[i].Kind, e.Edges[i].Role})
		}
	}
	return v
}

func (v *view) find(id string) int {
	if i, ok := v.index[id]; ok {
		return i
	}
	return -1
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
	place := map[string]int{}
	for i := range e.Edges {
		if edge := &e.Edges[i]; edge.To == claimID && edge.Kind == EdgeDerive {
			if _, seen := place[edge.From]; !seen {
				place[edge.From] = len(place)
			}
		}
	}
	found := make([]*Node, len(place))
	for i := range e.Nodes {
		if at, ok := place[e.Nodes[i].ID]; ok {
			found[at] = &e.Nodes[i]
		}
	}
	var out []Node
	for _, n := range found {
		if n != nil {
			out = append(out, *n)
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
	nodes, edges := 0, 0
	for _, k := range keep {
		if k {
			nodes++
		}
	}
	// An edge into a kept node comes from a kept node.
	kept := func(i int) bool { return v.ends[i].to >= 0 && keep[v.ends[i].to] }
	for i := range v.ends {
		if kept(i) {
			edges++
		}
	}
	out.Nodes, out.Edges = make([]Node, 0, nodes), make([]Edge, 0, edges)
	for i := range e.Nodes {
		if keep[i] {
			out.Nodes = append(out.Nodes, e.Nodes[i])
		}
	}
	for i := range e.Edges {
		if kept(i) {
			out.Edges = append(out.Edges, e.Edges[i])
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

// claimsBelow is a claim and all claims it is derived from, in creation order. It visits these only: it is asked
// for each submitted claim.
func (v *view) claimsBelow(at int) []int {
	seen := map[int]bool{at: true}
	out := []int{at}
	for i := 0; i < len(out); i++ {
		for _, in := range v.in[out[i]] {
			if in.kind == EdgeDerive && !seen[in.node] {
				seen[in.node] = true
				out = append(out, in.node)
			}
		}
	}
	slices.Sort(out)
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
	waiting, degree := make([]int, n), make([]int, n)
	total := 0
	for to := range v.in {
		waiting[to] = len(v.in[to])
		total += len(v.in[to])
		for _, in := range v.in[to] {
			degree[in.node]++
		}
	}
	out, all := make([][]int, n), make([]int, total)
	for node, d := range degree {
		out[node], all = all[:0:d], all[d:]
	}
	for to := range v.in {
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
