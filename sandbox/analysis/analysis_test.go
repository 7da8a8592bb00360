package analysis_test

import (
	"context"
	"testing"

	"github.com/verigraph/verigraph/sandbox/analysis"
)

func newAnalyzer(t testing.TB, config analysis.Config) *analysis.Analyzer {
	t.Helper()
	a, err := analysis.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func TestAnAssignmentFromAReaderNamesItsFile(t *testing.T) {
	t.Parallel()
	a := newAnalyzer(t, analysis.Config{})
	got, err := a.Analyze(context.Background(), "import pandas as pd\ndf = pd.read_csv('a.csv')\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Error != "" || len(got.Statements) != 2 || got.Statements[1].Files[0] != "a.csv" {
		t.Fatalf("got %+v", got)
	}
}
