package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/eval"
)

func evalArgs(out, script string, extra ...string) []string {
	return append([]string{
		"eval", "run", "--benchmark", "dabench", "--prompts", root + "examples/dabench/questions.jsonl",
		"--labels", root + "examples/dabench/labels.jsonl", "--data-dir", tables, "--policy", "script:" + script,
		"--python", root + ".venv/sandbox/bin/python", "--replay=false", "--out", out,
	}, extra...)
}

func readFile(t *testing.T, elem ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elem...))
	require.NoError(t, err)
	return string(data)
}

func TestTheHandedSolutionsGetFullMarksInAnEvaluationAndScoringThemAgainGivesTheSameReport(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	code, stdout, stderr := verigraph(t, evalArgs(out, root+"examples/dabench/solutions.jsonl")...)
	require.Zero(t, code, stderr+stdout)
	require.Contains(t, stdout, "DABench            100.00 [100.00, 100.00]  (22 items; submitted 100.00 [100.00, 100.00]; unscored 0.00 %)")
	records, err := eval.ReadRecords(out)
	require.NoError(t, err)
	require.Len(t, records, 22)
	for _, r := range records {
		require.Equal(t, eval.Scored, r.State, r.Item)
		require.Equal(t, 1.0, *r.Value, r.Item)
		require.Equal(t, 1.0, *r.Fixed, r.Item)
		require.Positive(t, r.PromptTokens)
		for _, c := range r.Claims {
			require.True(t, *c.Structural, r.Item)
			require.Nil(t, c.Supported, "no judge was asked")
		}
	}
	before := map[string]string{}
	names := []string{"report.md", "report.json", "report.html", "records.jsonl"}
	for _, name := range names {
		before[name] = readFile(t, out, name)
	}
	require.NoError(t, os.RemoveAll(filepath.Join(out, "dabench", "nats")))
	code, _, stderr = verigraph(t, "eval", "score", out)
	require.Zero(t, code, stderr)
	for _, name := range names {
		require.Equal(t, before[name], readFile(t, out, name), name)
	}
	require.NotRegexp(t, `(?i)(src|href)\s*=|url\(|@import|<script`, before["report.html"], "the page asks for nothing else")

	code, _, stderr = verigraph(t, evalArgs(out, root+"examples/dabench/solutions.jsonl", "--resume")...)
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "all 22 items were asked already")
	code, _, stderr = verigraph(t, evalArgs(out, root+"examples/dabench/solutions.jsonl", "--resume", "--seed", "3")...)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "another setup")
}

func TestAnEvaluationWithSeveralSamplesCountsWhatWasNotAnsweredAsWrong(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	code, stdout, stderr := verigraph(t, evalArgs(out, root+"examples/dabench/script.jsonl", "--samples", "4", "--limit", "3")...)
	require.Zero(t, code, stderr+stdout)
	records, err := eval.ReadRecords(out)
	require.NoError(t, err)
	require.Len(t, records, 12)
	silent := 0
	for _, r := range records {
		require.Equal(t, eval.Scored, r.State, r.Reason)
		if !r.Submitted {
			silent++
			require.Zero(t, *r.Value)
		}
	}
	require.Positive(t, silent)
	report := readFile(t, out, "report.md")
	require.Contains(t, report, "| score (mean@4) |")
	require.Contains(t, report, "| pass@4 | 100.00 (3 items) |")
	require.Contains(t, report, "Overall (partial, without DSBench, TableBench, DABStep-Research)")
}

func TestWhatIsWrongWithAnEvaluationsFlagsIsNamed(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"benchmark \"x\" is none of dabench":     {"eval", "run", "--benchmark", "x"},
		"--out: an evaluation directory":         {"eval", "run", "--benchmark", "dabench"},
		"--samples: 0":                           {"eval", "run", "--benchmark", "dabench", "--samples", "0", "--out", t.TempDir()},
		"rollout.agent: \"react\"":               evalArgs(filepath.Join(t.TempDir(), "e"), "s", "--agent", "react"),
		"evaluation.json: no such file":          {"eval", "score", t.TempDir()},
		"is not empty and holds no evaluation":   evalArgs(root+"docs", root+"examples/dabench/solutions.jsonl"),
		"script: open " + root + "nowhere.jsonl": evalArgs(filepath.Join(t.TempDir(), "e"), root+"nowhere.jsonl"),
	} {
		code, _, stderr := verigraph(t, args...)
		require.Equal(t, 2, code, stderr)
		require.True(t, strings.Contains(stderr, want), "%q in %s", want, stderr)
	}
}
