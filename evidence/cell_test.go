package evidence

import (
	"encoding/json"
	"fmt"
	"testing"
)

// host is sandbox.Host, which can't be imported here: sandbox stands above this package.
type host interface {
	Completed(Report)
	Bind(BindRequest) (claimID, text string, refusal *Refusal)
	Infer(InferRequest) (claimID, text string, refusal *Refusal)
	Submit(SubmitRequest) *Refusal
	Taint(statement int, construct string)
}

var _ host = (*Cell)(nil)

func TestReassignmentMakesANewVersionThatDependsOnTheOldOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.do("df = df.dropna()", Statement{Reads: []string{"df"}, Writes: []string{"df"}}, []string{"df"}, nil)
	w.wantInputs("df@1", "compute file:a.csv")
	w.wantInputs("df@2", "compute df@1")
	w.wantStructural(w.mean("df"), true)
}

func TestMutationDependsOnTheOldVersionAndOnWhatIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.constant("k")
	w.do(`df["x"] = k`, Statement{Reads: []string{"k"}, Mutates: []string{"df"}}, nil, nil)
	w.wantInputs("df@2", "compute df@1", "compute k@1")
}

func TestFailedCellCountsItsCompletedStatementsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	c := w.g.Begin(w.turn, "m = df.mean()\nn = m + oops", Analysis{Statements: []Statement{
		{Line: 1, EndLine: 1, Reads: []string{"df"}, Writes: []string{"m"}, Definitions: map[string]json.RawMessage{"a": []byte(`1`)}},
		{Line: 2, EndLine: 2, Reads: []string{"m"}, Writes: []string{"n"}, Definitions: map[string]json.RawMessage{"b": []byte(`1`)}},
	}})
	w.turn++
	c.Completed(Report{Index: 0, Bound: []string{"m"}})
	c.End("exception")
	w.wantInputs("m@1", "compute df@1")
	w.wantNode("n@1", false)
	info := w.g.Export().Cells[1]
	if info.Statements != 2 || info.Completed != 1 || info.Status != "exception" {
		t.Errorf("cell info is %+v", info)
	}
	if d := w.g.Definitions(); len(d) != 1 || d["a"] == nil {
		t.Errorf("definitions are %v, want those of the completed statement", d)
	}
}

func TestClaimOfACellThatFailsLaterCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	c := w.g.Begin(w.turn, "", Analysis{Statements: []Statement{{Reads: []string{"df"}}, {}}})
	id := w.mustBind(c, request("{m}", num("m", "3.5")))
	c.Completed(Report{})
	c.End("exception")
	w.wantStructural(id, true)
}

func TestNameReboundByACompoundStatementThatRaisedKeepsNoGround(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.do("m = df.mean()", Statement{Reads: []string{"df"}, Writes: []string{"m"}}, []string{"m"}, nil)
	code := "for i in [0]:\n    m = 34.65\n    raise X"
	c := w.g.Begin(w.turn, code, Analysis{Statements: []Statement{{Line: 1, EndLine: 3, MaybeWrites: []string{"m"}}}})
	c.End("exception")
	w.wantStructural(w.mean("m"), false)
}

func TestNameFirstBoundByAStatementThatRaisedDependsOnWhatItRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	code := "for c in df:\n    m = df[c].mean()"
	c := w.g.Begin(w.turn, code, Analysis{Statements: []Statement{{Line: 1, EndLine: 2, Reads: []string{"df"}, MaybeWrites: []string{"c", "m"}}}})
	c.End("exception")
	w.wantInputs("m@1", "compute df@1")
	c = w.g.Begin(w.turn, "if True:\n    k = 34.65\n    raise X", Analysis{Statements: []Statement{{Line: 1, EndLine: 3, Writes: []string{"k"}}}})
	c.End("exception")
	w.wantStructural(w.mean("k"), false)
}

func TestObjectChangedByAStatementThatRaisedDependsOnWhatItRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.constant("seen")
	c := w.g.Begin(w.turn, "for x in df: seen.append(x)", Analysis{Statements: []Statement{{Line: 1, EndLine: 1, Reads: []string{"df"}, Mutates: []string{"seen"}}}})
	c.End("exception")
	w.wantInputs("seen@2", "compute df@1", "compute seen@1")
}

