package outcome_test

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/reward/outcome"
	"github.com/verigraph/verigraph/task"
)

type tableItem struct {
	ID       string `json:"id"`
	QType    string `json:"qtype"`
	QSubtype string `json:"qsubtype"`
	Chart    string `json:"chart_type"`
	Answer   string `json:"answer"`
	Parsed   struct {
		Prediction json.RawMessage `json:"parsed_prediction"`
	} `json:"parsed_result"`
}

func (i tableItem) prediction(t *testing.T) string {
	t.Helper()
	var s string
	require.NoError(t, json.Unmarshal(i.Parsed.Prediction, &s))
	return s
}

func lines[T any](t *testing.T, file string) []T {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	var out []T
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var v T
		require.NoError(t, json.Unmarshal(s.Bytes(), &v))
		out = append(out, v)
	}
	return out
}

func officialScores(t *testing.T, file string) map[string]map[string]float64 {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var byModel map[string]map[string]map[string]float64
	require.NoError(t, json.Unmarshal(data, &byModel))
	require.Len(t, byModel, 1)
	return byModel["o3-mini-2025-01-31/DP"]
}

func percent(sum float64, n int) float64 { return math.Round(sum/float64(n)*1e4) / 100 }

// rougeSets are the ROUGE-L values by the sets that the script aggregates: subtypes, types in the order of
// their subtypes, and "mix", the items of DataAnalysis whose metric it is.
func rougeSets(t *testing.T) map[string][]float64 {
	t.Helper()
	rouge, err := outcome.TableBench("DataAnalysis", "CausalAnalysis", "")
	require.NoError(t, err)
	var order []string
	by := map[string][]float64{}
	types := map[string]string{}
	for _, it := range lines[tableItem](t, "testdata/tablebench-54.jsonl") {
		if it.QType == "Visualization" {
			continue
		}
		subtype := it.QType + "_" + it.QSubtype
		if _, seen := by[subtype]; !seen {
			order = append(order, subtype)
			types[subtype] = it.QType
		}
		by[subtype] = append(by[subtype], rouge.Official(it.prediction(t), it.Answer))
	}
	for _, subtype := range order {
		qtype := types[subtype]
		by[qtype] = append(by[qtype], by[subtype]...)
		if metric, err := outcome.TableBenchMetric(qtype, strings.TrimPrefix(subtype, qtype+"_")); metric == "ROUGE-L" {
			require.NoError(t, err)
			by["mix"] = append(by["mix"], by[subtype]...)
		}
	}
	return by
}

