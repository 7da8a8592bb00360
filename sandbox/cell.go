package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	// data are the files that the session could change.
	data []dataFile
	// plan is that of a forked session without mounts, until it is started.
	plan *os.File
	// free gives back what the engine lent, once the process is gone.
	free func()

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
	run := &cellRun{session: s, host: host, nonce: s.nonce(), out: newOutput(s.limits.OutputBytes)}
	res, err := run.do(ctx, code)
	for _, name := range changed(s.data) {
		host.Taint(0, "data_changed:"+name)
	}
	if err != nil || res.NamespaceLost {
		s.lost = true
		_ = s.end()
	}
	return res, err
}

// nonce is a fresh one for every cell: what an earlier cell learned is worth nothing in a later one.
func (s *session) nonce() string {
	if s.sandbox.off["nonce"] {
		return "the same"
	}
	return newNonce()
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
	if s.free != nil {
		s.free()
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
	// taints and requests count frames of which a session could send any number.
	taints, requests int
}

func (r *cellRun) do(ctx context.Context, code string) (Result, error) {
	s := r.session
	request := cellRequest{Nonce: r.nonce, Cell: s.cell, Code: code}
	s.pipe.swap(r.out)
	begin, cpu := time.Now(), s.proc.cpu()
	guard := watchCell(ctx, s, begin, cpu)
	d, err := r.converse(request)
	v := guard.stop()
	res := Result{Completed: r.completed, WallS: time.Since(begin).Seconds()}
	switch {
	case v.killed == causeCanceled:
		return Result{}, ctx.Err()
	case errors.Is(err, errTooLarge):
		return Result{}, fmt.Errorf("sandbox: cell: %w", err)
	case v.killed == causeNone && s.proc.killedByUs():
		// Closed from outside while the cell ran.
		return Result{}, fmt.Errorf("sandbox: run: %w", ErrClosed)
	}
	if v.killed == causeNone && err == nil {
		s.pipe.swap(nil)
		res.CPUS = (s.proc.cpu() - cpu).Seconds()
		res.Status, res.Traceback, res.Exception = d.Status, d.Traceback, d.Exception
		res.Statements, res.Environment, res.LateBytes = d.Statements, d.Environment, d.Late
		if v.interrupted != causeNone {
			// Whatever the cell made of the exception: it went past its limit.
			res.Status = trajectory.CellTimeout
			if res.Traceback == "" {
				res.Traceback = s.overran(v.interrupted) + "; the variables are kept"
			}
		}
		res.Output = r.out.text()
		return res, nil
	}
	// The session is dead or will be: everything it printed before is kept.
	s.settle(err)
	s.pipe.swap(nil)
	res.CPUS = max(0, (s.proc.cpu() - cpu).Seconds())
	res.Output, res.NamespaceLost = r.out.text(), true
	res.Statements = r.completed
	res.Status, res.Traceback = s.obituary(v, err)
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
		switch {
		case err != nil:
		case f.Done == nil:
			err = r.answer(f)
		case f.Done.Completed != r.completed:
			err = badFrame("%d statements completed, %d reported", f.Done.Completed, r.completed)
		default:
			return f.Done, nil
		}
		if err != nil && !(errors.Is(err, errFrame) && s.lenient()) {
			return nil, err
		}
	}
}

// answer hands one frame to the host and the host's answer to the session.
func (r *cellRun) answer(f frame) error {
	if r.requests++; r.requests > maxStatements+maxTaints+maxRequests {
		return badFrame("more than %d frames", r.requests-1)
	}
	switch {
	case f.Completed != nil:
		if f.Completed.Index != r.completed {
			return badFrame("statement %d completed after %d", f.Completed.Index, r.completed)
		}
		r.completed++
		r.host.Completed(*f.Completed)
		return nil
	case f.Taint != nil:
		if r.taints++; r.taints > maxTaints {
			return badFrame("more than %d taints", maxTaints)
		}
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

// obituary says what ended a session that is dead, as a status and to the model.
func (s *session) obituary(v verdict, err error) (trajectory.CellStatus, string) {
	const lost = "; the session ended and all variables are lost"
	switch {
	case v.interrupted != causeNone:
		return trajectory.CellTimeout, s.overran(v.interrupted) + " and did not end when interrupted" + lost
	case v.killed != causeNone:
		return trajectory.CellTimeout, s.overran(v.killed) + lost
	case errors.Is(err, errFrame):
		return trajectory.CellDied, "the interpreter said something on its control channel that it never says" + lost
	case s.sandbox.tier.namespaces() && s.proc.killedByKernel():
		// A session is process 1 of its namespace, which nothing inside can kill: a SIGKILL that
		// was not ours is the kernel's, for memory.
		return trajectory.CellMemory, "the session used more memory than this machine has for it" + lost
	}
	return trajectory.CellDied, "the interpreter ended in the middle of the cell (os._exit, a signal or a crash in native code)" + lost
}

func (s *session) overran(limit cause) string {
	if limit == causeCPU {
		return fmt.Sprintf("the cell used more than its limit of %v of CPU time", s.limits.CellCPU)
	}
	return fmt.Sprintf("the cell ran longer than its limit of %v", s.limits.CellWall)
}
