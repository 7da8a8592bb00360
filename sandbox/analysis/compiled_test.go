package analysis_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/sandbox/analysis"
)

// bothWays are analyzers of one interpreter: with the compiled pass of its environment, and without, since its own
// file lies elsewhere.
func bothWays(t testing.TB, config analysis.Config) (compiled, interpreted *analysis.Analyzer) {
	t.Helper()
	python, err := filepath.EvalSymlinks(oraclePython)
	if err != nil {
		t.Skipf("%v; run make python", err)
	}
	config.Python = oraclePython
	compiled = newAnalyzer(t, config)
	if why := compiled.Interpreted(); why != "" {
		t.Skip(why)
	}
	config.Python = python
	interpreted = newAnalyzer(t, config)
	if interpreted.Interpreted() == "" {
		t.Fatalf("%s has a compiled pass too", python)
	}
	return compiled, interpreted
}

// compareRuns gives the cells to both sessions and names the first that they answer differently.
func compareRuns(t *testing.T, name string, cells []string, sessions ...*session) {
	t.Helper()
	for i, cell := range cells {
		var first []byte
		for _, s := range sessions {
			got, err := json.Marshal(s.run(t, cell))
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = got
			} else if string(got) != string(first) {
				t.Fatalf("%s, cell %d: compiled\n%s\ninterpreted\n%s", name, i+1, first, got)
			}
		}
	}
}

func TestTheCompiledPassAnswersAsItsSourcesDo(t *testing.T) {
	t.Parallel()
	compiled, interpreted := bothWays(t, analysis.Config{Processes: 1, Timeout: patience.Limit})
	compare := func(name string, cells ...string) {
		compareRuns(t, name, cells, newSession(compiled), newSession(interpreted))
	}
	prelude, cases := readCorpus(t)
	for _, c := range cases {
		compare(c.intent, append([]string{prelude}, c.cells...)...)
	}
	for _, s := range readSolutions(t) {
		compare(s.ID, s.Cells...)
	}
	out, err := exec.Command(oraclePython, "-c", "import os; print(os.path.dirname(os.__file__))").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dataclasses", "typing", "inspect", "statistics", "enum", "csv", "tempfile", "pdb"} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), name+".py"))
		if err != nil {
			t.Fatal(err)
		}
		compare(name, string(text), "x = "+name)
	}
}

func TestDeepRecursionOfTheCompiledPassEndsAsItsSourcesDo(t *testing.T) {
	t.Parallel()
	compiled, interpreted := bothWays(t, analysis.Config{Processes: 1, Timeout: patience.Limit, MaxSourceBytes: 2 << 20})
	// Helpers that call each other from deep inside an expression: what the parser lets through, 38 times.
	chained := func(depth int) string {
		var b strings.Builder
		for i := range 38 {
			b.WriteString("def f" + strconv.Itoa(i) + "(v):\n    return " + strings.Repeat("-", depth) + "f" + strconv.Itoa(i+1) + "(v)\n")
		}
		return b.String() + "def f38(v): return v\nx = f0(y)\n"
	}
	for name, source := range map[string]string{
		"chained calls":  chained(900),
		"chained deeply": chained(1500),
		"attributes":     "x" + strings.Repeat(".a", 2500),
		"calls":          "x = y" + strings.Repeat("()", 2500),
		"branches":       "if a: pass\n" + strings.Repeat("elif a: pass\n", 900),
		"masks":          "import pandas as pd\ndf = pd.DataFrame()\nx = df[df.a" + strings.Repeat(" & df.b", 1400) + "]\n",
		"nested values":  "def f():\n    x = ()\n" + strings.Repeat("    x = (x,)\n", 9000) + "    return x\ny = f()\nfor z in y: print(z)\n",
		"closures":       "def m():\n    f = 1\n" + strings.Repeat("    f = lambda f=f: f\n", 3000) + "    return f\nx = m()\nx()\n",
	} {
		t.Run(name, func(t *testing.T) {
			var answers []evidence.Analysis
			for _, a := range []*analysis.Analyzer{compiled, interpreted} {
				got, err := a.Analyze(context.Background(), source, nil)
				if err != nil {
					t.Fatal(err)
				}
				// A process that its stack ended would be replaced, and the cell blamed.
				if strings.HasPrefix(got.Error, "MemoryError: the cell is too complex to analyse") {
					t.Errorf("a process died: %s", got.Error)
				}
				noInternalFaults(t, got)
				answers = append(answers, got)
			}
			if x, y := untracked(answers[0]), untracked(answers[1]); x != y {
				t.Errorf("compiled %q, interpreted %q", x, y)
			}
		})
	}
}

// untracked is what the last statement says.
func untracked(a evidence.Analysis) string {
	if len(a.Statements) == 0 {
		return a.Error
	}
	return strings.Join(a.Statements[len(a.Statements)-1].Untracked, ", ")
}

func TestACompiledPassThatDoesNotFitIsLeftAloneAndNamed(t *testing.T) {
	t.Parallel()
	python, err := filepath.EvalSymlinks(oraclePython)
	if err != nil {
		t.Skipf("%v; run make python", err)
	}
	fits, err := os.ReadFile("../../.venv/sandbox/lib/verigraph/pass/sources")
	if err != nil {
		t.Skipf("%v; run make python", err)
	}
	for name, c := range map[string]struct{ sources, want string }{
		"nothing compiled": {"", "no lib/verigraph/pass in the python environment"},
		"other sources":    {"0123abcd .so\n", "is of another program or interpreter"},
		"a broken library": {string(fits), "invalid ELF header"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := t.TempDir()
			folder := filepath.Join(prefix, "lib/verigraph/pass")
			for _, dir := range []string{folder, filepath.Join(prefix, "bin")} {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if c.sources != "" {
				for file, text := range map[string]string{"sources": c.sources, "machine.so": "no library, but long enough to be read as one: its first bytes say so"} {
					if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o755); err != nil {
						t.Fatal(err)
					}
				}
			}
			link := filepath.Join(prefix, "bin/python")
			if err := os.Symlink(python, link); err != nil {
				t.Fatal(err)
			}
			a := newAnalyzer(t, analysis.Config{Python: link, Processes: 1})
			if why := a.Interpreted(); !strings.Contains(why, c.want) || !strings.Contains(why, "run make python") {
				t.Errorf("it says %q, want %q", why, c.want)
			}
			got, err := a.Analyze(context.Background(), "x = 1", nil)
			if err != nil || len(got.Statements) != 1 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
