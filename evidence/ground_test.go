package evidence

import (
	"strings"
	"testing"
)

func TestEachPlaceholderIsGroundedByItsOwnExpression(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	template := "The mean over {n} passengers is {m}."
	c := call(template, map[string]string{"m": "", "n": "df"})
	id := w.bind(Statement{Reads: []string{"df"}, Calls: []PrimitiveCall{c}}, request(template, num("m", "34.65"), num("n", "715")))
	g := w.grounding(id)
	if *g.Structural || !strings.Contains(g.Why, "{m}") {
		t.Errorf("S = %v, why %q: the constant m hides behind n", *g.Structural, g.Why)
	}
}

func TestBareVariableIsBoundDirectly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	c := call("{m}", map[string]string{"m": "df"})
	c.Arguments[0].Variable = "df"
	id := w.bind(Statement{Reads: []string{"df"}, Calls: []PrimitiveCall{c}}, request("{m}", num("m", "1.5")))
	w.wantInputs(id, "ground df@1")
}

func TestExpressionBecomesANodeOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	id := w.mean("df")
	w.wantInputs(id, "ground v1")
	w.wantInputs("v1", "compute df@1")
	if n := w.wantNode("v1", true); n.Expression != "f(df)" || n.ValueKind != KindNumber || n.Repr != "34.65" {
		t.Errorf("value node is %+v", n)
	}
}

func TestConstantIsKeptAndNotGrounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.constant("m")
	id := w.mean("m")
	w.wantInputs("v1", "compute m@1")
	w.wantStructural(id, false)
}

func TestConstantArgumentThatReusesTheTargetsNameIsNotGrounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.constant("m")
	var id string
	template := "{n} {m}"
	st := Statement{
		Reads: []string{"df", "m"}, Writes: []string{"m"},
		Calls: []PrimitiveCall{call(template, map[string]string{"m": "m", "n": "df"})},
	}
	w.do(`m = bind("{n} {m}", n=len(df), m=m)`, st, []string{"m"}, func(c *Cell) {
		id = w.mustBind(c, request(template, num("m", "34.65"), num("n", "715")))
	})
	w.wantStructural(id, false)
}

func TestCallsWithoutVisibleArgumentsDependOnTheWholeStatement(t *testing.T) {
	t.Parallel()
	dynamic := PrimitiveCall{Primitive: "bind", Dynamic: true}
	for name, calls := range map[string][]PrimitiveCall{
		"keyword dict": {dynamic}, "helper function": nil,
		"other template": {call("else {m}", map[string]string{"m": ""})},
		"other names":    {call("{m}", map[string]string{"k": ""})},
	} {
		w := newWorld(t)
		w.load()
		id := w.bind(Statement{Reads: []string{"df"}, Calls: calls}, request("{m}", num("m", "1.5")))
		if got := w.inputsOf("v1"); len(got) != 1 || got[0] != "compute df@1" {
			t.Errorf("%s: inputs are %q", name, got)
		}
		w.wantStructural(id, true)
	}
}

func TestLoopVariableDependsOnWhatTheLoopReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	code := "for c in cols:\n    v = df[c].mean()\n    bind(\"{v}\", v=v)"
	pc := call("{v}", map[string]string{"v": "v"})
	pc.Arguments[0].Variable = "v"
	pc.Line, pc.EndLine = 3, 3
	st := Statement{Line: 1, EndLine: 3, Reads: []string{"df"}, MaybeWrites: []string{"c", "v"}, Calls: []PrimitiveCall{pc}}
	var ids []string
	w.do(code, st, []string{"c", "v"}, func(c *Cell) {
		for range 3 {
			r := request("{v}", num("v", "1.5"))
			r.Line = 3
			ids = append(ids, w.mustBind(c, r))
		}
	})
	if refusal := w.submit(ids...); refusal != nil {
		t.Fatal(refusal.Message)
	}
	for _, g := range w.g.Export().Grounding {
		if !*g.Structural {
			t.Errorf("%s: %s", g.Claim, g.Why)
		}
	}
}

func TestLineChoosesAmongCallsOfOneTemplate(t *testing.T) {
	t.Parallel()
	for line, want := range map[int]bool{1: true, 2: false, 9: false} {
		w := newWorld(t)
		w.load()
		first, second := call("{m}", map[string]string{"m": "df"}), call("{m}", map[string]string{"m": ""})
		second.Line, second.EndLine = 2, 2
		r := request("{m}", num("m", "1.5"))
		r.Line = line
		id := w.bind(Statement{Reads: []string{"df"}, Calls: []PrimitiveCall{first, second}}, r)
		w.wantStructural(id, want)
	}
}

