package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/trajectory"
)

// soakEnv is how many sessions the soak runs; `make soak` asks for 10,000.
const soakEnv = "SANDBOX_SOAK"

// TestSessionsInARowLeaveNothing is not parallel: it counts what the whole process holds. It covers every way in
// which a session ends, and recycled zygotes.
func TestSessionsInARowLeaveNothing(t *testing.T) {
	forked(t)
	n := 150
	if v, err := strconv.Atoi(os.Getenv(soakEnv)); err == nil {
		n = v
	}
	s := zygoteBox(t, func(c *Config) { c.MaxSessions = 4 })
	s.nest.recycle = max(50, n/5)
	data := t.TempDir() + "/a.csv"
	require.NoError(t, os.WriteFile(data, []byte("x\n1\n"), 0o644))
	one := func(i int) {
		sess, err := s.Start(t.Context(), Spec{Files: map[string]string{"a.csv": data}, Seed: int64(i)})
		require.NoError(t, err)
		endings := []string{"open('a.csv').read()", "import os; os._exit(1)", "open('f', 'w').write('x' * 1_000_000)", "import os; os.close(3)"}
		res, err := sess.Run(t.Context(), endings[i%len(endings)], &graph{})
		require.NoError(t, err)
		require.Equal(t, i%2 == 0, res.Status == trajectory.CellOK, res.Status)
		require.NoError(t, sess.Close())
	}
	for i := range 8 {
		one(i)
	}
	fds, kids, mounts, free := descriptors(t), len(children(t)), lines(t, "/proc/self/mounts"), len(s.nest.ids.free)
	dirty := privateDirty(t, s)
	first := currentZygote(s)
	for i := range n {
		one(i)
		if currentZygote(s) == first {
			// The serve loop writes nothing: every page that it wrote would be copied by each session.
			require.InDelta(t, dirty, privateDirty(t, s), 256, "KiB of the zygote after %d sessions", i)
		}
	}
	s.nest.renewals.Wait()
	require.Equal(t, fds, descriptors(t), "descriptors")
	require.Equal(t, kids, len(children(t)), "processes")
	require.Equal(t, mounts, lines(t, "/proc/self/mounts"))
	require.Equal(t, free, len(s.nest.ids.free), "ids")
	require.Equal(t, 0, s.Stats().Live)
	require.Equal(t, int64(0), s.nest.stats.Died)
	require.Positive(t, s.nest.stats.Recycled)
}

// currentZygote is the zygote that forks now; a renewal may replace it at any moment.
func currentZygote(s *Sandbox) *zygote {
	<-s.nest.turn
	defer s.nest.give()
	return s.nest.current
}

// privateDirty is what the zygote alone has written, in KiB.
func privateDirty(t *testing.T, s *Sandbox) int64 {
	t.Helper()
	<-s.nest.turn
	defer s.nest.give()
	var total int64
	for _, line := range lines(t, fmt.Sprintf("/proc/%d/smaps_rollup", s.nest.current.proc.pid)) {
		var kb int64
		if _, err := fmt.Sscanf(line, "Private_Dirty: %d kB", &kb); err == nil {
			total += kb
		}
	}
	return total
}
