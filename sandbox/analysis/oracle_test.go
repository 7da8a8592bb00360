package analysis_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/verigraph/verigraph/sandbox/analysis"
)

var (
	oracleAll       = flag.Bool("oracle.all", false, "run the oracle over every case and perturbation, and write its table")
	oracleOnly      = flag.String("oracle.only", "", "run the oracle over the cases whose id contains this")
	oracleProcesses = flag.Int("oracle.processes", 2, "how many processes play the cases")
	oracleKeep      = flag.String("oracle.keep", "", "a file that keeps what was played, so that a run that was stopped goes on")
	oracleSteps     = flag.Bool("oracle.list", false, "log every untracked and spurious pair")
)

const (
	oraclePython  = "../../.venv/sandbox/bin/python"
	oracleTables  = "../../examples/dabench/tables"
	oracleResults = "../../docs/measured/provenance.md"
	// oracleMark is the heading from which on the oracle writes oracleResults; what stands before it stays.
	oracleMark = "# What the provenance oracle measures"
)

// oracleSeeds is how often each kind of perturbation is tried, each time with other values.
func oracleSeeds() int {
	if *oracleAll {
		return 3
	}
	return 1
}

// An oracleCase is what testdata/oracle/run.py plays.
type oracleCase struct {
	ID    string   `json:"id"`
	Dir   string   `json:"dir,omitempty"`
	Cells []string `json:"cells"`
	// Prelude is the number of cells that come before the case's own.
	Prelude int  `json:"prelude,omitempty"`
	Isolate bool `json:"isolate,omitempty"`
	// Contexts: everything is tried again where other values make the cells go another way.
	Contexts bool     `json:"contexts,omitempty"`
	Kinds    []string `json:"kinds,omitempty"`
	Seeds    int      `json:"seeds"`
}

// oracleResult is what run.py found. Positions count completed statements over all cells.
type oracleResult struct {
	ID        string              `json:"id"`
	Error     string              `json:"error"`
	Events    [][]json.RawMessage `json:"events"`
	Positions []struct {
		At      [2]int   `json:"at"`
		Changed []string `json:"changed"`
		Hidden  []string `json:"hidden"`
	} `json:"positions"`
	Roots  []oracleRoot `json:"roots"`
	Claims []int        `json:"claims"`
	Noisy  [][2]any     `json:"noisy"`
}

type oracleRoot struct {
	Root    string   `json:"root"`
	Name    string   `json:"name"`
	At      [2]int   `json:"at"`
	After   int      `json:"after"`
	Runs    int      `json:"runs"`
	Reached int      `json:"reached"`
	Changed [][2]any `json:"changed"`
	Claims  []int    `json:"claims"`
}

// tally counts pairs of what was perturbed and what was made later.
type tally struct {
	cases, stopped, roots, runs int
	due                         int // pairs that the oracle found: a change with its path
	// paths are compute paths whose end can be compared. On spurious ones the end never moved; on siblings, which
	// are among them, another result of the same statement did. deciding and idle are the same of paths that have a control edge.
	paths, spurious, siblings    int
	deciding, idle               int
	untracked, unreached, hidden int
	missed, excess               []string
	// beside are the siblings, undecided the untracked pairs with the reason.
	beside, undecided []string
	// decided are the changes whose only paths have a control edge, undecisive the paths of that kind that nothing moved.
	decided, undecisive []string
}

func (t *tally) add(o tally) {
	t.cases, t.stopped, t.roots, t.runs = t.cases+o.cases, t.stopped+o.stopped, t.roots+o.roots, t.runs+o.runs
	t.due, t.paths, t.spurious, t.siblings = t.due+o.due, t.paths+o.paths, t.spurious+o.spurious, t.siblings+o.siblings
	t.deciding, t.idle = t.deciding+o.deciding, t.idle+o.idle
	t.untracked, t.unreached, t.hidden = t.untracked+o.untracked, t.unreached+o.unreached, t.hidden+o.hidden
	t.missed, t.excess = append(t.missed, o.missed...), append(t.excess, o.excess...)
	t.decided, t.undecisive = append(t.decided, o.decided...), append(t.undecisive, o.undecisive...)
	t.beside, t.undecided = append(t.beside, o.beside...), append(t.undecided, o.undecided...)
}

func (t *tally) share(n int) float64 {
	if t.paths == 0 {
		return 0
	}
	return 100 * float64(n) / float64(t.paths)
}

