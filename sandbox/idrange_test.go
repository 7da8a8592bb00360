package sandbox

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestTwoSupervisorsOfOneHostNeverShareARangeOfIDs(t *testing.T) {
	t.Parallel()
	if !box(t).ranged {
		t.Skip("sessions have our own id")
	}
	// A lock of another open file is what another process would see.
	_, err := lockRange(hostIDs.index)
	require.ErrorIs(t, err, unix.EWOULDBLOCK)
	other, err := lockRange(idRanges - 1)
	require.NoError(t, err)
	defer other.Close()
	_, err = lockRange(idRanges - 1)
	require.ErrorIs(t, err, unix.EWOULDBLOCK)
	require.ErrorContains(t, reserveIDs(idRanges-1), "this process has range")
}

func TestLiveSessionsOfAllSandboxesHaveDifferentIDs(t *testing.T) {
	t.Parallel()
	if !box(t).ranged {
		t.Skip("sessions have our own id")
	}
	seen := map[uint32]bool{}
	fresh := own(t, func(c *Config) { c.Engine = EngineFresh })
	for _, s := range []*Sandbox{box(t), fresh, box(t), fresh} {
		sess := start(t, s, nil)
		var st unix.Stat_t
		require.NoError(t, unix.Stat(procDir(sess), &st))
		require.GreaterOrEqual(t, int(st.Uid), firstHostID())
		require.Less(t, int(st.Uid), firstHostID()+zygoteIDs)
		require.False(t, seen[st.Uid], st.Uid)
		seen[st.Uid] = true
	}
}

func TestTenantsDoNotShareAZygote(t *testing.T) {
	t.Parallel()
	forked(t)
	a, b := zygoteBox(t, func(c *Config) { c.Tenant = "a" }), zygoteBox(t, func(c *Config) { c.Tenant = "b" })
	require.NotSame(t, a.nest, b.nest)
}

func procDir(sess Session) string { return fmt.Sprintf("/proc/%d", sess.(*session).proc.pid) }
