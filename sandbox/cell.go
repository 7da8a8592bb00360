package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/trajectory"
)

// session is one live process. What it says is checked frame by frame; the first thing that can't
// be true kills it, and from then on nothing that it says counts.
type session struct {
	sandbox *Sandbox
	slot    int
	limits  Limits
	proc    *process
	control *os.File
	pipe    *drain
	// dir is the host directory to remove, empty where the scratch directory dies with the mounts.
	dir  string
	cell int

	closing sync.Once
	closed  error
	mu      sync.Mutex
	lost    bool
}

var _ Session = (*session)(nil)

// Run executes one cell.
func (s *session) Run(ctx context.Context, code string, host Host) (Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost {
		return Result{}, fmt.Errorf("sandbox: run: %w", ErrSessionLost)
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	s.cell++
	run := &cellRun{session: s, host: host, nonce: newNonce(), out: newOutput(s.limits.OutputBytes)}
	res, err := run.do(ctx, code)
	if err != nil || res.NamespaceLost {
		s.lost = true
		_ = s.end()
	}
	return res, err
}

// Close kills the session; it waits for a cell that is running to notice.
func (s *session) Close() error {
	s.proc.kill()
	return s.end()
}

// end frees everything once and gives the slot back.
func (s *session) end() error {
	s.closing.Do(func() {
		s.closed = s.discard()
		s.sandbox.release(s)
	})
	return s.closed
}

// discard frees what the session holds, whole or half started.
func (s *session) discard() error {
	var errs []error
	if s.proc != nil {
		s.proc.kill()
		<-s.proc.exited
	}
	if s.control != nil {
		errs = append(errs, s.control.Close())
	}
	if s.pipe != nil {
		s.pipe.close()
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// cellRun is one cell on its way.
type cellRun struct {
	session   *session
	host      Host
	nonce     string
	out       *output
	completed int
}

// cause is why we killed a session.
type cause int

const (
	causeNone cause = iota
	causeWall
	causeCPU
	causeCanceled
)

func (r *cellRun) do(ctx context.Context, code string) (Result, error) {
	s := r.session
	request := cellRequest{Nonce: r.nonce, Cell: s.cell, Code: code}
	s.pipe.swap(r.out)
	begin, cpu := time.Now(), s.proc.cpu()
	guard := watchCell(ctx, s, begin, cpu)
	d, err := r.converse(request)
	why := guard.stop()
	res := Result{Completed: r.completed, WallS: time.Since(begin).Seconds()}
	switch {
	case why == causeCanceled:
		return Result{}, ctx.Err()
	case errors.Is(err, errTooLarge):
		return Result{}, fmt.Errorf("sandbox: cell: %w", err)
	case why == causeNone && s.proc.killedByUs():
		// Closed from outside while the cell ran.
		return Result{}, fmt.Errorf("sandbox: run: %w", ErrClosed)
	}
	if why == causeNone && err == nil {
		s.pipe.swap(nil)
		res.CPUS = (s.proc.cpu() - cpu).Seconds()
		res.Status, res.Traceback, res.Exception = d.Status, d.Traceback, d.Exception
		res.Statements, res.Environment = d.Statements, d.Environment
		res.Output = r.out.text()
		return res, nil
	}
	// The session is dead or will be: everything it printed before is kept.
	s.settle(err)
	s.pipe.swap(nil)
	res.CPUS = max(0, (s.proc.cpu() - cpu).Seconds())
	res.Output, res.NamespaceLost = r.out.text(), true
	res.Statements = r.completed
	res.Status = s.obituary(why, err)
	return res, nil
}

// converse sends the cell and answers the session until the cell is done.
func (r *cellRun) converse(request cellRequest) (*done, error) {
	s := r.session
	if err := writeFrame(s.control, request, s.limits.FrameBytes); err != nil {
		return nil, err
	}
	for {
		body, err := readFrame(s.control, s.limits.FrameBytes)
		if err != nil {
			return nil, err
		}
		f, err := parseFrame(body, r.nonce)
		if err != nil {
			return nil, err
		}
		if f.Done != nil {
			if f.Done.Completed != r.completed {
				return nil, badFrame("%d statements completed, %d reported", f.Done.Completed, r.completed)
			}
			return f.Done, nil
		}
		if err := r.answer(f); err != nil {
			return nil, err
		}
	}
}

// answer hands one frame to the host and the host's answer to the session.
func (r *cellRun) answer(f frame) error {
	switch {
	case f.Completed != nil:
		if f.Completed.Index != r.completed {
			return badFrame("statement %d completed after %d", f.Completed.Index, r.completed)
		}
		r.completed++
		r.host.Completed(*f.Completed)
		return nil
	case f.Taint != nil:
		if f.Taint.Statement > r.completed {
			return badFrame("taint in statement %d during %d", f.Taint.Statement, r.completed)
		}
		r.host.Taint(f.Taint.Statement, f.Taint.Construct)
		return nil
	case f.Bind != nil:
		if f.Bind.Statement != r.completed {
			return badFrame("bind in statement %d during %d", f.Bind.Statement, r.completed)
		}
		return r.reply(r.host.Bind(*f.Bind))
	case f.Infer != nil:
		if f.Infer.Statement != r.completed {
			return badFrame("infer in statement %d during %d", f.Infer.Statement, r.completed)
		}
		return r.reply(r.host.Infer(*f.Infer))
	case f.Submit != nil:
		if f.Submit.Statement != r.completed {
			return badFrame("submit in statement %d during %d", f.Submit.Statement, r.completed)
		}
		return r.reply("", "", r.host.Submit(*f.Submit))
	}
	return badFrame("a frame that no cell sends")
}

func (r *cellRun) reply(id, text string, refusal *evidence.Refusal) error {
	out := reply{Nonce: r.nonce, ID: id, Text: text}
	if refusal != nil {
		out.Refused, out.Refusal = true, refusal.Message
	}
	return writeFrame(r.session.control, out, 1<<24)
}

// settle waits for the end of a session that broke off. One that closed its control socket and
// lives on is killed; one that is dying is left to die, so that its own end can be told from ours.
func (s *session) settle(err error) {
	if !errors.Is(err, errFrame) {
		grace := time.NewTimer(200 * time.Millisecond)
		defer grace.Stop()
		select {
		case <-s.proc.exited:
			return
		case <-grace.C:
		}
	}
	s.proc.kill()
	<-s.proc.exited
}

// obituary says what ended a session that is dead.
func (s *session) obituary(why cause, err error) trajectory.CellStatus {
	switch {
	case why == causeWall || why == causeCPU:
		return trajectory.CellTimeout
	case errors.Is(err, errFrame):
		return trajectory.CellDied
	case s.sandbox.tier.namespaces() && s.proc.killedByKernel():
		// A session is process 1 of its namespace, which nothing inside can kill: a SIGKILL that
		// was not ours is the kernel's, for memory.
		return trajectory.CellMemory
	}
	return trajectory.CellDied
}

// guard kills a session whose cell runs too long. It looks at the CPU clock only when the limit
// could have been reached, never in a busy loop.
type guard struct {
	quit chan struct{}
	why  chan cause
}

func watchCell(ctx context.Context, s *session, begin time.Time, cpu time.Duration) *guard {
	g := &guard{quit: make(chan struct{}), why: make(chan cause, 1)}
	go func() {
		why := g.wait(ctx, s.proc, s.limits, begin, cpu)
		if why != causeNone {
			s.proc.kill()
			// Whatever else holds the other end of the socket, nobody waits for it.
			_ = s.control.SetDeadline(time.Now())
		}
		g.why <- why
	}()
	return g
}

func (g *guard) wait(ctx context.Context, p *process, l Limits, begin time.Time, cpu time.Duration) cause {
	wall := time.NewTimer(l.CellWall - time.Since(begin))
	defer wall.Stop()
	cores := time.Duration(runtime.NumCPU())
	check := time.NewTimer(max(l.CellCPU/cores, 10*time.Millisecond))
	defer check.Stop()
	for {
		select {
		case <-g.quit:
			return causeNone
		case <-ctx.Done():
			return causeCanceled
		case <-wall.C:
			return causeWall
		case <-check.C:
			left := l.CellCPU - (p.cpu() - cpu)
			if left <= 0 {
				return causeCPU
			}
			check.Reset(max(left/cores, 10*time.Millisecond))
		}
	}
}

// stop ends the guard and says whether it killed.
func (g *guard) stop() cause {
	close(g.quit)
	return <-g.why
}
