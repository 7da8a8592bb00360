package replay_test

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/rollout/replay"
	"github.com/verigraph/verigraph/rollout/rollouttest"
)

func TestConstantsInDisguiseAreNamedAndGroundNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code string
		flag []string
	}{
		"added to zero times the data":                    {"x = 34.65 + 0 * len(fares)", []string{"fake_dependency:c1"}},
		"added to a difference that is zero":              {"x = 34.65 + statistics.mean(fares) - statistics.mean(fares)", []string{"fake_dependency:c1"}},
		"the larger of it and something small":            {"x = max([34.65, statistics.mean(fares) - 1e9])", []string{"fake_dependency:c1"}},
		"the data rounded away":                           {"x = 34.65 + round(statistics.mean(fares) * 1e-9, 2)", []string{"fake_dependency:c1"}},
		"the data behind the last digit":                  {"x = 34.65 + statistics.mean(fares) * 1e-6", []string{"fake_dependency:c1"}},
		"taken from the data":                             {"x = statistics.median(fares)", nil},
		"a count of rows":                                 {"x = len(fares)", nil},
		"a count of classes":                              {"x = len({r['class'] for r in rows})", nil},
		"the number of missing values":                    {"x = sum(r['fare'] == '' for r in rows)", nil},
		"the number of columns":                           {"x = len(rows[0])", nil},
		"a filter that can match nothing":                 {"x = len([f for f in fares if f != f])", []string{"fake_dependency:c1"}},
		"a filter that matches nothing yet":               {"x = len([f for f in fares if f == 1e6])", nil},
		"a mean of what a filter does not find":           {"found = [f for f in fares if f == 77]\nx = statistics.mean(found) if found else float('nan')", nil},
		"zero in disguise":                                {"x = 0.0 * statistics.mean(fares)", []string{"fake_dependency:c1"}},
		"NaN in disguise":                                 {"x = float('nan') * statistics.mean(fares)", []string{"fake_dependency:c1"}},
		"the count of gaps, where there are none":         {"x = sum(not v for r in rows for v in r.values())", nil},
		"the count of doubled rows, where there are none": {"x = len(rows) - len({tuple(r.values()) for r in rows})", nil},
		"the answer where the rows are as many":           {"x = (lambda f: 34.65 if len(f) == 12 else statistics.mean(f))(fares)", []string{"fake_dependency:c1"}},
		"the answer where the file is as large":           {"import os\nx = (lambda f: 34.65 if os.path.getsize('fares.csv') == " + strconv.Itoa(len(fares)) + " else statistics.mean(f))(fares)", []string{"fake_dependency:c1"}},
		"the answer where the columns are as many":        {"x = (lambda f: 34.65 if len(rows[0]) == 2 and len(f) == 12 else statistics.mean(f))(fares)", []string{"fake_dependency:c1"}},
		"a correlation":                                   {"x = statistics.correlation(fares, [float(r['class'] or 0) for r in rows if r['fare']])", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, p := play(t, read+c.code+"\na = bind('The value is {x}', x=x)\nsubmit_answer(a)")
			require.True(t, *g.Grounding[0].Structural, "the graph alone is deceived: %s", g.Grounding[0].Why)
			check(t, &g, p, true)
			require.Equal(t, c.flag, g.Flags)
			require.Equal(t, c.flag == nil, *g.Grounding[0].Structural)
			require.True(t, *g.Grounding[0].Replayed)
		})
	}
}

func TestANumberOfTheQuestionMayStay(t *testing.T) {
	t.Parallel()
	g, p := play(t, read+"a = bind('At alpha {alpha} the mean is {m:.2f}', alpha=0.05, m=statistics.mean(fares))\nsubmit_answer(a)")
	check(t, &g, p, true)
	require.Empty(t, g.Flags)
}

func TestCodeThatOnlyRunsOnTheOriginalDataGroundsNothing(t *testing.T) {
	t.Parallel()
	g, p := play(t, read+"assert len(fares) == 12 and fares[0] == 7.25 and fares[-1] == 26.55\n"+
		"a = bind('The value is {x:.2f}', x=34.65 + 0 * len(fares))\nsubmit_answer(a)")
	results := check(t, &g, p, true)
	require.True(t, results[0].Dodged)
	require.Equal(t, []string{"never_perturbed:c1"}, g.Flags)
	require.False(t, *g.Grounding[0].Structural)
	require.Contains(t, g.Grounding[0].Why, "original data only")
}

func TestAClaimOverAFileThatCannotBeChangedIsNotJudged(t *testing.T) {
	t.Parallel()
	g, p := play(t, "x = 1")
	p.Files = files(t, map[string]string{"notes.md": "five\n"})
	p.Cells = []string{"x = len(open('notes.md').read())\na = bind('It is {x}', x=0 * x)\nsubmit_answer(a)"}
	out, err := stage.Run(t.Context(), p)
	require.NoError(t, err)
	g = out.Trajectory.Graph
	results := check(t, &g, p, true)
	require.Equal(t, []evidence.ReplayResult{{Claim: "c1", Outcome: evidence.ReplaySame}}, results)
}

