package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/items"
	"github.com/verigraph/verigraph/reward/rules"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// storedRun writes the output directory of a run with two rollouts of one prompt, the way the reward
// server leaves it: trajectories with their scores, and the prompt with its reference answer.
func storedRun(t *testing.T, answers ...task.NamedAnswer) string {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(t.TempDir(), "t.csv")
	require.NoError(t, os.WriteFile(data, []byte("a\n34.65\n"), 0o600))
	digest := strings.Repeat("ab", 32)
	store, err := blob.OpenDir(dir)
	require.NoError(t, err)
	require.NoError(t, store.Put(t.Context(), blob.DataName(digest), []byte("a\n34.65\n")))
	require.NoError(t, store.Close())

	if answers == nil {
		answers = []task.NamedAnswer{{Name: "mean", Value: "34.65"}}
	}
	it := items.Item{
		Prompt:    task.Prompt{ID: "p", Question: "What is the mean?", DataSource: "dabench", Files: []task.File{{Name: "t.csv", SHA256: digest}}},
		Reference: task.Reference{PromptID: "p", DataSource: "dabench", Answers: answers},
	}
	k, err := items.Open(dir)
	require.NoError(t, err)
	require.NoError(t, k.Add(it))
	require.NoError(t, k.Close())

	scorer, err := reward.New(reward.Config{Preset: reward.Defaults(), Judge: rules.Judge{}})
	require.NoError(t, err)
	group := trajectory.ScoredGroup{Group: trajectory.Group{Dispatch: task.Dispatch{ID: "p-0", Run: "local", Prompt: it.Prompt, GroupSize: 2}}}
	for k, value := range []string{"34.65", "31.00"} {
		e := evidence.Export{
			Schema: evidence.Schema, Submitted: []string{"c1", "c2"},
			Nodes: []evidence.Node{
				{ID: "file:t.csv", Kind: evidence.NodeSource, Name: "t.csv", Turn: -1, Statement: -1, SHA256: digest},
				{ID: "df@1", Kind: evidence.NodeVariable, Name: "df", Version: 1},
				{
					ID: "c1", Kind: evidence.NodeAtomic, Template: "@mean[{m}]", Text: "@mean[" + value + "]", Fields: []evidence.Field{{Name: "m", Text: value}},
					Values: []evidence.Value{{Name: "m", Kind: evidence.KindNumber, Repr: value}},
				},
				{ID: "c2", Kind: evidence.NodeDerived, Text: "The mean is above 30.", Reasoning: value + " is above 30"},
			},
			Edges: []evidence.Edge{
				{From: "file:t.csv", To: "df@1", Kind: evidence.EdgeCompute},
				{From: "df@1", To: "c1", Kind: evidence.EdgeGround, Role: "m"},
				{From: "c1", To: "c2", Kind: evidence.EdgeDerive},
			},
		}
		e.Grounding = e.ComputeGrounding()
		tr := trajectory.Trajectory{
			ID: task.RolloutID{Run: "local", Dispatch: "p-0", Sample: k}, PromptID: "p", Termination: trajectory.Submitted, Graph: e,
			Turns: []trajectory.Turn{{HasCode: true, Status: trajectory.CellOK}},
		}
		group.Group.Trajectories = append(group.Group.Trajectories, tr)
		group.Scores = append(group.Scores, scorer.Score(t.Context(), tr, it.Prompt, it.Reference))
	}
	a, err := archive.Open(dir)
	require.NoError(t, err)
	require.NoError(t, a.Add(group))
	require.NoError(t, a.Close())
	return dir
}

func scoreJSON(t *testing.T, args ...string) scoreSummary {
	t.Helper()
	code, out, stderr := verigraph(t, append([]string{"score", "--output", "json"}, args...)...)
	require.Zero(t, code, stderr)
	var s scoreSummary
	require.NoError(t, json.Unmarshal([]byte(out), &s))
	return s
}

