package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/eval"
)

// evaluate runs an evaluation of one prompts file by a script.
func evaluate(t *testing.T, out, benchmark, prompts, dataDir string, lines []any, extra ...string) string {
	t.Helper()
	code, stdout, stderr := verigraph(t, append([]string{
		"eval", "run", "--benchmark", benchmark, "--prompts", prompts, "--data-dir", dataDir, "--policy", "script:" + writeScript(t, lines...),
		"--python", root + ".venv/sandbox/bin/python", "--replay=false", "--out", out,
	}, extra...)...)
	require.Zero(t, code, stderr+stdout)
	return stdout
}

func TestBenchmarksOfOnePolicyShareADirectoryAndHiddenAnswersAndJudgesAreStated(t *testing.T) {
	t.Parallel()
	url, _ := evalJudge(t)
	out, data := filepath.Join(t.TempDir(), "e"), t.TempDir()
	for _, name := range []string{"acquirer_countries.csv", "fees.json", "manual.md", "merchant_category_codes.csv", "merchant_data.json", "payments-readme.md"} {
		require.NoError(t, os.WriteFile(filepath.Join(data, name), []byte("n\n7\n"), 0o600))
	}
	steps := write(t, "tasks.jsonl", `{"task_id":"1","question":"How many?","answer":"7","guidelines":"A number.","level":"easy"}
{"task_id":"2","question":"And then?","answer":"","guidelines":"A number.","level":"hard"}
`)
	seven := []string{cellTurn("x = int(open('fees.json').read().split()[1])\nsubmit_answer([bind('@answer[{x}]', x=x)])")}
	stdout := evaluate(t, out, "dabstep", steps, data, []any{scriptLine{"1", seven}, scriptLine{"2", seven}}, "--without", "payments.csv")
	require.Contains(t, stdout, "DABStep            100.00 [100.00, 100.00]  (2 items;")
	require.Contains(t, stdout, "1 of 2 rollouts have no known answer and are in no score")
	report := readFile(t, out, "report.md")
	require.Contains(t, report, "Asked without payments.csv")
	require.NotContains(t, report, "Overall (partial", "DABStep is no part of it")

	research := write(t, "research.jsonl", `{"id":0,"files":["fees.json","payments.csv"],"question":"Write.","checklist":"","type":"Open"}
{"id":1,"files":["fees.json"],"question":"Write more.","checklist":"- all","type":"Open"}
`)
	lines := []any{scriptLine{"0", seven}, scriptLine{"1", []string{"<think>no</think> nothing"}}}
	stdout = evaluate(t, out, "dabstep_research", research, data, lines, "--without", "payments.csv")
	require.Contains(t, stdout, "1 of 2 rollouts have no score (unscored 1); were they all wrong the score would be 0.00, all right 50.00")
	code, stdout, stderr := verigraph(t, "eval", "score", out, "--judge", url, "--judge-model", "m")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "DABStep-Research   40.00", "(20 x mean(5, 3) + 0)/2: who writes nothing has 0")
	records, err := eval.ReadRecords(out)
	require.NoError(t, err)
	require.Len(t, records, 4)
	require.Contains(t, readFile(t, out, "report.md"), "| Content (of 5) | 2.50 |")
	require.Contains(t, readFile(t, out, "report.md"), "Overall (partial, without DABench, DSBench, TableBench)")
}

