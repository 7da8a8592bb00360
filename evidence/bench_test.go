package evidence

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// benchCell is a cell of 60 statements, as long as the longest of the handed solutions, that reads
// and writes a few names each and makes five claims.
func benchCell() (code string, a Analysis) {
	for i := range 60 {
		code += fmt.Sprintf("v%d = f(df, v%d)\n", i, max(i-1, 0))
		st := Statement{Line: i + 1, EndLine: i + 1, Reads: []string{"df", fmt.Sprintf("v%d", max(i-1, 0))}, Writes: []string{fmt.Sprintf("v%d", i)}}
		if i%12 == 11 {
			st.Calls = []PrimitiveCall{call("The mean is {m}.", map[string]string{"m": fmt.Sprintf("v%d", i-1)})}
			st.Calls[0].Line, st.Calls[0].EndLine = i+1, i+1
		}
		a.Statements = append(a.Statements, st)
	}
	return code, a
}

// play runs the cell on a graph.
func playCell(g *Graph, turn int, code string, a Analysis) {
	c := g.Begin(turn, code, a)
	for i := range a.Statements {
		if len(a.Statements[i].Calls) > 0 {
			r := request("The mean is {m}.", num("m", "34.65"))
			r.Statement, r.Line = i, i+1
			if _, _, refusal := c.Bind(r); refusal != nil {
				panic(refusal)
			}
		}
		c.Completed(Report{Index: i, Bound: a.Statements[i].Writes})
	}
	c.End("ok")
}

func benchGraph() *Graph {
	return New(Task{Question: question, Sources: []Source{{Name: "a.csv"}}}, Config{
		NumberRule: NumberReject, MaxClaimBytes: 2000, MaxReasoningBytes: 2000, MaxPremises: 32, MaxClaims: 1 << 20, MaxNodes: 1 << 20,
	})
}

func BenchmarkGraphUpdateOf60LineCell(b *testing.B) {
	code, a := benchCell()
	b.ReportAllocs()
	for b.Loop() {
		playCell(benchGraph(), 0, code, a)
	}
}

// graphOf plays cells until the graph has that many nodes, and submits every claim.
func graphOf(nodes int) *Graph {
	code, a := benchCell()
	g := benchGraph()
	for turn := 0; len(g.nodes) < nodes; turn++ {
		playCell(g, turn, code, a)
	}
	for _, c := range g.Claims() {
		g.submitted = append(g.submitted, c.ID)
	}
	g.submitTurn = 1
	return g
}

func BenchmarkExportOf10000Nodes(b *testing.B) {
	g := graphOf(10000)
	g.submitted = []string{"c1", "c400"}
	b.ReportAllocs()
	for b.Loop() {
		g.Export()
	}
}

// BenchmarkSubgraph extracts G* where every claim is submitted, so that most of the graph stays.
func BenchmarkSubgraph(b *testing.B) {
	for _, nodes := range []int{1000, 10000, 100000} {
		b.Run(fmt.Sprintf("%d", nodes), func(b *testing.B) {
			e := graphOf(nodes).Export()
			b.ReportAllocs()
			var kept int
			var times []time.Duration
			for b.Loop() {
				start := time.Now()
				sub := e.Subgraph()
				times = append(times, time.Since(start))
				kept = len(sub.Nodes)
			}
			slices.Sort(times)
			b.ReportMetric(float64(kept), "nodes")
			b.ReportMetric(float64(times[len(times)/2])/1e6, "ms-median")
			b.ReportMetric(float64(times[len(times)*99/100])/1e6, "ms-p99")
		})
	}
}

// BenchmarkMemoryOfAGraph says what one node and its edges take, in the graph and in an export of it.
func BenchmarkMemoryOfAGraph(b *testing.B) {
	for _, nodes := range []int{1000, 10000, 100000} {
		b.Run(fmt.Sprintf("%d", nodes), func(b *testing.B) {
			var graph, export float64
			for b.Loop() {
				graph, export = bytesPerNode(b, nodes)
			}
			b.ReportMetric(graph, "B/node")
			b.ReportMetric(export, "export-B/node")
		})
	}
}

// bytesPerNode is what stays on the heap, for each node of a graph of that many and of its export.
func bytesPerNode(t testing.TB, nodes int) (graph, export float64) {
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	empty := heap()
	g := graphOf(nodes)
	made := heap()
	e := g.Export()
	exported := heap()
	n := float64(len(g.nodes))
	if edges := float64(len(g.edges)) / n; edges > 4 {
		t.Errorf("%.1f edges per node", edges)
	}
	runtime.KeepAlive(g)
	runtime.KeepAlive(e)
	return (made - empty) / n, (exported - made) / n
}

func BenchmarkNumberRuleOnAParagraph(b *testing.B) {
	text := "On the 12 routes the mean fare rose by 3.2% to 34.65, from 33.6 in 2014; two thirds pay less than $1,200."
	premises := []string{"routes: 12; change 0.032; mean 34.6512", "in 2014 the mean was 33.58", "66.7% pay below 1200"}
	b.ReportAllocs()
	for b.Loop() {
		NewNumbers(text, premises, question)
	}
}

func TestMemoryOfAGraphIsLinearInItsNodes(t *testing.T) {
	small, smallExport := bytesPerNode(t, 2000)
	large, largeExport := bytesPerNode(t, 40000)
	t.Logf("bytes per node: %.0f at 2,000 nodes, %.0f at 40,000; exported %.0f and %.0f", small, large, smallExport, largeExport)
	if large > 2*small || largeExport > 2*smallExport {
		t.Errorf("bytes per node: %.0f at 2,000 nodes, %.0f at 40,000; exported %.0f and %.0f", small, large, smallExport, largeExport)
	}
}

// longQuestion has 3,600 words, as a task that hands its tables' documentation along.
func longQuestion() string {
	words := strings.Fields(question + " The columns are a date, 12 fares in USD, one third of the seats, and an index from 0 to 9 of a second-hand table.")
	var b strings.Builder
	for i := range 3600 {
		b.WriteString(words[i%len(words)])
		b.WriteByte(" \n"[i/97%2])
	}
	return b.String()
}

// A group reads its question once; each further member costs only this.
func BenchmarkFurtherGraphOfALongQuestion(b *testing.B) {
	task := Task{Question: longQuestion()}.Shared()
	b.ReportAllocs()
	for b.Loop() {
		New(task, Config{}).task.given.excused()
	}
}