func TestTableBenchOfficialScoresAreReproducedExactly(t *testing.T) {
	t.Parallel()
	items := lines[tableItem](t, "testdata/tablebench-54.jsonl")
	require.Len(t, items, 54)
	metrics := map[string]outcome.Compare{
		"EM": outcome.OfficialEM(0), "EM_with_error_2": outcome.OfficialEM(2), "EM_with_error_5": outcome.OfficialEM(5), "EM_with_error_10": outcome.OfficialEM(10),
	}
	sums, counts := map[string]map[string]float64{}, map[string]int{}
	parts := map[string]float64{} // of DataAnalysis, by metric
	partCounts := map[string]float64{}
	add := func(group, metric string, v float64) {
		if sums[group] == nil {
			sums[group] = map[string]float64{}
		}
		sums[group][metric] += v
	}
	for _, it := range items {
		groups := []string{it.QType, it.QType + "_" + it.QSubtype}
		for _, g := range groups {
			counts[g]++
		}
		if it.QType == "Visualization" { // the fixture holds the drawn chart's verdict, no values
			if string(it.Parsed.Prediction) == "true" {
				for _, g := range groups {
					add(g, "Pass@1", 1)
				}
			}
			continue
		}
		got := it.prediction(t)
		for _, g := range groups {
			for name, compare := range metrics {
				add(g, name, compare(got, it.Answer))
			}
		}
		if it.QType == "DataAnalysis" {
			metric, err := outcome.TableBenchMetric(it.QType, it.QSubtype)
			require.NoError(t, err)
			rule, err := outcome.TableBench(it.QType, it.QSubtype, it.Chart)
			require.NoError(t, err)
			parts[metric] += rule.Official(got, it.Answer)
			partCounts[metric]++
		}
	}
	figures := map[string]map[string]float64{}
	for group, byMetric := range sums {
		figures[group] = map[string]float64{"total": float64(counts[group])}
		for metric, sum := range byMetric {
			figures[group][metric] = percent(sum, counts[group])
		}
	}
	sets := rougeSets(t)
	for group, values := range sets {
		if group != "mix" {
			figures[group]["ROUGE-L"] = percent(bootstrapMid(handedSeed, rougeLPlace, values), 1)
		}
	}
	mix := 0.0
	for metric, sum := range parts {
		part := percent(sum, int(partCounts[metric]))
		if metric == "ROUGE-L" {
			part = percent(bootstrapMid(handedSeed, rougeLPlace, sets["mix"]), 1)
		}
		mix += part * partCounts[metric] / 21
	}
	figures["DataAnalysis"]["Mix_Metric"] = math.Round(mix*100) / 100
	vis := sums["Visualization"]["Pass@1"] / float64(counts["Visualization"]) // a fraction among percentages
	figures["Overall"] = map[string]float64{"Mix_Metric": math.Round((6*figures["FactChecking"]["EM"]+24*figures["NumericalReasoning"]["EM"]+
		21*figures["DataAnalysis"]["Mix_Metric"]+3*vis)/54*100) / 100}

	for file, size := range map[string]int{"testdata/tablebench-54-subtype-scores.json": 18, "testdata/tablebench-54-type-scores.json": 5} {
		official := officialScores(t, file)
		require.Len(t, official, size)
		for group, scores := range official {
			for metric, want := range scores {
				if metric == "Parse@1" || metric == "ECR@1" { // of the parsing, which the fixture holds the result of
					continue
				}
				require.Contains(t, figures[group], metric, group)
				require.InDelta(t, want, figures[group][metric], 1e-9, "%s %s", group, metric)
			}
		}
	}
}

func TestFixedTableBenchKeepsPunctuationAndNumbers(t *testing.T) {
	t.Parallel()
	em, em10 := outcome.FixedEM(0), outcome.FixedEM(10)
	official, official10 := outcome.OfficialEM(0), outcome.OfficialEM(10)
	for _, c := range []struct {
		name          string
		got, want     string
		em, em10      float64
		official, off float64
	}{
		{"a lost point", "106", "10.6", 0, 0, 1, 1},
		{"a lost sign", "0.61", "-0.61", 0, 0, 1, 1},
		{"close is close", "0.52", "0.5", 1, 1, 0, 0}, // EM rounds half up to the one decimal of the reference
		{"two figures", "9.34, 1.19", "9.34, 1.18", 0.5, 1, 0, 0},
		{"two figures, one far", "9.34, 2.18", "9.34, 1.18", 0.5, 0.5, 0, 0},
		{"too few parts", "9.34", "9.34, 1.18", 0.5, 0.5, 0, 0},
		{"surplus parts are no help", "9.34, 1.18, 7", "9.34, 1.18", 2.0 / 3, 2.0 / 3, 0, 0},
		{"words and a figure", "No correlation, -0.15.", "No correlation, -0.15", 1, 1, 1, 1},
		{"case and articles", "The Wheat", "wheat", 1, 1, 1, 1},
		{"percent or not", "69.75", "69.75%", 1, 1, 1, 1},
		{"percent as a fraction", "0.6975", "69.75%", 1, 1, 1, 1},
		{"thousands", "1510", "1,510", 1, 1, 1, 1},
		{"numpy", "np.float64(10.6)", "10.6", 1, 1, 0, 0},
		{"typographic minus", "−0.61", "-0.61", 1, 1, 0, 0},
		{"dash inside a season", "1994-95", "1994–95", 1, 1, 0, 0},
		{"number and text", "ten", "10", 0, 0, 0, 0},
		{"zero", "0.0001", "0", 1, 0, 0, 0},
		{"nothing", "", "0", 0, 0, 0, 0},
	} {
		require.InDelta(t, c.em, em(c.got, c.want), 1e-12, c.name)
		require.InDelta(t, c.em10, em10(c.got, c.want), 1e-12, "%s within 10 %%", c.name)
		require.InDelta(t, c.official, official(c.got, c.want), 1e-12, "official %s", c.name)
		require.InDelta(t, c.off, official10(c.got, c.want), 1e-12, "official %s within 10 %%", c.name)
	}
}

