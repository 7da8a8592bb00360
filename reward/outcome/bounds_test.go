package outcome_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward/outcome"
	"github.com/verigraph/verigraph/task"
)

func TestPathologicalAnswersEndWithinLimitsUnderEveryRule(t *testing.T) {
	t.Parallel()
	ids := make([]string, 500)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	answers := map[string]string{
		"a tower of powers": "9**9**9", "an import": `__import__("os").system("touch pwned")`,
		"200 kB of digits": strings.Repeat("9", 200_000), "200 kB of text": strings.Repeat("a b ", 50_000),
		"5000 brackets": strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "5000 braces": strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000),
		"a large exponent": "1e999999999", "a small one": "1e-999999999", "commas": strings.Repeat("1,", 100_000), "dots": strings.Repeat("1.", 100_000),
		"minuses": strings.Repeat("-", 200_000) + "1", "percents": "1" + strings.Repeat("%", 200_000), "null bytes": "\x00\x00", "half a character": "\xff\xfe",
		"3,999 bytes of words": strings.Repeat("aa ", 1333), "500 wrong ids": strings.Repeat("x, ", 499) + "x", "399 digits": strings.Repeat("9", 399),
	}
	rules := map[string]task.Reference{
		"match":       {DataSource: "mine", Meta: []byte(`{"unordered": true}`)},
		"dabench":     {DataSource: "dabench"},
		"EM":          {DataSource: "tablebench", Meta: []byte(`{"qtype": "FactChecking"}`)},
		"EM within":   {DataSource: "tablebench", Meta: []byte(`{"qtype": "DataAnalysis", "qsubtype": "StatisticalAnalysis"}`)},
		"ROUGE-L":     {DataSource: "tablebench", Meta: []byte(`{"qtype": "DataAnalysis", "qsubtype": "CausalAnalysis"}`)},
		"Pass@1":      {DataSource: "tablebench", Meta: []byte(`{"qtype": "Visualization"}`)},
		"dabstep":     {DataSource: "dabstep"},
		"with choice": {DataSource: "mine", Meta: []byte(`{"accept": {"answer": ["a", "b"]}}`)},
	}
	start := time.Now()
	for name, ref := range rules {
		for _, gold := range []string{"0.35", "yes", "[[1, 2]]", strings.Join(ids, ", ")} {
			ref.Answers = []task.NamedAnswer{{Name: "answer", Value: gold}}
			rule, want, ok, err := outcome.Select(ref)
			require.NoError(t, err)
			require.True(t, ok)
			for kind, a := range answers {
				for _, text := range []string{"@answer[" + a + "]", "Final Answer: " + a, a} {
					require.Less(t, outcome.Share(rule.Train([]outcome.Claim{claim("c1", text)}, want, true)), 1.0, "%s %s", name, kind)
					require.Less(t, outcome.Share(rule.Score(text, want)), 1.0, "%s %s", name, kind)
				}
			}
		}
	}
	require.Less(t, time.Since(start), 60*time.Second, "some 3,000 answers")
}

func TestLongListsOfIdsAreComparedInAnyOrderWithinMilliseconds(t *testing.T) {
	t.Parallel()
	forward, backward := make([]string, 1500), make([]string, 1500)
	for i := range forward {
		forward[i], backward[len(backward)-1-i] = fmt.Sprint(i), fmt.Sprint(i)
	}
	a, b := strings.Join(forward, ", "), strings.Join(backward, ", ")
	require.InDelta(t, 1, outcome.DABStepFixed(a, b), 0)
	require.InDelta(t, 1, outcome.Match(outcome.Tolerance{}, true)(a, b), 0)
	require.InDelta(t, 0, outcome.DABStepFixed(a, b[:len(b)-3]+"77"), 0)
}
