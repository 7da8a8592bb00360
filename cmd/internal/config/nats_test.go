package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/config"
)

func TestLimitsThatWouldStopTheLineAreRefused(t *testing.T) {
	t.Parallel()
	c := config.Defaults()
	c.Blob, c.Policy.BaseURL, c.Policy.Tokenizer, c.Policy.Model = t.TempDir(), "http://127.0.0.1:1", "x", "m"
	c.NATS.MaxAckPending, c.Worker.Groups = 32, 33
	c.Resolve()
	require.ErrorContains(t, c.ValidateWorker(), "nats.max_ack_pending: 32 is below worker.groups 33")
	require.ErrorContains(t, c.ValidateReward(), "nats.max_ack_pending: 32 is below the 64 groups of leader.max_groups or reward.groups")
	c.NATS.MaxAckPending = 64
	require.NoError(t, c.ValidateWorker())
	require.NoError(t, c.ValidateReward())
	c.NATS.Replicas, c.NATS.MaxBytes, c.NATS.Storage = 2, map[string]int64{"PROMTS": 1 << 20, "LEDGER": 100}, "disk"
	err := c.ValidateReward()
	for _, want := range []string{"nats.replicas: 2", `nats.max_bytes: no stream is called "PROMTS"`, "nats.max_bytes.LEDGER: 100", `nats.storage: "disk"`} {
		require.ErrorContains(t, err, want)
	}
}
