package line

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/trajectory"
)

// Why a session ended before its rollout did.
const (
	killTimeout  = "timeout"          // a cell past its limits that did not stop when interrupted
	killMemory   = "out_of_memory"    // the watchdog or the kernel, during a cell
	killDied     = "interpreter_died" // the model's code ended it, or it broke the protocol
	killCanceled = "canceled"         // the rollout was given up during a cell
	killLost     = "lost"             // for reasons of ours
)

var killReasons = []string{killTimeout, killMemory, killDied, killCanceled, killLost}

// countedSandbox counts the sessions that end in a cell.
type countedSandbox struct {
	sandbox.Provider
	kills *prometheus.CounterVec
}

func (s countedSandbox) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Session, error) {
	session, err := s.Provider.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	return countedSession{session, s.kills}, nil
}

type countedSession struct {
	sandbox.Session
	kills *prometheus.CounterVec
}

func (s countedSession) Run(ctx context.Context, code string, host sandbox.Host) (sandbox.Result, error) {
	res, err := s.Session.Run(ctx, code, host)
	if reason := killReason(ctx, res, err); reason != "" {
		s.kills.WithLabelValues(reason).Inc()
	}
	return res, err
}

// killReason is empty for a session that lives.
func killReason(ctx context.Context, res sandbox.Result, err error) string {
	switch {
	case err != nil && ctx.Err() != nil:
		return killCanceled
	case err != nil:
		return killLost
	case !res.NamespaceLost:
		return ""
	case res.Status == trajectory.CellTimeout:
		return killTimeout
	case res.Status == trajectory.CellMemory:
		return killMemory
	}
	return killDied
}
