package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/trajectory"
)

func TestASessionHasAControlGroupOfItsOwnAndLeavesNone(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.Groups = GroupsAuto
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
	require.Contains(t, []string{read("memory.max"), read("memory.limit_in_bytes")}, "1409286144")
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
	off := own(t, func(c *Config) { c.Groups = GroupsOff })
	require.Equal(t, "off", off.Stats().Groups)
	require.Nil(t, off.groups)
	require.Regexp(t, `^(none: cgroups: |memory and processes \(version [12], below /)`, box(t).Stats().Groups)
	_, err := (&groups{bases: []string{"/proc"}}).take()
	require.ErrorContains(t, err, "cgroups: ")
}

func TestASessionThatOutgrowsItsGroupEndsAndNoOther(t *testing.T) {
	t.Parallel()
	s := own(t, func(*Config) {})
	if s.groups == nil {
		t.Skip(s.Stats().Groups)
	}
	s.groups.close()
	var err error
	// Less than the address space, so that the group is what ends it.
	s.groups, err = openGroups(Limits{MemoryBytes: 160 << 20, ScratchBytes: 1 << 20, Processes: 64})
	require.NoError(t, err)
	bystander, hog := start(t, s, nil), start(t, s, nil)
	run(t, bystander, "x = 1")
	lost(t, hog, "b = bytearray(b'x') * (600 << 20)", trajectory.CellMemory)
	require.Equal(t, "1\n", run(t, bystander, "x").Output)
	require.Equal(t, "2\n", run(t, start(t, s, nil), "1 + 1").Output)
}

// TestWhatIsLeftInAVersion2GroupIsKilled needs a version 2 hierarchy, with or without controllers.
func TestWhatIsLeftInAVersion2GroupIsKilled(t *testing.T) {
	t.Parallel()
	var dir string
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err != nil {
			continue
		}
		made, err := os.MkdirTemp(mount, "verigraph-test-")
		if err != nil {
			t.Skip(err)
		}
		dir = made
	}
	if dir == "" {
		t.Skip("no version 2 hierarchy")
	}
	defer func() {
		patience.Until(t, "the group is empty", func() bool { return os.Remove(dir) == nil })
	}()
	cmd := exec.Command("sleep", "600")
	require.NoError(t, cmd.Start())
	c := &group{dirs: []string{dir}}
	require.NoError(t, c.join(cmd.Process.Pid))
	(&groups{v2: true}).give(c)
	require.ErrorContains(t, cmd.Wait(), "signal: killed")
}

func groupOf(t *testing.T, sess Session) string {
	t.Helper()
	text, err := os.ReadFile(procDir(sess) + "/cgroup")
	require.NoError(t, err)
	return string(text)
}
