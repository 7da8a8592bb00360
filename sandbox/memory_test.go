package sandbox

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

func TestWhenMemoryIsShortTheLargestSessionAloneIsEnded(t *testing.T) {
	t.Parallel()
	s := own(t, func(*Config) {})
	var left atomic.Int64
	left.Store(1 << 40)
	w := newWatchdog(t.Context(), s, func() (int64, int64) { return left.Swap(1 << 40), 1 << 40 })
	t.Cleanup(w.close)
	quiet, large := start(t, s, nil), start(t, s, nil)
	require.Equal(t, trajectory.CellOK, run(t, quiet, "x = 1").Status)
	g := &graph{}
	g.onReport = func(r evidence.Report) {
		if r.Index == 1 {
			left.Store(1 << 20)
		}
	}
	res := runWith(t, large, "big = bytearray(64 << 20)\nprint('before')\nwhile True: pass", g)
	require.Equal(t, trajectory.CellMemory, res.Status)
	require.True(t, res.NamespaceLost)
	require.Equal(t, "before\n", res.Output)
	require.Equal(t, int64(1), s.Stats().Evicted)
	require.Equal(t, "2\n", run(t, quiet, "x + 1").Output)
}

func TestThereIsMemoryLeft(t *testing.T) {
	t.Parallel()
	left, total := memoryLeft()
	require.Positive(t, left)
	require.Less(t, left, total)
}