func TestAnInterruptedEvaluationGoesOnAndGivesWhatAnUninterruptedOneGives(t *testing.T) {
	t.Parallel()
	args := func(out string, extra ...string) []string {
		return evalArgs(out, root+"examples/dabench/solutions.jsonl", append([]string{"--limit", "8"}, extra...)...)
	}
	whole, broken := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	code, _, stderr := verigraph(t, args(whole)...)
	require.Zero(t, code, stderr)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { // stops the evaluation once something is kept
		for ctx.Err() == nil {
			if entries, err := archive.ReadIndex(filepath.Join(broken, "dabench")); err == nil && len(entries) > 0 {
				stop()
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	cmd := newRoot()
	cmd.SetArgs(args(broken))
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	err := cmd.ExecuteContext(ctx)
	require.ErrorContains(t, err, "go on with --resume")
	m, err := eval.ReadManifest(broken)
	require.NoError(t, err)
	require.False(t, m.Runs[0].Complete)
	// What is there so far is scored, and what is not is counted.
	code, stdout, stderr := verigraph(t, "eval", "score", broken)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "(8 items;")

	code, _, stderr = verigraph(t, args(broken, "--resume")...)
	require.Zero(t, code, stderr)
	require.Equal(t, stable(t, whole), stable(t, broken))
}

// stable is the records without what depends on the clock.
func stable(t *testing.T, dir string) string {
	t.Helper()
	records, err := eval.ReadRecords(dir)
	require.NoError(t, err)
	for i := range records {
		records[i].PolicyS, records[i].SandboxS, records[i].QueueS = 0, 0, 0
	}
	data, err := json.Marshal(records)
	require.NoError(t, err)
	require.True(t, strings.Contains(string(data), `"scored"`))
	return string(data)
}

func TestEveryCommandOfTheEvaluationPageExists(t *testing.T) {
	t.Parallel()
	lines := commands(t, root+"docs/evaluation.md")
	require.GreaterOrEqual(t, len(lines), 6)
	for _, line := range lines {
		words := strings.Fields(line)
		cmd, rest, err := newRoot().Find(words[1:])
		require.NoError(t, err, line)
		require.NoError(t, cmd.ParseFlags(rest), line)
		require.NoError(t, cmd.Args(cmd, cmd.Flags().Args()), line)
	}
}

func TestTableBenchWritesItsTablesOutAndIsReportedByTypeBesideItsScriptsOverall(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "e")
	prompts := write(t, "t.jsonl", `{"id":"a1","qtype":"NumericalReasoning","qsubtype":"Aggregation","table":{"columns":["n"],"data":[["10"],["11.2"]]},"question":"Mean?","answer":"10.6"}
{"id":"a2","qtype":"NumericalReasoning","qsubtype":"Aggregation","table":{"columns":["n"],"data":[["10"],["11.2"]]},"question":"Mean?","answer":"10.6"}
{"id":"b","qtype":"DataAnalysis","qsubtype":"DescriptiveAnalysis","table":{"columns":["n"],"data":[["x"]]},"question":"Describe.","answer":"the table has one row"}
`)
	mean := "import pandas as pd\nm = pd.read_csv('table.csv').n.mean()\n"
	lines := []any{
		scriptLine{"a1", []string{cellTurn(mean + "submit_answer([bind('@answer[{m:.1f}]', m=m)])")}},
		scriptLine{"a2", []string{cellTurn(mean + "x = m * 10\nsubmit_answer([bind('@answer[{x:.0f}]', x=x)])")}},
		scriptLine{"b", []string{cellTurn("import pandas as pd\nn = len(pd.read_csv('table.csv'))\nsubmit_answer([bind('Final Answer: the table has {n} row', n=n)])")}},
	}
	evaluate(t, out, "tablebench", prompts, "", lines)
	records, err := eval.ReadRecords(out)
	require.NoError(t, err)
	require.Len(t, records, 3)
	require.FileExists(t, filepath.Join(out, "tables", "tablebench", "a1", "table.csv"))
	require.Equal(t, 1.0, *records[0].Value)
	require.Equal(t, 1.0, *records[1].Value, "106 is 10.6 by the official rule")
	require.Zero(t, *records[1].Fixed)
	require.True(t, records[1].Binary)
	require.InDelta(t, 0.75, *records[2].Value, 1e-9, "ROUGE-L of 'table has 1 row' and 'table has one row'")
	require.False(t, records[2].Binary)
	report := readFile(t, out, "report.md")
	require.Contains(t, report, "| TableBench | 3 x 1 | 91.67 [75.00, 100.00] |")
	require.Contains(t, report, "| NumericalReasoning | 2 | 100.00 [100.00, 100.00] | 50.00 |")
	require.Contains(t, report, "| overall as the script prints it (Pass@1 not times 100) | 91.67 |")
}
