package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

func TestBindSendsRenderedFieldsAndDescribedValues(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	g := &graph{}
	res := runWith(t, sess, "m = 34.6512\nw = 1\nc = bind('Mean {m:.2f} of {w} {{x}} {m!r:>8} {n:.{w}f}',\n         m=m, w=w, n=2.25)\nprint(c.id, c.content, c.text, c)", g)
	require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
	require.Equal(t, []evidence.BindRequest{{
		Statement: 2, Line: 3, Template: "Mean {m:.2f} of {w} {{x}} {m!r:>8} {n:.{w}f}",
		Fields: []evidence.Field{{Name: "m", Text: "34.65"}, {Name: "w", Text: "1"}, {Name: "m", Text: " 34.6512"}, {Name: "n", Text: "2.2"}},
		Values: []evidence.Value{
			{Name: "m", Kind: "number", Type: "float", Repr: "34.6512"},
			{Name: "w", Kind: "number", Type: "int", Repr: "1"},
			{Name: "n", Kind: "number", Type: "float", Repr: "2.25"},
		},
	}}, g.binds)
	text := "text of " + g.binds[0].Template
	require.Equal(t, "c1 "+text+" "+text+" "+text+"\n", res.Output)
	require.Equal(t, []string{"completed 0", "completed 1", "bind 2", "completed 2", "completed 3"}, g.lastOrder)
}

func TestBindRendersOnce(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	g := &graph{}
	res := runWith(t, sess, "bind('{a}', a='{b}{0}', b=3)\nbind(template='{x.real} {d[k]}', x=3, d={'k': 4})\nbind(template_str='{template}', template=1)", g)
	require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
	require.Equal(t, []evidence.Field{{Name: "a", Text: "{b}{0}"}}, g.binds[0].Fields)
	require.Equal(t, []evidence.Field{{Name: "x", Text: "3"}, {Name: "d", Text: "4"}}, g.binds[1].Fields)
	require.Equal(t, 3, len(g.binds))
}

func TestBindNamesTheKindOfEveryValue(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	run(t, sess, "import numpy as np, pandas as pd, datetime, decimal, fractions\nc0 = bind('{x}', x=1)")
	for expr, want := range map[string]evidence.Value{
		"3":                                {Kind: "number", Type: "int", Repr: "3"},
		"True":                             {Kind: "boolean", Type: "bool", Repr: "True"},
		"None":                             {Kind: "none", Type: "NoneType", Repr: "None"},
		"'a'":                              {Kind: "string", Type: "str", Repr: "'a'"},
		"float('nan')":                     {Kind: "number", Type: "float", Repr: "nan"},
		"float('-inf')":                    {Kind: "number", Type: "float", Repr: "-inf"},
		"2j":                               {Kind: "number", Type: "complex", Repr: "2j"},
		"decimal.Decimal('1.5')":           {Kind: "number", Type: "decimal.Decimal", Repr: "Decimal('1.5')"},
		"fractions.Fraction(1, 3)":         {Kind: "number", Type: "fractions.Fraction", Repr: "Fraction(1, 3)"},
		"np.float64(0.5)":                  {Kind: "number", Type: "numpy.float64", Repr: "np.float64(0.5)"},
		"np.bool_(True)":                   {Kind: "boolean", Type: "numpy.bool", Repr: "np.True_"},
		"np.array(2)":                      {Kind: "number", Type: "numpy.ndarray", Repr: "array(2)"},
		"np.str_('a')":                     {Kind: "string", Type: "numpy.str_", Repr: "np.str_('a')"},
		"datetime.date(2020, 1, 2)":        {Kind: "date", Type: "datetime.date", Repr: "datetime.date(2020, 1, 2)"},
		"pd.Timestamp('2020-01-02')":       {Kind: "date", Repr: "Timestamp('2020-01-02 00:00:00')"},
		"pd.Timedelta('1D')":               {Kind: "date", Repr: "Timedelta('1 days 00:00:00')"},
		"np.datetime64('2020-01-02')":      {Kind: "date", Type: "numpy.datetime64"},
		"pd.NaT":                           {Kind: "date"},
		"pd.NA":                            {Kind: "none"},
		"[1, 'a', None]":                   {Kind: "list", Type: "list", Repr: "[1, 'a', None]"},
		"{'a': (1, 2)}":                    {Kind: "list", Type: "dict", Repr: "{'a': (1, 2)}"},
		"np.arange(3)":                     {Kind: "list", Type: "numpy.ndarray", Repr: "array([0, 1, 2])"},
		"pd.Series([1, 2])":                {Kind: "list", Type: "pandas.Series"},
		"np.zeros(1000)":                   {Kind: "table", Type: "numpy.ndarray", Repr: "<numpy.ndarray (1000,)>"},
		"list(range(1000))":                {Kind: "table", Type: "list", Repr: "<list 1000>"},
		"pd.Series(range(1000))":           {Kind: "table", Type: "pandas.Series", Repr: "<pandas.Series (1000,)>"},
		"pd.DataFrame({'a': [1]})":         {Kind: "table", Type: "pandas.DataFrame", Repr: "<pandas.DataFrame (1, 1)>"},
		"[pd.DataFrame({'a': [1]})]":       {Kind: "table", Type: "list"},
		"c0":                               {Kind: "claim", Type: "__main__.Claim"},
		"[c0]":                             {Kind: "claim", Type: "list"},
		"object":                           {Kind: "other", Type: "type", Repr: "<class 'object'>"},
		"b'x'":                             {Kind: "other", Type: "bytes", Repr: "b'x'"},
		"10 ** 5000":                       {Kind: "number", Type: "int", Repr: "<int of 16610 bits>"},
		"type('F', (float,), {})(3)":       {Kind: "other", Type: "__main__.F"},
		"pd.Series([c0, 1], dtype=object)": {Kind: "claim"},
	} {
		g := &graph{}
		res := runWith(t, sess, "bind('{k}', k=1, v="+expr+")", g)
		require.Equal(t, trajectory.CellOK, res.Status, "%s: %s", expr, res.Traceback)
		got := g.binds[0].Values[1]
		require.Equal(t, want.Kind, got.Kind, expr)
		if want.Type != "" {
			require.Equal(t, want.Type, got.Type, expr)
		}
		if want.Repr != "" {
			require.Equal(t, want.Repr, got.Repr, expr)
		}
	}
}

