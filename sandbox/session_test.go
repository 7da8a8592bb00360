package sandbox

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

func TestNamesSurviveFromCellToCellInOneDict(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	res := run(t, sess, "def depth(n): return 0 if n == 0 else 1 + depth(n - 1)\nprint(depth(3))")
	require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
	require.Equal(t, "3\n", res.Output)
	res = run(t, sess, "k = 3; print([k * i for i in range(3)])")
	require.Equal(t, "[0, 3, 6]\n", res.Output)
	run(t, sess, "def g(): return k")
	res = run(t, sess, "k = 4\ng()")
	require.Equal(t, "4\n", res.Output)
	res = run(t, sess, "globals() is locals() and globals() is __import__('__main__').__dict__")
	require.Equal(t, "True\n", res.Output)
}

func TestEveryKindOfObjectSurvives(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	run(t, sess, "import math\nseen = {1, 2}; fz = frozenset([3]); f = lambda x: x + 1; it = iter([1, 2]); next(it)\n"+
		"fh = open('o.txt', 'w+')\nclass C:\n    x = 5\nfrom dataclasses import dataclass\n@dataclass\nclass D:\n    y: int")
	res := run(t, sess, "fh.write('hi'); fh.seek(0)\nprint(seen, fz, f(1), next(it), fh.read(), C.x, math.pi > 3, D(2))")
	require.Equal(t, "{1, 2} frozenset({3}) 2 2 hi 5 True D(y=2)\n", res.Output, res.Traceback)
}

func TestTheLastExpressionIsEchoed(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	for code, want := range map[string]string{
		"1 + 1":             "2\n",
		"'a'":               "'a'\n",
		"None":              "",
		"x = 5":             "",
		"1\n2":              "2\n",
		"3;":                "",
		"print('a')":        "a\n",
		"[n for n in 'ab']": "['a', 'b']\n",
		"":                  "",
		"# a comment":       "",
	} {
		res := run(t, sess, code)
		require.Equal(t, trajectory.CellOK, res.Status, code)
		require.Equal(t, want, res.Output, code)
	}
}

func TestStatementsAreReportedAsTheyComplete(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), map[string]string{"a.csv": "x\n1\n", "b.csv": "y\n2\n"})
	g := &graph{}
	res := runWith(t, sess, "a = 1\nb = [a]\na = 1\nb.append(2)\ndel a\na, c = b\n"+
		"text = open('a.csv').read(); other = open('/data/b.csv').read()\nopen('new.csv', 'w').write('z')\nopen('new.csv').read()", g)
	require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
	require.Equal(t, []evidence.Report{
		{Index: 0, Bound: []string{"a"}, Unbound: []string{}, Opened: []string{}},
		{Index: 1, Bound: []string{"b"}, Unbound: []string{}, Opened: []string{}},
		{Index: 2, Bound: []string{}, Unbound: []string{}, Opened: []string{}},
		{Index: 3, Bound: []string{}, Unbound: []string{}, Opened: []string{}},
		{Index: 4, Bound: []string{}, Unbound: []string{"a"}, Opened: []string{}},
		{Index: 5, Bound: []string{"a", "c"}, Unbound: []string{}, Opened: []string{}},
		{Index: 6, Bound: []string{"text"}, Unbound: []string{}, Opened: []string{"a.csv"}},
		{Index: 7, Bound: []string{"other"}, Unbound: []string{}, Opened: []string{"b.csv"}},
		{Index: 8, Bound: []string{}, Unbound: []string{}, Opened: []string{}},
		{Index: 9, Bound: []string{}, Unbound: []string{}, Opened: []string{}},
	}, g.reports)
	require.Equal(t, 10, res.Statements)
	require.Equal(t, 10, res.Completed)
}

func TestAHalfFailedCellKeepsWhatCompleted(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	g := &graph{}
	res := runWith(t, sess, "a = 1\nb = 2\nc = 1 / 0\nd = 4", g)
	require.Equal(t, trajectory.CellException, res.Status)
	require.Equal(t, "ZeroDivisionError", res.Exception)
	require.Equal(t, 4, res.Statements)
	require.Equal(t, 2, res.Completed)
	require.Len(t, g.reports, 2)
	require.False(t, res.NamespaceLost)
	require.Equal(t, "3\n", run(t, sess, "a + b").Output)
}