func TestStatementThatRaisedLeavesThePassWithWhatItMayHaveDefined(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := func(code, status string, st Statement) {
		st.Line, st.EndLine = 1, 1
		c := w.g.Begin(w.turn, code, Analysis{Statements: []Statement{st}})
		if status == "ok" {
			c.Completed(Report{})
		}
		c.End(status)
		w.turn++
	}
	raw := func(pairs ...string) map[string]json.RawMessage {
		out := map[string]json.RawMessage{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = []byte(pairs[i+1])
		}
		return out
	}
	run("def f(): return df", "ok", Statement{Definitions: raw("f", "1", "g", "1", "h", "1")})
	run("if True: ...", "exception", Statement{Definitions: raw("f", "2", "h", "null", "new", "3"), Raised: raw("f", "0")})
	want := map[string]string{"f": "0", "g": "1", "h": "1", "new": "3"}
	for key, value := range want {
		if got := string(w.g.Definitions()[key]); got != value {
			t.Errorf("%s is %s, want %s", key, got, value)
		}
	}
	run("x = 1 / 0", "exception", Statement{Definitions: raw("g", "2")})
	if got := string(w.g.Definitions()["g"]); got != "1" {
		t.Errorf("a simple statement that raised defined %s", got)
	}
}

func TestNameBoundOnAPathThatRaisesKeepsNoGround(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.do("m = df.mean()", Statement{Reads: []string{"df"}, Writes: []string{"m"}}, []string{"m"}, nil)
	c := w.g.Begin(w.turn, "if True:\n    m = 34.65\n    raise X", Analysis{Statements: []Statement{
		{Line: 1, EndLine: 3, Raised: map[string]json.RawMessage{"m": []byte(`{}`)}},
	}})
	w.turn++
	c.End("exception")
	w.wantInputs("m@2", "control m@1")
	w.wantStructural(w.mean("m"), false)
}

func TestSimpleAssignmentThatRaisedLeavesTheOldVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	c := w.g.Begin(w.turn, "df = 1 / 0", Analysis{Statements: []Statement{{Line: 1, EndLine: 1, Writes: []string{"df"}}}})
	c.End("exception")
	w.wantNode("df@2", false)
	w.wantStructural(w.mean("df"), true)
}

func TestControlDependenceDoesNotGround(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.do("m = 1 if len(df) else 2", Statement{Control: []string{"df"}, Writes: []string{"m"}}, []string{"m"}, nil)
	w.wantInputs("m@1", "control df@1")
	w.wantStructural(w.mean("m"), false)
}

func TestMaybeWriteThatDidNotHappenMakesNothingNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	st := Statement{Control: []string{"df"}, MaybeWrites: []string{"fresh", "df"}}
	w.do("if 0:\n    fresh = df = 1", st, nil, nil)
	w.wantNode("fresh@1", false)
	w.wantInputs("df@2", "compute df@1")
}

func TestConstantAssignedInABranchDoesNotInheritGround(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.do("if True:\n    df = 34.65", Statement{MaybeWrites: []string{"df"}}, []string{"df"}, nil)
	w.wantInputs("df@2", "control df@1")
	w.wantStructural(w.mean("df"), false)
}

func TestDeletedNameIsGoneAndItsVersionsGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.do("del df", Statement{Deletes: []string{"df"}}, nil, nil)
	w.do("y = df", Statement{Reads: []string{"df"}, Writes: []string{"y"}}, []string{"y"}, nil)
	w.wantInputs("y@1")
	w.load()
	w.wantInputs("df@2", "compute file:a.csv")
}

func TestNameThatTheStaticPassDidNotPredictIsUntracked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.do("magic(df)", Statement{Reads: []string{"df"}}, []string{"m"}, nil)
	w.wantInputs("m@1", "compute df@1")
	if n := w.wantNode("m@1", true); n.Untracked == "" {
		t.Error("m@1 is tracked")
	}
	w.wantStructural(w.mean("m"), false)
}

