package rollouttest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

// The prelude makes c1 and c2; forms that make a claim make c3.
const (
	because = `"Premise c1 gives the mean, so it follows."`
	so      = `"So the mean lies far above the rest."`
)

func TestEveryFormOfInferDerivesFromTheSamePremises(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code string
		want []string
	}{
		"positional":                   {"infer([a, b], SO, WHY)", []string{"c1", "c2"}},
		"keywords":                     {"infer(premises=[a, b], conclusion=SO, reasoning=WHY)", []string{"c1", "c2"}},
		"keywords in another order":    {"infer(reasoning=WHY, premises=[a, b], conclusion=SO)", []string{"c1", "c2"}},
		"mixed":                        {"infer([a, b], SO, reasoning=WHY)", []string{"c1", "c2"}},
		"a tuple":                      {"infer((a, b), SO, WHY)", []string{"c1", "c2"}},
		"a set":                        {"infer({a}, SO, WHY)", []string{"c1"}},
		"a generator":                  {"infer((c for c in (a, b)), SO, WHY)", []string{"c1", "c2"}},
		"a comprehension":              {"infer([c for c in [b, a]], SO, WHY)", []string{"c2", "c1"}},
		"one claim instead of a list":  {"infer(a, SO, WHY)", []string{"c1"}},
		"a claim twice":                {"infer([a, a, b], SO, WHY)", []string{"c1", "c2"}},
		"claims from a dict":           {"d = {'x': a, 'y': b}\ninfer(d.values(), SO, WHY)", []string{"c1", "c2"}},
		"claims from a list":           {"l = []\nl.append(a)\nl += [b]\ninfer(l, SO, WHY)", []string{"c1", "c2"}},
		"a claim by index":             {"l = [b, a]\ninfer([l[-1], l[0]], SO, WHY)", []string{"c1", "c2"}},
		"starred":                      {"args = ([a, b], SO, WHY)\ninfer(*args)", []string{"c1", "c2"}},
		"double-starred":               {"kw = dict(premises=[a, b], conclusion=SO, reasoning=WHY)\ninfer(**kw)", []string{"c1", "c2"}},
		"a helper":                     {"def conclude(ps):\n    return infer(ps, SO, WHY)\nconclude([a, b])", []string{"c1", "c2"}},
		"a loop":                       {"for ps in [[a, b]]:\n    infer(ps, SO, WHY)", []string{"c1", "c2"}},
		"a lambda":                     {"(lambda *ps: infer(ps, SO, WHY))(a, b)", []string{"c1", "c2"}},
		"a partial":                    {"import functools\nfunctools.partial(infer, conclusion=SO, reasoning=WHY)([a, b])", []string{"c1", "c2"}},
		"a method's result":            {"class H:\n    def ps(self):\n        return [a, b]\ninfer(H().ps(), SO, WHY)", []string{"c1", "c2"}},
		"an iterator":                  {"infer(iter([a, b]), SO, WHY)", []string{"c1", "c2"}},
		"a deque":                      {"from collections import deque\ninfer(deque([a, b]), SO, WHY)", []string{"c1", "c2"}},
		"a copy":                       {"import copy\ninfer(copy.deepcopy([a, b]), SO, WHY)", []string{"c1", "c2"}},
		"a formatted conclusion":       {"infer([a, b], f'Of {len(xs)} values the mean is {m:.2f}, far above the rest.', WHY)", []string{"c1", "c2"}},
		"an alias":                     {"first = a\ninfer([first, b], SO, WHY)", []string{"c1", "c2"}},
		"unpacked from a tuple":        {"p, q = a, b\ninfer([p, q], SO, WHY)", []string{"c1", "c2"}},
		"awaited":                      {"async def f():\n    return infer([a, b], SO, WHY)\nawait f()", []string{"c1", "c2"}},
		"inside an expression":         {"print(infer([a, b], SO, WHY).text)", []string{"c1", "c2"}},
		"after a refusal that it took": {"try:\n    infer([], SO, WHY)\nexcept ValueError:\n    infer([a, b], SO, WHY)", []string{"c1", "c2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := play(t, "SO = "+so+"\nWHY = "+because+"\n"+c.code)
			g := &out.Trajectory.Graph
			require.Contains(t, []trajectory.CellStatus{trajectory.CellOK, trajectory.CellRefused}, out.Results[1].Status, out.Results[1].Traceback)
			n, ok := g.Node("c3")
			require.True(t, ok, out.Results[1].Traceback)
			require.Equal(t, evidence.NodeDerived, n.Kind)
			var premises []string
			for _, p := range g.Premises("c3") {
				premises = append(premises, p.ID)
			}
			require.Equal(t, c.want, premises)
		})
	}
}

