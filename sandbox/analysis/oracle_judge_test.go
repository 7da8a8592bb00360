package analysis_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox/analysis"
)

type place struct {
	at   int
	name string
}

func places(pairs [][2]any) map[place]bool {
	out := map[place]bool{}
	for _, p := range pairs {
		out[place{int(p[0].(float64)), p[1].(string)}] = true
	}
	return out
}

// judge compares what the oracle found in one case with the graph's paths.
func judge(t testing.TB, a *analysis.Analyzer, c oracleCase, r oracleResult) tally {
	t.Helper()
	total := tally{cases: 1}
	if r.Error != "" || len(r.Positions) == 0 {
		total.stopped = 1
		t.Errorf("%s: not played: %s", c.ID, r.Error)
		return total
	}
	b := buildGraph(t, a, c, r)
	noisy := places(r.Noisy)
	total.missed = append(total.missed, b.unseen(c, r, noisy)...)
	for _, root := range r.Roots {
		total.roots++
		total.runs += root.Runs
		from, ok := b.rootNode(root)
		if !ok {
			continue
		}
		total.add(b.judgeRoot(c, r, root, from, noisy))
	}
	return total
}

func (b *builtGraph) rootNode(root oracleRoot) (int, bool) {
	if root.Root == "file" {
		i, ok := b.index["file:"+root.Name]
		return i, ok
	}
	i := b.version(root.Name, root.At)
	if i < 0 {
		return 0, false
	}
	n := b.export.Nodes[i]
	return i, [2]int{n.Turn, n.Statement} == root.At
}

// unseen are the contents that changed while the graph made no version of them.
func (b *builtGraph) unseen(c oracleCase, r oracleResult, noisy map[place]bool) []string {
	var out []string
	loose := false
	for at, p := range r.Positions {
		loose = loose || b.loose[p.At]
		for _, name := range p.Changed {
			i := b.version(name, p.At)
			if i < 0 || noisy[place{at, name}] || slices.Contains(p.Hidden, name) {
				continue // an import: no data
			}
			n := b.export.Nodes[i]
			if [2]int{n.Turn, n.Statement} != p.At && !loose {
				out = append(out, fmt.Sprintf("%s: %s changed at %v without a new version", c.ID, name, p.At))
			}
		}
	}
	return out
}

func (b *builtGraph) judgeRoot(c oracleCase, r oracleResult, root oracleRoot, from int, noisy map[place]bool) tally {
	var out tally
	all, data := reachable(b.out, from), reachable(b.data, from)
	changed := places(root.Changed)
	label := fmt.Sprintf("%s: %s", c.ID, b.export.Nodes[from].ID)
	verdict := func(node int, what string) {
		switch {
		case node == from:
		case all[node]:
			out.due++
			if !data[node] {
				out.decided = append(out.decided, label+" -> "+b.export.Nodes[node].ID)
			}
		case b.dirty[node] || b.looseBy(b.export.Nodes[node]):
			out.untracked++
			out.undecided = append(out.undecided, label+" -> "+b.export.Nodes[node].ID+": "+cmp.Or(b.why[node], "after a denied construct or an untracked statement"))
		default:
			out.missed = append(out.missed, label+" changes "+what)
		}
	}
	judged := map[int]bool{}
	for _, p := range slices.SortedFunc(maps.Keys(changed), func(x, y place) int {
		return 2*(x.at-y.at) + strings.Compare(x.name, y.name)
	}) {
		if node := b.version(p.name, r.Positions[p.at].At); node >= 0 && !judged[node] {
			judged[node] = true
			verdict(node, fmt.Sprintf("%s after %v", b.export.Nodes[node].ID, r.Positions[p.at].At))
		}
	}
	held := b.held(from)
	for _, i := range root.Claims {
		if i < len(b.claims) && b.claims[i] != "" && held[b.index[b.claims[i]]] {
			out.due++
			continue
		}
		if i < len(b.claims) && b.claims[i] != "" {
			verdict(b.index[b.claims[i]], "claim "+b.claims[i])
		}
	}
	stirred := b.stirred(r, root, data, changed)
	for node, on := range data {
		if !on && all[node] {
			out.decides(b, r, root, node, label, changed, noisy)
		}
		if !on || node == from {
			continue
		}
		n := b.export.Nodes[node]
		moved, at, ok := b.moved(r, root, n, changed)
		switch {
		case !ok:
		case b.dirty[node]:
			out.untracked++
			out.undecided = append(out.undecided, label+" -> "+n.ID+": "+b.why[node])
		case at >= root.Reached:
			out.unreached++
		case n.Kind == evidence.NodeVariable && (slices.Contains(r.Positions[at].Hidden, n.Name) || noisy[place{at, n.Name}]):
			out.hidden++
		default:
			out.paths++
			switch {
			case moved:
			case stirred[[2]int{n.Turn, n.Statement}]:
				out.spurious++
				out.siblings++
				out.beside = append(out.beside, label+" -> "+n.ID)
			default:
				out.spurious++
				out.excess = append(out.excess, label+" -> "+n.ID)
			}
		}
	}
	return out
}

