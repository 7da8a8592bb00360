package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

// replayRun runs an honest solution, a constant in disguise, an unsubmitted one and one whose claim has the order of a set and the time, each twice.
func replayRun(t *testing.T, config string) string {
	t.Helper()
	dir := t.TempDir()
	read := "import csv, statistics\nfares = [float(r['Fare']) for r in csv.DictReader(open('test_ave.csv')) if r['Fare']]\n"
	script := writeScript(t,
		scriptLine{"honest", []string{cellTurn(read + "submit_answer(bind('@mean_fare[{m:.2f}]', m=statistics.mean(fares)))")}},
		scriptLine{"constant", []string{cellTurn(read + "submit_answer(bind('@mean_fare[{m:.2f}]', m=34.65 + 0 * len(fares)))")}},
		scriptLine{"silent", []string{cellTurn("x = 1"), "Done."}},
		scriptLine{"ordered", []string{cellTurn("import datetime\n" + read + "submit_answer(bind('@mean_fare[{m:.2f}] of {o} at {at}', m=statistics.mean(fares), at=str(datetime.datetime.now()) + str(len(fares) + fares[0]), o=' '.join({f'fare {round(f)}' for f in fares[:40]})))")}})
	var prompts strings.Builder
	for _, id := range []string{"honest", "constant", "silent", "ordered"} {
		prompts.WriteString(`{"id":"` + id + `","question":"The mean fare? @mean_fare[value]","files":["test_ave.csv"],"answer":[["mean_fare","34.65"]],"data_source":"dabench","meta":{}}` + "\n")
	}
	file := filepath.Join(dir, "prompts.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(prompts.String()), 0o644))
	conf := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(conf, []byte(config), 0o644))
	out := filepath.Join(dir, "out")
	code, stdout, stderr := verigraph(t, "run", "--prompts", file, "--data-dir", tables, "--policy", "script:"+script,
		"--judge", "rules", "--group-size", "2", "--config", conf, "--python", root+".venv/sandbox/bin/python", "--out", out)
	require.Zero(t, code, stderr+stdout)
	return out
}

func TestAFinishedRunIsReplayedAndReportedOn(t *testing.T) {
	t.Parallel()
	out := replayRun(t, "rollout: {replay: \"off\"}\nsandbox: {hash_seed: 7, clock: \"2024-01-31T12:00:00Z\"}\n")
	for name, check := range map[string]func(*testing.T, string){
		"replay prints a table of claims and fails on a constant in disguise":        replayTable,
		"the report is the list of claims without a model and where the model fails": reportList,
	} {
		t.Run(name, func(t *testing.T) { check(t, out) })
	}
	t.Run("replay finds an edited archive", func(t *testing.T) { replayEdited(t, out) })
}

func replayTable(t *testing.T, out string) {
	python := "--python=" + root + ".venv/sandbox/bin/python"
	for _, e := range readIndex(t, out) {
		require.Nil(t, e.Grounding.Replayed, "a replay that did not run is no number")
		if e.PromptID == "constant" {
			require.Equal(t, 1.0, *e.Rewards.Outcome, "without a replay nothing sees it")
		}
	}
	code, stdout, stderr := verigraph(t, "replay", out, python)
	require.Equal(t, cli.ExitFailed, code, stderr)
	require.Contains(t, stderr, "some claims do not replay: 2 of 6")
	require.Regexp(t, `(?m)^local/honest-0/0 +c1 +same *$`, stdout)
	require.Regexp(t, `(?m)^local/constant-0/1 +c1 +same +does not change with the data: m$`, stdout)
	require.NotContains(t, stdout, "silent")
	// The replay's own configuration names neither hash seed nor clock: it takes the recorded ones.
	require.Regexp(t, `(?m)^local/ordered-0/0 +c1 +same *$`, stdout)
	s, err := archive.Read(out, "local/ordered-0/0")
	require.NoError(t, err)
	require.Equal(t, uint32(7), s.Trajectory.HashSeed)
	require.Equal(t, "2024-01-31T12:00:00Z", s.Trajectory.Clock)
	require.Contains(t, s.Trajectory.Answer, " at 2024-01-31 12:00:00")

	code, stdout, _ = verigraph(t, "replay", out, "local/honest-0/1", python, "--output", "json")
	require.Zero(t, code)
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &line))
	require.Equal(t, map[string]any{"rollout_id": "local/honest-0/1", "claim": "c1", "outcome": "same"}, line)

	code, _, _ = verigraph(t, "replay", out, "local/constant-0/0", python, "--sensitivity=false")
	require.Zero(t, code)
	code, _, stderr = verigraph(t, "replay", out, "local/none-0/0", python)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "local/none-0/0")
	code, _, _ = verigraph(t, "replay")
	require.Equal(t, cli.ExitUsage, code)
}

func TestReplayNamesUntrackedValuesWithoutCallingThemFaults(t *testing.T) {
	t.Parallel()
	l := replayLine{
		RolloutID: "r/p-0/0", ReplayResult: evidence.ReplayResult{Claim: "c1", Outcome: evidence.ReplaySame},
		Untracked: []evidence.UntrackedMark{{Turn: 2, Line: 7, Construct: "globals()", Name: "x"}},
	}
	var table, lines strings.Builder
	require.NoError(t, printReplay(&table, []replayLine{l}, false))
	require.Contains(t, table.String(), "untracked: x of turn 2, line 7 (globals())")
	require.NoError(t, printReplay(&lines, []replayLine{l}, true))
	require.Contains(t, lines.String(), `"untracked":[{"turn":2,"line":7,"construct":"globals()","name":"x"}]`)
}

func replayEdited(t *testing.T, out string) {
	path := filepath.Join(out, "trajectories", "honest-0", "0.json")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var s trajectory.Scored
	require.NoError(t, json.Unmarshal(data, &s))
	for i := range s.Trajectory.Graph.Nodes {
		if n := &s.Trajectory.Graph.Nodes[i]; n.ID == "c1" {
			n.Text = "@mean_fare[99.99]"
		}
	}
	data, err = json.Marshal(s)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o644))
	code, stdout, _ := verigraph(t, "replay", out, "local/honest-0/0", "--python="+root+".venv/sandbox/bin/python", "--sensitivity=false")
	require.Equal(t, cli.ExitFailed, code)
	require.Regexp(t, `c1 +tampered +a replay gives "@mean_fare\[34\.65\]"`, stdout)
}

func TestWorkerReplaysSubmissionsBeforePublishingWhereConfigured(t *testing.T) {
	t.Parallel()
	out := replayRun(t, "rollout: {replay: submitted}\n")
	byPrompt := map[string]archive.Entry{}
	for _, e := range readIndex(t, out) {
		byPrompt[e.PromptID] = e
	}
	honest, constant := byPrompt["honest"], byPrompt["constant"]
	require.Equal(t, 1.0, *honest.Grounding.Replayed)
	require.Equal(t, 1.0, *honest.Grounding.Structural)
	require.Empty(t, honest.Flags)
	require.Equal(t, 1.0, *honest.Rewards.Outcome)
	require.Equal(t, 1.0, *constant.Grounding.Replayed)
	require.Zero(t, *constant.Grounding.Structural)
	require.Contains(t, constant.Flags, "fake_dependency:c1")
	require.Zero(t, *constant.Rewards.Outcome)
	require.Nil(t, byPrompt["silent"].Grounding.Replayed)
}