func TestASyntaxErrorRunsNothing(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	for _, code := range []string{"a = 1\nb = (", "print('x')\nreturn 3", "x = 1\n  y = 2", "def f():\nreturn 1", "a = 1\nbreak", "\x00"} {
		g := &graph{}
		res := runWith(t, sess, code, g)
		require.Equal(t, trajectory.CellSyntaxError, res.Status, code)
		require.Empty(t, res.Output, code)
		require.Empty(t, g.reports, code)
		require.NotEmpty(t, res.Traceback, code)
		require.NotContains(t, res.Traceback, "runner", code)
	}
	require.Equal(t, "NameError", run(t, sess, "a").Exception)
}

func TestATracebackShowsOnlyTheCellsOwnLines(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	run(t, sess, "import json\n\ndef load(s):\n    return json.loads(s)")
	res := run(t, sess, "x = 1\n\nload('{')")
	require.Equal(t, trajectory.CellException, res.Status)
	require.Equal(t, "JSONDecodeError", res.Exception)
	require.Contains(t, res.Traceback, "File \"<cell 2>\", line 3, in <module>\n    load('{')")
	require.Contains(t, res.Traceback, "File \"<cell 1>\", line 4, in load\n    return json.loads(s)")
	require.True(t, strings.HasSuffix(res.Traceback, "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"), res.Traceback)
	require.NotContains(t, res.Traceback, "runner")
	require.NotContains(t, res.Traceback, "decoder.py")
	require.Empty(t, res.Output)
}

func TestCaretsStandUnderWhatRaised(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	for _, code := range []string{
		"f = lambda v: 1 / 0\nx = f(3) + 1", "if True:\n    x = f(3) + 1", "s = 'a\x0cb\x85c'\r\nx = f(3) + 1", "x = f(3) + 1\n\n",
	} {
		res := run(t, sess, code)
		require.Contains(t, res.Traceback, "    x = f(3) + 1\n        ^^^^\n", "%q", code)
	}
}

func TestAChainedExceptionShowsWhereTheCellWasInBoth(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	res := run(t, sess, "try:\n    {}['a']\nexcept KeyError as e:\n    raise RuntimeError('second') from e")
	require.Contains(t, res.Traceback, "KeyError: 'a'")
	require.Contains(t, res.Traceback, "RuntimeError: second")
	require.Contains(t, res.Traceback, "line 2")
}

func TestATracebackIsCapped(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	res := run(t, sess, "def f(n):\n    return f(n + 1)\nf(0)")
	require.Equal(t, "RecursionError", res.Exception)
	require.Less(t, len(res.Traceback), 5000)
	res = run(t, sess, "raise ValueError('x' * 10**6)")
	require.Equal(t, trajectory.CellException, res.Status)
	require.Less(t, len(res.Traceback), 5000)
	res = run(t, sess, "class E(Exception):\n    def __str__(self): raise KeyError\nraise E()")
	require.Equal(t, "E", res.Exception)
}

func TestStatusNeverComesFromPrintedText(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	require.Equal(t, trajectory.CellOK, run(t, sess, `print("Error: 5 rows dropped")`).Status)
	res := run(t, sess, "raise KeyError")
	require.Equal(t, trajectory.CellException, res.Status)
	require.Empty(t, res.Output)
}

func TestExitEndsTheCellAndTheSessionLives(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	for _, code := range []string{"x = 1\nexit()\nx = 2", "x = 1\nquit()\nx = 2", "x = 1\nimport sys; sys.exit('bye')\nx = 2", "x = 1\nraise SystemExit(3)\nx = 2"} {
		res := run(t, sess, code)
		require.Equal(t, trajectory.CellExit, res.Status, code)
		require.Contains(t, res.Output, "exit() ended this cell")
		require.False(t, res.NamespaceLost)
		require.Equal(t, "1\n", run(t, sess, "x").Output)
	}
}

func TestInputIsEOFErrorAndTheNextCellIsAnswered(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	require.Equal(t, "EOFError", run(t, sess, `name = input("who? ")`).Exception)
	require.Equal(t, "''\n", run(t, sess, "import sys\nsys.stdin.read()").Output)
	require.Equal(t, "2\n", run(t, sess, "1 + 1").Output)
}