func TestMistakesInPrimitivesSayWhatToDo(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	run(t, sess, "c = bind('{x}', x=1)")
	for code, want := range map[string]string{
		"bind('{mean}')":                     "no value for placeholder {mean}: pass it as mean=...",
		"bind('{}', 3)":                      "only the template is positional",
		"bind('{}')":                         "a placeholder needs a name",
		"bind('{0}', a=1)":                   "a placeholder needs a name",
		"bind()":                             "no template",
		"bind(3)":                            "the template must be a string, not int",
		"bind('{x', x=1)":                    "the template is not valid",
		"bind('{x:.2f}', x='a')":             "{x:.2f} can't be formatted",
		"bind('{x.y}', x=1)":                 "{x.y} can't be formatted",
		"infer([c], 'so')":                   "reasoning must be a string",
		"infer('c1', 'so', 'because')":       "premises must be claims that bind or infer returned, not str",
		"infer(['c1'], 'so', 'because')":     "one of them is str",
		"infer(None, 'so', 'because')":       "premises must be claims",
		"infer(3, 'so', 'because')":          "premises must be claims",
		"infer([c], 3, 'because')":           "conclusion must be a string, not int",
		"submit_answer('34.65')":             "claims must be claims",
		"submit_answer()":                    "claims must be claims",
		"submit_answer([c, 'x'])":            "one of them is str",
		"submit_answer({'mean': 1})":         "not dict",
		"submit_answer(float('nan'))":        "not float",
		"bind('{x}' + 'y' * 2_000_000, x=1)": "too long",
	} {
		g := &graph{}
		res := runWith(t, sess, code, g)
		require.Equal(t, trajectory.CellRefused, res.Status, code)
		require.Equal(t, "ValueError", res.Exception, code)
		require.Contains(t, res.Traceback, want, code)
		require.NotContains(t, res.Traceback, "runner", code)
		require.Empty(t, g.binds, code)
		require.Empty(t, g.submits, code)
	}
}