// On the fixture's StatisticalAnalysis items the official rule gives 0; the same functions without
// the punctuation stripping give 83.33 (notes on the benchmark, measured there).
func TestFixedRuleFindsWhatTheStrippingHid(t *testing.T) {
	t.Parallel()
	sum := 0.0
	n := 0
	for _, it := range lines[tableItem](t, "testdata/tablebench-54.jsonl") {
		if it.QSubtype == "StatisticalAnalysis" {
			sum += outcome.FixedEM(10)(it.prediction(t), it.Answer)
			n++
		}
	}
	require.InDelta(t, 83.33, percent(sum, n), 1e-9)
}

func TestChartsAreComparedByTheirValues(t *testing.T) {
	t.Parallel()
	bar, err := outcome.TableBench("Visualization", "ChartGeneration", "bar")
	require.NoError(t, err)
	pie, err := outcome.TableBench("Visualization", "ChartGeneration", "pie")
	require.NoError(t, err)
	for _, c := range []struct {
		rule      outcome.Rule
		got, want string
		right     float64
	}{
		{bar, "[[1, 2.001], [3]]", "y_references = [[3, 2], [1]]", 1},
		{bar, "[1, 2]", "y_references = [[1, 2, 3]]", 0},
		{bar, "[1, 2.1]", "y_references = [[1, 2]]", 0},
		{bar, "y_references = [[1,2] ]", "y_references = [[1, 2]]", 1},
		{pie, "[0.25, 0.75]", "y_references = [[10, 30]]", 1},
		{bar, "[0.25, 0.75]", "y_references = [[10, 30]]", 0},
		{bar, "[__import__('os').system('x')]", "y_references = [[1]]", 0},
		{bar, "[9**9**9]", "y_references = [[1]]", 0},
		{bar, strings.Repeat("[", 5000) + "1" + strings.Repeat("]", 5000), "y_references = [[1]]", 0},
		{bar, "1, 2", "y_references = [[1, 2]]", 0},
		{bar, "[1] [1]", "y_references = [[1, 1]]", 0},
	} {
		require.InDelta(t, c.right, c.rule.Fixed(c.got, c.want), 0, c.got[:min(len(c.got), 40)])
	}
}

func TestDABStepOfficialAgreesWithTheBenchmarksScorer(t *testing.T) {
	t.Parallel()
	pairs := lines[[3]any](t, "testdata/dabstep-pairs.jsonl")
	require.Greater(t, len(pairs), 300)
	for _, p := range pairs {
		got, want, verdict := p[0].(string), p[1].(string), p[2].(bool)
		require.Equal(t, verdict, outcome.DABStepOfficial(got, want) == 1, "%q %q", got, want)
	}
}