func TestEveryFormOfBindIsGroundedInTheFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ code, text string }{
		"a name":                    {"bind('Mean {m:.2f}', m=m)", "Mean 4.31"},
		"an expression":             {"bind('Mean {v:.2f}', v=sum(xs) / len(xs))", "Mean 4.31"},
		"a call":                    {"bind('Max {v}', v=max(xs))", "Max 9.0"},
		"template_str":              {"bind(template_str='Mean {m:.2f}', m=m)", "Mean 4.31"},
		"template":                  {"bind(template='Mean {m:.2f}', m=m)", "Mean 4.31"},
		"a template in a name":      {"t = 'Mean {m:.2f}'\nbind(t, m=m)", "Mean 4.31"},
		"a joined template":         {"bind('Mean ' '{m:.2f}', m=m)", "Mean 4.31"},
		"a template that is built":  {"bind('Mean {' + 'm' + ':.2f}', m=m)", "Mean 4.31"},
		"keywords from a dict":      {"d = {'m': m, 'n': len(xs)}\nbind('{n} values, mean {m:.2f}', **d)", "4 values, mean 4.31"},
		"keywords and a dict":       {"d = {'n': len(xs)}\nbind('{n} values, mean {m:.2f}', m=m, **d)", "4 values, mean 4.31"},
		"a value of a container":    {"d = {'x': [m]}\nbind('Mean {v:.2f}', v=d['x'][0])", "Mean 4.31"},
		"an index in the template":  {"bind('First {v[0]}', v=xs)", "First 1.5"},
		"a helper":                  {"def state(t, **kw):\n    return bind(t, **kw)\nstate('Mean {m:.2f}', m=m)", "Mean 4.31"},
		"a helper that reads names": {"def state():\n    return bind('Mean {m:.2f}', m=m)\nstate()", "Mean 4.31"},
		"a loop":                    {"for k in [1]:\n    bind('Mean {m:.2f}', m=m)", "Mean 4.31"},
		"a comprehension":           {"cs = [bind('Value {v}', v=x) for x in xs[:1]]", "Value 1.5"},
		"a dict comprehension":      {"cs = {i: bind('Value {v}', v=xs[i]) for i in range(1)}", "Value 1.5"},
		"a walrus":                  {"bind('Max {v}', v=(top := max(xs)))", "Max 9.0"},
		"a lambda":                  {"(lambda v: bind('Max {v}', v=v))(max(xs))", "Max 9.0"},
		"a condition":               {"if len(xs) > 2:\n    bind('Max {v}', v=max(xs))", "Max 9.0"},
		"a try":                     {"try:\n    bind('Max {v}', v=max(xs))\nfinally:\n    pass", "Max 9.0"},
		"a with":                    {"import contextlib\nwith contextlib.nullcontext():\n    bind('Max {v}', v=max(xs))", "Max 9.0"},
		"a class body":              {"class C:\n    c = bind('Max {v}', v=max(xs))", "Max 9.0"},
		"two in one statement":      {"p, q = bind('Max {v}', v=max(xs)), bind('Min {v}', v=min(xs))", "Max 9.0"},
		"several lines":             {"bind(\n    'Mean {m:.2f} of {n}',\n    m=m,\n    n=len(xs),\n)", "Mean 4.31 of 4"},
		"a nested spec":             {"bind('Mean {m:.{p}f}', m=m, p=2)", "Mean 4.31"},
		"an extra value":            {"bind('Mean {m:.2f}', m=m, unused=3)", "Mean 4.31"},
		"words beside a number":     {"bind('Mean {m:.2f} is {how}', m=m, how='high' if m > 2 else 'low')", "Mean 4.31 is high"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := play(t, c.code, "submit_answer("+lastClaim+")")
			g := &out.Trajectory.Graph
			n, ok := g.Node("c3")
			require.True(t, ok, out.Results[1].Traceback)
			require.Equal(t, c.text, n.Text)
			require.True(t, grounded(g, "c3"), why(g, "c3"))
			require.Equal(t, []string{"t.csv"}, g.SourcesUnder("c3"))
		})
	}
}

