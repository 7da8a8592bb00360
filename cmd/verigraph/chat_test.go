package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/trajectory"
)

// chatTeacher answers chat completions with the turns in order: a conversation's length says which is
// due. As the API has it, a stop string is left out of the answer.
func chatTeacher(t *testing.T, turns []string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Messages []trajectory.Message `json:"messages"`
			Stop     []string             `json:"stop"`
		}
		if r.URL.Path != "/v1/chat/completions" || json.NewDecoder(r.Body).Decode(&req) != nil {
			http.NotFound(w, r)
			return
		}
		said := 0
		for _, m := range req.Messages {
			if m.Role == "assistant" {
				said++
			}
		}
		text := turns[min(said, len(turns)-1)]
		for _, stop := range req.Stop {
			text, _, _ = strings.Cut(text, stop)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{
			"index": 0, "finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": text},
		}}})
	}))
	t.Cleanup(server.Close)
	return server
}

func TestATeachersTrajectoriesAreArchivedAndNeverBecomeTrainingRows(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(root + "examples/dabench/solutions.jsonl")
	require.NoError(t, err)
	var solution struct{ Turns []string }
	require.NoError(t, json.Unmarshal([]byte(strings.SplitN(string(data), "\n", 2)[0]), &solution))
	server := chatTeacher(t, solution.Turns)
	prompts := filepath.Join(t.TempDir(), "p.jsonl")
	require.NoError(t, os.WriteFile(prompts, []byte(`{"id":"p","question":"Mean fare, as @mean_fare[x] with two decimals?",`+
		`"files":["test_ave.csv"],"answer":[["mean_fare","34.65"]],"data_source":"dabench"}`+"\n"), 0o600))
	out := filepath.Join(t.TempDir(), "out")
	code, stdout, stderr := verigraph(t, "run", "--prompts", prompts, "--data-dir", tables, "--policy", server.URL, "--policy-api", "chat",
		"--model", "teacher", "--judge", "rules", "--group-size", "2", "--python", root+".venv/sandbox/bin/python", "--out", out)
	require.Zero(t, code, stderr+stdout)
	require.Contains(t, stderr, "none becomes a training row")
	entries := readIndex(t, out)
	require.Len(t, entries, 2)
	for _, e := range entries {
		require.True(t, e.TextOnly)
		require.Equal(t, trajectory.Submitted, e.TerminationReason, e.Error)
		require.True(t, *e.Correct, e.Answer)
		require.Positive(t, *e.Rewards.Total)
		file, err := os.ReadFile(filepath.Join(out, e.File))
		require.NoError(t, err)
		var kept trajectory.Scored
		require.NoError(t, json.Unmarshal(file, &kept))
		require.True(t, kept.Trajectory.TextOnly)
		require.Empty(t, kept.Trajectory.Segments)
		require.Equal(t, strings.TrimRight(solution.Turns[1], "\n"), kept.Trajectory.Turns[1].Text, "the words are the teacher's own")
	}
	s := readSummary(t, out)
	require.Zero(t, s.Batches.Written)
	require.Equal(t, 2, s.Ledger.Failed)
	require.True(t, s.accounted())
	log, err := os.ReadFile(filepath.Join(out, "run.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "text-only trajectory (policy.api: chat): it holds no token ids of the engine, so it is archived and never trained on")
}

func TestATeacherThatCannotBeCalledStopsTheRunAtItsStart(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":"no such key"}`))
	}))
	t.Cleanup(server.Close)
	args := []string{
		"run", "--prompts", "testdata/negatives.jsonl", "--data-dir", tables, "--policy", server.URL, "--policy-api", "chat",
		"--model", "teacher", "--judge", "rules", "--python", root + ".venv/sandbox/bin/python", "--out",
	}
	code, _, stderr := verigraph(t, append(args, filepath.Join(t.TempDir(), "a"))...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "trial of one chat completion")
	require.Contains(t, stderr, "no such key")
}
