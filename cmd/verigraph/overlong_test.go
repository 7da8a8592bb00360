package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset"
)

// overlongRun plays two questions with an owner of the overlong rule and returns the batches by rollout.
func overlongRun(t *testing.T, owner string, longest, buffer int) (dataset.Meta, map[string]dataset.Row) {
	t.Helper()
	dir := t.TempDir()
	preset, err := os.ReadFile(root + "configs/reward/default.yaml")
	require.NoError(t, err)
	rule := fmt.Sprintf("overlong: {owner: %s, max_response_length: %d, buffer: %d, penalty_factor: 0.5}", owner, longest, buffer)
	preset = regexp.MustCompile(`(?m)^overlong:.*$`).ReplaceAll(preset, []byte(rule))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "preset.yaml"), preset, 0o600))
	cfg := "reward:\n  preset: " + filepath.Join(dir, "preset.yaml") + "\n  judge: rules\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(cfg), 0o600))
	out := filepath.Join(dir, "out")
	code, stdout, stderr := verigraph(t, dabenchArgs(out, root+"examples/dabench/script.jsonl", "--limit", "2",
		"--config", filepath.Join(dir, "config.yaml"))...)
	require.Zero(t, code, stderr+stdout)
	metas, rows := readRows(t, out)
	byRollout := map[string]dataset.Row{}
	for _, r := range rows {
		byRollout[fmt.Sprint(r.PromptID, "/", r.SessionID)] = r
	}
	require.Len(t, byRollout, len(rows), "one row a rollout")
	return metas[0], byRollout
}

func TestExactlyTheOwnerOfTheOverlongRuleApplies(t *testing.T) {
	t.Parallel()
	trainer, plain := overlongRun(t, "trainer", 0, 0)
	require.Equal(t, dataset.OverlongTrainer, trainer.OverlongOwner)
	shortest, longest := 1<<30, 0
	for _, r := range plain {
		require.Zero(t, r.OverlongReward)
		require.InDelta(t, r.SeqReward, r.Reward, 0, "the trainer's rule is not in the reward")
		shortest, longest = min(shortest, len(r.ResponseIDs)), max(longest, len(r.ResponseIDs))
	}
	require.Less(t, shortest, longest)

	// The window begins with the shortest response and ends with the longest.
	server, shaped := overlongRun(t, "server", longest, longest-shortest)
	require.Equal(t, dataset.OverlongReward, server.OverlongOwner)
	require.Len(t, shaped, len(plain))
	ends := map[float32]bool{}
	for key, r := range shaped {
		require.Equal(t, plain[key].ResponseIDs, r.ResponseIDs, key)
		want := -0.5 * float64(len(r.ResponseIDs)-shortest) / float64(longest-shortest)
		require.InDelta(t, want, r.OverlongReward, 1e-6, key)
		require.InDelta(t, float64(plain[key].Reward)+want, r.Reward, 1e-6, "applied once: %s", key)
		require.InDelta(t, plain[key].SeqReward, r.SeqReward, 1e-6, key)
		ends[r.OverlongReward] = true
	}
	require.True(t, ends[0] && ends[-0.5], "both ends of the window: %v", ends)
}