// corpusOracleCases are the corpus's cases, each after its prelude.
func corpusOracleCases(t testing.TB) []oracleCase {
	prelude, cases := readCorpus(t)
	var out []oracleCase
	for _, c := range cases {
		out = append(out, oracleCase{
			ID: "corpus/" + c.intent, Cells: append([]string{prelude}, c.cells...), Prelude: 1, Seeds: oracleSeeds(), Contexts: true,
			Isolate: slices.ContainsFunc(c.cells, func(cell string) bool { return strings.Contains(cell, "taints=") }),
		})
	}
	return out
}

func solutionOracleCases(t testing.TB) []oracleCase {
	var out []oracleCase
	for _, s := range readSolutions(t) {
		c := oracleCase{ID: s.ID, Cells: s.Cells, Seeds: 1}
		if strings.HasPrefix(s.ID, "dabench/") {
			c.Dir = solutionDir(t, s)
		}
		out = append(out, c)
	}
	return out
}

// solutionDir holds the tables that a solution names and no other.
func solutionDir(t testing.TB, s solution) string {
	dir := t.TempDir()
	tables, err := os.ReadDir(oracleTables)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if !slices.ContainsFunc(s.Cells, func(c string) bool { return strings.Contains(c, `"`+table.Name()+`"`) }) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(oracleTables, table.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, table.Name()), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// askOracle plays the cases in a few processes side by side.
func askOracle(t testing.TB, cases []oracleCase) map[string]oracleResult {
	t.Helper()
	var wait sync.WaitGroup
	kept := keepResults(t)
	cases = slices.DeleteFunc(slices.Clone(cases), func(c oracleCase) bool { _, ok := kept.results[c.ID]; return ok })
	for part := range *oracleProcesses {
		var in bytes.Buffer
		e := json.NewEncoder(&in)
		for i := part; i < len(cases); i += *oracleProcesses {
			if err := e.Encode(cases[i]); err != nil {
				t.Fatal(err)
			}
		}
		wait.Go(func() {
			var trouble bytes.Buffer
			cmd := exec.CommandContext(t.Context(), oraclePython, "-B", "testdata/oracle/run.py")
			cmd.Stdin = &in
			cmd.Env = append(os.Environ(), "PYTHONHASHSEED=0")
			cmd.Stderr = &trouble
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Errorf("the oracle: %v", err)
				return
			}
			lines := bufio.NewScanner(out)
			lines.Buffer(nil, 64<<20)
			for lines.Scan() {
				kept.add(t, lines.Bytes())
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("the oracle: %v: %s", err, trouble.Bytes())
			}
		})
	}
	wait.Wait()
	return kept.results
}

// keptResults are what was played, also in a file where one is named.
type keptResults struct {
	sync.Mutex
	results map[string]oracleResult
	file    *os.File
}

func keepResults(t testing.TB) *keptResults {
	t.Helper()
	k := &keptResults{results: map[string]oracleResult{}}
	if *oracleKeep == "" {
		return k
	}
	data, err := os.ReadFile(*oracleKeep)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var r oracleResult
		if json.Unmarshal(line, &r) == nil { // the last line may be cut off
			k.results[r.ID] = r
		}
	}
	k.file, err = os.OpenFile(*oracleKeep, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	t.Cleanup(func() { _ = k.file.Close() })
	return k
}

func (k *keptResults) add(t testing.TB, line []byte) {
	k.Lock()
	defer k.Unlock()
	var r oracleResult
	if err := json.Unmarshal(line, &r); err != nil {
		t.Errorf("the oracle's answer: %v", err)
		return
	}
	k.results[r.ID] = r
	if k.file != nil {
		if _, err := k.file.Write(append(slices.Clone(line), '\n')); err != nil {
			t.Errorf("keep what was played: %v", err)
		}
	}
}

