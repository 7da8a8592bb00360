package analysis_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox/analysis"
)

// benchmarkCell is 60 lines of ordinary analysis.
func benchmarkCell(b *testing.B) string {
	var lines []string
	for _, s := range readSolutions(b) {
		for _, cell := range s.Cells {
			lines = append(lines, strings.Split(strings.TrimRight(cell, "\n"), "\n")...)
			if len(lines) >= 60 {
				return strings.Join(lines, "\n")
			}
		}
	}
	b.Fatal("the solutions have fewer than 60 lines")
	return ""
}

// updateGraph is what the graph does with a cell's analysis and its reports.
func updateGraph(g *evidence.Graph, cell string, got evidence.Analysis) {
	c := g.Begin(0, cell, got)
	for i := range got.Statements {
		c.Completed(evidence.Report{Index: i, Bound: got.Statements[i].Writes})
	}
	c.End("ok")
}

// spread reports the distribution of what f takes, in milliseconds. before runs ahead of each f and is not counted.
func spread(b *testing.B, before, f func()) {
	var times []time.Duration
	for b.Loop() {
		before()
		start := time.Now()
		f()
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(ms(times[0]), "ms-min")
	b.ReportMetric(ms(times[len(times)/2]), "ms-median")
	b.ReportMetric(ms(times[len(times)*99/100]), "ms-p99")
}

// BenchmarkPassAndGraphOf60LineCell is what a cell costs before it runs, and what its reports cost: the
// analysis with its round trip, and the graph's update for each statement.
func BenchmarkPassAndGraphOf60LineCell(b *testing.B) {
	a := newAnalyzer(b, analysis.Config{Python: oraclePython, Processes: 1})
	cell := benchmarkCell(b)
	spread(b, func() {
		// The process puts away a cell after its answer. Nobody asks at once for the next one, which waits for the session.
		if _, err := a.Analyze(context.Background(), "", nil); err != nil {
			b.Fatal(err)
		}
	}, func() {
		g := evidence.New(evidence.Task{Question: "What is asked?"}, evidence.Defaults())
		got, err := a.Analyze(context.Background(), cell, g.Definitions())
		if err != nil || got.Error != "" {
			b.Fatal(got.Error, err)
		}
		updateGraph(g, cell, got)
	})
}

// BenchmarkPartsOf60LineCell takes the parts of the row above one by one. The Python parts are timed inside
// the interpreter, the others here.
func BenchmarkPartsOf60LineCell(b *testing.B) {
	a := newAnalyzer(b, analysis.Config{Python: oraclePython, Processes: 1})
	cell := benchmarkCell(b)
	folder := "../../.venv/sandbox/lib/verigraph/pass"
	if why := a.Interpreted(); why != "" {
		b.Log(why)
		folder = "python"
	}
	got, err := a.Analyze(context.Background(), cell, nil)
	if err != nil || got.Error != "" {
		b.Fatal(got.Error, err)
	}
	text, err := json.Marshal(got)
	if err != nil {
		b.Fatal(err)
	}
	body := marshalled(b, string(text))[0]
	for _, part := range []string{"parse", "symtable", "pass", "encode"} {
		b.Run(part, func(b *testing.B) {
			var r struct{ Min, Median, P99 float64 }
			for b.Loop() { // a thousand rounds
				cmd := exec.Command(oraclePython, "-I", "-S", "testdata/parts.py", "python", folder, part)
				cmd.Stdin = strings.NewReader(cell)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				if err != nil {
					b.Fatalf("%v: %s", err, stderr.String())
				}
				if err := json.Unmarshal(out, &r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(r.Min, "ms-min")
			b.ReportMetric(r.Median, "ms-median")
			b.ReportMetric(r.P99, "ms-p99")
		})
	}
	none := func() {}
	b.Run("round-trip", func(b *testing.B) {
		spread(b, none, func() {
			if _, err := a.Analyze(context.Background(), "", nil); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("decode", func(b *testing.B) {
		spread(b, none, func() {
			if _, _, err := analysis.DecodeAnalysis(body); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("graph", func(b *testing.B) {
		spread(b, none, func() {
			updateGraph(evidence.New(evidence.Task{Question: "What is asked?"}, evidence.Defaults()), cell, got)
		})
	})
}
