package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/trajectory"
)

func TestNamesSurviveFromCellToCell(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	res := run(t, sess, "def depth(n): return 0 if n == 0 else 1 + depth(n - 1)\nprint(depth(3))")
	require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
	require.Equal(t, "3\n", res.Output)
	res = run(t, sess, "k = 3; print([k * i for i in range(3)])")
	require.Equal(t, "[0, 3, 6]\n", res.Output)
	run(t, sess, "def g(): return k")
	res = run(t, sess, "k = 4\ng()")
	require.Equal(t, "4\n", res.Output)
}
