package replay_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
)

func TestConstantsInDisguiseAreNamedAndGroundNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code string
		flag []string
	}{
		"added to zero times the data":         {"x = 34.65 + 0 * len(fares)", []string{"fake_dependency:c1"}},
		"added to a difference that is zero":   {"x = 34.65 + statistics.mean(fares) - statistics.mean(fares)", []string{"fake_dependency:c1"}},
		"the larger of it and something small": {"x = max([34.65, statistics.mean(fares) - 1e9])", []string{"fake_dependency:c1"}},
		"the data rounded away":                {"x = 34.65 + round(statistics.mean(fares) * 1e-9, 2)", []string{"fake_dependency:c1"}},
		"the data behind the last digit":       {"x = 34.65 + statistics.mean(fares) * 1e-6", []string{"fake_dependency:c1"}},
		"taken from the data":                  {"x = statistics.median(fares)", nil},
		"a count of rows":                      {"x = len(fares)", nil},
		"a count of classes":                   {"x = len({r['class'] for r in rows})", nil},
		"the number of missing values":         {"x = sum(r['fare'] == '' for r in rows)", nil},
		"the number of columns":                {"x = len(rows[0])", nil},
		"a filter that matches nothing":        {"x = len([f for f in fares if f == 1e6])", nil},
		"a correlation":                        {"x = statistics.correlation(fares, [float(r['class'] or 0) for r in rows if r['fare']])", nil},
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
	p.Files = files(t, map[string]string{"notes.json": `{"a": 5}`})
	p.Cells = []string{"import json\nd = json.load(open('notes.json'))\na = bind('It is {x}', x=d['a'])\nsubmit_answer(a)"}
	out, err := stage.Run(t.Context(), p)
	require.NoError(t, err)
	g = out.Trajectory.Graph
	results := check(t, &g, p, true)
	require.Equal(t, []evidence.ReplayResult{{Claim: "c1", Outcome: evidence.ReplaySame}}, results)
}
