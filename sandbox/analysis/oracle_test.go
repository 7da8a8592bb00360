package analysis_test

import (
	"bufio"
	"bytes"
	"cmp"
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

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox/analysis"
)

var (
	oracleAll       = flag.Bool("oracle.all", false, "run the oracle over every case and perturbation, and write its table")
	oracleOnly      = flag.String("oracle.only", "", "run the oracle over the cases whose id contains this")
	oracleProcesses = flag.Int("oracle.processes", 2, "how many processes play the cases")
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
	Prelude int      `json:"prelude,omitempty"`
	Isolate bool     `json:"isolate,omitempty"`
	Kinds   []string `json:"kinds,omitempty"`
	Seeds   int      `json:"seeds"`
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
	// paths are compute paths whose end can be compared. On spurious ones nothing ever moved; on loose ones
	// nothing moved but another result of the same statement, which is the unit of provenance, did.
	paths, spurious, loose       int
	untracked, unreached, hidden int
	missed, excess               []string
	// loosely are the loose paths, undecided the untracked pairs with the reason.
	loosely, undecided []string
	// decided are the changes whose only paths have a control edge.
	decided []string
}

func (t *tally) add(o tally) {
	t.cases, t.stopped, t.roots, t.runs = t.cases+o.cases, t.stopped+o.stopped, t.roots+o.roots, t.runs+o.runs
	t.due, t.paths, t.spurious, t.loose = t.due+o.due, t.paths+o.paths, t.spurious+o.spurious, t.loose+o.loose
	t.untracked, t.unreached, t.hidden = t.untracked+o.untracked, t.unreached+o.unreached, t.hidden+o.hidden
	t.missed, t.excess = append(t.missed, o.missed...), append(t.excess, o.excess...)
	t.decided = append(t.decided, o.decided...)
	t.loosely, t.undecided = append(t.loosely, o.loosely...), append(t.undecided, o.undecided...)
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
			ID: "corpus/" + c.intent, Cells: append([]string{prelude}, c.cells...), Prelude: 1, Seeds: oracleSeeds(),
			Isolate: slices.ContainsFunc(c.cells, func(cell string) bool { return strings.Contains(cell, "taints=") }),
		})
	}
	return out
}

