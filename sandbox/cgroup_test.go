package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/trajectory"
)

func TestASessionHasAControlGroupOfItsOwnAndLeavesNone(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.Groups = GroupsOwn
	cfg.Limits.MemoryBytes, cfg.Limits.Processes = 1<<30, 20
	s, err := New(cfg)
	require.NoError(t, err)
	if s.groups == nil {
		require.Contains(t, s.Stats().Groups, "none: cgroups: ")
		require.NoError(t, s.Close())
		t.Skip(s.Stats().Groups)
	}
	bases := s.groups.bases
	a, b := start(t, s, nil), start(t, s, nil)
	require.NotEqual(t, groupOf(t, a), groupOf(t, b))
	for _, base := range bases {
		for _, sess := range []Session{a, b} {
			require.Contains(t, groupOf(t, sess), filepath.Base(base))
		}
	}
	read := func(name string) string {
		for _, base := range bases {
			if text, err := os.ReadFile(filepath.Join(base, "s1", name)); err == nil {
				return strings.TrimSpace(string(text))
			}
		}
		return ""
	}
	require.Contains(t, []string{read("memory.max"), read("memory.limit_in_bytes")}, "1342177280")
	require.Equal(t, "20", read("pids.max"))
	require.NoError(t, a.Close())
	// An ended session's group serves the next one.
	require.Equal(t, trajectory.CellOK, run(t, start(t, s, nil), "1").Status)
	require.NoError(t, s.Close())
	for _, base := range bases {
		require.NoDirExists(t, base)
	}
}

func TestWithoutWritableGroupsSessionsStartAndTheReasonIsSaid(t *testing.T) {
	t.Parallel()
	require.Equal(t, "off", box(t).Stats().Groups)
	_, err := (&groups{bases: []string{"/proc"}}).take()
	require.ErrorContains(t, err, "cgroups: ")
}

func groupOf(t *testing.T, sess Session) string {
	t.Helper()
	text, err := os.ReadFile(procDir(sess) + "/cgroup")
	require.NoError(t, err)
	return string(text)
}
