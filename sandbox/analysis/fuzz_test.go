package analysis_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/verigraph/verigraph/sandbox/analysis"
)

// The compiled pass and its sources must answer the same, too.
func FuzzEverySourceIsAnOutcomeWithoutFaultsOfThePass(f *testing.F) {
	prelude, cases := readCorpus(f)
	for _, c := range cases {
		f.Add(strings.Join(c.cells, "\n"))
	}
	for _, s := range readSolutions(f) {
		f.Add(strings.Join(s.Cells, "\n"))
	}
	a, interpreted := bothWays(f, analysis.Config{Processes: 1})
	s := newSession(a)
	s.run(f, prelude)
	f.Fuzz(func(t *testing.T, source string) {
		got, err := a.Analyze(context.Background(), source, s.state)
		if err != nil {
			t.Fatal(err)
		}
		same, err := interpreted.Analyze(context.Background(), source, s.state)
		if err != nil || !reflect.DeepEqual(got, same) {
			t.Errorf("compiled %+v\ninterpreted %+v, %v", got, same, err)
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