func TestAConstantBesideTheDataGroundsNothingInAnyForm(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{
		"positional template":  "bind('Mean {m:.2f}, limit {k}', m=m, k=99)",
		"template_str":         "bind(template_str='Mean {m:.2f}, limit {k}', m=m, k=99)",
		"template":             "bind(template='Mean {m:.2f}, limit {k}', m=m, k=99)",
		"template last":        "bind(m=m, k=99, template='Mean {m:.2f}, limit {k}')",
		"a template in a name": "t = 'Mean {m:.2f}, limit {k}'\nbind(t, m=m, k=99)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := play(t, code, "submit_answer(a)")
			g := &out.Trajectory.Graph
			require.False(t, grounded(g, "c3"))
			require.Contains(t, why(g, "c3"), "the value of {k} (99) reaches no source")
		})
	}
}

// lastClaim submits what stands first, so that the trajectory ends as others do.
const lastClaim = "a"

// grounded computes S of a claim as if it had been submitted.
func grounded(g *evidence.Export, id string) bool {
	e := *g
	e.Submitted = []string{id}
	return *e.ComputeGrounding()[0].Structural
}

func why(g *evidence.Export, id string) string {
	e := *g
	e.Submitted = []string{id}
	return e.ComputeGrounding()[0].Why
}

func TestEveryFormOfSubmitTakesTheSameClaims(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code string
		want []string
	}{
		"one claim":          {"submit_answer(a)", []string{"c1"}},
		"a list":             {"submit_answer([a, b])", []string{"c1", "c2"}},
		"a tuple":            {"submit_answer((b, a))", []string{"c2", "c1"}},
		"a generator":        {"submit_answer(c for c in [a, b])", []string{"c1", "c2"}},
		"a keyword":          {"submit_answer(claims=[a, b])", []string{"c1", "c2"}},
		"several arguments":  {"submit_answer(a, b)", []string{"c1", "c2"}},
		"a claim twice":      {"submit_answer([a, a])", []string{"c1"}},
		"values of a dict":   {"d = {1: a, 2: b}\nsubmit_answer(list(d.values()))", []string{"c1", "c2"}},
		"starred":            {"l = [a, b]\nsubmit_answer(*l)", []string{"c1", "c2"}},
		"made in the call":   {"submit_answer([a, bind('Max {v}', v=max(xs))])", []string{"c1", "c3"}},
		"in a helper":        {"def done(*cs):\n    submit_answer(list(cs))\ndone(a, b)", []string{"c1", "c2"}},
		"in a loop that ran": {"for c in [[a], [b]]:\n    try:\n        submit_answer(c)\n    except ValueError:\n        pass", []string{"c1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := play(t, c.code)
			require.Equal(t, c.want, out.Trajectory.Graph.Submitted, out.Results[1].Traceback)
			require.Equal(t, trajectory.Submitted, out.Trajectory.Termination)
		})
	}
}