func TestImportedModuleIsNoVariable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	st := Statement{Definitions: map[string]json.RawMessage{"pd": []byte(`{}`), "df": []byte(`{}`), "x": []byte("null")}}
	w.do("import pd, df", st, []string{"pd", "df", "x"}, nil)
	w.wantNode("pd@1", false)
	w.wantNode("x@1", true)
	w.do("y = df", Statement{Reads: []string{"df"}, Writes: []string{"y"}}, []string{"y"}, nil)
	w.wantInputs("y@1")
}

func TestUntrackedStatementNeverGrounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.do("exec(s)", Statement{Reads: []string{"df"}, Writes: []string{"m"}, Untracked: []string{"exec"}}, []string{"m"}, nil)
	w.wantStructural(w.mean("m"), false)
}

func TestUnanalysedCellIsUntracked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	c := w.g.Begin(w.turn, "?", Analysis{Error: "no"})
	w.turn++
	id := w.mustBind(c, request("{m}", num("m", "3.5")))
	c.Completed(Report{Bound: []string{"m"}})
	c.End("ok")
	if n := w.wantNode("m@1", true); n.Untracked == "" {
		t.Error("m@1 is tracked")
	}
	w.wantStructural(id, false)
}

func TestSourcesComeFromNamedOpenedAndUnknownFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do("x", Statement{Writes: []string{"x"}, Files: []string{"/data/b.csv"}}, []string{"x"}, nil)
	w.wantInputs("x@1", "compute file:b.csv")
	w.do("y", Statement{Writes: []string{"y"}, DynamicFiles: true}, []string{"y"}, nil)
	w.wantInputs("y@1", "compute file:a.csv", "compute file:b.csv")
	c := w.g.Begin(w.turn, "z", Analysis{Statements: []Statement{{Writes: []string{"z"}, DynamicFiles: true}}})
	c.Completed(Report{Bound: []string{"z"}, Opened: []string{"a.csv"}})
	c.End("ok")
	w.wantInputs("z@1", "compute file:a.csv")
	w.do("q", Statement{Writes: []string{"q"}, Files: []string{"other.csv"}}, []string{"q"}, nil)
	w.wantInputs("q@1")
}

func TestSelfWrittenFileIsNoSource(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"out.csv", "a.csv", "./sub/a.csv"} {
		w := newWorld(t)
		w.constant("k")
		w.do("save(k)", Statement{Reads: []string{"k"}, WrittenFiles: []string{name}}, nil, nil)
		w.do("d = load", Statement{Writes: []string{"d"}, Files: []string{name}}, []string{"d"}, nil)
		id := w.mean("d")
		e := w.g.Export()
		if got, _ := e.Node("d@1"); got.Untracked != "" {
			t.Errorf("%s: untracked: %s", name, got.Untracked)
		}
		w.wantStructural(id, false)
	}
}

func TestSelfWrittenFileCarriesWhatItsWriterRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.do("df.to_csv", Statement{Reads: []string{"df"}, WrittenFiles: []string{"out.csv"}}, nil, nil)
	w.do("d = load", Statement{Writes: []string{"d"}, Files: []string{"out.csv"}}, []string{"d"}, nil)
	w.wantInputs("d@1", "compute written:out.csv@1")
	w.wantStructural(w.mean("d"), true)
}

func TestDynamicReadAfterAnOwnFileIsUntracked(t *testing.T) {
	t.Parallel()
	for _, st := range []Statement{{WrittenFiles: []string{"x.csv"}}, {DynamicWrites: true}} {
		w := newWorld(t)
		w.do("write", st, nil, nil)
		w.do("d = load", Statement{Writes: []string{"d"}, DynamicFiles: true}, []string{"d"}, nil)
		w.wantStructural(w.mean("d"), false)
	}
}

