package analysis_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox/analysis"
)

// A corpusCase is one case of testdata/corpus.md.
type corpusCase struct {
	section string
	intent  string
	cells   []string
}

// readCorpus returns the prelude and the cases.
func readCorpus(t testing.TB) (string, []corpusCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/corpus.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^```python\n(.*?)^```$")
	sections := strings.Split(string(text), "\n## ")
	prelude := block.FindStringSubmatch(sections[0])
	if prelude == nil {
		t.Fatal("the corpus has no prelude")
	}
	var cases []corpusCase
	title := regexp.MustCompile("(?ms)^```\n.*?^# ([^\n]*)$")
	chapter := func(text string) string {
		if m := title.FindStringSubmatch(text[strings.LastIndex(text, "\n```\n")+1:]); m != nil {
			return m[1]
		}
		return ""
	}
	heading := chapter(sections[0])
	for _, section := range sections[1:] {
		intent, rest, _ := strings.Cut(section, "\n")
		code := block.FindStringSubmatch(rest)
		if code == nil {
			t.Fatalf("case %q has no code", intent)
		}
		cases = append(cases, corpusCase{heading, intent, strings.Split(code[1], "%%\n")})
		if next := chapter(section); next != "" {
			heading = next
		}
	}
	return prelude[1], cases
}

// A session merges definitions as the caller of the pass does.
type session struct {
	analyzer *analysis.Analyzer
	state    map[string]json.RawMessage
}

func (s *session) run(t testing.TB, code string) evidence.Analysis {
	t.Helper()
	got, err := s.analyzer.Analyze(context.Background(), code, s.state)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range got.Statements {
		s.merge(statement)
	}
	return got
}

func (s *session) merge(statement evidence.Statement) {
	for name, value := range statement.Definitions {
		if string(value) == "null" {
			delete(s.state, name)
		} else {
			s.state[name] = value
		}
	}
}

func newSession(a *analysis.Analyzer) *session {
	return &session{a, map[string]json.RawMessage{}}
}

// expectation is a statement's comment: each kind of effect with its members.
type expectation struct {
	want, may map[string][]string
}

func parseExpectation(text string) expectation {
	e := expectation{map[string][]string{}, map[string][]string{}}
	for field := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(field, "=")
		into := e.want
		if rest, ok := strings.CutPrefix(name, "may."); ok {
			name, into = rest, e.may
		}
		switch {
		case value != "":
			into[name] = append(into[name], strings.Split(value, ",")...)
		case !strings.Contains(field, "="):
			into[name] = append(into[name], "yes")
		}
	}
	return e
}

// effects puts a statement into the form of an expectation.
func effects(s evidence.Statement) map[string][]string {
	flag := func(b bool) []string {
		if b {
			return []string{"yes"}
		}
		return nil
	}
	out := map[string][]string{
		"reads": s.Reads, "control": s.Control, "writes": s.Writes, "maybe": s.MaybeWrites,
		"mutates": s.Mutates, "deletes": s.Deletes, "files": s.Files, "written": s.WrittenFiles,
		"taints": s.Taints, "dynamic": flag(s.DynamicFiles), "dynwrites": flag(s.DynamicWrites),
		"untracked": flag(len(s.Untracked) > 0),
	}
	if len(s.FilePatterns) > 0 {
		out["patterns"] = s.FilePatterns
	}
	for name, flow := range s.Flows {
		out["flow."+name] = flow.Reads
		if len(flow.Reads) == 0 {
			out["flow."+name] = []string{"-"}
		}
	}
	for _, c := range s.Calls {
		name := c.Primitive
		if c.Dynamic {
			name += "!"
		}
		out["call"] = append(out["call"], name)
		for _, a := range c.Arguments {
			for kind, members := range map[string][]string{"arg.": a.Reads, "argcontrol.": a.Control, "argfiles.": a.Files} {
				if len(members) > 0 {
					out[kind+a.Name] = members
				}
			}
		}
	}
	return out
}

// minus returns the members of a that b does not have, counting repeats.
func minus(a, b []string) []string {
	rest := slices.Clone(b)
	var out []string
	for _, x := range a {
		if i := slices.Index(rest, x); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		} else {
			out = append(out, x)
		}
	}
	return out
}

