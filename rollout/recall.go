package rollout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/verigraph/verigraph/lease"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/rollout/replay"
	"github.com/verigraph/verigraph/trajectory"
)

// Invariants: the machine is told an answer or an observation only after it is durable; and what is
// durable is told again, never asked for again, unless the world in which it was sampled cannot be made
// again (errDiffers), which begins the rollout anew and is counted.

// Restart is why a rollout began anew although some of it is recorded.
type Restart string

// Restarts.
const (
	// RestartContext: the recorded ids followed other ones than this worker would send.
	RestartContext Restart = "context"
	// RestartObservation: a cell that ran again came to something else.
	RestartObservation Restart = "observation"
	// RestartRecord: the entries are not those of a trajectory.
	RestartRecord Restart = "record"
)

// errDiffers: the recorded turns cannot be gone on from.
type errDiffers struct {
	reason Restart
	turn   int
}

func (e *errDiffers) Error() string {
	return fmt.Sprintf("recorded turn %d is not reproduced: %s", e.turn, e.reason)
}

func (r *run) differs(why Restart, turn int) error {
	r.record.restarted(why)
	return &errDiffers{why, turn}
}

// keep makes an entry durable.
func (r *run) keep(ctx context.Context, e Entry) error {
	if r.record == nil {
		return nil
	}
	defer policy.BeginWaiting(ctx, r.clock)() // a broker that is away is not the policy's time
	err := r.record.append(ctx, e)
	if errors.Is(err, lease.ErrSuperseded) {
		r.abandon(err)
	}
	return err
}

// sampled tells the machine an answer once it is durable.
func (r *run) sampled(ctx context.Context, m *Machine, g Generate, c policy.Completion, version, versionEnd int64) {
	if r.record != nil {
		err := r.keep(ctx, Entry{Attempt: r.out.Attempt, Turn: g.Turn, Sampled: &Answer{
			Context: contextSHA256(g.Prompt), IDs: c.IDs, LogProbs: c.LogProbs, Finish: c.Finish,
			StopString: c.StopString, Duration: c.Duration, Version: version, VersionEnd: versionEnd,
		}})
		if err != nil {
			m.Stop(trajectory.Canceled, err)
			return
		}
	}
	m.Sampled(c, version, versionEnd)
}

// recall tells the machine a recorded answer, if there is one for what it asks.
func (r *run) recall(m *Machine, g Generate) bool {
	e, ok := r.record.next()
	if !ok {
		return false
	}
	a := e.Sampled
	switch {
	case a == nil || e.Turn != g.Turn:
		m.Stop(trajectory.Canceled, r.differs(RestartRecord, g.Turn))
	case a.Context != contextSHA256(g.Prompt):
		m.Stop(trajectory.Canceled, r.differs(RestartContext, g.Turn))
	default:
		r.age.used(a.Version)
		m.Sampled(policy.Completion{
			IDs: a.IDs, LogProbs: a.LogProbs, Finish: a.Finish, StopString: a.StopString, Duration: a.Duration,
		}, a.Version, a.VersionEnd)
	}
	return true
}

// observed is what the machine is told of a cell that just ran: this, made durable, or what is recorded
// of it, since the ids that follow were sampled after that.
func (r *run) observed(ctx context.Context, turn int, now Observed) (Observed, error) {
	e, ok := r.record.next()
	if !ok {
		return now, r.keep(ctx, Entry{Attempt: r.out.Attempt, Turn: turn, Observed: &now})
	}
	then := e.Observed
	switch {
	case then == nil || e.Turn != turn:
		return now, r.differs(RestartRecord, turn)
	case then.Status != now.Status || !replay.SameText(then.Text, now.Text, r.record.began, time.Now()):
		return now, r.differs(RestartObservation, turn)
	}
	return *then, nil
}

// lossOf is the reason that an error of a cell gives its trajectory.
func lossOf(err error) trajectory.Termination {
	var differs *errDiffers
	if errors.As(err, &differs) || errors.Is(err, lease.ErrSuperseded) {
		return trajectory.Canceled
	}
	return trajectory.SandboxLost
}

func contextSHA256(ids []int32) string {
	h := sha256.New()
	writeIDs(h, ids)
	return hex.EncodeToString(h.Sum(nil))
}