func TestListedNamesRestOnTheSourcesThatThePatternMatches(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string][]string{
		"*.csv": {"compute file:a.csv", "compute file:b.csv"}, "a*": {"compute file:a.csv"}, "[!a].csv": {"compute file:b.csv"},
		"?.txt": nil, "[": {"compute file:a.csv", "compute file:b.csv"},
	} {
		w := newWorld(t)
		w.do("names", Statement{Writes: []string{"n"}, FilePatterns: []string{pattern}}, []string{"n"}, nil)
		w.wantInputs("n@1", want...)
		w.wantStructural(w.mean("n"), want != nil)
	}
}

func TestListingTheTrajectorysOwnFilesIsUntracked(t *testing.T) {
	t.Parallel()
	for pattern, trusted := range map[string]bool{"*.csv": false, "a.*": true} {
		w := newWorld(t)
		w.do("write", Statement{WrittenFiles: []string{"x.csv"}}, nil, nil)
		w.do("names", Statement{Writes: []string{"n"}, FilePatterns: []string{pattern}}, []string{"n"}, nil)
		w.wantStructural(w.mean("n"), trusted)
	}
	w := newWorld(t)
	w.do("write", Statement{DynamicWrites: true}, nil, nil)
	w.do("names", Statement{Writes: []string{"n"}, FilePatterns: []string{"a.*"}}, []string{"n"}, nil)
	w.wantStructural(w.mean("n"), false)
}

func TestWhatFlowsIntoAChangedObjectIsComputeAndTheRestControl(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.constant("n")
	w.constant("b")
	st := Statement{Reads: []string{"df", "n"}, Mutates: []string{"b", "df"}, Flows: map[string]Flow{"b": {Reads: []string{"n"}}}}
	w.do("change", st, nil, nil)
	w.wantInputs("b@2", "compute b@1", "compute n@1", "control df@1")
	w.wantInputs("df@2", "compute df@1", "compute n@1")
	// A statement that raised may have changed objects before.
	c := w.g.Begin(w.turn, "change", Analysis{Statements: []Statement{st}})
	c.End("error")
	w.wantInputs("b@3", "compute b@2", "compute n@1", "control df@2")
}

func TestFileReadAndWrittenByOneStatementIsUntracked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do("main()", Statement{Writes: []string{"d"}, Files: []string{"a.csv"}, WrittenFiles: []string{"a.csv"}}, []string{"d"}, nil)
	w.wantStructural(w.mean("d"), false)
}

func TestTaintMarksEverythingFromItsStatementOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	before := w.mean("df")
	var during string
	w.do("import ctypes", Statement{Reads: []string{"df"}, Taints: []string{"ctypes"}}, nil, func(c *Cell) {
		during = w.mustBind(c, request("{m}", num("m", "1.5")))
	})
	after := w.mean("df")
	e := w.g.Export()
	for id, want := range map[string]bool{before: false, during: true, after: true} {
		if n, _ := e.Node(id); n.Tainted != want {
			t.Errorf("%s tainted: %v, want %v", id, n.Tainted, want)
		}
	}
	if len(e.Taints) != 1 || e.Taints[0].Construct != "ctypes" {
		t.Errorf("taints are %+v", e.Taints)
	}
	w.wantStructural(after, false)
}

func TestStaticTaintOfAStatementThatNeverRanDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	c := w.g.Begin(w.turn, "1/0\nimport ctypes", Analysis{Statements: []Statement{{}, {Taints: []string{"ctypes"}}}})
	w.turn++
	c.End("exception")
	w.wantStructural(w.mean("df"), true)
}

func TestRunTimeTaintReachesBackToItsStatementsBeginning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	var id string
	w.do("x", Statement{Reads: []string{"df"}}, nil, func(c *Cell) {
		id = w.mustBind(c, request("{m}", num("m", "1.5")))
		c.Taint(0, "sys.modules")
	})
	w.wantStructural(id, false)
}

func TestTaintSeenAfterItsCellMarksWhatCameSince(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	c := w.g.Begin(w.turn, "", Analysis{Statements: []Statement{{}}})
	w.turn++
	c.Completed(Report{})
	c.End("ok")
	id := w.mean("df")
	c.Taint(0, "ctypes")
	w.wantStructural(id, false)
}