func TestARefusalIsAValueErrorWithTheGraphsMessage(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	g := &graph{refuse: "use a placeholder for the number"}
	res := runWith(t, sess, "x = 1\nbind('{x}', x=x)\ny = 2", g)
	require.Equal(t, trajectory.CellRefused, res.Status)
	require.Equal(t, "ValueError", res.Exception)
	require.Contains(t, res.Traceback, "ValueError: use a placeholder for the number")
	require.Contains(t, res.Traceback, "bind('{x}', x=x)")
	require.Equal(t, 1, res.Completed)

	res = runWith(t, sess, "try:\n    bind('{x}', x=x)\nexcept ValueError as e:\n    print(e)", g)
	require.Equal(t, trajectory.CellOK, res.Status)
	require.Equal(t, "use a placeholder for the number\n", res.Output)

	res = runWith(t, sess, "try:\n    bind('{x}', x=x)\nexcept ValueError:\n    raise KeyError('other')", g)
	require.Equal(t, trajectory.CellException, res.Status)
}

func TestInferAndSubmitTakeClaimsInEveryForm(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	g := &graph{}
	res := runWith(t, sess, `a = bind('{x}', x=1)
b = bind('{x}', x=2)
infer([a, b], 'both', 'because')
infer(premises=a, conclusion='one', reasoning='r')
infer((x for x in (a, b)), conclusion='gen', reasoning='r')
submit_answer(a)
submit_answer([a, b])
submit_answer((a, b))
submit_answer(x for x in [b])
submit_answer(claims=[b, a])
import copy
submit_answer(copy.deepcopy([a]))`, g)
	require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
	require.Equal(t, []string{"c1", "c2"}, g.infers[0].Premises)
	require.Equal(t, "because", g.infers[0].Reasoning)
	require.Equal(t, []string{"c1"}, g.infers[1].Premises)
	require.Equal(t, []string{"c1", "c2"}, g.infers[2].Premises)
	var got [][]string
	for _, s := range g.submits {
		got = append(got, s.Claims)
	}
	require.Equal(t, [][]string{{"c1"}, {"c1", "c2"}, {"c1", "c2"}, {"c2"}, {"c2", "c1"}, {"c1"}}, got)
}

func TestEditingOrForgingAClaimChangesNothing(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	g := &graph{}
	runWith(t, sess, "a = bind('{x}', x=1)\nb = bind('{x}', x=2)", g)
	require.Equal(t, "AttributeError", runWith(t, sess, "a.content = 'forged'", g).Exception)
	require.Equal(t, "TypeError", runWith(t, sess, "Claim('c1', 'forged')", g).Exception)
	require.Equal(t, trajectory.CellOK, runWith(t, sess, "object.__setattr__(a, 'id', 'c2')\nsubmit_answer(a)", g).Status)
	require.Equal(t, []string{"c1"}, g.submits[0].Claims)
	require.Equal(t, trajectory.CellRefused, runWith(t, sess, "f = object.__new__(Claim)\nsubmit_answer(f)", g).Status)
	require.Len(t, g.submits, 1)
}

func TestRebindingAPrimitiveTaints(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	g := &graph{}
	res := runWith(t, sess, "x = 1\nbind = lambda *a, **k: None\ny = 2", g)
	require.Equal(t, trajectory.CellOK, res.Status)
	require.Equal(t, []string{"rebinds bind"}, g.taints)
	runWith(t, sess, "del submit_answer\n1 / 0", g)
	require.Equal(t, []string{"rebinds bind", "rebinds submit_answer"}, g.taints)
}

func TestRebindingAPrimitiveInAFailedStatementTaints(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	g := &graph{}
	runWith(t, sess, "if True:\n    infer = 3\n    1 / 0", g)
	require.Equal(t, []string{"rebinds infer"}, g.taints)
}

func TestReachingForTheInterpretersInsidesTaints(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"import gc; gc.get_objects()":              "gc",
		"import sys; sys._getframe()":              "frames",
		"import ctypes; ctypes.CDLL(None)":         "ctypes",
		"import sys; sys.settrace(None)":           "sys.settrace",
		"import pandas, numpy, matplotlib.pyplot":  "",
		"import sklearn.ensemble, statsmodels.api": "",
	} {
		g := &graph{}
		res := runWith(t, start(t, box(t), nil), code, g)
		require.Equal(t, trajectory.CellOK, res.Status, "%s: %s", code, res.Traceback)
		if want == "" {
			require.Empty(t, g.taints, code)
		} else {
			require.Contains(t, g.taints, want, code)
		}
	}
}
