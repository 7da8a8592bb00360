package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/reward/judges"
	"github.com/verigraph/verigraph/trajectory"
)

// brokenJudge is a judge endpoint. While mode is "" it knows its canaries and finds every other step entailed.
func brokenJudge(t *testing.T, mode string) string {
	t.Helper()
	canaries, err := judges.Canaries()
	require.NoError(t, err)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		content := `{"reasoning": "r", "verdict": "entailed"}`
		for _, c := range canaries {
			if strings.Contains(string(body), c.Conclusion) {
				content = `{"reasoning": "r", "verdict": "` + string(c.Want) + `"}`
			}
		}
		switch mode {
		case "never answers":
			<-r.Context().Done()
			return
		case "always errors":
			http.Error(w, `{"error": {"message": "no such model"}}`, http.StatusInternalServerError)
			return
		case "returns rubbish":
			content = "I would rather talk about the weather. 8/10"
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": content}}},
		})
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}

func TestRunWhoseJudgeNeverWorksEndsWithEveryAffectedRolloutUnscored(t *testing.T) {
	t.Parallel()
	const broken = "every: 400ms, paused: 50ms, max_pause: 300ms"
	conf := func(t *testing.T, canaries string) string {
		return write(t, "c.yaml", "reward:\n  canaries: {"+canaries+"}\n  openai: {model: m, timeout: 5m, deadline: 10m}\n")
	}
	dir := t.TempDir()
	for _, name := range []string{"questions.jsonl", "labels.jsonl"} { // of the question with derived claims
		all, err := os.ReadFile(root + "examples/dabench/" + name)
		require.NoError(t, err)
		for line := range strings.Lines(string(all)) {
			if strings.Contains(line, `"id": 14,`) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(line), 0o600))
			}
		}
	}
	run := func(t *testing.T, mode string) (code int, stderr string, s summary, rewards map[string]*float64, judged map[string]bool) {
		t.Helper()
		out := t.TempDir()
		canaries := broken
		if mode == "" { // a judge that works has the time for it, also on a busy machine
			canaries = "every: 2m, paused: 1s, max_pause: 2m"
		}
		code, _, stderr = verigraph(t, dabenchArgs(out, root+"examples/dabench/script.jsonl", "--prompts", filepath.Join(dir, "questions.jsonl"),
			"--labels", filepath.Join(dir, "labels.jsonl"), "--group-size", "4",
			"--config", conf(t, canaries), "--judge", brokenJudge(t, mode))...)
		require.FileExists(t, filepath.Join(out, "summary.json"), stderr)
		rewards, judged = map[string]*float64{}, map[string]bool{}
		for _, e := range readIndex(t, out) {
			require.Equal(t, e.RewardStatus == trajectory.ScoreOK, e.Rewards.Total != nil, e.RolloutID)
			rewards[e.RolloutID] = e.Rewards.Total
			judged[e.RolloutID] = len(e.Verdicts) > 0
		}
		return code, stderr, readSummary(t, out), rewards, judged
	}
	code, stderr, whole, want, affected := run(t, "")
	require.Zero(t, code, stderr)
	require.Len(t, want, 4)
	require.Zero(t, whole.Ledger.Unscored)
	n := 0
	for _, judged := range affected {
		if judged {
			n++
		}
	}
	require.Positive(t, n)
	require.Less(t, n, 4)
	for _, mode := range []string{"never answers", "always errors", "returns rubbish"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			code, stderr, s, got, _ := run(t, mode)
			require.Equal(t, cli.ExitFailed, code, "a run without a judge is no success")
			require.Contains(t, stderr, "the judge fails its canaries")
			require.Contains(t, stderr, fmt.Sprintf("%d of 4 rollouts left unscored", n))
			require.True(t, s.Complete && s.Ledger.Balanced())
			require.Equal(t, n, s.Ledger.Unscored)
			require.Zero(t, s.Ledger.InFlight)
			require.Len(t, got, 4, "what was generated is kept")
			for id, reward := range got {
				if affected[id] {
					require.Nil(t, reward, "%s needs a verdict", id)
				} else {
					require.Equal(t, want[id], reward, "%s: no reward changes", id)
				}
			}
		})
	}
}
