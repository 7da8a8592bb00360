package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// GroupsAuto makes a control group for every session below the one that this process is in where that can be written,
// GroupsOwn refuses to start without; GroupsOff makes none.
const (
	GroupsAuto = "auto"
	GroupsOwn  = "own"
	GroupsOff  = "off"
)

// bornWith is room in a group for what the address space does not count anew: inherited pages that are written, page
// tables. A cell must meet its MemoryError first, since its namespace then lives.
const bornWith = 64 << 20

// groups are the control groups of a sandbox's sessions. They are made ahead and used again: an empty group is as
// good as a new one, and to make one costs a session more than to join it. Its invariant: a live session is alone in
// its group.
type groups struct {
	limits Limits
	// bases are our directories, one for each hierarchy: one in version 2, one for each controller in version 1.
	bases []string
	v2    bool
	// controllers limit: memory and pids.
	controllers []string

	mu   sync.Mutex
	free []*group
	made int
}

// group is the control group of one session: a directory in each hierarchy.
type group struct{ dirs []string }

// openGroups makes the parent of all groups and one group, to see that limits can be set.
func openGroups(l Limits) (_ *groups, err error) {
	about, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("cgroups: %w", err)
	}
	return openGroupsBelow(l, "/sys/fs/cgroup", string(about), []string{"memory", "pids"})
}

// openGroupsBelow is openGroups where the hierarchies are mounted below root and about is what the kernel says of our groups.
func openGroupsBelow(l Limits, root, about string, controllers []string) (_ *groups, err error) {
	g := &groups{limits: l, controllers: controllers}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	parents, v2, err := ownGroups(root, about, controllers)
	if err != nil {
		return nil, fmt.Errorf("cgroups: %w", err)
	}
	g.v2 = v2
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil, fmt.Errorf("cgroups: %w", err)
	}
	for _, parent := range parents {
		sweep(parent, space)
		if v2 {
			if err := delegate(parent, os.Getpid(), controllers); err != nil {
				return nil, fmt.Errorf("cgroups: %w", err)
			}
		}
		base, err := os.MkdirTemp(parent, groupPrefix(space, os.Getpid()))
		if err != nil {
			return nil, fmt.Errorf("cgroups: %w", err)
		}
		g.bases = append(g.bases, base)
		if v2 {
			if err := allow(base, controllers); err != nil {
				return nil, fmt.Errorf("cgroups: %w", err)
			}
		}
	}
	first, err := g.take()
	if err != nil {
		return nil, err
	}
	g.give(first)
	return g, nil
}

// ownGroups are the directories of this process's group, with the controllers.
func ownGroups(root, about string, controllers []string) (dirs []string, v2 bool, err error) {
	v1 := map[string]string{}
	for line := range strings.Lines(about) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		if part[1] == "" {
			for _, mount := range []string{root, filepath.Join(root, "unified")} {
				have, err := os.ReadFile(filepath.Join(mount, part[2], "cgroup.controllers"))
				if err == nil && holdsAll(strings.Fields(string(have)), controllers) {
					return []string{filepath.Join(mount, part[2])}, true, nil
				}
			}
			continue
		}
		for _, c := range strings.Split(part[1], ",") {
			v1[c] = filepath.Join(root, c, part[2])
		}
	}
	for _, c := range controllers {
		if v1[c] == "" {
			return nil, false, fmt.Errorf("no %s controllers here", strings.Join(controllers, " and "))
		}
		dirs = append(dirs, v1[c])
	}
	return dirs, false, nil
}

func holdsAll(have, want []string) bool {
	return !slices.ContainsFunc(want, func(c string) bool { return !slices.Contains(have, c) })
}