func TestFixedDABStepKeepsSignsAndWantsOneAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got, want string
		right     float64
	}{
		{"0.5", "-0.5", 0},
		{"-0.5", "-0.5", 1},
		{"5 or 6", "5", 0},
		{"nl", "B. NL", 0},
		{"b. nl", "B. NL", 1},
		{"10.05", "10.1", 1},
		{"E:13.57", "e:13.6", 1},
		{"F:13.57", "E:13.57", 0},
		{"12.5%", "0.125", 1},
		{"1,234", "1234", 1},
		{"741, 709, 454", "454, 709, 741", 1},
		{"741, 709, 709", "454, 709, 741", 0},
		{"709, 709", "709, 741", 0},
		{"[1, 2]", "1, 2", 1},
		{"-0.94000000000005", "-0.94", 1},
		{"not applicable", "Not Applicable", 1},
		{"", "", 1},
		{"", "0", 0},
		{"np.float64(0.120132)", "0.120132", 1},
		{"0.1201", "0.120132", 1},
		{"0.1", "0.120132", 0},
	} {
		require.InDelta(t, c.right, outcome.DABStepFixed(c.got, c.want), 0, "%q %q", c.got, c.want)
	}
}

func TestEveryDABStepAnswerGetsFullMarksFromItsOwnScorer(t *testing.T) {
	t.Parallel()
	items := lines[struct {
		Answer string `json:"answer"`
	}](t, "testdata/dabstep-dev.jsonl")
	require.Len(t, items, 10)
	for _, it := range items {
		require.InDelta(t, 1, outcome.DABStepOfficial(it.Answer, it.Answer), 0)
		require.InDelta(t, 1, outcome.DABStepFixed(it.Answer, it.Answer), 0)
	}
}

func TestGenericMatcherComparesNumbersWithinItsStatedTolerance(t *testing.T) {
	t.Parallel()
	digits := outcome.Match(outcome.Tolerance{}, false)
	for _, c := range []struct {
		got, want string
		right     float64
	}{
		{"35.34", "35", 1},
		{"35.26", "35.3", 1},
		{"0.0249", "0.02", 1},
		{"35.6", "35", 0},
		{"35.2", "35.3", 0},
		{"1%", "1.0%", 1},
		{"0.01", "1%", 1},
		{"1%", "0.01", 1},
		{"1", "1%", 1},
		{"2%", "0.01", 0},
		{"50%", "0.5%", 0},
		{"-5", "5", 0},
		{"5", "-5", 0},
		{"−5", "-5", 1},
		{"(5)", "-5", 1},
		{"(5)", "5", 0},
		{"-5", "(5)", 1},
		{"1,000", "1000", 1},
		{"$1,000.00", "1000", 1},
		{"1e3", "1000", 1},
		{"1 000", "1000", 0},
		{"np.float64(0.35)", "0.35", 1},
		{"np.int64(3)", "3", 1},
		{"np.True_", "True", 1},
		{"none", "0", 0},
		{"", "0", 0},
		{"nan", "0", 0},
		{"inf", "0", 0},
		{"null", "null", 1},
		{"10", "9", 0},
		{"abc", "ABC.", 1},
		{`"abc"`, "abc", 1},
		{"2", "two", 0},
		{"1, 2", "[1, 2]", 1},
		{"2, 1", "[1, 2]", 0},
		{"1, 2, 3", "1, 2", 0},
		{"a, 0.349", "a, 0.35", 1},
		{"9**9**9", "5", 0},
		{"2+3", "5", 0},
		{`__import__("os").system("touch x")`, "0", 0},
	} {
		require.InDelta(t, c.right, digits(c.got, c.want), 0, "%q %q", c.got, c.want)
	}
	relative := outcome.Match(outcome.Tolerance{Rel: 0.01}, false)
	require.InDelta(t, 1, relative("101", "100"), 0)
	require.InDelta(t, 0, relative("101.1", "100"), 0)
	absolute := outcome.Match(outcome.Tolerance{Abs: 0.5}, true)
	require.InDelta(t, 1, absolute("3, 1.4", "1, 3"), 0)
	require.InDelta(t, 0, absolute("3, 3", "1, 3"), 0)
}