func TestValuesOfEveryKindAreRenderedAsPythonDoesAndKeptWithTypeAndRepr(t *testing.T) {
	t.Parallel()
	rows := []struct{ template, value, text, kind, typ, repr string }{
		{"{v:.2f}", "np.float64(2.345)", "2.35", "number", "numpy.float64", "np.float64(2.345)"},
		{"{v:.1f}", "np.float32(0.25)", "0.2", "number", "numpy.float32", "np.float32(0.25)"},
		{"{v:,}", "np.int64(1234567)", "1,234,567", "number", "numpy.int64", "np.int64(1234567)"},
		{"{v}", "np.bool_(True)", "True", "boolean", "numpy.bool", "np.True_"},
		{"{v}", "np.str_('north')", "north", "string", "numpy.str_", "np.str_('north')"},
		{"{v:%Y}", "pd.Timestamp('2015-03-07')", "2015", "date", "", "Timestamp('2015-03-07 00:00:00')"},
		{"{v:%B %d}", "datetime.date(2015, 3, 7)", "March 07", "date", "datetime.date", "datetime.date(2015, 3, 7)"},
		{"{v}", "datetime.datetime(2015, 3, 7, 12, 30)", "2015-03-07 12:30:00", "date", "datetime.datetime", "datetime.datetime(2015, 3, 7, 12, 30)"},
		{"{v}", "pd.Timedelta('1D')", "1 days 00:00:00", "date", "", "Timedelta('1 days 00:00:00')"},
		{"{v}", "np.datetime64('2015-03-07')", "2015-03-07", "date", "numpy.datetime64", "np.datetime64('2015-03-07')"},
		{"{v}", "pd.Period('2015-03')", "2015-03", "date", "", "Period('2015-03', 'M')"},
		{"{v:.3f}", "decimal.Decimal('2.3456')", "2.346", "number", "decimal.Decimal", "Decimal('2.3456')"},
		{"{v}", "fractions.Fraction(1, 3)", "1/3", "number", "fractions.Fraction", "Fraction(1, 3)"},
		{"{v}", "None", "None", "none", "NoneType", "None"},
		{"{v}", "pd.NA", "<NA>", "none", "", "<NA>"},
		{"{v}", "pd.NaT", "NaT", "date", "", "NaT"},
		{"{v:.2f}", "float('nan')", "nan", "number", "float", "nan"},
		{"{v:.2f}", "np.nan * 2", "nan", "number", "float", "nan"},
		{"{v}", "float('-inf')", "-inf", "number", "float", "-inf"},
		{"{v:.1%}", "0.3646", "36.5%", "number", "float", "0.3646"},
		{"{v:e}", "12345.678", "1.234568e+04", "number", "float", "12345.678"},
		{"{v:+d}", "5", "+5", "number", "int", "5"},
		{"{v:x}", "255", "ff", "number", "int", "255"},
		{"{v!r:>10}", "'ab'", "      'ab'", "string", "str", "'ab'"},
		{"{v:>6}", "'ab'", "    ab", "string", "str", "'ab'"},
		{"{v.real:.1f}", "np.complex128(1.5+2j)", "1.5", "number", "numpy.complex128", "np.complex128(1.5+2j)"},
		{"{v.year}", "pd.Timestamp('2015-03-07')", "2015", "date", "", ""},
		{"{v[k]}", "{'k': 3}", "3", "list", "dict", "{'k': 3}"},
		{"{v}", "np.arange(3)", "[0 1 2]", "list", "numpy.ndarray", "array([0, 1, 2])"},
		{"{v}", "[np.float64(0.5), 1]", "[np.float64(0.5), 1]", "list", "list", "[np.float64(0.5), 1]"},
		{"{v}", "pd.Series([1, 2]).mean()", "1.5", "number", "", ""},
		{"{v:.2f}", "pd.Series([1, 2]).iloc[0]", "1.00", "number", "numpy.int64", "np.int64(1)"},
		{"{v}", "pd.Categorical(['a', 'b'])[0]", "a", "string", "str", "'a'"},
		{"{v:,.2f}", "np.float64(1234.5)", "1,234.50", "number", "numpy.float64", ""},
	}
	var code strings.Builder
	code.WriteString("import datetime, decimal, fractions\nimport numpy as np, pandas as pd\n")
	for _, r := range rows {
		code.WriteString("bind(" + quote("v "+r.template) + ", v=" + r.value + ")\n")
	}
	out := play(t, code.String())
	require.Equal(t, trajectory.CellOK, out.Results[1].Status, out.Results[1].Traceback)
	var claims []evidence.Node
	for _, n := range out.Trajectory.Graph.Nodes {
		if n.Kind == evidence.NodeAtomic && n.Turn == 1 {
			claims = append(claims, n)
		}
	}
	require.Len(t, claims, len(rows))
	for i, r := range rows {
		v := claims[i].Values[0]
		require.Equal(t, "v "+r.text, claims[i].Text, r.value)
		require.Equal(t, r.kind, v.Kind, r.value)
		if r.typ != "" {
			require.Equal(t, r.typ, v.Type, r.value)
		}
		if r.repr != "" {
			require.Equal(t, r.repr, v.Repr, r.value)
		}
	}
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "\\'") + "'" }

