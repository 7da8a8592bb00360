package evidence

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestDeadBranchesDropOutOfTheSubgraph(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.do("dead", Statement{Files: []string{"b.csv"}, Writes: []string{"dead"}}, []string{"dead"}, nil)
	deadClaim, good := w.mean("dead"), w.mean("df")
	id, refusal := w.infer(InferRequest{Premises: []string{good}, Conclusion: "The fare is moderate.", Reasoning: "The mean is moderate."})
	if refusal != nil {
		t.Fatal(refusal.Message)
	}
	w.grounding(id)
	e := w.g.Export()
	sub := e.Subgraph()
	if err := sub.Validate(); err != nil {
		t.Error(err)
	}
	var ids []string
	for _, n := range sub.Nodes {
		ids = append(ids, n.ID)
	}
	if want := []string{"file:a.csv", "df@1", "v2", good, id}; !slices.Equal(ids, want) {
		t.Errorf("nodes are %q, want %q", ids, want)
	}
	if _, ok := sub.Node(deadClaim); ok || len(e.Nodes) == len(sub.Nodes) {
		t.Error("the dead claim is still there")
	}
	if got := sub.Answer(); got != "The fare is moderate." {
		t.Errorf("answer is %q", got)
	}
}

func TestAnswerJoinsSubmittedClaimsInTheirOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	a := w.bind(Statement{Reads: []string{"df"}}, request("a {m}", num("m", "1")))
	b := w.bind(Statement{Reads: []string{"df"}}, request("b {m}", num("m", "2")))
	w.submit(b, a)
	e := w.g.Export()
	if got := e.Answer(); got != "b 2\na 1" {
		t.Errorf("answer is %q", got)
	}
}

func TestExportSurvivesJSON(t *testing.T) {
	t.Parallel()
	for _, submit := range []bool{false, true} {
		w := newWorld(t)
		w.load()
		id := w.mean("df")
		w.infer(InferRequest{})
		if submit {
			w.submit(id)
		}
		e := w.g.Export()
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"nodes", "edges", "submitted", "cells", "grounding"} {
			if strings.Contains(string(data), `"`+key+`":null`) {
				t.Errorf("%s is null", key)
			}
		}
		var back Export
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(e, back) {
			t.Errorf("export changed:\n%+v\n%+v", e, back)
		}
		if !reflect.DeepEqual(back.ComputeGrounding(), e.Grounding) {
			t.Error("grounding of the stored form differs")
		}
		if err := back.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestExportIsASnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	e := w.g.Export()
	before, _ := json.Marshal(e)
	w.submit(w.mean("df"))
	w.do("x", Statement{Taints: []string{"exec"}}, nil, func(c *Cell) { c.Taint(0, "gc") })
	if after, _ := json.Marshal(e); string(after) != string(before) {
		t.Error("an export changed with its graph")
	}
}

func TestGroundingKeepsPartsThatOthersFilledIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.submit(w.mean("df"))
	e := w.g.Export()
	no := false
	e.Grounding[0].Replayed, e.Grounding[0].Why = &no, "replay differs"
	g := e.ComputeGrounding()[0]
	if g.Replayed == nil || *g.Replayed || g.Why != "replay differs" || !*g.Structural || g.Supported != nil {
		t.Errorf("grounding is %+v", g)
	}
}

