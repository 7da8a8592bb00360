package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
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

func TestThreadsEndAtTheLimitOfTheSessionsGroup(t *testing.T) {
	t.Parallel()
	s := own(t, func(*Config) {})
	if s.groups == nil {
		t.Skip(s.Stats().Groups)
	}
	s.groups.close()
	var err error
	// Less than RLIMIT_NPROC, so that the group is what ends them.
	s.groups, err = openGroups(Limits{MemoryBytes: 4 << 30, ScratchBytes: 1 << 20, Processes: 10})
	require.NoError(t, err)
	sess := start(t, s, nil)
	res := run(t, sess, "import threading\ne = threading.Event()\nn = 0\nfor _ in range(40):\n    threading.Thread(target=e.wait, daemon=True).start(); n += 1")
	require.Equal(t, "RuntimeError", res.Exception)
	require.Equal(t, "9\n", run(t, sess, "e.set(); n").Output)
}

// version2 makes a group of the test's own in a real version 2 hierarchy, with or without controllers.
func version2(t *testing.T) string {
	t.Helper()
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err != nil {
			continue
		}
		dir, err := os.MkdirTemp(mount, "verigraph-test-")
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() {
			patience.Until(t, "the group is empty", func() bool { return os.Remove(dir) == nil })
		})
		return dir
	}
	t.Skip("no version 2 hierarchy")
	return ""
}

// TestSessionsInARealVersion2HierarchyLeaveNothingInIt is about groups, their kill and their end: limits need controllers.
func TestSessionsInARealVersion2HierarchyLeaveNothingInIt(t *testing.T) {
	t.Parallel()
	dir := version2(t)
	s := own(t, func(*Config) {})
	if s.groups != nil {
		s.groups.close()
	}
	var err error
	s.groups, err = openGroupsBelow(s.cfg.Limits, dir, "0::/\n", nil)
	require.NoError(t, err)
	require.True(t, s.groups.v2)
	base := s.groups.bases[0]
	require.Contains(t, s.groups.about(), "version 2")
	sess := start(t, s, nil)
	require.Contains(t, groupOf(t, sess), filepath.Base(base)+"/s1\n")
	// What a session leaves in its group ends with it.
	cmd := exec.Command("sleep", "600")
	require.NoError(t, cmd.Start())
	require.NoError(t, (&group{dirs: []string{filepath.Join(base, "s1")}}).join(cmd.Process.Pid))
	require.NoError(t, sess.Close())
	require.ErrorContains(t, cmd.Wait(), "signal: killed")
	require.Equal(t, "2\n", run(t, start(t, s, nil), "1 + 1").Output)
	require.NoError(t, s.Close())
	patience.Until(t, "the groups are gone", func() bool { s.groups.close(); _, err := os.Stat(base); return os.IsNotExist(err) })
}

// TestASupervisorInItsOwnVersion2GroupMovesIntoAChild uses the one controller that a mixed host has in version 2, hugetlb.
func TestASupervisorInItsOwnVersion2GroupMovesIntoAChild(t *testing.T) {
	t.Parallel()
	dir := version2(t)
	mount, controllers := filepath.Dir(dir), []string{"hugetlb"}
	if err := allow(mount, controllers); err != nil {
		t.Skip(err)
	}
	// A process of the group and one that it has started.
	join := func() (parent, child int, end func()) {
		cmd := exec.Command("sh", "-c", "sleep 600 & echo $!; wait")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		end = sync.OnceFunc(func() {
			_, _ = cmd.Process.Kill(), syscall.Kill(child, syscall.SIGKILL)
			_ = cmd.Wait()
		})
		t.Cleanup(end)
		_, err = fmt.Fscan(out, &child)
		require.NoError(t, err)
		for _, pid := range []int{child, cmd.Process.Pid} {
			require.NoError(t, (&group{dirs: []string{dir}}).join(pid))
		}
		return cmd.Process.Pid, child, end
	}
	supervisor, started, end := join()
	_, _, endOther := join()
	in := func(pid int) string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		require.NoError(t, err)
		_, at, _ := strings.Cut(string(text), "0::")
		return strings.TrimSpace(at)
	}
	require.ErrorContains(t, delegate(dir, supervisor, controllers), "other processes than this one and what it started are in its group")
	require.Equal(t, "/"+filepath.Base(dir), in(supervisor))
	require.Equal(t, "/"+filepath.Base(dir), in(started))
	endOther()
	patience.Until(t, "the others are gone", func() bool { return len(members(dir)) == 2 })
	require.NoError(t, delegate(dir, supervisor, controllers))
	require.Equal(t, "/"+filepath.Base(dir)+"/verigraph-supervisor", in(supervisor))
	require.Equal(t, "/"+filepath.Base(dir)+"/verigraph-supervisor", in(started))
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	require.NoError(t, err)
	require.Equal(t, "hugetlb\n", string(text))
	end()
	patience.Until(t, "the group is empty", func() bool { return os.Remove(filepath.Join(dir, "verigraph-supervisor")) == nil })
}

// TestTheLimitsOfAVersion2GroupAreWrittenAsTheKernelReadsThem runs on a directory that holds the kernel's files: names and forms are those of
// Documentation/admin-guide/cgroup-v2.rst (a list of controllers separated by blanks; "+name" to enable; sizes in bytes).
func TestTheLimitsOfAVersion2GroupAreWrittenAsTheKernelReadsThem(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "kubepods", "pod1")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte("cpuset cpu io memory hugetlb pids rdma\n"), 0o644))
	l := Limits{MemoryBytes: 1 << 30, ScratchBytes: 256 << 20, Processes: 20}
	g, err := openGroupsBelow(l, root, "0::/kubepods/pod1\n", []string{"memory", "pids"})
	require.NoError(t, err)
	require.True(t, g.v2)
	c, err := g.take()
	require.NoError(t, err)
	require.NoError(t, c.join(4711))
	base := g.bases[0]
	require.Equal(t, dir, filepath.Dir(base))
	for file, want := range map[string]string{
		filepath.Join(dir, "cgroup.subtree_control"): "+memory +pids", filepath.Join(base, "cgroup.subtree_control"): "+memory +pids",
		filepath.Join(base, "s1", "memory.max"): "1409286144", filepath.Join(base, "s1", "pids.max"): "20", filepath.Join(base, "s1", "cgroup.procs"): "4711",
	} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, want, string(text), file)
	}
	// A group without the controllers, and a mixed host whose controllers are in version 1.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte("hugetlb\n"), 0o644))
	_, err = openGroupsBelow(l, root, "0::/kubepods/pod1\n", []string{"memory", "pids"})
	require.ErrorContains(t, err, "no memory and pids controllers here")
	dirs, v2, err := ownGroups(root, "8:pids:/\n4:memory:/a/b\n0::/kubepods/pod1\n", []string{"memory", "pids"})
	require.NoError(t, err)
	require.False(t, v2)
	require.Equal(t, []string{filepath.Join(root, "memory/a/b"), filepath.Join(root, "pids")}, dirs)
}

func groupOf(t *testing.T, sess Session) string {
	t.Helper()
	text, err := os.ReadFile(procDir(sess) + "/cgroup")
	require.NoError(t, err)
	return string(text)
}