func TestFreshSessionIsNotTaintedAndHasNoNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.do("exec", Statement{Taints: []string{"exec"}, Definitions: map[string]json.RawMessage{"f": []byte("1")}}, nil, nil)
	w.g.ResetNamespace()
	if len(w.g.Definitions()) != 0 {
		t.Error("definitions survived")
	}
	w.do("y = df", Statement{Reads: []string{"df"}, Writes: []string{"y"}}, []string{"y"}, nil)
	w.wantInputs("y@1")
	w.load()
	w.wantNode("df@1", true)
	w.wantStructural(w.mean("df"), true)
	w.wantInputs("df@2", "compute file:a.csv")
}

func TestNullDefinitionRemovesAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do("def f", Statement{Definitions: map[string]json.RawMessage{"f": []byte(`{"a":1}`), "g": []byte(`2`)}}, nil, nil)
	w.do("del f", Statement{Definitions: map[string]json.RawMessage{"f": []byte("null")}}, nil, nil)
	d := w.g.Definitions()
	d["h"] = nil
	if got := w.g.Definitions(); len(got) != 1 || string(got["g"]) != "2" {
		t.Errorf("definitions are %v", got)
	}
}

func TestReportsOutOfOrderNeverGround(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	c := w.g.Begin(w.turn, "", Analysis{Statements: []Statement{
		{MaybeWrites: []string{"df"}}, {Reads: []string{"df"}, Writes: []string{"m"}},
	}})
	w.turn++
	c.Completed(Report{Index: 1, Bound: []string{"m"}}) // hides statement 0
	c.Completed(Report{Index: 0, Bound: []string{"df"}})
	c.End("ok")
	w.wantStructural(w.mean("m"), false)
}

func TestCallsAfterTheEndOfACellChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	c := w.g.Begin(w.turn, "x", Analysis{Statements: []Statement{{Reads: []string{"df"}, Writes: []string{"x"}}}})
	c.End("timeout")
	nodes := len(w.g.Export().Nodes)
	c.Completed(Report{Bound: []string{"x"}})
	_, _, bind := c.Bind(request("{m}", num("m", "1")))
	_, _, infer := c.Infer(InferRequest{})
	for _, refusal := range []*Refusal{bind, infer, c.Submit(SubmitRequest{})} {
		if refusal == nil || refusal.Rule != "cell_ended" {
			t.Errorf("refusal is %v", refusal)
		}
	}
	if got := len(w.g.Export().Nodes); got != nodes {
		t.Errorf("%d nodes became %d", nodes, got)
	}
}

func TestHostileReportsAreBounded(t *testing.T) {
	t.Parallel()
	cfg := Defaults()
	cfg.MaxNodes = 50
	g := New(Task{}, cfg)
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	for range 20 {
		c := g.Begin(0, "", Analysis{Statements: []Statement{{Reads: names, Writes: names}}})
		c.Completed(Report{Bound: append([]string{"a@1", "", "\xff"}, names...)})
		c.End("ok")
	}
	e := g.Export()
	if len(e.Nodes) > 50 {
		t.Errorf("%d nodes", len(e.Nodes))
	}
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
}

func TestManyReadsAndWritesCostLinearEdges(t *testing.T) {
	t.Parallel()
	g := New(Task{}, Defaults())
	names := make([]string, 300)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	for range 3 {
		c := g.Begin(0, "", Analysis{Statements: []Statement{{Reads: names, Control: names, Writes: names}}})
		c.Completed(Report{Bound: names})
		c.End("ok")
	}
	e := g.Export()
	w := &world{t: t, g: New(Task{Sources: []Source{{Name: "a.csv"}}}, Defaults())}
	w.load()
	for _, name := range names[1:] {
		w.constant(name)
	}
	w.do("x", Statement{Reads: append([]string{"df"}, names...), Writes: []string{"x"}}, []string{"x"}, nil)
	w.wantStructural(w.mean("x"), true)
	if len(e.Edges) > hubFan*len(e.Nodes) {
		t.Errorf("%d edges for %d nodes", len(e.Edges), len(e.Nodes))
	}
}
