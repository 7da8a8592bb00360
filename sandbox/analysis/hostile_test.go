package analysis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox/analysis"
)

func TestHostileSourcesAreOutcomesAndTheNextCellIsAnalysed(t *testing.T) {
	t.Parallel()
	t.Run("compiled", func(t *testing.T) { hostileSources(t, oraclePython) })
	t.Run("interpreted", func(t *testing.T) { hostileSources(t, "python3") })
}

func hostileSources(t *testing.T, python string) {
	t.Parallel()
	a := newAnalyzer(t, analysis.Config{Python: python, MaxSourceBytes: 2 << 20, Processes: 1, Timeout: time.Minute})
	deep := 100_000
	for name, c := range map[string]struct{ source, want string }{
		"invalid syntax":      {"x = 1\nx = = 2\n", "SyntaxError: invalid syntax (line 2)"},
		"bad indentation":     {"if x:\npass\n", "IndentationError: expected an indented block"},
		"deep parentheses":    {strings.Repeat("(", deep) + strings.Repeat(")", deep), "Error"},
		"deep brackets":       {"x = " + strings.Repeat("[", deep) + strings.Repeat("]", deep), "Error"},
		"deep attributes":     {"x" + strings.Repeat(".a", deep), "Error"},
		"deep subscripts":     {"x" + strings.Repeat("[0]", deep), "Error"},
		"deep calls":          {"x" + strings.Repeat("()", deep), "Error"},
		"deep negation":       {"x = " + strings.Repeat("-", deep) + "1", "Error"},
		"deep not":            {"x = " + strings.Repeat("not ", deep) + "1", "Error"},
		"deep lambda":         {"x = " + strings.Repeat("lambda: ", deep) + "1", "Error"},
		"deep conditional":    {"x = " + strings.Repeat("1 if a else ", deep) + "1", "Error"},
		"long sum":            {"x = 1" + strings.Repeat(" + 1", deep), "Error"},
		"many elifs":          {"if a: pass\n" + strings.Repeat("elif a: pass\n", 20_000), "Error"},
		"some elifs":          {"if a: pass\n" + strings.Repeat("elif a: pass\n", 300), ""},
		"deep indentation":    {deepBlocks(99), ""},
		"deeper indentation":  {deepBlocks(200), "Error"},
		"null byte":           {"x = 1\x00\n", "SyntaxError: source code"},
		"invalid utf-8":       {"x = '\xed\xa0\x80'\n", "SyntaxError: (unicode error)"},
		"lone surrogate":      {`x = "\ud800"`, ""},
		"surrogate in a name": {"pd.read_csv('\\ud800.csv')\nimport pandas as pd\npd.read_csv('\\ud800.csv')", ""},
		"huge integer":        {"x = " + strings.Repeat("9", 100_000), "SyntaxError: Exceeds the limit"},
		"huge hex integer":    {"x = 0x" + strings.Repeat("f", 100_000), ""},
		"many statements":     {strings.Repeat("x = 1\n", 20_000), ""},
		"a long line":         {"x = '" + strings.Repeat("a", 1<<20) + "'", ""},
		"too long":            {strings.Repeat("#", 3<<20), "SyntaxError: the cell has more than"},
		"return outside":      {"return 1", ""},
		"an encoding line":    {"# -*- coding: latin-1 -*-\nx = 'é'\n", ""},
		"form feeds and tabs": {"\fif x:\n\ty = 1\n", ""},
		"carriage returns":    {"x = 1\r\ny = 2\r", ""},
		"unicode names":       {"ﬁ = 1\ny = fi\n", ""},
		"nothing":             {"", ""},
		"exponential helpers": {exponential(40), ""},
		"wide recursion":      {"def f(a, b, c):\n    f(b, c, [a])\n    f(c, a, [b])\n    return f(a, b, c)\nx = f([], {}, set())\n", ""},
		"self-applied lambda": {"(lambda f: f(f))(lambda f: f(f))", ""},
		"growing closures":    {"f = lambda: 1\nfor i in range(9):\n    f = (lambda g: lambda: g())(f)\nx = f()\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := a.Analyze(context.Background(), c.source, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" && got.Error != "" || !strings.Contains(got.Error, c.want) {
				t.Errorf("error %.200q, want %q", got.Error, c.want)
			}
			if got.Error != "" && len(got.Statements) > 0 {
				t.Error("statements beside an error")
			}
			noInternalFaults(t, got)
			next, err := a.Analyze(context.Background(), "y = z", nil)
			if err != nil || next.Error != "" || len(next.Statements) != 1 {
				t.Errorf("the next cell: %+v, %v", next, err)
			}
		})
	}
}

