package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// nursery takes in what dead processes of the bed leave behind: this process is the parent of every orphan, so
// that none is overlooked.
type nursery struct {
	own func() map[int]bool // children that are no orphans

	mu      sync.Mutex
	orphans map[int]time.Time // by when they were first seen
	peak    int
}

func newNursery(own func() map[int]bool) (*nursery, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	return &nursery{own: own, orphans: map[int]time.Time{}}, nil
}

// watch looks after the orphans until ctx ends.
func (n *nursery) watch(ctx context.Context) {
	for {
		n.look()
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

func (n *nursery) look() {
	n.mu.Lock()
	defer n.mu.Unlock()
	own, now := n.own(), map[int]bool{}
	for _, pid := range children(os.Getpid()) {
		if own[pid] {
			continue
		}
		now[pid] = true
		if since, known := n.orphans[pid]; !known {
			n.orphans[pid] = time.Now()
		} else if state(pid) == 'Z' && time.Since(since) > time.Second { // not one that os/exec has just started
			var ws syscall.WaitStatus
			_, _ = syscall.Wait4(pid, &ws, syscall.WNOHANG, nil)
		}
	}
	for pid := range n.orphans {
		if !now[pid] {
			delete(n.orphans, pid)
		}
	}
	n.peak = max(n.peak, len(n.orphans))
}

// older lists what has been an orphan for longer than d, with its own children.
func (n *nursery) older(d time.Duration) (out []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for pid, since := range n.orphans {
		if time.Since(since) > d && state(pid) != 'Z' {
			out = append(out, describe(pid))
		}
	}
	return out
}

func describe(pid int) string {
	cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return fmt.Sprintf("process %d %s (%d children)", pid, bytes.ReplaceAll(bytes.TrimRight(cmd, "\x00"), []byte{0}, []byte{' '}), len(children(pid)))
}

// state is the letter of a process's state, 0 where there is none.
func state(pid int) byte {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	rest := data[bytes.LastIndexByte(data, ')')+1:]
	if len(rest) < 2 {
		return 0
	}
	return rest[1]
}

// use is what the processes of the bed hold.
type use struct {
	Descriptors map[string]int `json:"descriptors"`
	Processes   int            `json:"processes"`
	Namespaces  int            `json:"namespaces"`
	Megabytes   map[string]int `json:"resident_mb"`
}

func (b *bed) use() use {
	u := use{Descriptors: map[string]int{}, Megabytes: map[string]int{}}
	spaces := map[string]bool{}
	var visit func(pid int)
	visit = func(pid int) {
		u.Processes++
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/ns/*", pid))
		for _, l := range links {
			if to, err := os.Readlink(l); err == nil {
				spaces[to] = true
			}
		}
		for _, c := range children(pid) {
			visit(c)
		}
	}
	for _, p := range b.all() {
		pid := p.pid()
		if pid == 0 {
			continue
		}
		fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		u.Descriptors[p.name] = len(fds)
		statm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if f := strings.Fields(string(statm)); len(f) > 1 {
			pages, _ := strconv.Atoi(f[1])
			u.Megabytes[p.name] = pages * os.Getpagesize() >> 20
		}
		visit(pid)
	}
	u.Namespaces = len(spaces)
	return u
}

// all are the processes of the bed.
func (b *bed) all() (out []*process) {
	for _, p := range slices.Concat(b.node[:], b.server[:], b.worker[:], []*process{b.trainer}) {
		if p != nil {
			out = append(out, p)
		}
	}
	return out
}

// mounts are those at or below a directory.
func mounts(dir string) (out []string) {
	data, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4]+"/", dir+"/") {
			out = append(out, f[4])
		}
	}
	return out
}

// left is what the processes of the bed left behind after they ended: files in their temporary directory, mounts and
// control groups.
func (b *bed) left() (out []string) {
	tmp := filepath.Join(b.dir, "tmp")
	_ = filepath.WalkDir(tmp, func(path string, _ fs.DirEntry, err error) error {
		if path != tmp && err == nil {
			out = append(out, "file "+strings.TrimPrefix(path, b.dir))
		}
		return nil
	})
	for _, m := range mounts(tmp) {
		out = append(out, "mount "+m)
	}
	pids := map[string]bool{}
	for _, p := range b.worker {
		for _, pid := range p.pids {
			pids[strconv.Itoa(pid)] = true
		}
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "verigraph") {
			for _, part := range strings.FieldsFunc(d.Name(), func(r rune) bool { return r == '-' || r == '.' }) {
				if pids[part] {
					out = append(out, "control group "+path)
					break
				}
			}
		}
		return nil
	})
	return out
}