var expectationComment = regexp.MustCompile(`#:([^\n]*)`)

// check compares one cell and returns how many edges were due and how many came in excess.
func check(t *testing.T, code string, got evidence.Analysis) (due, spurious int) {
	t.Helper()
	if got.Error != "" {
		t.Fatalf("%s: %s", code, got.Error)
	}
	lines := strings.Split(code, "\n")
	for _, statement := range got.Statements {
		text := strings.Join(lines[statement.Line-1:statement.EndLine], "\n")
		comment := expectationComment.FindStringSubmatch(text)
		if comment == nil {
			continue
		}
		want := parseExpectation(comment[1])
		have := effects(statement)
		for _, kind := range slices.Sorted(maps.Keys(union(want.want, want.may, have))) {
			if strings.HasPrefix(kind, "flow.") && want.want[kind] == nil {
				continue // what flows into each name stands only where the case is about it
			}
			missed := minus(want.want[kind], have[kind])
			extra := minus(have[kind], want.want[kind])
			if len(missed) > 0 {
				t.Errorf("%s\n  %s: missing %v (got %v)", text, kind, missed, have[kind])
			}
			if unexpected := minus(extra, want.may[kind]); len(unexpected) > 0 {
				t.Errorf("%s\n  %s: unexpected %v (want %v)", text, kind, unexpected, want.want[kind])
			}
			due += len(want.want[kind])
			spurious += len(extra)
		}
	}
	return due, spurious
}

func union(all ...map[string][]string) map[string]bool {
	out := map[string]bool{}
	for _, m := range all {
		for k := range m {
			out[k] = true
		}
	}
	return out
}

func TestStatementsHaveTheEffectsThatPythonGivesThem(t *testing.T) {
	t.Parallel()
	prelude, cases := readCorpus(t)
	a := newAnalyzer(t, analysis.Config{})
	if len(cases) < 300 {
		t.Fatalf("the corpus has %d cases", len(cases))
	}
	due, spurious := 0, 0
	var table sectionTable
	for _, c := range cases {
		table.add(c.section, 1, 0, 0)
		t.Run(c.intent, func(t *testing.T) {
			s := newSession(a)
			s.run(t, prelude)
			for _, cell := range c.cells {
				d, x := check(t, cell, s.run(t, cell))
				due, spurious = due+d, spurious+x
				table.add(c.section, 0, d, x)
			}
		})
	}
	if share := float64(spurious) / float64(due); share > 0.05 {
		t.Errorf("%.1f %% of the reported effects are spurious (%d of %d)", 100*share, spurious, due)
	}
	checkDocs(t, "corpus", table.String())
	t.Logf("%d cases, %d effects due, %d spurious", len(cases), due, spurious)
}

// A sectionTable is the corpus by its sections, in their order.
type sectionTable struct{ rows []sectionRow }

type sectionRow struct {
	name                 string
	cases, due, spurious int
}

func (t *sectionTable) add(name string, cases, due, spurious int) {
	i := slices.IndexFunc(t.rows, func(r sectionRow) bool { return r.name == name })
	if i < 0 {
		i = len(t.rows)
		t.rows = append(t.rows, sectionRow{name: name})
	}
	r := &t.rows[i]
	r.cases, r.due, r.spurious = r.cases+cases, r.due+due, r.spurious+spurious
}

func (t *sectionTable) String() string {
	out := "| section | cells | effects due | missed | allowed in excess |\n| --- | --: | --: | --: | --: |\n"
	all := sectionRow{name: "all"}
	for _, r := range t.rows {
		out += fmt.Sprintf("| %s | %d | %d | 0 | %d |\n", r.name, r.cases, r.due, r.spurious)
		all.cases, all.due, all.spurious = all.cases+r.cases, all.due+r.due, all.spurious+r.spurious
	}
	return out + fmt.Sprintf("| **all** | %d | %d | 0 | %d (%.1f %%) |\n", all.cases, all.due, all.spurious,
		100*float64(all.spurious)/float64(all.due))
}
