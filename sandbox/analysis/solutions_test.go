package analysis_test

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox/analysis"
)

type solution struct {
	ID    string   `json:"id"`
	Cells []string `json:"cells"`
}

func readSolutions(t testing.TB) []solution {
	t.Helper()
	f, err := os.Open("testdata/solutions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []solution
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s solution
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// lineage follows statements as the graph does, but keeps only whether a name's value comes from a
// file: as data (grounded), or at least by a decision (touched).
type lineage struct {
	grounded, touched map[string]bool
}

func newLineage() *lineage { return &lineage{map[string]bool{}, map[string]bool{}} }

func anyOf(known map[string]bool, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return known[name] })
}

func (l *lineage) step(s evidence.Statement) {
	data := anyOf(l.grounded, s.Reads) || len(s.Files) > 0
	decided := data || anyOf(l.touched, s.Reads) || anyOf(l.touched, s.Control)
	for _, name := range s.Writes {
		l.grounded[name], l.touched[name] = data, decided
	}
	for _, name := range slices.Concat(s.MaybeWrites, s.Mutates) {
		l.grounded[name] = l.grounded[name] || data
		l.touched[name] = l.touched[name] || decided
	}
}

func TestHonestSolutionsAreCleanAndEveryBoundValueComesFromAFile(t *testing.T) {
	t.Parallel()
	solutions := readSolutions(t)
	if len(solutions) < 22 {
		t.Fatalf("%d solutions", len(solutions))
	}
	a := newAnalyzer(t, analysis.Config{})
	for _, sol := range solutions {
		t.Run(sol.ID, func(t *testing.T) {
			s := newSession(a)
			l := newLineage()
			binds, submits := 0, 0
			for _, cell := range sol.Cells {
				got := s.run(t, cell)
				if got.Error != "" {
					t.Fatal(got.Error)
				}
				for _, st := range got.Statements {
					if len(st.Taints)+len(st.Untracked) > 0 || st.DynamicFiles {
						t.Errorf("line %d of %q: taints %v, untracked %v, dynamic files %v", st.Line, cell, st.Taints, st.Untracked, st.DynamicFiles)
					}
					for _, c := range st.Calls {
						switch c.Primitive {
						case "bind":
							binds++
							if c.Dynamic && !anyOf(l.grounded, st.Reads) {
								t.Errorf("line %d: a dynamic call that reads no file", c.Line)
							}
							for _, arg := range c.Arguments {
								if !anyOf(l.touched, arg.Reads) && !anyOf(l.touched, arg.Control) {
									t.Errorf("line %d: %s=%s comes from no file", c.Line, arg.Name, arg.Expression)
								}
							}
						case "submit_answer":
							submits++
						}
					}
					l.step(st)
				}
			}
			if binds == 0 || submits != 1 {
				t.Errorf("%d bind calls, %d submissions", binds, submits)
			}
		})
	}
}

func TestConstantsInDisguiseComeFromNoFile(t *testing.T) {
	t.Parallel()
	a := newAnalyzer(t, analysis.Config{})
	for name, code := range map[string]string{
		"a literal":                "v = 34.65",
		"a conditional":            "v = 34.65 if len(df) else 0",
		"a branch":                 "if len(df):\n    v = 34.65\nelse:\n    v = 0",
		"a helper's early return":  "def f(t):\n    if len(t):\n        return 34.65\n    return 0\nv = f(df)",
		"a lambda's conditional":   "v = (lambda t: 34.65 if len(t) else 0)(df)",
		"a match":                  "match len(df):\n    case 0: v = 0\n    case _: v = 34.65",
		"a while loop":             "v = 0\nwhile len(df) > 3:\n    v = 34.65\n    break",
		"a filtered comprehension": "v = [x for x in [34.65] if len(df)][0]",
		"an assertion":             "assert len(df)\nv = 34.65",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(a)
			l := newLineage()
			got := s.run(t, "import pandas as pd\ndf = pd.read_csv('a.csv')\n"+code+"\nbind('{v}', v=v)\n")
			for _, st := range got.Statements {
				l.step(st)
			}
			if !l.grounded["df"] {
				t.Error("df comes from no file")
			}
			if l.grounded["v"] {
				t.Errorf("v comes from a file: %+v", got.Statements)
			}
		})
	}
}
