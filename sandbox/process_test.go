package sandbox

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/verigraph/verigraph/internal/patience"
)

func TestWithoutAPidfdAProcessIsSignalledAndReapedToo(t *testing.T) {
	t.Parallel()
	begin := func(command string) *process {
		proc, err := os.StartProcess("/bin/sh", []string{"sh", "-c", command}, &os.ProcAttr{})
		require.NoError(t, err)
		p, err := watch(proc, -1, false)
		require.NoError(t, err)
		return p
	}
	p := begin("exit 3")
	patience.Receive(t, p.exited, "the end of the process")
	require.NoError(t, p.err)
	require.Equal(t, 3, p.state.ExitCode())
	require.False(t, exists(p.pid))
	p.kill() // nobody
	require.False(t, p.killedByUs())
	require.False(t, p.interrupt())

	p = begin("exec sleep 600")
	require.True(t, p.interrupt())
	patience.Receive(t, p.exited, "the end of the process")
	require.Equal(t, unix.SIGXCPU, p.state.Sys().(syscall.WaitStatus).Signal())

	p = begin("exec sleep 600")
	p.kill()
	patience.Receive(t, p.exited, "the end of the process")
	require.True(t, p.killedByUs())
	require.Equal(t, syscall.SIGKILL, p.state.Sys().(syscall.WaitStatus).Signal())
}
