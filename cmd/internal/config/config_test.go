package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/rollout"
)

func TestDefaultsValidateWithAnEndpointAndAStore(t *testing.T) {
	t.Parallel()
	c := config.Defaults()
	c.Blob, c.Policy.BaseURL, c.Policy.Model, c.Policy.Tokenizer = "out", "http://127.0.0.1:8000", "m", "dir"
	c.Resolve()
	require.NoError(t, c.ValidateWorker())
	require.NoError(t, c.ValidateReward())
	require.ErrorContains(t, c.External(), "nats.url")
}

func TestEveryShippedConfigurationParsesAndValidates(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../configs/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, f := range files {
		c, err := config.Load(f)
		require.NoError(t, err, f)
		c.Resolve()
		switch filepath.Base(f) {
		case "rollout-worker.yaml":
			require.NoError(t, errors.Join(c.ValidateWorker(), c.External()), f)
		case "reward-server.yaml":
			require.NoError(t, errors.Join(c.ValidateReward(), c.External()), f)
		case "local.yaml":
			c.Blob = "out"
			require.NoError(t, c.ValidateReward(), f)
		}
	}
}

// Each testdata/*.bad.yaml starts with "# want: TEXT" lines that its error must hold.
func TestEveryBadConfigurationFailsWithItsListedMessages(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.bad.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		c, err := config.Load(f)
		if err == nil {
			c.Resolve()
			err = errors.Join(c.ValidateWorker(), c.ValidateReward())
		}
		require.Error(t, err, f)
		wants := 0
		for line := range strings.Lines(string(data)) {
			if want, ok := strings.CutPrefix(line, "# want: "); ok {
				require.ErrorContains(t, err, strings.TrimSpace(want), f)
				wants++
			}
		}
		require.Positive(t, wants, f)
	}
}

func TestACompressedContextNeedsATrainerThatTakesOneRowPerSegment(t *testing.T) {
	t.Parallel()
	c := config.Defaults()
	c.Blob, c.Policy.BaseURL, c.Policy.Model, c.Policy.Tokenizer = "out", "http://127.0.0.1:8000", "m", "dir"
	c.Rollout.Context = rollout.ContextCompress
	c.Resolve()
	require.ErrorContains(t, c.ValidateWorker(), "trainer.contract")
	require.True(t, c.Leader.OneRow, "the leader refuses such rollouts of a worker that was not told")
	c.Trainer.Contract = config.ContractSegments
	c.Resolve()
	require.NoError(t, c.ValidateWorker())
	require.False(t, c.Leader.OneRow)
}

func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	f := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(f, []byte("policy: {api_key: hunter2, headers: {X-Key: hunter3}}\n"), 0o600))
	c, err := config.Load(f)
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", c, c, c), "hunter")
	require.Equal(t, "hunter2", c.Policy.APIKey.Reveal())
}
