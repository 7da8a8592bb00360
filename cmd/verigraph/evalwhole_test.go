package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/eval"
)

// whole is the directory of the whole benchmarks, as make eval-benchmarks names it; they are not part of this
// repository.
func whole(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("VERIGRAPH_BENCHMARKS")
	if dir == "" {
		t.Skip("VERIGRAPH_BENCHMARKS is not set: see make eval-benchmarks")
	}
	return dir
}

// TestTheWholeDABenchIsEvaluated asks all 257 questions of a script that solves 22 and, of the others, binds the
// number of rows; its log is the wall time and the memory.
func TestTheWholeDABenchIsEvaluated(t *testing.T) {
	dir := filepath.Join(whole(t), "dabench")
	in, err := dataset.ImportAll(t.Context(), dataset.ImportConfig{
		Prompts: filepath.Join(dir, "da-dev-questions.jsonl"), Labels: filepath.Join(dir, "da-dev-labels.jsonl"),
		DataDir: filepath.Join(dir, "tables"), Format: dataset.FormatDABench,
	})
	require.NoError(t, err)
	require.Len(t, in.Prompts, 257)
	require.Len(t, in.References, 257)
	solved := map[string]bool{}
	var lines []any
	for line := range strings.Lines(readFile(t, root, "examples/dabench/solutions.jsonl")) {
		var l scriptLine
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		solved[l.PromptID] = true
		lines = append(lines, l)
	}
	for i, p := range in.Prompts {
		if !solved[p.ID] {
			lines = append(lines, scriptLine{p.ID, []string{
				cellTurn(fmt.Sprintf("import pandas as pd\ndf = pd.read_csv(%q, encoding='latin-1', on_bad_lines='skip')\nprint(df.describe())", filepath.Base(in.FileNames[i][0]))),
				cellTurn("n = len(df)\nsubmit_answer([bind('The table has {n} rows. @rows[{n}]', n=n)])"),
			}})
		}
	}
	for _, replay := range []string{"--replay=false", "--replay=true"} {
		if only := os.Getenv("VERIGRAPH_REPLAY"); only != "" && "--replay="+only != replay {
			continue
		}
		out := filepath.Join(t.TempDir(), "e")
		if keep := os.Getenv("VERIGRAPH_EVALUATION"); keep != "" {
			out = keep
		}
		code, stdout, stderr := verigraph(t, "eval", "run", "--benchmark", "dabench", "--prompts", filepath.Join(dir, "da-dev-questions.jsonl"),
			"--labels", filepath.Join(dir, "da-dev-labels.jsonl"), "--data-dir", filepath.Join(dir, "tables"),
			"--policy", "script:"+writeScript(t, lines...), "--python", root+".venv/sandbox/bin/python", replay, "--out", out)
		require.Zero(t, code, stderr+stdout)
		records, err := eval.ReadRecords(out)
		require.NoError(t, err)
		right := 0
		for _, r := range records {
			require.Equal(t, eval.Scored, r.State, "%s: %s", r.Item, r.Reason)
			right += int(*r.Value)
			require.Equal(t, solved[r.Item], *r.Value == 1, r.Item)
		}
		require.Equal(t, 22, right, "the handed solutions and nothing else")
		m, err := eval.ReadManifest(out)
		require.NoError(t, err)
		t.Logf("%s: %d questions in %.1f s, peak memory %.0f MiB", replay, len(records), m.Runs[0].WallSeconds, m.Runs[0].PeakMemoryMiB)
		t.Log(stdout)
	}
}

