package jetstream_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/verdicts/storetest"
)

func TestVerdictBucketKeepsVerdictsForAllReplicas(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) (a, b reward.Store) {
		f := open(t, jetstream.Defaults())
		x, err := f.bus.OpenVerdicts(t.Context())
		require.NoError(t, err)
		y, err := f.bus.OpenVerdicts(t.Context())
		require.NoError(t, err)
		return x, y
	})
}
