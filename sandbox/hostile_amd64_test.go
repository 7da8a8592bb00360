package sandbox

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/trajectory"
)

func TestCallsOfAForeignArchitectureKill(t *testing.T) {
	t.Parallel()
	// getpid through int 0x80, which a filter of 64-bit numbers does not see.
	code := "import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7)\nm.write(bytes.fromhex('b814000000cd80c3'))\n" +
		"f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\nprint(f())"
	sess := start(t, box(t), nil)
	if insideGVisor() {
		// There it is a 64-bit call if it is one at all, and the filter sees it: socket (41), not permitted or not there.
		code = strings.Replace(code, "b814", "b829", 1)
		code = strings.Replace(code, "f())", "f(1, 1, 0))", 1)
		require.Contains(t, []string{"-1\n", "-38\n"}, run(t, sess, code).Output)
		return
	}
	lost(t, sess, code, trajectory.CellDied)
	ws, ok := sess.(*session).proc.state.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGSYS, ws.Signal())
}
