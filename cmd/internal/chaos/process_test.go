package chaos

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is a part of the bed, started again a second after it ends, as a supervisor sees to.
type process struct {
	name string
	path string
	args []string
	env  []string
	said func(line string) // every line of its log

	file *os.File
	done chan struct{}
	stop chan struct{}

	mu       sync.Mutex
	line     []byte
	tail     []string // the last lines
	cmd      *exec.Cmd
	pids     []int
	killed   map[int]time.Time // by pid
	deaths   []string          // that nobody caused
	complete bool              // it ended with success and is not started again
}

const tailLines = 30

func start(t testing.TB, p *process, log string) *process {
	t.Helper()
	var err error
	p.file, err = os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	p.done, p.stop, p.killed = make(chan struct{}), make(chan struct{}), map[int]time.Time{}
	go p.supervise()
	t.Cleanup(func() {
		p.end(syscall.SIGKILL, time.Minute)
		_ = p.file.Close()
	})
	return p
}

func (p *process) supervise() {
	defer close(p.done)
	for {
		cmd := exec.Command(p.path, p.args...)
		cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.Env, cmd.WaitDelay = p, p, root, append(os.Environ(), p.env...), 2*time.Second
		p.mu.Lock()
		select {
		case <-p.stop:
			p.mu.Unlock()
			return
		default:
		}
		err := cmd.Start()
		if err == nil {
			p.cmd = cmd
			p.pids = append(p.pids, cmd.Process.Pid)
		}
		p.mu.Unlock()
		if err == nil {
			err = cmd.Wait()
		}
		if p.ended(cmd, err) {
			return
		}
		select {
		case <-p.stop:
			return
		case <-time.After(time.Second):
		}
	}
}

// ended books the end of a life.
func (p *process) ended(cmd *exec.Cmd, err error) (complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd = nil
	select {
	case <-p.stop:
		return true
	default:
	}
	if cmd.Process != nil && !p.killed[cmd.Process.Pid].IsZero() {
		return false
	}
	if p.complete = err == nil; !p.complete {
		last := ""
		if len(p.tail) > 0 {
			last = p.tail[len(p.tail)-1]
		}
		p.deaths = append(p.deaths, fmt.Sprintf("%s %s ended: %v: %s", time.Now().UTC().Format(time.TimeOnly), p.name, err, last))
	}
	return p.complete
}

// Write takes the log.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	p.line = append(p.line, b...)
	var lines []string
	for {
		at := bytes.IndexByte(p.line, '\n')
		if at < 0 {
			break
		}
		lines = append(lines, string(p.line[:at]))
		p.line = p.line[at+1:]
	}
	p.tail = append(p.tail, lines...)
	p.tail = slices.Clone(p.tail[max(0, len(p.tail)-tailLines):])
	p.mu.Unlock()
	if p.said != nil {
		for _, l := range lines {
			p.said(l)
		}
	}
	return p.file.Write(b)
}

// last are the last lines of the log.
func (p *process) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.tail, "\n")
}

// pid is 0 between two lives.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// signal reaches the present life; SIGKILL is booked as caused.
func (p *process) signal(s syscall.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false
	}
	if s == syscall.SIGKILL {
		p.killed[p.cmd.Process.Pid] = time.Now()
	}
	return p.cmd.Process.Signal(s) == nil
}

// end stops the process for good. It says so where the limit did not do.
func (p *process) end(s syscall.Signal, limit time.Duration) error {
	p.mu.Lock()
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
	p.mu.Unlock()
	p.signal(s)
	select {
	case <-p.done:
		return nil
	case <-time.After(limit):
	}
	p.signal(syscall.SIGKILL)
	<-p.done
	return fmt.Errorf("%s did not end within %s of %s: %s", p.name, limit, s, p.last())
}

// killedBetween reports whether a life was killed in that time.
func (p *process) killedBetween(from, to time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.killed {
		if at.After(from) && at.Before(to) {
			return true
		}
	}
	return false
}
