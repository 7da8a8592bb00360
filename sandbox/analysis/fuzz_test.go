package analysis_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox/analysis"
)

func FuzzEverySourceIsAnOutcomeWithoutFaultsOfThePass(f *testing.F) {
	prelude, cases := readCorpus(f)
	for _, c := range cases {
		f.Add(strings.Join(c.cells, "\n"))
	}
	for _, s := range readSolutions(f) {
		f.Add(strings.Join(s.Cells, "\n"))
	}
	a := newAnalyzer(f, analysis.Config{Processes: 1})
	s := newSession(a)
	s.run(f, prelude)
	f.Fuzz(func(t *testing.T, source string) {
		got, err := a.Analyze(context.Background(), source, s.state)
		if err != nil {
			t.Fatal(err)
		}
		noInternalFaults(t, got)
		last := 0
		for _, st := range got.Statements {
			if st.Line < last || st.EndLine < st.Line {
				t.Errorf("statement at lines %d to %d after line %d", st.Line, st.EndLine, last)
			}
			last = st.Line
		}
	})
}

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

// BenchmarkPassAndGraphOf60LineCell is what a cell costs before it runs, and what its reports cost: the
// analysis with its round trip, and the graph's update for each statement.
func BenchmarkPassAndGraphOf60LineCell(b *testing.B) {
	a := newAnalyzer(b, analysis.Config{Processes: 1})
	cell := benchmarkCell(b)
	var times []time.Duration
	for b.Loop() {
		g := evidence.New(evidence.Task{Question: "What is asked?"}, evidence.Defaults())
		start := time.Now()
		got, err := a.Analyze(context.Background(), cell, g.Definitions())
		if err != nil || got.Error != "" {
			b.Fatal(got.Error, err)
		}
		c := g.Begin(0, cell, got)
		for i := range got.Statements {
			c.Completed(evidence.Report{Index: i, Bound: got.Statements[i].Writes})
		}
		c.End("ok")
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(ms(times[0]), "ms-min")
	b.ReportMetric(ms(times[len(times)/2]), "ms-median")
	b.ReportMetric(ms(times[len(times)*99/100]), "ms-p99")
}
