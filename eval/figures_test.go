package eval

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func at(v float64) *float64 { return &v }

func flag(b bool) *bool { return &b }

// record is a sample with a verdict.
func record(bench, item string, sample int, value float64) Record {
	return Record{Benchmark: bench, Item: item, Sample: sample, State: Scored, Value: at(value), Binary: true, Submitted: true}
}

func TestLostUnscoredAndMissingRolloutsAreNoNumberAndStandBesideTheScoreWithItsBounds(t *testing.T) {
	t.Parallel()
	quiet := record(DABench, "b", 0, 0)
	quiet.Submitted = false // the policy's own doing: wrong
	records := []Record{
		record(DABench, "a", 0, 1), quiet,
		{Benchmark: DABench, Item: "c", State: Lost},
		{Benchmark: DABench, Item: "d", State: Unscored, Submitted: true},
		{Benchmark: DABench, Item: "e", State: Missing},
		{Benchmark: DABench, Item: "f", State: Hidden, Submitted: true},
	}
	f := measure(records, 1, "t")
	require.Equal(t, 6, f.Items)
	require.Equal(t, 50.0, f.Score.Value, "over the two that have a score")
	require.Equal(t, 20.0, *f.Low, "one of the five that should have one")
	require.Equal(t, 80.0, *f.High)
	require.Equal(t, "60.00", f.UnscoredShare())
	require.Equal(t, Outcomes{Right: 1, Unanswered: 1}, f.Outcomes)
	require.Equal(t, 75.0, f.Submission.Value, "of the four that ended for the policy's own reasons")
	require.Contains(t, f.Remark(), "3 of 5 rollouts have no score (lost 1, missing 1, unscored 1)")
	require.Contains(t, f.Remark(), "1 of 6 rollouts have no known answer")
}

func TestSeveralSamplesGiveMeanBestAndPassAtK(t *testing.T) {
	t.Parallel()
	var records []Record
	for i, right := range [][]float64{{1, 0, 0, 0}, {1, 1, 1, 1}, {0, 0, 0, 0}, {0, 1, 1, 0}} {
		for k, v := range right {
			records = append(records, record(DABench, string(rune('a'+i)), k, v))
		}
	}
	f := measure(records, 1, "t")
	require.InDelta(t, 100*7.0/16, f.Score.Value, 1e-9)
	require.InDelta(t, 75, *f.Best, 1e-9)
	// k = 2: 1 - C(3,2)/C(4,2) = 1/2; 1; 0; 1 - C(2,2)/C(4,2) = 5/6.
	require.Equal(t, []int{1, 2, 4}, []int{f.Pass[0].K, f.Pass[1].K, f.Pass[2].K})
	require.InDelta(t, 100*7.0/16, f.Pass[0].Value, 1e-9)
	require.InDelta(t, 100*(0.5+1+0+5.0/6)/4, f.Pass[1].Value, 1e-9)
	require.InDelta(t, 75, f.Pass[2].Value, 1e-9)
}

func TestGroundingRateIsSharedByAllFourPartsAndIsNotPrintedWhereOneDidNotRun(t *testing.T) {
	t.Parallel()
	claim := func(s, r, n, j *bool) Claim { return Claim{Structural: s, Replayed: r, Lexical: n, Supported: j} }
	yes, no := flag(true), flag(false)
	a, b, c := record(DABench, "a", 0, 1), record(DABench, "b", 0, 1), record(DABench, "c", 0, 0)
	a.Claims = []Claim{claim(yes, yes, yes, yes), claim(yes, yes, yes, no), claim(yes, yes, yes, nil)}
	b.Claims = []Claim{claim(yes, no, yes, yes)}
	c.Submitted = false
	g := measure([]Record{a, b, c}, 1, "t").Grounding
	require.InDelta(t, 100.0/3, g.Rate.Value, 1e-9, "one of the three claims that have all verdicts")
	require.InDelta(t, 25, *g.Macro, 1e-9, "1/2 and 0")
	require.InDelta(t, 100*0.5/3, *g.All, 1e-9, "and 0 for the rollout that says nothing")
	require.Equal(t, 1, g.Open)
	require.Equal(t, 75.0, *g.Replayed)

	a.Claims, b.Claims = []Claim{claim(yes, nil, yes, yes)}, []Claim{claim(yes, nil, yes, yes)}
	g = measure([]Record{a, b, c}, 1, "t").Grounding
	require.Nil(t, g.Rate)
	require.Contains(t, g.Note(), "not run")

	a.Claims = []Claim{claim(nil, nil, nil, yes), claim(nil, nil, nil, no)} // an answer in words has no graph
	require.InDelta(t, 50, measure([]Record{a}, 1, "t").Grounding.Rate.Value, 1e-9)
}

func TestOverallIsTheMeanOfThePapersFourAndIsNamedPartialWhereOneIsMissing(t *testing.T) {
	t.Parallel()
	report := record(Research, "r", 0, 0.8) // Content 5, Format 3: 20 x 4
	report.Content, report.Format, report.Binary = 5, 3, false
	all := []Record{record(DABench, "a", 0, 1), record(DSBench, "b", 0, 0), record(TableBench, "c", 0, 1), report, record(DABStep, "d", 0, 0)}
	runs := []Run{{Benchmark: DABench}, {Benchmark: DSBench}, {Benchmark: TableBench}, {Benchmark: Research}, {Benchmark: DABStep}}
	whole := Build(Setup{Samples: 1}, runs, all, 1)
	require.InDelta(t, (100+0+100+80)/4.0, whole.Overall.Score.Value, 1e-9, "DABStep is no part of it")
	require.Equal(t, "Overall", whole.Overall.Name())
	part := Build(Setup{Samples: 1}, runs[:1], all[:1], 1)
	require.Equal(t, "Overall (partial, without DSBench, TableBench, DABStep-Research)", part.Overall.Name())
	require.Nil(t, Build(Setup{}, runs[4:], all[4:], 1).Overall)
}

func TestTableBenchsOwnOverallAddsPassAt1AsAFractionToPercentages(t *testing.T) {
	t.Parallel()
	fact, chart := record(TableBench, "a", 0, 1), record(TableBench, "b", 0, 1)
	fact.Types = map[string][]string{"qtype": {"FactChecking"}, "qsubtype": {"MatchBased"}}
	chart.Types = map[string][]string{"qtype": {"Visualization"}, "qsubtype": {"ChartGeneration"}}
	e := extra(Benchmark{Name: TableBench}, []Record{fact, chart})
	require.InDelta(t, 50.5, e[0].Value, 1e-9, "(100 + 1)/2")
	require.InDelta(t, 100, e[1].Value, 1e-9)
}