func solutionOracleCases(t testing.TB) []oracleCase {
	var out []oracleCase
	for _, s := range readSolutions(t) {
		c := oracleCase{ID: s.ID, Cells: s.Cells, Seeds: oracleSeeds()}
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
	var mu sync.Mutex
	results := map[string]oracleResult{}
	for part := range *oracleProcesses {
		var in bytes.Buffer
		e := json.NewEncoder(&in)
		for i := part; i < len(cases); i += *oracleProcesses {
			if err := e.Encode(cases[i]); err != nil {
				t.Fatal(err)
			}
		}
		wait.Go(func() {
			var errors bytes.Buffer
			cmd := exec.CommandContext(t.Context(), oraclePython, "-B", "testdata/oracle/run.py")
			cmd.Stdin, cmd.Stderr = &in, &errors
			cmd.Env = append(os.Environ(), "PYTHONHASHSEED=0")
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("the oracle: %v: %s", err, errors.Bytes())
			}
			lines := bufio.NewScanner(bytes.NewReader(out))
			lines.Buffer(nil, 64<<20)
			for lines.Scan() {
				var r oracleResult
				if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
					t.Errorf("the oracle's answer: %v", err)
				}
				mu.Lock()
				results[r.ID] = r
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return results
}

// builtGraph is the graph of a case as the pass makes it, with what is where.
type builtGraph struct {
	export evidence.Export
	index  map[string]int
	out    [][]int // edges of all kinds
	data   [][]int // edges that carry data
	claims []string
	dirty  []bool   // has an untracked ancestor, or is untracked
	why    []string // beside dirty: the reason
	// loose are the statements that the pass calls untracked.
	loose map[[2]int]bool
}

// buildGraph drives a graph with the pass's analyses and with what the first run reported.
func buildGraph(t testing.TB, a *analysis.Analyzer, c oracleCase, r oracleResult) *builtGraph {
	t.Helper()
	task := evidence.Task{Question: "What is asked?"}
	for _, root := range r.Roots {
		if root.Root == "file" {
			task.Sources = append(task.Sources, evidence.Source{Name: root.Name, SHA256: root.Name})
		}
	}
	g := evidence.New(task, evidence.Defaults())
	b := &builtGraph{index: map[string]int{}, loose: map[[2]int]bool{}}
	ids := map[string]string{}
	known := func(names []string) []string {
		var out []string
		for _, n := range names {
			out = append(out, ids[n])
		}
		return out
	}
	events := r.Events
	for turn, code := range c.Cells {
		got, err := a.Analyze(t.Context(), code, g.Definitions())
		if err != nil {
			t.Fatal(err)
		}
		for i, st := range got.Statements {
			if len(st.Untracked) > 0 || len(st.Taints) > 0 {
				b.loose[[2]int{turn, i}] = true
			}
		}
		cell := g.Begin(turn, code, got)
		for ended := false; !ended && len(events) > 0; events = events[1:] {
			var kind string
			must(t, json.Unmarshal(events[0][0], &kind))
			body := events[0][1]
			switch kind {
			case "completed":
				var report evidence.Report
				must(t, json.Unmarshal(body, &report))
				cell.Completed(report)
			case "bind":
				var request evidence.BindRequest
				must(t, json.Unmarshal(body, &request))
				id, _, refusal := cell.Bind(request)
				b.claim(ids, id, refusal)
			case "infer":
				var request evidence.InferRequest
				must(t, json.Unmarshal(body, &request))
				request.Premises = known(request.Premises)
				id, _, refusal := cell.Infer(request)
				b.claim(ids, id, refusal)
			case "submit":
				var request evidence.SubmitRequest
				must(t, json.Unmarshal(body, &request))
				request.Claims = known(request.Claims)
				_ = cell.Submit(request)
			case "end":
				var status string
				must(t, json.Unmarshal(body, &status))
				cell.End(status)
				ended = true
			}
		}
	}
	b.export = g.Export()
	b.connect()
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *builtGraph) claim(ids map[string]string, id string, refusal *evidence.Refusal) {
	if refusal != nil {
		id = ""
	}
	b.claims = append(b.claims, id)
	ids[fmt.Sprintf("c%d", len(b.claims))] = id
}

func (b *builtGraph) connect() {
	n := len(b.export.Nodes)
	b.out, b.data, b.dirty, b.why = make([][]int, n), make([][]int, n), make([]bool, n), make([]string, n)
	for i, node := range b.export.Nodes {
		b.index[node.ID] = i
		b.dirty[i], b.why[i] = node.Untracked != "", node.Untracked
	}
	for _, e := range b.export.Edges {
		from, to := b.index[e.From], b.index[e.To]
		b.out[from] = append(b.out[from], to)
		if e.Kind != evidence.EdgeControl {
			b.data[from] = append(b.data[from], to)
		}
		if b.dirty[from] && !b.dirty[to] {
			b.dirty[to], b.why[to] = true, b.why[from]
		}
	}
}

// version is the node of a name after the statement at a position, or -1.
func (b *builtGraph) version(name string, at [2]int) int {
	found := -1
	for i, n := range b.export.Nodes {
		if n.Kind == evidence.NodeVariable && n.Name == name && before([2]int{n.Turn, n.Statement}, at) {
			found = i
		}
	}
	return found
}

func before(a, b [2]int) bool { return a[0] < b[0] || a[0] == b[0] && a[1] <= b[1] }

func reachable(edges [][]int, from int) []bool {
	seen := make([]bool, len(edges))
	stack := []int{from}
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !seen[at] {
			seen[at] = true
			stack = append(stack, edges[at]...)
		}
	}
	return seen
}

type place struct {
	at   int
	name string
}

func places(pairs [][2]any) map[place]bool {
	out := map[place]bool{}
	for _, p := range pairs {
		out[place{int(p[0].(float64)), p[1].(string)}] = true
	}
	return out
}

// judge compares what the oracle found in one case with the graph's paths.
func judge(t testing.TB, a *analysis.Analyzer, c oracleCase, r oracleResult) tally {
	t.Helper()
	total := tally{cases: 1}
	if r.Error != "" || len(r.Positions) == 0 {
		total.stopped = 1
		t.Errorf("%s: not played: %s", c.ID, r.Error)
		return total
	}
	b := buildGraph(t, a, c, r)
	noisy := places(r.Noisy)
	total.missed = append(total.missed, b.unseen(c, r, noisy)...)
	for _, root := range r.Roots {
		total.roots++
		total.runs += root.Runs
		from, ok := b.rootNode(root)
		if !ok {
			continue
		}
		total.add(b.judgeRoot(c, r, root, from, noisy))
	}
	return total
}

func (b *builtGraph) rootNode(root oracleRoot) (int, bool) {
	if root.Root == "file" {
		i, ok := b.index["file:"+root.Name]
		return i, ok
	}
	i := b.version(root.Name, root.At)
	if i < 0 {
		return 0, false
	}
	n := b.export.Nodes[i]
	return i, [2]int{n.Turn, n.Statement} == root.At
}

// unseen are the contents that changed while the graph made no version of them.
func (b *builtGraph) unseen(c oracleCase, r oracleResult, noisy map[place]bool) []string {
	var out []string
	loose := false
	for at, p := range r.Positions {
		loose = loose || b.loose[p.At]
		for _, name := range p.Changed {
			i := b.version(name, p.At)
			if i < 0 || noisy[place{at, name}] || slices.Contains(p.Hidden, name) {
				continue // an import: no data
			}
			n := b.export.Nodes[i]
			if [2]int{n.Turn, n.Statement} != p.At && !loose {
				out = append(out, fmt.Sprintf("%s: %s changed at %v without a new version", c.ID, name, p.At))
			}
		}
	}
	return out
}

func (b *builtGraph) judgeRoot(c oracleCase, r oracleResult, root oracleRoot, from int, noisy map[place]bool) tally {
	var out tally
	all, data := reachable(b.out, from), reachable(b.data, from)
	changed := places(root.Changed)
	label := fmt.Sprintf("%s: %s", c.ID, b.export.Nodes[from].ID)
	verdict := func(node int, what string) {
		switch {
		case node == from:
		case all[node]:
			out.due++
			if !data[node] {
				out.decided = append(out.decided, label+" -> "+b.export.Nodes[node].ID)
			}
		case b.dirty[node] || b.looseBy(b.export.Nodes[node]):
			out.untracked++
			out.undecided = append(out.undecided, label+" -> "+b.export.Nodes[node].ID+": "+cmp.Or(b.why[node], "after a denied construct or an untracked statement"))
		default:
			out.missed = append(out.missed, label+" changes "+what)
		}
	}
	judged := map[int]bool{}
	for _, p := range slices.SortedFunc(maps.Keys(changed), func(x, y place) int {
		return 2*(x.at-y.at) + strings.Compare(x.name, y.name)
	}) {
		if node := b.version(p.name, r.Positions[p.at].At); node >= 0 && !judged[node] {
			judged[node] = true
			verdict(node, fmt.Sprintf("%s after %v", b.export.Nodes[node].ID, r.Positions[p.at].At))
		}
	}
	for _, i := range root.Claims {
		if i < len(b.claims) && b.claims[i] != "" {
			verdict(b.index[b.claims[i]], "claim "+b.claims[i])
		}
	}
	stirred := b.stirred(r, root, data, changed)
	for node, on := range data {
		if !on || node == from {
			continue
		}
		n := b.export.Nodes[node]
		moved, at, ok := b.moved(r, root, n, changed)
		switch {
		case !ok:
		case b.dirty[node]:
			out.untracked++
			out.undecided = append(out.undecided, label+" -> "+n.ID+": "+b.why[node])
		case at >= root.Reached:
			out.unreached++
		case n.Kind == evidence.NodeVariable && (slices.Contains(r.Positions[at].Hidden, n.Name) || noisy[place{at, n.Name}]):
			out.hidden++
		default:
			out.paths++
			switch {
			case moved:
			case stirred[[2]int{n.Turn, n.Statement}]:
				out.loose++
				out.loosely = append(out.loosely, label+" -> "+n.ID)
			default:
				out.spurious++
				out.excess = append(out.excess, label+" -> "+n.ID)
			}
		}
	}
	return out
}

// stirred are the statements of which some result moved with the root.
func (b *builtGraph) stirred(r oracleResult, root oracleRoot, data []bool, changed map[place]bool) map[[2]int]bool {
	out := map[[2]int]bool{}
	for node, on := range data {
		n := b.export.Nodes[node]
		if moved, _, ok := b.moved(r, root, n, changed); on && moved && ok {
			out[[2]int{n.Turn, n.Statement}] = true
		}
	}
	return out
}

func (b *builtGraph) looseBy(n evidence.Node) bool {
	for at := range b.loose {
		if before(at, [2]int{n.Turn, n.Statement}) {
			return true
		}
	}
	return false
}

// moved says whether a node's contents ever differed, and at which position it was made.
func (b *builtGraph) moved(r oracleResult, root oracleRoot, n evidence.Node, changed map[place]bool) (moved bool, at int, ok bool) {
	if n.Kind == evidence.NodeAtomic || n.Kind == evidence.NodeDerived {
		i := slices.Index(b.claims, n.ID)
		return slices.Contains(root.Claims, i), r.Claims[i], n.Kind == evidence.NodeAtomic && r.Claims[i] < len(r.Positions)
	}
	if n.Kind != evidence.NodeVariable {
		return false, 0, false
	}
	at = slices.IndexFunc(r.Positions, func(p struct {
		At      [2]int   `json:"at"`
		Changed []string `json:"changed"`
		Hidden  []string `json:"hidden"`
	},
	) bool {
		return p.At == [2]int{n.Turn, n.Statement}
	})
	if at < 0 || strings.HasPrefix(n.Name, "written:") {
		return false, 0, false
	}
	// The contents are those of the last statement that changed them.
	for p := at; p >= 0; p-- {
		if changed[place{p, n.Name}] {
			return true, at, true
		}
		if slices.Contains(r.Positions[p].Changed, n.Name) {
			return root.Root == "variable" && root.Name == n.Name && root.After == p, at, true
		}
	}
	return false, at, true
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
			t.Log("spurious:\n" + strings.Join(sum.excess, "\n") + "\nloose:\n" + strings.Join(sum.loosely, "\n") +
				"\nuntracked:\n" + strings.Join(sum.undecided, "\n") + "\ndecided:\n" + strings.Join(sum.decided, "\n"))
		}
		// A part of the perturbations leaves more paths unmoved than all of them.
		if share := sum.share(sum.spurious); share > 5 && *oracleAll {
			t.Errorf("%s: nothing ever moves on %d of %d compute paths (%.1f %%)", set, sum.spurious, sum.paths, share)
		}
		t.Logf("%s: %s", set, sum)
	}
	if *oracleAll {
		old, err := os.ReadFile(oracleResults)
		must(t, err)
		before, _, _ := strings.Cut(string(old), oracleMark)
		must(t, os.WriteFile(oracleResults, []byte(before+oracleTable(sums)), 0o600))
	}
}