func TestPlotsShowAtOnce(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	for range 2 {
		res := run(t, sess, "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()\nplt.savefig('a.png')\nimport os; print(os.path.getsize('a.png') > 0)")
		require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
		require.Regexp(t, `^\[plot kept as plots/cell\d-\d\.png\]\nTrue\n$`, res.Output)
	}
	require.Equal(t, "['cell1-1.png', 'cell2-2.png']\n", run(t, sess, "sorted(os.listdir('plots'))").Output)
	res := run(t, sess, "plt.plot([1, 2])\nos.rmdir('plots') if 0 else open('plots', 'w') if 0 else os.rename('plots', 'p'); open('plots', 'w').close()\nplt.show(); plt.get_fignums()")
	require.Contains(t, res.Output, "[plot not kept: ")
	require.Contains(t, res.Output, "\n[]\n")
}

func TestAsyncioRunsAndTopLevelAwaitWorks(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	res := run(t, sess, "import asyncio\nasync def f(): return 1\nprint(asyncio.run(f()))")
	require.Equal(t, "1\n", res.Output, res.Traceback)
	res = run(t, sess, "await asyncio.sleep(0)\nx = await f()\nawait f()")
	require.Equal(t, "1\n", res.Output, res.Traceback)
	res = run(t, sess, "async def g():\n    yield 5\nasync for v in g():\n    print(v, x)\nprint(asyncio.run(f()))")
	require.Equal(t, "5 1\n1\n", res.Output, res.Traceback)
}

func TestTheEnvironmentListsTheModelsNames(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	res := run(t, sess, "import numpy as np, pandas as pd\ndf = pd.DataFrame({'a': [1, 2], 'b': [3, 4]})\nn = 3\ns = 'hi'\n"+
		"big = 'x' * 1000\nl = [1, 2]\nm = np.float64(0.5)\nhuge = 10 ** 20000\nc = bind('{n} rows', n=n)\ndef f(): pass")
	require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
	got := map[string]Variable{}
	var order []string
	for _, v := range res.Environment {
		got[v.Name] = v
		order = append(order, v.Name)
	}
	require.IsIncreasing(t, order)
	require.Equal(t, Variable{Name: "df", Type: "pandas.DataFrame", Shape: "(2, 2)"}, got["df"])
	require.Equal(t, Variable{Name: "n", Type: "int", Value: "3"}, got["n"])
	require.Equal(t, Variable{Name: "s", Type: "str", Value: "'hi'"}, got["s"])
	require.Equal(t, Variable{Name: "l", Type: "list", Shape: "2"}, got["l"])
	require.Equal(t, Variable{Name: "m", Type: "numpy.float64", Value: "np.float64(0.5)"}, got["m"])
	require.Equal(t, "c1: text of {n} rows", got["c"].Value)
	require.Equal(t, "function", got["f"].Type)
	require.LessOrEqual(t, len([]rune(got["big"].Value)), 80)
	require.Contains(t, got["huge"].Value, "bits")
	require.NotContains(t, got, "bind")
	require.NotContains(t, got, "__name__")
}

func TestSeedsMakeRandomNumbersRepeat(t *testing.T) {
	t.Parallel()
	code := "import random, numpy as np\nprint(random.random(), np.random.rand(), hash('a'))"
	first := run(t, start(t, box(t), nil), code)
	second := run(t, start(t, box(t), nil), code)
	require.Equal(t, first.Output, second.Output)
	require.Equal(t, trajectory.CellOK, first.Status)
}

func TestCommonAnalysisLibrariesWork(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), map[string]string{"t.csv": "x,y\n1,2\n2,4\n3,6.5\n4,8\n"})
	for _, code := range []string{
		"import pandas as pd, numpy as np\ndf = pd.read_csv('t.csv')\ndf.to_parquet('t.parquet'); pd.read_parquet('t.parquet').equals(df)",
		"df.to_excel('t.xlsx', index=False); pd.read_excel('t.xlsx').shape",
		"pd.read_html(__import__('io').StringIO('<table><tr><th>a</th></tr><tr><td>1</td></tr></table>'))[0].shape",
		"from scipy import stats; stats.pearsonr(df.x, df.y)",
		"from sklearn.ensemble import RandomForestRegressor\nfrom sklearn.model_selection import cross_val_score\ncross_val_score(RandomForestRegressor(10, n_jobs=-1, random_state=0), df[['x']], df.y, cv=2, n_jobs=-1)",
		"import statsmodels.api as sm; sm.OLS(df.y, sm.add_constant(df.x)).fit().params",
		"import seaborn as sns; sns.lineplot(df, x='x', y='y')",
		"from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as p: print(list(p.map(lambda v: v + 1, range(4))))",
	} {
		res := run(t, sess, code)
		require.Equal(t, trajectory.CellOK, res.Status, "%s\n%s\n%s", code, res.Traceback, res.Output)
	}
}