func TestValidateNamesWhatIsDamaged(t *testing.T) {
	t.Parallel()
	for want, damage := range map[string]func(*Export){
		"schema":                 func(e *Export) { e.Schema = 2 },
		"not unique":             func(e *Export) { e.Nodes = append(e.Nodes, e.Nodes[0]) },
		"unknown kind":           func(e *Export) { e.Nodes[0].Kind = "x" },
		"does not fit its kind":  func(e *Export) { e.Nodes[2].Version = 7 },
		"not in the graph":       func(e *Export) { e.Edges[0].From = "file:zz" },
		"can't join":             func(e *Export) { e.Edges[0].Kind = EdgeDerive },
		"cycle":                  func(e *Export) { e.Edges = append(e.Edges, Edge{From: "v1", To: "df@1", Kind: EdgeCompute}) },
		"no claim of the graph":  func(e *Export) { e.Submitted[0] = "df@1" },
		"stands twice":           func(e *Export) { e.Submitted = append(e.Submitted, e.Submitted[0]) },
		"submit_turn":            func(e *Export) { e.SubmitTurn = -1 },
		"grounding: 0 entries":   func(e *Export) { e.Grounding = nil },
		"grounding: entry 0":     func(e *Export) { e.Grounding[0].Claim = "c7" },
		"no placeholders":        func(e *Export) { e.Nodes[4].Fields = nil },
		"no text":                func(e *Export) { e.Nodes[4].Text = "" },
		"c1: no premises":        func(e *Export) { e.Nodes[4].Kind = NodeDerived },
		"an end is not in":       func(e *Export) { e.Edges[0].To = "x" },
		"a ground edge can't":    func(e *Export) { e.Edges[2].Role = "" },
		"a compute edge can't":   func(e *Export) { e.Edges[0].To = "file:b.csv" },
		`node "": the id`:        func(e *Export) { e.Nodes[1].ID, e.Nodes[1].Name = "", "" },
		`submitted: "c9" is no`:  func(e *Export) { e.Submitted[0] = "c9" },
		`"v": the id`:            func(e *Export) { e.Nodes[3].ID = "v" },
		"2 submitted claims":     func(e *Export) { e.Submitted = []string{"c1", "c1"} },
		"c1: no placeholders":    func(e *Export) { e.Nodes[4].Fields = []Field{} },
		"schema: 0 is not 1":     func(e *Export) { *e = Export{} },
		`node "c1": the id does`: func(e *Export) { e.Nodes[4].Kind = NodeValue },
	} {
		w := newWorld(t)
		w.load()
		w.submit(w.mean("df"))
		e := w.g.Export()
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		damage(&e)
		if err := e.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("damage %q: %v", want, err)
		}
		e.Subgraph()
		_ = e.Topological()
		_ = e.ComputeGrounding()
	}
}

func TestLabelsCannotLeaveTheirQuotes(t *testing.T) {
	t.Parallel()
	hostile := "\"]; n9[\"x\"] %% -->|a| n1 <script>`#quot; &quot; \\\" \\N } { end\nclick n0 \"javascript:1\""
	w := newWorld(t)
	w.load()
	id := w.bind(Statement{Reads: []string{"df"}}, request("{m}", str("m", hostile)))
	w.submit(id)
	e := w.g.Export()
	e.Nodes[0].ID += hostile
	e.Edges[0].From += hostile
	mermaidLine := regexp.MustCompile(`^(flowchart TD|  n\d+[\[\](){}]+"[^"<>\x60|\[\]{}\\%&]*"[\[\](){}]+|  style n\d+ stroke-width:3px|  n\d+ -\.?->\|"[^"|]*"\| n\d+)$`)
	for _, line := range strings.Split(strings.TrimSuffix(e.Mermaid(), "\n"), "\n") {
		if !mermaidLine.MatchString(line) {
			t.Errorf("mermaid line %q", line)
		}
	}
	quoted := `"([^"\\]|\\["\\])*"`
	dotLine := regexp.MustCompile(`^(digraph evidence \{|  rankdir=TB;|\}|  n\d+ \[shape=\w+, penwidth=\d, label=` + quoted + `\];|  n\d+ -> n\d+ \[style=\w+, label=` + quoted + `\];)$`)
	for _, line := range strings.Split(strings.TrimSuffix(e.DOT(), "\n"), "\n") {
		if !dotLine.MatchString(line) {
			t.Errorf("dot line %q", line)
		}
	}
}