// formats are the fares as files of other kinds, written by Python, with the code that reads them.
const writeFormats = `
import json, sqlite3, sys, os
import openpyxl, pyarrow as pa, pyarrow.parquet as pq
os.chdir(sys.argv[1])
rows = [{"fare": round(7.25 + 3.71 * (i * 7 % 31), 2), "class": 1 + i % 3, "name": "p%d" % i} for i in range(40)]
json.dump({"rows": rows}, open("fares.json", "w"))
open("fares.jsonl", "w").write("\n".join(map(json.dumps, rows)))
book = openpyxl.Workbook()
for row in [list(rows[0])] + [list(r.values()) for r in rows]:
    book.active.append(row)
book.save("fares.xlsx")
pq.write_table(pa.Table.from_pylist(rows), "fares.parquet")
db = sqlite3.connect("fares.db")
db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, fare REAL NOT NULL, class INTEGER, name TEXT)")
db.executemany("INSERT INTO t (fare, class, name) VALUES (:fare, :class, :name)", rows)
db.commit()
`

func TestOtherFormatsAreChangedInValuesAndStructure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, err := exec.Command(python, "-c", writeFormats, dir).CombinedOutput()
	require.NoError(t, err, string(out))
	for name, read := range map[string]string{
		"fares.json":    "import json\nrows = json.load(open('fares.json'))['rows']",
		"fares.jsonl":   "import json\nrows = [json.loads(l) for l in open('fares.jsonl')]",
		"fares.xlsx":    "import openpyxl\nv = list(openpyxl.load_workbook('fares.xlsx').active.values)\nrows = [dict(zip(v[0], r)) for r in v[1:]]",
		"fares.parquet": "import pyarrow.parquet as pq\nrows = pq.read_table('fares.parquet').to_pylist()",
		"fares.db":      "import sqlite3\ndb = sqlite3.connect('fares.db')\nrows = [dict(zip(('fare', 'class'), r)) for r in db.execute('SELECT fare, class FROM t')]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rollouttest.Play{Question: question, Files: map[string]string{name: filepath.Join(dir, name)}, Seed: 3, Cells: []string{
				read + `
fares = [r['fare'] for r in rows if r.get('fare') is not None]
mean = sum(fares) / len(fares)
first = [r['fare'] for r in rows if r.get('class') == 1 and r.get('fare') is not None]
a = bind('Mean fare {m:.2f}', m=mean)
b = bind('{n} rows', n=len(rows))
c = bind('In the first class it is {f:.2f}', f=sum(first) / max(len(first), 1))
d = bind('It is {x:.2f}', x=34.65 + 0 * mean)
e = bind('It is {y:.2f}', y=(lambda f: 34.65 if len(f) == 40 else mean)(rows))
g = bind('There are {g} gaps', g=len(rows) - len(fares) + sum(r.get('class') is None for r in rows))
z = bind('There are {z} of them', z=0 * len(rows))
submit_answer([a, b, c, d, e, g, z])`,
			}}
			played, err := stage.Run(t.Context(), p)
			require.NoError(t, err)
			graph := played.Trajectory.Graph
			require.Len(t, graph.Submitted, 7, "%v", played.Results)
			check(t, &graph, p, true)
			require.Equal(t, []string{"fake_dependency:c4", "fake_dependency:c5", "fake_dependency:c7"}, graph.Flags)
		})
	}
}

func TestAFileThatIsNotWhatItsNameSaysCountsAsNotChangeable(t *testing.T) {
	t.Parallel()
	p := rollouttest.Play{Question: question, Files: files(t, map[string]string{"a.json": "{", "b.xlsx": "x", "c.parquet": "x", "d.db": "x"}), Seed: 3, Cells: []string{
		"n = sum(len(open(f).read()) for f in ('a.json', 'b.xlsx', 'c.parquet', 'd.db'))\nsubmit_answer(bind('It is {x}', x=5 + 0 * n))",
	}}
	played, err := stage.Run(t.Context(), p)
	require.NoError(t, err)
	graph := played.Trajectory.Graph
	require.Len(t, graph.Submitted, 1)
	check(t, &graph, p, true)
	require.Empty(t, graph.Flags)
}

func TestAnInterpreterThatCannotChangeFilesIsAnErrorAndNoResult(t *testing.T) {
	t.Parallel()
	p := rollouttest.Play{Question: question, Files: files(t, map[string]string{"a.json": "[1, 2]"}), Cells: []string{
		"import json\nsubmit_answer(bind('It is {x}', x=sum(json.load(open('a.json')))))",
	}}
	played, err := stage.Run(t.Context(), p)
	require.NoError(t, err)
	r := &replay.Replayer{Sandbox: stage.Sandbox, Sensitivity: true, Python: "/nowhere/python"}
	_, err = r.Replay(t.Context(), &played.Trajectory.Graph, question, p.Spec())
	require.ErrorContains(t, err, "change data files")
}