func TestRuleIsChosenByDataSourceAndMeta(t *testing.T) {
	t.Parallel()
	named := []task.NamedAnswer{{Name: "answer", Value: "10.6"}}
	for _, c := range []struct {
		ref  task.Reference
		name string // empty: no rule
		err  string
	}{
		{task.Reference{Answers: named}, "dabench", ""},
		{task.Reference{DataSource: "dabench", Answers: named}, "dabench", ""},
		{task.Reference{DataSource: "jsonl", Answers: named}, "match/digits", ""},
		{task.Reference{DataSource: "tablebench", Answers: named, Meta: []byte(`{"qtype": "FactChecking"}`)}, "tablebench/EM", ""},
		{task.Reference{DataSource: "tablebench", Text: "10.6", Meta: []byte(`{"qtype": "DataAnalysis", "qsubtype": "CausalAnalysis"}`)}, "tablebench/ROUGE-L", ""},
		{task.Reference{DataSource: "tablebench", Answers: named}, "", "meta.qtype"},
		{task.Reference{DataSource: "dabstep", Text: "10.6"}, "dabstep", ""},
		{task.Reference{DataSource: "mine", Answers: named, Meta: []byte(`{"rule": "match", "tolerance": {"abs": 0.1}}`)}, "match/abs=0.1,rel=0", ""},
		{task.Reference{DataSource: "mine", Answers: named, Meta: []byte(`{"tolerance": {"rel": 2}}`)}, "", "meta.tolerance"},
		{task.Reference{DataSource: "mine", Answers: named, Meta: []byte(`{"rule": "exact"}`)}, "", "meta.rule"},
		{task.Reference{DataSource: "mine", Text: "free text"}, "", ""},
	} {
		rule, want, ok, err := outcome.Select(c.ref)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.name != "", ok)
		require.Equal(t, c.name, rule.Name)
		if ok {
			require.Equal(t, named, want)
		}
	}
}

func TestAcceptedAlternativesCountAsRight(t *testing.T) {
	t.Parallel()
	rule, want, _, err := outcome.Select(task.Reference{
		DataSource: "jsonl", Answers: []task.NamedAnswer{{Name: "answer", Value: "A"}}, Meta: []byte(`{"accept": {"answer": ["B", "C"]}}`),
	})
	require.NoError(t, err)
	for value, right := range map[string]bool{"A": true, "B": true, "c": true, "D": false} {
		require.Equal(t, right, outcome.AllRight(rule.Score("@answer["+value+"]", want)), value)
	}
}

func TestUntaggedAnswersAreFoundOnlyWhereTheyAreOne(t *testing.T) {
	t.Parallel()
	rule, err := outcome.TableBench("NumericalReasoning", "Counting", "")
	require.NoError(t, err)
	want := []task.NamedAnswer{{Name: "answer", Value: "10.6"}}
	ungrounded := claim("c1", "10.6")
	ungrounded.Structural = false
	typed := claim("c1", "Final Answer: 10.6")
	typed.Node.Fields = []evidence.Field{{Name: "x", Text: "7"}}
	for _, c := range []struct {
		name   string
		claims []outcome.Claim
		right  bool
	}{
		{"tag", []outcome.Claim{claim("c1", "@answer[10.6] cyclones")}, true},
		{"final answer", []outcome.Claim{claim("c1", "Counted.\nFinal Answer: 10.6")}, true},
		{"the whole claim", []outcome.Claim{claim("c1", " 10.6 ")}, true},
		{"two claims without a tag", []outcome.Claim{claim("c1", "10.6"), claim("c2", "10.7")}, false},
		{"two final answers", []outcome.Claim{claim("c1", "Final Answer: 10.6"), claim("c2", "Final Answer: 10.7")}, false},
		{"ungrounded", []outcome.Claim{ungrounded}, false},
		{"typed into the template", []outcome.Claim{typed}, false},
		{"a dump that holds the answer", []outcome.Claim{claim("c1", "10.6, "+strings.Repeat("7, ", 3000))}, false},
	} {
		require.Equal(t, c.right, outcome.AllRight(rule.Train(c.claims, want, true)), c.name)
	}
}
