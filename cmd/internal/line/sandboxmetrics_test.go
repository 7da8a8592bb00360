package line

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox"
)

// Real sessions end for each reason that model code and a stop can give.
func TestSessionsThatEndInACellAreCountedByReason(t *testing.T) {
	t.Parallel()
	cfg := sandbox.Defaults()
	cfg.Python, cfg.MinTier, cfg.Preload = "../../../.venv/sandbox/bin/python", sandbox.TierNone, []string{"json"}
	cfg.Limits.CellWall, cfg.Limits.Grace = time.Second, 100*time.Millisecond
	box, err := sandbox.New(cfg)
	require.NoError(t, err)
	defer box.Close()
	m := newWorkerMetrics(box, nil)
	counted := countedSandbox{box, m.kills}
	run := func(ctx context.Context, code string) {
		s, err := counted.Start(t.Context(), sandbox.Spec{})
		require.NoError(t, err)
		defer s.Close()
		_, _ = s.Run(ctx, code, evidence.New(evidence.Task{}, evidence.Config{}).Begin(1, code, evidence.Analysis{}))
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	run(t.Context(), "1 + 1")
	run(t.Context(), "1 / 0")
	run(t.Context(), "import os; os._exit(3)")
	run(t.Context(), "sum(range(10**12))") // no signal interrupts it
	run(canceled, "1")
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(m.kills))
	families, err := registry.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, series := range families[0].GetMetric() {
		got[series.GetLabel()[0].GetValue()] = series.GetCounter().GetValue()
	}
	require.Equal(t, map[string]float64{killDied: 1, killTimeout: 1, killCanceled: 1, killMemory: 0, killLost: 0}, got)
}
