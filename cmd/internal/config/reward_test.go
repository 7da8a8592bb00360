package config_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/config"
)

func TestFurtherJudgesAreCompletedByTheFirst(t *testing.T) {
	t.Setenv("VERIGRAPH_TEST_KEY", "hunter2")
	f := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(f, []byte(`
reward:
  judge: openai
  openai: {base_url: "http://a/v1", model: a, api_key_env: VERIGRAPH_TEST_KEY, timeout: 30s}
  judges: [{model: b}, {base_url: "http://c/v1", model: c, concurrency: 2}]
  rollout_deadline: 15m
`), 0o600))
	c, err := config.Load(f)
	require.NoError(t, err)
	c.Blob = "out"
	c.Resolve()
	require.NoError(t, c.ValidateReward())
	panel := c.Reward.Panel()
	require.Len(t, panel, 3)
	require.Equal(t, "http://a/v1", panel[1].BaseURL)
	require.Equal(t, "VERIGRAPH_TEST_KEY", panel[1].APIKeyEnv)
	require.Equal(t, 30*time.Second, panel[2].Timeout)
	require.Equal(t, 2, panel[2].Concurrency)
	require.Empty(t, panel[2].APIKeyEnv, "a key goes to the address that it was set for")
	require.Equal(t, 15*time.Minute, c.Reward.RolloutDeadline)
}
