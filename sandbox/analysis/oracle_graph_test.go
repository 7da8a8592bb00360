package analysis_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox/analysis"
)

// builtGraph is the graph of a case as the pass makes it, with what is where.
type builtGraph struct {
	export evidence.Export
	index  map[string]int
	out    [][]int // edges of all kinds
	data   [][]int // edges that carry data
	claims []string
	dirty  []bool   // has an untracked ancestor, or is untracked
	why    []string // beside dirty: the reason
	// loose are the statements that the pass calls untracked.
	loose map[[2]int]bool
}

// buildGraph drives a graph with the pass's analyses and with what the first run reported.
func buildGraph(t testing.TB, a *analysis.Analyzer, c oracleCase, r oracleResult) *builtGraph {
	t.Helper()
	task := evidence.Task{Question: "What is asked?"}
	for _, root := range r.Roots {
		if root.Root == "file" {
			task.Sources = append(task.Sources, evidence.Source{Name: root.Name, SHA256: root.Name})
		}
	}
	g := evidence.New(task, evidence.Defaults())
	b := &builtGraph{index: map[string]int{}, loose: map[[2]int]bool{}}
	ids := map[string]string{}
	known := func(names []string) []string {
		var out []string
		for _, n := range names {
			out = append(out, ids[n])
		}
		return out
	}
	events := r.Events
	for turn, code := range c.Cells {
		got, err := a.Analyze(t.Context(), code, g.Definitions())
		if err != nil {
			t.Fatal(err)
		}
		for i, st := range got.Statements {
			if len(st.Untracked) > 0 || len(st.Taints) > 0 {
				b.loose[[2]int{turn, i}] = true
			}
		}
		cell := g.Begin(turn, code, got)
		for ended := false; !ended && len(events) > 0; events = events[1:] {
			var kind string
			must(t, json.Unmarshal(events[0][0], &kind))
			body := events[0][1]
			switch kind {
			case "completed":
				var report evidence.Report
				must(t, json.Unmarshal(body, &report))
				cell.Completed(report)
			case "bind":
				var request evidence.BindRequest
				must(t, json.Unmarshal(body, &request))
				id, _, refusal := cell.Bind(request)
				b.claim(ids, id, refusal)
			case "infer":
				var request evidence.InferRequest
				must(t, json.Unmarshal(body, &request))
				request.Premises = known(request.Premises)
				id, _, refusal := cell.Infer(request)
				b.claim(ids, id, refusal)
			case "submit":
				var request evidence.SubmitRequest
				must(t, json.Unmarshal(body, &request))
				request.Claims = known(request.Claims)
				_ = cell.Submit(request)
			case "end":
				var status string
				must(t, json.Unmarshal(body, &status))
				cell.End(status)
				ended = true
			}
		}
	}
	b.export = g.Export()
	b.connect()
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *builtGraph) claim(ids map[string]string, id string, refusal *evidence.Refusal) {
	if refusal != nil {
		id = ""
	}
	b.claims = append(b.claims, id)
	ids[fmt.Sprintf("c%d", len(b.claims))] = id
}

func (b *builtGraph) connect() {
	n := len(b.export.Nodes)
	b.out, b.data, b.dirty, b.why = make([][]int, n), make([][]int, n), make([]bool, n), make([]string, n)
	for i, node := range b.export.Nodes {
		b.index[node.ID] = i
		b.dirty[i], b.why[i] = node.Untracked != "", node.Untracked
	}
	for _, e := range b.export.Edges {
		from, to := b.index[e.From], b.index[e.To]
		b.out[from] = append(b.out[from], to)
		if e.Kind != evidence.EdgeControl {
			b.data[from] = append(b.data[from], to)
		}
		if b.dirty[from] && !b.dirty[to] {
			b.dirty[to], b.why[to] = true, b.why[from]
		}
	}
}

// version is the node of a name after the statement at a position, or -1.
func (b *builtGraph) version(name string, at [2]int) int {
	found := -1
	for i, n := range b.export.Nodes {
		if n.Kind == evidence.NodeVariable && n.Name == name && before([2]int{n.Turn, n.Statement}, at) {
			found = i
		}
	}
	return found
}

func before(a, b [2]int) bool { return a[0] < b[0] || a[0] == b[0] && a[1] <= b[1] }

func reachable(edges [][]int, from int) []bool {
	seen := make([]bool, len(edges))
	stack := []int{from}
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !seen[at] {
			seen[at] = true
			stack = append(stack, edges[at]...)
		}
	}
	return seen
}