// randomGraph drives a graph with statements that no static pass would write.
func randomGraph(r *rand.Rand, cells int) *Graph {
	g := New(Task{Question: question, Sources: []Source{{Name: "a.csv"}, {Name: "b.csv"}}}, Defaults())
	pick := func(prefix string, n int) []string {
		var out []string
		for range r.IntN(n) {
			out = append(out, fmt.Sprintf("%s%d", prefix, r.IntN(5)))
		}
		return out
	}
	for turn := range cells {
		var a Analysis
		for range 1 + r.IntN(4) {
			st := Statement{
				Line: r.IntN(3), EndLine: r.IntN(3), Reads: pick("x", 4), Control: pick("x", 2), Writes: pick("x", 3),
				MaybeWrites: pick("x", 2), Mutates: pick("x", 2), Deletes: pick("x", 2),
				WrittenFiles: pick("f", 2), DynamicFiles: r.IntN(5) == 0,
			}
			if r.IntN(2) == 0 {
				st.Files = []string{"a.csv"}
			}
			if r.IntN(30) == 0 {
				st.Taints = []string{"exec"}
			}
			if r.IntN(3) == 0 {
				st.Calls = []PrimitiveCall{call("{m} of {n}", map[string]string{"m": "x1", "n": "x2"})}
			}
			a.Statements = append(a.Statements, st)
		}
		c := g.Begin(turn, "for x in y:\nx0 = 1\n", a)
		for i := range a.Statements {
			for range r.IntN(3) {
				req := request("{m} of {n}", num("m", "1.5"), num("n", "2"))
				req.Statement = i
				c.Bind(req)
			}
			if claims := g.Claims(); len(claims) > 0 && r.IntN(2) == 0 {
				p := []string{claims[r.IntN(len(claims))].ID, claims[r.IntN(len(claims))].ID}
				c.Infer(InferRequest{Statement: i, Premises: p, Conclusion: "It holds for the larger one.", Reasoning: p[0] + " says so, and so it does."})
			}
			if r.IntN(12) == 0 {
				break
			}
			c.Completed(Report{Index: i, Bound: pick("x", 5), Unbound: pick("x", 2), Opened: pick("f", 2)})
		}
		c.End("ok")
		if r.IntN(15) == 0 {
			g.ResetNamespace()
		}
	}
	c := g.Begin(cells, "", Analysis{})
	for _, claim := range g.Claims() {
		if r.IntN(3) == 0 {
			c.Submit(SubmitRequest{Claims: []string{claim.ID}})
		}
	}
	return g
}

func TestGraphStaysAcyclicAndConsistentUnderRandomPrograms(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		g := randomGraph(rand.New(rand.NewPCG(seed, 1)), 20)
		e := g.Export()
		if err := e.Validate(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		position := map[string]int{}
		for i, n := range e.Nodes {
			position[n.ID] = i
		}
		for _, edge := range e.Edges {
			if position[edge.From] >= position[edge.To] {
				t.Fatalf("seed %d: %s -> %s goes back", seed, edge.From, edge.To)
			}
		}
		if got := e.view().grounded(); !slices.Equal(got, g.grounded) {
			t.Fatalf("seed %d: the export is grounded otherwise than the graph", seed)
		}
		place := map[string]int{}
		for i, n := range e.Topological() {
			place[n.ID] = i
		}
		for _, edge := range e.Edges {
			if len(place) != len(e.Nodes) || place[edge.From] >= place[edge.To] {
				t.Fatalf("seed %d: topological order breaks %s -> %s", seed, edge.From, edge.To)
			}
		}
		sub := e.Subgraph()
		if err := sub.Validate(); err != nil {
			t.Fatalf("seed %d: subgraph: %v", seed, err)
		}
		if !reflect.DeepEqual(sub.ComputeGrounding(), e.Grounding) {
			t.Fatalf("seed %d: grounding of the subgraph differs", seed)
		}
	}
}

func BenchmarkSubgraphOf10000Nodes(b *testing.B) {
	g := New(Task{Sources: []Source{{Name: "a.csv"}}}, Defaults())
	for turn := 0; len(g.nodes) < 9990; turn++ {
		c := g.Begin(turn, "", Analysis{Statements: []Statement{{Reads: []string{"x", "y"}, Writes: []string{"x", "y"}, Files: []string{"a.csv"}}}})
		c.Completed(Report{Bound: []string{"x", "y"}})
		c.End("ok")
	}
	c := g.Begin(0, "", Analysis{Statements: []Statement{{Reads: []string{"x", "y"}}}})
	id, _, _ := c.Bind(request("{m}", num("m", "1")))
	c.Submit(SubmitRequest{Claims: []string{id}})
	e := g.Export()
	for b.Loop() {
		if sub := e.Subgraph(); len(sub.Nodes) < 9000 {
			b.Fatalf("%d nodes", len(sub.Nodes))
		}
	}
}