// held are the nodes that rest on a claim of which the variable may hold a handle: one that was made by the statement that made
// the variable, or made what flowed into it. A handle that is put elsewhere makes the claim the premise that it then is.
func (b *builtGraph) held(variable int) []bool {
	out := make([]bool, len(b.out))
	for i, n := range b.export.Nodes {
		if n.Kind != evidence.NodeVariable || !reachable(b.data, i)[variable] {
			continue
		}
		for j, claim := range b.export.Nodes {
			if (claim.Kind == evidence.NodeAtomic || claim.Kind == evidence.NodeDerived) && claim.Turn == n.Turn && claim.Statement == n.Statement {
				for k, on := range reachable(b.out, j) {
					out[k] = out[k] || on && k != j
				}
			}
		}
	}
	return out
}

// decides counts a path that has a control edge.
func (t *tally) decides(b *builtGraph, r oracleResult, root oracleRoot, node int, label string, changed, noisy map[place]bool) {
	n := b.export.Nodes[node]
	moved, at, ok := b.moved(r, root, n, changed)
	if !ok || b.dirty[node] || at >= root.Reached ||
		n.Kind == evidence.NodeVariable && (slices.Contains(r.Positions[at].Hidden, n.Name) || noisy[place{at, n.Name}]) {
		return
	}
	t.deciding++
	if !moved {
		t.idle++
		t.undecisive = append(t.undecisive, label+" -> "+n.ID)
	}
}

// stirred are the statements of which some result moved with the root.
func (b *builtGraph) stirred(r oracleResult, root oracleRoot, data []bool, changed map[place]bool) map[[2]int]bool {
	out := map[[2]int]bool{}
	for node, on := range data {
		n := b.export.Nodes[node]
		if moved, _, ok := b.moved(r, root, n, changed); on && moved && ok {
			out[[2]int{n.Turn, n.Statement}] = true
		}
	}
	return out
}

func (b *builtGraph) looseBy(n evidence.Node) bool {
	for at := range b.loose {
		if before(at, [2]int{n.Turn, n.Statement}) {
			return true
		}
	}
	return false
}

// moved says whether a node's contents ever differed, and at which position it was made.
func (b *builtGraph) moved(r oracleResult, root oracleRoot, n evidence.Node, changed map[place]bool) (moved bool, at int, ok bool) {
	if n.Kind == evidence.NodeAtomic || n.Kind == evidence.NodeDerived {
		i := slices.Index(b.claims, n.ID)
		return slices.Contains(root.Claims, i), r.Claims[i], n.Kind == evidence.NodeAtomic && r.Claims[i] < len(r.Positions)
	}
	if n.Kind != evidence.NodeVariable {
		return false, 0, false
	}
	at = slices.IndexFunc(r.Positions, func(p struct {
		At      [2]int   `json:"at"`
		Changed []string `json:"changed"`
		Hidden  []string `json:"hidden"`
	},
	) bool {
		return p.At == [2]int{n.Turn, n.Statement}
	})
	if at < 0 || strings.HasPrefix(n.Name, "written:") {
		return false, 0, false
	}
	// The contents are those of the last statement that changed them.
	for p := at; p >= 0; p-- {
		if changed[place{p, n.Name}] {
			return true, at, true
		}
		if slices.Contains(r.Positions[p].Changed, n.Name) {
			return root.Root == "variable" && root.Name == n.Name && root.After == p, at, true
		}
	}
	return false, at, true
}