// delegate lets the children of a version 2 group have limits. A group that holds processes itself can't: then we, self, and what we
// have started move into a child of it. Other processes in the group are not ours to move.
func delegate(dir string, self int, controllers []string) error {
	err := allow(dir, controllers)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	own := filepath.Join(dir, "verigraph-supervisor")
	if err := os.Mkdir(own, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	there, back := group{dirs: []string{own}}, group{dirs: []string{dir}}
	if err := there.join(self); err != nil {
		return err
	}
	var moved []int
	// What a process starts before it is moved itself is in the next round; what we start from here on is born in the child.
	for range 10 {
		if err = allow(dir, controllers); err == nil {
			return nil
		}
		for _, pid := range members(dir) {
			if startedBy(pid, self) && there.join(pid) == nil {
				moved = append(moved, pid)
			}
		}
	}
	for _, pid := range append(moved, self) {
		_ = back.join(pid) // one that has ended stays away
	}
	_ = unix.Rmdir(own)
	return fmt.Errorf("other processes than this one and what it started are in its group: %w", err)
}

// members are the processes in a group.
func members(dir string) (pids []int) {
	text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for _, f := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(f); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// startedBy reports whether a process is below another in the tree of processes.
func startedBy(pid, ancestor int) bool {
	for pid > 1 && pid != ancestor {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		// The name in brackets may hold anything: the state and the parent follow its last one.
		at := strings.LastIndexByte(string(text), ')')
		if err != nil || at < 0 {
			return false
		}
		parent := 0
		if _, err := fmt.Sscan(string(text[at+3:]), &parent); err != nil {
			return false
		}
		pid = parent
	}
	return pid == ancestor
}

// allow lets the children of a version 2 group have limits.
func allow(dir string, controllers []string) error {
	if len(controllers) == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+strings.Join(controllers, " +")), 0o644)
}

// groupPrefix names the groups of one process; numbers of processes mean something in their pid namespace only.
func groupPrefix(space string, pid int) string {
	return fmt.Sprintf("verigraph-%s-%d-", strings.Trim(space, "pid:[]"), pid)
}

// sweep removes the groups of supervisors that were killed. A group with a process in it can't be removed.
func sweep(parent, space string) {
	left, _ := filepath.Glob(filepath.Join(parent, groupPrefix(space, 0)[:len(groupPrefix(space, 0))-2]+"*"))
	for _, base := range left {
		fields := strings.Split(filepath.Base(base), "-")
		pid, err := strconv.Atoi(fields[2])
		if err != nil || unix.Kill(pid, 0) != unix.ESRCH {
			continue
		}
		removeGroup(base)
	}
}

// removeGroup removes a group and its children; only directories can be removed there.
func removeGroup(base string) {
	children, _ := filepath.Glob(filepath.Join(base, "s*"))
	for _, c := range children {
		_ = unix.Rmdir(c)
	}
	_ = unix.Rmdir(base)
}

// about says what is limited, and where.
func (g *groups) about() string {
	version := 1
	if g.v2 {
		version = 2
	}
	return fmt.Sprintf("memory and processes (version %d, below %s)", version, filepath.Dir(g.bases[0]))
}

// take returns an empty group with the limits.
func (g *groups) take() (*group, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.free); n > 0 {
		last := g.free[n-1]
		g.free = g.free[:n-1]
		return last, nil
	}
	g.made++
	c := &group{}
	for _, base := range g.bases {
		dir := filepath.Join(base, "s"+strconv.Itoa(g.made))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, fmt.Errorf("cgroups: %w", err)
		}
		c.dirs = append(c.dirs, dir)
	}
	memory := strconv.FormatInt(g.limits.MemoryBytes+g.limits.ScratchBytes+bornWith, 10)
	limits := map[string][2]string{"memory": {"memory.limit_in_bytes", memory}, "pids": {"pids.max", strconv.Itoa(g.limits.Processes)}}
	if g.v2 {
		limits["memory"] = [2]string{"memory.max", memory}
	}
	for i, controller := range g.controllers {
		f, known := limits[controller]
		if !known {
			continue
		}
		if err := os.WriteFile(filepath.Join(c.dirs[i%len(c.dirs)], f[0]), []byte(f[1]), 0o644); err != nil {
			return nil, fmt.Errorf("cgroups: %w", err)
		}
	}
	return c, nil
}

// join puts a process that has not run model code yet into the group.
func (c *group) join(pid int) error {
	for _, dir := range c.dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("cgroups: %w", err)
		}
	}
	return nil
}

// give ends whatever is left in a group and keeps it for the next session.
func (g *groups) give(c *group) {
	if g.v2 {
		_ = os.WriteFile(filepath.Join(c.dirs[0], "cgroup.kill"), []byte("1"), 0)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free = append(g.free, c)
}

func (g *groups) close() {
	for _, base := range g.bases {
		removeGroup(base)
	}
}