func TestAmbiguousCallsGroundWhenAllOfThemWould(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	calls := []PrimitiveCall{call("{m}", map[string]string{"m": "df"}), call("{m}", map[string]string{"m": "df"})}
	w.wantStructural(w.bind(Statement{Reads: []string{"df"}, Calls: calls}, request("{m}", num("m", "1.5"))), true)
}

func TestForgedStatementIndexIsNotGrounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	var id string
	w.do("x", Statement{Reads: []string{"df"}}, nil, func(c *Cell) {
		r := request("{m}", num("m", "1.5"))
		r.Statement = 7
		id = w.mustBind(c, r)
	})
	w.wantStructural(id, false)
}

func TestStructuralPartByKindOfValue(t *testing.T) {
	t.Parallel()
	kind := func(k, text string) value { return value{Value{Name: "x", Kind: k}, text} }
	for _, c := range []struct {
		name string
		x    value
		want bool
	}{
		{"constant text beside a grounded number", str("x", "positive"), true},
		{"constant boolean beside a grounded number", kind(KindBoolean, "True"), true},
		{"number", num("x", "34.65"), false},
		{"number that renders as nan", num("x", "nan"), false},
		{"text that holds a digit", str("x", "34.65"), false},
		{"text that holds a number word", str("x", "seventeen"), false},
		{"date", kind(KindDate, "May"), false},
		{"list", kind(KindList, "[]"), false},
		{"number of the question", num("x", "0.05"), true},
		{"text with a number of the question", str("x", "0.05"), true},
		{"number near one of the question", num("x", "0.1"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.load()
			pc := call("{m} {x}", map[string]string{"m": "df", "x": ""})
			id := w.bind(Statement{Reads: []string{"df"}, Calls: []PrimitiveCall{pc}}, request("{m} {x}", num("m", "1.5"), c.x))
			w.wantStructural(id, c.want)
		})
	}
}

func TestClaimOfConstantsOnlyIsNotStructural(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	pc := call("It is {x}.", map[string]string{"x": ""})
	id := w.bind(Statement{Reads: []string{"df"}, Calls: []PrimitiveCall{pc}}, request("It is {x}.", str("x", "positive")))
	g := w.grounding(id)
	if *g.Structural || !strings.Contains(g.Why, "constants") {
		t.Errorf("S = %v, why %q", *g.Structural, g.Why)
	}
}

func TestDerivedClaimIsOnlyAsGroundedAsItsPremises(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	w.constant("k")
	good, bad := w.mean("df"), w.mean("k")
	id, refusal := w.infer(InferRequest{Premises: []string{good, bad}, Conclusion: "Both means agree.", Reasoning: "The mean is 34.65 in either case."})
	if refusal != nil {
		t.Fatal(refusal.Message)
	}
	w.wantStructural(id, false)
}

func TestNumberInTheTemplateIsNotLexical(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		template string
		want     bool
	}{
		{"The mean is {m}.", true},
		{"@mean_fare[{m}]", true},
		{"Below 0.05: {m}%", true},
		{"-{m} or ${m}", true},
		{"@r2_score[{m}] in Q3", true},
		{"The mean is 34.65, or {m}.", true}, // the value itself
		{"The mean is 99.5, not {m}.", false},
		{"3{m}", false},
		{"{m}e5", false},
		{"{m}1", false},
		{"seventeen and {m}", false},
	} {
		w := newWorld(t)
		w.load()
		id := w.bind(Statement{Reads: []string{"df"}}, request(c.template, num("m", "34.65")))
		if g := w.grounding(id); *g.Lexical != c.want {
			t.Errorf("N(%q) = %v (%s), want %v", c.template, *g.Lexical, g.Why, c.want)
		}
	}
}

func TestNumberThatAnAncestorMadeUpIsNotLexical(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.load()
	premise := w.bind(Statement{Reads: []string{"df"}}, request("The mean is 99.5 over {n} rows.", num("n", "715")))
	id, refusal := w.infer(InferRequest{Premises: []string{premise}, Conclusion: "@mean_fare[99.5]", Reasoning: "The mean is stated by the premise."})
	if refusal != nil {
		t.Fatal(refusal.Message)
	}
	g := w.grounding(id)
	if *g.Lexical || !strings.HasPrefix(g.Why, premise) {
		t.Errorf("N = %v, why %q", *g.Lexical, g.Why)
	}
}