func TestEveryItemOfTheWholeBenchmarksIsImportedAndItsReferenceGetsFullMarksOrIsNamed(t *testing.T) {
	dir := whole(t)
	// What the audit names of each benchmark, with the reason; everything else gets full marks.
	for _, c := range []struct {
		items int
		named []string
		args  []string
	}{
		{257, []string{"734"}, []string{
			"--format", "dabench", "--prompts", filepath.Join(dir, "dabench/da-dev-questions.jsonl"),
			"--labels", filepath.Join(dir, "dabench/da-dev-labels.jsonl"), "--data-dir", filepath.Join(dir, "dabench/tables"),
		}},
		{10, nil, []string{"--format", "jsonl", "--prompts", "", "--data-dir", filepath.Join(dir, "dabstep/context")}},
		{886, []string{"82f9c942", "ac9369e4"}, []string{"--format", "jsonl", "--prompts", ""}},
	} {
		if c.args[3] == "" { // formats whose files are made or checked by import
			c.args[3] = importedPrompts(t, dir, c.items)
		}
		if c.items == 886 {
			c.args = append(c.args, "--data-dir", strings.TrimSuffix(c.args[3], ".jsonl")+"_tables")
		}
		out := t.TempDir()
		code, stdout, stderr := verigraph(t, append([]string{"score", out, "--audit"}, c.args...)...)
		require.Equal(t, truthOf(len(c.named) > 0), code, stderr+stdout)
		require.Contains(t, stdout, fmt.Sprintf("%d items, %d without full marks from their own scorer", c.items, len(c.named)))
		for _, id := range c.named {
			require.Contains(t, stdout, id)
		}
		t.Log(strings.Join(notFull(stdout), "\n"))
	}
}

func truthOf(failed bool) int {
	if failed {
		return 1
	}
	return 0
}

func notFull(stdout string) []string {
	var out []string
	for line := range strings.Lines(stdout) {
		if strings.HasPrefix(line, "not_full_marks") || strings.Contains(line, " items, ") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// importedPrompts is a benchmark as verigraph import writes it.
func importedPrompts(t *testing.T, dir string, items int) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "p.jsonl")
	args := []string{"import", filepath.Join(dir, "tablebench/TableBench.jsonl"), "--format", "tablebench", "--out", out}
	if items == 10 {
		args = []string{"import", filepath.Join(dir, "dabstep/tasks_dev.jsonl"), "--format", "dabstep", "--data-dir", filepath.Join(dir, "dabstep/context"), "--without", "payments.csv", "--out", out}
	}
	code, stdout, stderr := verigraph(t, args...)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, fmt.Sprintf("%d prompts (%d with a reference answer)", items, items))
	return out
}

// TestTheFaultsOfTheOfficialRulesAreCounted counts on all items how often a rule pays for a wrong answer, or does
// not pay for a right one; docs/evaluation.md has the figures.
func TestTheFaultsOfTheOfficialRulesAreCounted(t *testing.T) {
	dir := whole(t)
	read := func(c dataset.ImportConfig) dataset.Imported {
		in, err := dataset.ImportAll(t.Context(), c)
		require.NoError(t, err)
		return in
	}
	table := read(dataset.ImportConfig{Prompts: filepath.Join(dir, "tablebench/TableBench.jsonl"), Format: dataset.FormatTableBench, TablesDir: t.TempDir()})
	dabench := read(dataset.ImportConfig{
		Prompts: filepath.Join(dir, "dabench/da-dev-questions.jsonl"), Labels: filepath.Join(dir, "dabench/da-dev-labels.jsonl"),
		DataDir: filepath.Join(dir, "dabench/tables"), Format: dataset.FormatDABench,
	})
	steps := read(dataset.ImportConfig{Prompts: filepath.Join(dir, "dabstep/tasks_dev.jsonl"), DataDir: filepath.Join(dir, "dabstep/context"), Format: dataset.FormatDABStep, Without: []string{"payments.csv"}})
	counts := eval.CountFaults(map[string]dataset.Imported{eval.TableBench: table, eval.DABench: dabench, eval.DABStep: steps})
	page := readFile(t, root, "docs/evaluation.md")
	for _, f := range counts {
		row := fmt.Sprintf("| %s | %s | %d of %d |", f.Benchmark, f.Fault, f.Count, f.Items)
		t.Log(row)
		if !strings.Contains(page, row) {
			t.Errorf("docs/evaluation.md lacks %s", row)
		}
	}
}