func TestWhatChangesWithADataFileOrAVariableHasAPathFromIt(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(oraclePython); errors.Is(err, fs.ErrNotExist) {
		t.Skip("the sandbox's Python is not installed: run make python")
	}
	corpus, solutions := corpusOracleCases(t), solutionOracleCases(t)
	if !*oracleAll && *oracleOnly == "" {
		corpus, solutions = few(corpus, 7, "numbers", "rows"), few(solutions, 5, "numbers", "rows")
	}
	cases := slices.Concat(corpus, solutions)
	if *oracleOnly != "" {
		cases = slices.DeleteFunc(cases, func(c oracleCase) bool { return !strings.Contains(c.ID, *oracleOnly) })
	}
	results := askOracle(t, cases)
	a := newAnalyzer(t, analysis.Config{Python: oraclePython})
	sums := map[string]*tally{}
	for _, c := range cases {
		r, ok := results[c.ID]
		if !ok {
			t.Fatalf("no result for %s", c.ID)
		}
		set, _, _ := strings.Cut(c.ID, "/")
		if sums[set] == nil {
			sums[set] = &tally{}
		}
		sums[set].add(judge(t, a, c, r))
	}
	for _, set := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[set]
		if sum.due == 0 && *oracleOnly == "" {
			t.Errorf("%s: the oracle found no dependency at all", set)
		}
		for _, m := range sum.missed {
			t.Errorf("missed: %s", m)
		}
		if *oracleSteps {
			t.Log("spurious:\n" + strings.Join(sum.excess, "\n") + "\nsiblings:\n" + strings.Join(sum.beside, "\n") +
				"\nuntracked:\n" + strings.Join(sum.undecided, "\n") + "\ndecided:\n" + strings.Join(sum.decided, "\n") + "\nundecisive:\n" + strings.Join(sum.undecisive, "\n"))
		}
		// A part of the perturbations leaves more paths unmoved than all of them.
		if share := sum.share(sum.spurious); share > 5 && *oracleAll {
			t.Errorf("%s: the end never moves on %d of %d compute paths (%.1f %%)", set, sum.spurious, sum.paths, share)
		}
		t.Logf("%s: %s", set, sum)
	}
	if *oracleAll && *oracleOnly == "" {
		old, err := os.ReadFile(oracleResults)
		must(t, err)
		before, _, _ := strings.Cut(string(old), oracleMark)
		must(t, os.WriteFile(oracleResults, []byte(before+oracleTable(sums)), 0o600))
	}
}

func (t *tally) String() string {
	return fmt.Sprintf("%d cases, %d roots, %d runs, %d due, %d missed, %d of %d paths spurious (%d siblings), %d of %d control paths idle, %d untracked, %d unreached, %d hidden, %d stopped",
		t.cases, t.roots, t.runs, t.due, len(t.missed), t.spurious, t.paths, t.siblings, t.idle, t.deciding, t.untracked, t.unreached, t.hidden, t.stopped)
}

func oracleTable(sums map[string]*tally) string {
	var out strings.Builder
	out.WriteString(oracleMark + "\n\nWritten by `make oracle`; `docs/provenance.md` says what the columns mean.\n\n" +
		"| set | cases | perturbed | runs | changes with a path | missed | compute paths | spurious | of them siblings | control paths | never moved | untracked | unreached | not comparable |\n" +
		"| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n")
	for _, set := range slices.Sorted(maps.Keys(sums)) {
		s := sums[set]
		fmt.Fprintf(&out, "| %s | %d | %d | %d | %d | %d | %d | %d (%.1f %%) | %d | %d | %d | %d | %d | %d |\n", set, s.cases, s.roots, s.runs,
			s.due, len(s.missed), s.paths, s.spurious, s.share(s.spurious), s.siblings, s.deciding, s.idle, s.untracked, s.unreached, s.hidden)
	}
	lists := []struct {
		heading string
		of      func(*tally) []string
	}{
		{"Spurious: compute paths whose end no perturbation moved, nor another result of its statement", func(t *tally) []string { return t.excess }},
		{"Spurious, siblings: another result of the same statement moved", func(t *tally) []string { return t.beside }},
		{"Control paths whose end no perturbation moved; they ground nothing", func(t *tally) []string { return t.undecisive }},
		{"Untracked, with what the graph says of it", func(t *tally) []string { return t.undecided }},
	}
	for _, list := range lists {
		fmt.Fprintf(&out, "\n## %s\n\n", list.heading)
		for _, set := range slices.Sorted(maps.Keys(sums)) {
			for _, line := range list.of(sums[set]) {
				fmt.Fprintf(&out, "- %s\n", line)
			}
		}
	}
	return out.String()
}

// few keeps every step-th case and the given kinds of perturbation.
func few(cases []oracleCase, step int, kinds ...string) []oracleCase {
	var out []oracleCase
	for i := 0; i < len(cases); i += step {
		c := cases[i]
		c.Kinds, c.Contexts = kinds, false
		out = append(out, c)
	}
	return out
}
