package sandbox

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// watchdog keeps the machine or pod from running out of memory: the kernel would then end what it
// likes, this process included. RLIMIT_AS bounds one session; many of them together can still use more than
// there is. Its invariant: while memory is short, one session at a time is killed, the largest, and
// its cell ends as out of memory.
type watchdog struct {
	s *Sandbox
	// headroom is what is left in bytes, and what there is; tests replace it.
	headroom func() (left, total int64)
	// last is the session killed last: what it held must come back before another is judged.
	last *process
	stop context.CancelFunc
	done sync.WaitGroup
}

const (
	watchEvery = 200 * time.Millisecond
	// leastHeadroom is what sessions can write between two looks: four cores that fill pages.
	leastHeadroom = 256 << 20
)

func newWatchdog(ctx context.Context, s *Sandbox, headroom func() (left, total int64)) *watchdog {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &watchdog{s: s, headroom: headroom, stop: stop}
	w.done.Go(func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				w.look()
			}
		}
	})
	return w
}

func (w *watchdog) close() {
	w.stop()
	w.done.Wait()
}

// look kills the largest session when memory is short.
func (w *watchdog) look() {
	if w.last != nil {
		select {
		case <-w.last.exited:
			w.last = nil
		default:
			return
		}
	}
	left, total := w.headroom()
	if left >= min(leastHeadroom, total/8) {
		return
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	var largest *session
	var most int64
	for sess := range w.s.live {
		if used := sess.proc.resident(); used > most {
			largest, most = sess, used
		}
	}
	if largest != nil {
		largest.proc.killForMemory()
		w.last = largest.proc
		w.s.stats.Evicted++
	}
}

// resident is what a process holds in memory that is not a file's, in bytes. Pages that it shares with its
// zygote count, in every session alike.
func (p *process) resident() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.pid))
	if err != nil {
		return 0
	}
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(b), &size, &resident, &shared); err != nil {
		return 0
	}
	return (resident - shared) * int64(os.Getpagesize())
}

// killForMemory is a kill that looks like the kernel's own.
func (p *process) killForMemory() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = p.signal(unix.SIGKILL)
	}
}

// memoryLeft is the smaller of what the machine and what our control group has left.
func memoryLeft() (left, total int64) {
	left, total = machineMemory()
	for _, group := range []struct{ limit, used string }{
		{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
		{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
	} {
		limit, ok := number(group.limit)
		used, known := number(group.used)
		// A limit above the machine's memory is none.
		if ok && known && limit < total && limit-used < left {
			left, total = limit-used, limit
		}
	}
	return left, total
}

func machineMemory() (left, total int64) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 1 << 62, 1 << 62 // nothing known, nothing done
	}
	for line := range strings.Lines(string(b)) {
		var name string
		var kb int64
		if _, err := fmt.Sscan(line, &name, &kb); err != nil {
			continue
		}
		switch name {
		case "MemTotal:":
			total = kb << 10
		case "MemAvailable:":
			left = kb << 10
		}
	}
	return left, total
}

func number(path string) (int64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}
