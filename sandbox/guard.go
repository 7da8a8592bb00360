package sandbox

import (
	"context"
	"runtime"
	"time"
)

// cause is why we ended a session, or interrupted its cell.
type cause int

const (
	causeNone cause = iota
	causeWall
	causeCPU
	causeCanceled
)

// guard watches a cell's limits. Past one it interrupts the cell once, by a signal that the runner
// turns into an exception, and kills the session when the cell has not ended after the grace. It looks at
// the CPU clock only when the limit could have been reached, never in a busy loop.
type guard struct {
	quit chan struct{}
	done chan verdict
}

// verdict is what a guard did.
type verdict struct {
	// killed: the session was killed; interrupted: the cell was asked to end before that.
	killed, interrupted cause
}

func watchCell(ctx context.Context, s *session, begin time.Time, cpu time.Duration) *guard {
	g := &guard{quit: make(chan struct{}), done: make(chan verdict, 1)}
	go func() {
		v := g.wait(ctx, s.proc, s.limits, begin, cpu)
		if v.killed != causeNone {
			s.proc.kill()
			// Whatever else holds the other end of the socket, nobody waits for it.
			_ = s.control.SetDeadline(time.Now())
		}
		g.done <- v
	}()
	return g
}

func (g *guard) wait(ctx context.Context, p *process, l Limits, begin time.Time, cpu time.Duration) (v verdict) {
	wall := time.NewTimer(l.CellWall - time.Since(begin))
	defer wall.Stop()
	cores := time.Duration(runtime.NumCPU())
	check := time.NewTimer(max(l.CellCPU/cores, 10*time.Millisecond))
	defer check.Stop()
	over := func(c cause) bool {
		if v.interrupted != causeNone || l.Grace == 0 || !p.interrupt() {
			v.killed = c
			return true
		}
		v.interrupted = c
		check.Stop()
		wall.Reset(l.Grace)
		return false
	}
	for {
		select {
		case <-g.quit:
			return v
		case <-ctx.Done():
			v.killed = causeCanceled
			return v
		case <-wall.C:
			if over(causeWall) {
				return v
			}
		case <-check.C:
			left := l.CellCPU - (p.cpu() - cpu)
			if left > 0 {
				check.Reset(max(left/cores, 10*time.Millisecond))
			} else if over(causeCPU) {
				return v
			}
		}
	}
}

// stop ends the guard and says what it did.
func (g *guard) stop() verdict {
	close(g.quit)
	return <-g.done
}
