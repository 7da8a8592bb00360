package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is one session's process. It is signalled through its pidfd, and never after it was reaped, so that a
// signal can't reach another process that got the number.
type process struct {
	pid int
	// pidfd is nil on a kernel without them (see Stats.Signals).
	pidfd *os.File
	proc  *os.Process
	// exited is closed once the process is reaped; state and err are set before.
	exited chan struct{}
	state  *os.ProcessState
	err    error

	mu     sync.Mutex
	reaped bool
	// killed: we sent the signal.
	killed bool
	// group: there is no pid namespace, so that children have to be killed by their group.
	group bool
}

// spawner starts all processes from one OS thread that lives as long as the Sandbox: the kernel
// sends the parent-death signal when the starting *thread* ends, and the Go runtime may end others.
type spawner struct {
	requests chan func()
	done     chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func()), done: make(chan struct{})}
	go func() {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		defer close(s.done)
		for f := range s.requests {
			f()
		}
	}()
	return s
}

// close ends the thread, and with it every process that is still there.
func (s *spawner) close() {
	close(s.requests)
	<-s.done
}

// ownNamespaces are those of a fresh session, sharedNamespaces those that a zygote and its sessions share.
const (
	sharedNamespaces = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC |
		syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP
	ownNamespaces = sharedNamespaces | syscall.CLONE_NEWPID
)

// absentNamespaces are those that the tier's kernel has not.
func (t Tier) absentNamespaces() uintptr {
	if t.sentry() {
		return syscall.CLONE_NEWCGROUP
	}
	return 0
}

// spawn starts an init in new namespaces: this program again, with files as descriptors 1, 2 and 3.
// With group its children are killed with it as its process group.
func (s *spawner) spawn(namespaces uintptr, group bool, ids idMapping, out, control *os.File) (*process, error) {
	devnull, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer devnull.Close()
	pidfd := -1
	// The init asks for the signal at our death itself: package syscall would compare its parent's number with ours, which is
	// another one in a new pid namespace, and have it kill itself, to which process 1 is immune under Linux and not under gVisor.
	attr := &syscall.SysProcAttr{PidFD: &pidfd, Setsid: true}
	if namespaces != 0 {
		attr.Cloneflags = namespaces
		attr.UidMappings, attr.GidMappings = ids.uids, ids.gids
		attr.GidMappingsEnableSetgroups = ids.switches
	}
	var proc *os.Process
	started := make(chan struct{})
	s.requests <- func() {
		defer close(started)
		proc, err = os.StartProcess("/proc/self/exe", []string{initMarker}, &os.ProcAttr{
			Env: []string{}, Files: []*os.File{devnull, out, out, control}, Sys: attr,
		})
	}
	<-started
	if err != nil {
		return nil, err
	}
	return watch(proc, pidfd, group)
}

// hasPidfd reports whether the kernel gives pidfds.
func hasPidfd() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

// watch reaps proc when it ends, without holding a thread for it; without a pidfd (-1) it holds one.
func watch(proc *os.Process, pidfd int, group bool) (*process, error) {
	if pidfd < 0 {
		p := &process{pid: proc.Pid, proc: proc, exited: make(chan struct{}), group: group}
		go func() {
			// It stays a zombie, and its number its own, until reap.
			for unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
				continue
			}
			p.reap()
		}()
		return p, nil
	}
	err := unix.SetNonblock(pidfd, true)
	p := &process{pid: proc.Pid, proc: proc, exited: make(chan struct{}), group: group}
	p.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	if err != nil {
		p.kill()
		p.reap()
		return nil, fmt.Errorf("pidfd: %w", err)
	}
	go func() {
		if rc, err := p.pidfd.SyscallConn(); err == nil {
			// A pidfd is readable when its process has ended.
			_ = rc.Read(func(fd uintptr) bool {
				poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
				n, err := unix.Poll(poll, 0)
				return n > 0 || (err != nil && err != unix.EINTR)
			})
		}
		p.reap()
	}()
	return p, nil
}

func (p *process) reap() {
	p.mu.Lock()
	p.reaped = true
	p.mu.Unlock()
	p.state, p.err = p.proc.Wait()
	if p.pidfd != nil {
		p.pidfd.Close()
	}
	close(p.exited)
}

// kill sends SIGKILL; to an ended process it does nothing.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	p.killed = true
	_ = p.signal(unix.SIGKILL)
	if p.group {
		// Without a pid namespace children survive their parent; it is not reaped yet, so
		// the number is still its own.
		_ = unix.Kill(-p.pid, unix.SIGKILL)
	}
}

// signal sends to a process that is not reaped; the caller holds mu.
func (p *process) signal(s unix.Signal) error {
	if p.pidfd == nil {
		return unix.Kill(p.pid, s)
	}
	rc, err := p.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	if outer := rc.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), s, nil, 0) }); outer != nil {
		return outer
	}
	return err
}

// cpu is the process's CPU time so far.
func (p *process) cpu() time.Duration {
	select {
	case <-p.exited:
		if p.state == nil {
			return 0
		}
		return p.state.UserTime() + p.state.SystemTime()
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return 0
	}
	// The clock of another process, as clock_getcpuclockid(3) computes it.
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^p.pid<<3|2), &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// killedByUs reports whether kill sent its signal.
func (p *process) killedByUs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// killedByKernel reports whether an ended process was killed by a SIGKILL that we did not send.
func (p *process) killedByKernel() bool {
	if p.state == nil || p.killedByUs() {
		return false
	}
	ws, ok := p.state.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}