func (t *tally) String() string {
	return fmt.Sprintf("%d cases, %d roots, %d runs, %d due, %d missed, %d of %d paths spurious and %d loose, %d untracked, %d unreached, %d hidden, %d stopped",
		t.cases, t.roots, t.runs, t.due, len(t.missed), t.spurious, t.paths, t.loose, t.untracked, t.unreached, t.hidden, t.stopped)
}

func oracleTable(sums map[string]*tally) string {
	var out strings.Builder
	out.WriteString(oracleMark + "\n\nWritten by `make oracle`; `docs/provenance.md` says what the columns mean.\n\n" +
		"| set | cases | perturbed | runs | changes with a path | missed | compute paths | spurious | loose | strict | untracked | unreached | not comparable |\n" +
		"| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n")
	for _, set := range slices.Sorted(maps.Keys(sums)) {
		s := sums[set]
		fmt.Fprintf(&out, "| %s | %d | %d | %d | %d | %d | %d | %d (%.1f %%) | %d | %.1f %% | %d | %d | %d |\n", set, s.cases, s.roots, s.runs,
			s.due, len(s.missed), s.paths, s.spurious, s.share(s.spurious), s.loose, s.share(s.spurious+s.loose), s.untracked, s.unreached, s.hidden)
	}
	lists := []struct {
		heading string
		of      func(*tally) []string
	}{
		{"Spurious: compute paths on which no perturbation ever moved anything", func(t *tally) []string { return t.excess }},
		{"Loose: nothing moved but another result of the same statement", func(t *tally) []string { return t.loosely }},
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
		c.Kinds = kinds
		out = append(out, c)
	}
	return out
}