func TestAValueIsRenderedOnce(t *testing.T) {
	t.Parallel()
	out := play(t, "count = 0\nclass V:\n    def __format__(self, spec):\n        global count\n        count += 1\n        return 'high'\n"+
		"c = bind('The mean {m:.2f} is {v}.', m=m, v=V())", "print(count, c.text)")
	require.Equal(t, "1 The mean 4.31 is high.\n", out.Results[2].Output, out.Results[1].Traceback)
}

// A rejection is a ValueError of one or two short sentences that says what to do.
func TestARejectionReadsLikeAPythonErrorAndCostsOneCellOnly(t *testing.T) {
	t.Parallel()
	for code, says := range map[string]string{
		"bind('The mean is 4.31.')":                               "placeholder",
		"bind('The mean is {m}.')":                                "pass it as m=...",
		"bind('', m=m)":                                           "write a sentence",
		"bind('{m:.2f} {', m=m)":                                  "not valid",
		"bind('{m}', m=a)":                                        "use infer to build on claims",
		"bind('{m}', m=list(range(500)))":                         "bind a single number",
		"bind('{m:5<9}', m=m)":                                    "use a plain format",
		"bind('{m}\\u200b', m=m)":                                 "plain characters",
		"bind('{}', m)":                                           "pass values as keywords",
		"bind('{0}', m=m)":                                        "needs a name",
		"bind('{x}' * 300, x=m)":                                  "too many",
		"infer([], " + so + ", " + because + ")":                  "bind the facts first",
		"infer([a], 'The mean is 99.', " + because + ")":          "states 99",
		"infer([a], 'The mean is {m}.', " + because + ")":         "holds a placeholder",
		"infer([a], '', " + because + ")":                         "state what follows",
		"infer([a], " + so + ", 'short')":                         "say how the premises lead",
		"infer([a], " + so + ", " + so + ")":                      "only repeats the conclusion",
		"infer([a], " + so + ", 'Nobody ever doubted that one.')": "refers to no premise",
		"infer(['c1'], " + so + ", " + because + ")":              "claims that bind or infer returned",
		"infer([a], " + so + ")":                                  "reasoning must be a string",
		"submit_answer([])":                                       "pass at least one claim",
		"submit_answer('4.31')":                                   "claims that bind or infer returned",
		"submit_answer()":                                         "claims that bind or infer returned",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			out := play(t, "k = 7\n"+code+"\nk = 8", "print(k)\nsubmit_answer([a, b])")
			g := &out.Trajectory.Graph
			refused := out.Results[1]
			require.Equal(t, trajectory.CellRefused, refused.Status, refused.Traceback)
			require.Equal(t, "ValueError", refused.Exception)
			_, message, ok := strings.Cut(refused.Traceback, "ValueError: ")
			require.True(t, ok, refused.Traceback)
			require.Contains(t, message, says)
			require.Less(t, len(message), 260, message)
			require.Contains(t, refused.Traceback, `File "<cell 2>", line 2`)
			require.False(t, refused.NamespaceLost)
			// Nothing else: the name keeps what it had, the graph holds no trace, the next cell submits.
			require.Equal(t, "7\n", out.Results[2].Output)
			require.Equal(t, []string{"c1", "c2"}, g.Submitted)
			require.False(t, slices.ContainsFunc(g.Nodes, func(n evidence.Node) bool {
				return n.Turn == 1 && n.Kind != evidence.NodeVariable
			}))
			require.True(t, grounded(g, "c1"))
		})
	}
}