func noInternalFaults(t testing.TB, a evidence.Analysis) {
	t.Helper()
	for _, s := range a.Statements {
		for _, reason := range s.Untracked {
			if strings.HasPrefix(reason, "internal") {
				t.Errorf("line %d: %s", s.Line, reason)
			}
		}
	}
}

func deepBlocks(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%sif a:\n", strings.Repeat(" ", i))
	}
	fmt.Fprintf(&b, "%sx = 1\n", strings.Repeat(" ", n))
	return b.String()
}

// exponential is a chain of helpers in which each calls the next twice.
func exponential(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "def f%d(v): return f%d(v) + f%d([v])\n", i, i+1, i+1)
	}
	fmt.Fprintf(&b, "def f%d(v): return v\nx = f0(y)\n", n)
	return b.String()
}

func TestAStatementTooComplexToFollowIsUntrackedAndKeepsItsNames(t *testing.T) {
	t.Parallel()
	a := newAnalyzer(t, analysis.Config{})
	s := newSession(a)
	got := s.run(t, "y = []\n"+exponential(40))
	last := got.Statements[len(got.Statements)-1]
	if len(last.Untracked) == 0 || !slices.Contains(last.MaybeWrites, "x") || !slices.Contains(last.Reads, "y") {
		t.Errorf("got %+v", last)
	}
	// Nothing is known of x from then on: it may be y.
	next := s.run(t, "x.append(1)\n").Statements[0]
	if !slices.Contains(next.Mutates, "y") || !slices.Contains(next.Mutates, "x") {
		t.Errorf("afterwards %+v", next)
	}
}

func TestACellThatTakesTooLongIsAnOutcomeAndTheNextOneIsAnalysed(t *testing.T) {
	t.Parallel()
	a := newAnalyzer(t, analysis.Config{Timeout: 300 * time.Millisecond, MaxSourceBytes: 8 << 20, Processes: 1})
	got, err := a.Analyze(context.Background(), strings.Repeat("x = [1, 2, 3]\n", 400_000), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.Error, "TimeoutError: ") {
		t.Errorf("error %.200q", got.Error)
	}
	// Under load a small cell may need more than one try; a broken pool needs infinitely many.
	for range 50 {
		if got, err = a.Analyze(context.Background(), "x = 1", nil); err != nil {
			t.Fatal(err)
		}
		if got.Error == "" {
			return
		}
	}
	t.Errorf("small cells keep failing: %s", got.Error)
}

func TestACanceledContextIsTheCallersErrorAndThePoolSurvives(t *testing.T) {
	t.Parallel()
	a := newAnalyzer(t, analysis.Config{Processes: 1})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := a.Analyze(ctx, "x = 1", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if got, err := a.Analyze(context.Background(), "x = 1", nil); err != nil || len(got.Statements) != 1 {
		t.Errorf("afterwards: %+v, %v", got, err)
	}
}

func TestAnInterpreterThatCannotRunIsAnErrorOfNew(t *testing.T) {
	t.Parallel()
	for _, python := range []string{"/nonexistent/python3", "/bin/true", "/bin/cat"} {
		if a, err := analysis.New(analysis.Config{Python: python}); err == nil {
			_ = a.Close()
			t.Errorf("%s started", python)
		}
	}
}

func TestNegativeSettingsAreAllReported(t *testing.T) {
	t.Parallel()
	err := analysis.Config{Timeout: -1, MaxSourceBytes: -1, Processes: -1, MemoryBytes: -1}.Validate()
	for _, name := range []string{"timeout", "max source bytes", "processes", "memory bytes"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q is not in %v", name, err)
		}
	}
	if err := (analysis.Config{}).Defaults().Validate(); err != nil {
		t.Error(err)
	}
}

func TestConcurrentCallersGetTheirOwnAnswers(t *testing.T) {
	t.Parallel()
	a := newAnalyzer(t, analysis.Config{Processes: 2})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			name := fmt.Sprintf("name_%d", i)
			got, err := a.Analyze(context.Background(), name+" = 1", nil)
			if err != nil || len(got.Statements) != 1 || !slices.Equal(got.Statements[0].Writes, []string{name}) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		})
	}
	wg.Wait()
}

func TestAClosedAnalyzerRefuses(t *testing.T) {
	t.Parallel()
	a, err := analysis.New(analysis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Analyze(context.Background(), "x = 1", nil); !errors.Is(err, analysis.ErrClosed) {
		t.Errorf("error %v", err)
	}
}