func TestStoredRunIsScoredAgainByAnyPresetWithoutGeneratingAnything(t *testing.T) {
	t.Parallel()
	dir := storedRun(t)
	same := scoreJSON(t, dir)
	require.Equal(t, 2, same.Rollouts)
	require.Zero(t, same.Changed, "a reward is a function of stored evidence and verdicts")
	require.InDelta(t, 0.5, *same.Accuracy, 0)

	paper := scoreJSON(t, dir, "--reward", "paper")
	require.Equal(t, 2, paper.Changed)
	require.Equal(t, "paper", paper.Preset)
	data, err := os.ReadFile(filepath.Join(dir, "scores", "paper.jsonl"))
	require.NoError(t, err)
	var first rescored
	require.NoError(t, json.Unmarshal([]byte(strings.SplitN(string(data), "\n", 2)[0]), &first))
	require.Equal(t, "local/p-0/0", first.RolloutID)
	require.InDelta(t, first.Score.Process+first.Score.Infer+first.Score.Outcome, first.Score.Reward, 1e-12, "the plain sum")
	require.InDelta(t, 0.9, *first.Before, 0.11)
	entries, err := archive.ReadIndex(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing of the run is changed")

	code, out, _ := verigraph(t, "score", dir, "--reward", "outcome_only")
	require.Zero(t, code)
	require.Contains(t, out, "accuracy 0.500")
	require.Contains(t, out, "dabench fixed 2")
}

// judgeServer says entailed to everything but wrong means, and counts its calls.
func judgeServer(t *testing.T) (url string, calls *atomic.Int64) {
	t.Helper()
	calls = &atomic.Int64{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		verdict := "entailed"
		if strings.Contains(string(body), "31.00") {
			verdict = "not_entailed"
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": `{"reasoning": "r", "verdict": "` + verdict + `"}`}}},
		})
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1", calls
}

func TestVerdictsAreStoredWithTheRunAndRejudgeAsksAnew(t *testing.T) {
	t.Parallel()
	dir := storedRun(t)
	url, calls := judgeServer(t)
	judge := []string{dir, "--judge", url, "--judge-model", "m"}
	first := scoreJSON(t, judge...)
	require.EqualValues(t, 2, calls.Load())
	require.Equal(t, map[trajectory.VerdictKind]int{trajectory.Entailed: 1, trajectory.NotEntailed: 1}, first.Books.Verdicts)
	again := scoreJSON(t, judge...)
	require.EqualValues(t, 2, calls.Load(), "the store answers")
	require.Equal(t, 2, again.Books.Cached)
	require.Equal(t, first.MeanReward, again.MeanReward)
	scoreJSON(t, append(judge, "--rejudge")...)
	require.EqualValues(t, 4, calls.Load())
	scoreJSON(t, append(judge, "--judge-model", "other")...)
	require.EqualValues(t, 6, calls.Load(), "another model's verdicts are its own")
}

func TestAuditNamesReferencesThatTheirOwnScorerDoesNotPay(t *testing.T) {
	t.Parallel()
	code, out, _ := verigraph(t, "score", storedRun(t), "--audit")
	require.Zero(t, code)
	require.Contains(t, out, "1 items, 0 without full marks")
	require.Contains(t, out, "gold_in_file")
	code, out, stderr := verigraph(t, "score", storedRun(t, task.NamedAnswer{Name: "x", Value: "[1, 2]"}), "--audit")
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, out, "not_full_marks")
	require.Contains(t, stderr, "1 of 1 reference answers")
	code, out, _ = verigraph(t, "score", t.TempDir(), "--audit", "--prompts", root+"examples/dabench/questions.jsonl",
		"--labels", root+"examples/dabench/labels.jsonl", "--format", "dabench", "--data-dir", tables)
	require.Zero(t, code, out)
	require.Contains(t, out, "0 without full marks")
	require.NotContains(t, out, "file_not_looked", "data files are read from --data-dir")
	require.Regexp(t, `gold_in_file +14 `, out, "16.65 stands in GODREJIND.csv")
}

func TestScoreRefusesWhatItCantScore(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"score"},
		{"score", t.TempDir()},
		{"score", storedRun(t), "--reward", "papr"},
		{"score", storedRun(t), "--parallel", "0"},
		{"score", storedRun(t), "--judge", "http://127.0.0.1:1/v1"},
	} {
		code, _, stderr := verigraph(t, args...)
		require.Equal(t, cli.ExitUsage, code, "%v: %s", args, stderr)
	}
}

func TestVerifyPrintsThePapersFigures(t *testing.T) {
	t.Parallel()
	triangles := root + "reward/verify/testdata/number_triangle.csv"
	code, out, stderr := verigraph(t, "verify", "--format", "nts", "--judge", "rules", triangles)
	require.Zero(t, code, stderr)
	require.Regexp(t, `all\s+20\s+20\s+1\.000\s+1\.000\s+1\.000\s+0 `, out)
	file := filepath.Join(t.TempDir(), "t.csv")
	code, _, stderr = verigraph(t, "verify", "--format", "nts", "--generate", "3", "--seed", "5", file)
	require.Zero(t, code, stderr)
	predictions := filepath.Join(t.TempDir(), "p.jsonl")
	code, out, stderr = verigraph(t, "verify", "--format", "nts", "--baseline", "--output", "json", "--predictions", predictions, file)
	require.Zero(t, code, stderr)
	require.Contains(t, out, `"group":"all","wrong":12,"right":12,"error_accuracy":1,"correct_accuracy":1,"f1":1`)
	data, err := os.ReadFile(predictions)
	require.NoError(t, err)
	require.Equal(t, 24, strings.Count(string(data), "\n"))
	for _, args := range [][]string{
		{"--format", "nts", "--generate", "3", file}, // never overwritten
		{"--format", "csv", triangles},
		{"--format", "processbench", "--judge", "rules", root + "reward/verify/testdata/processbench_gsm8k_24.jsonl"},
		{"--format", "nts", "nowhere.csv"},
	} {
		code, _, _ := verigraph(t, append([]string{"verify"}, args...)...)
		require.Equal(t, cli.ExitUsage, code, args)
	}
}

func TestProcessBenchRunsAgainstAnyEndpoint(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"content": `{"reasoning": "r", "verdict": "correct"}`}}},
		})
	}))
	t.Cleanup(srv.Close)
	code, out, stderr := verigraph(t, "verify", "--format", "processbench", "--judge", srv.URL+"/v1", "--judge-model", "m", "--limit", "14",
		root+"reward/verify/testdata/processbench_gsm8k_24.jsonl")
	require.Zero(t, code, stderr)
	require.Regexp(t, `gsm8k\s+12\s+2\s+0\.000\s+1\.000\s+0\.000`, out)
}
