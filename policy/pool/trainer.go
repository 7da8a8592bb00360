package pool

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/verigraph/verigraph/policy"
)

// Stated is what a trainer says of its policy.
type Stated struct {
	Version     int64
	Incarnation int64
	// Paused: no call is placed; those that are placed end as they will.
	Paused bool
}

// State takes the trainer's word. From then on it gives the versions of all calls, and the endpoints'
// own only say whether an update came in the middle of one: their numbers may count something else.
func (p *Pool) State(s Stated) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch now := time.Now(); {
	case s.Paused && p.pausedAt.IsZero():
		p.pausedAt = now
	case !s.Paused && !p.pausedAt.IsZero():
		p.pausedFor += now.Sub(p.pausedAt)
		p.pausedAt = time.Time{}
	}
	p.trainer = &s
	p.wake()
}

// ResetEndpoints goes back from a trainer's list to the configured endpoints.
func (p *Pool) ResetEndpoints(ctx context.Context) error {
	if len(p.configured) == 0 {
		return errors.New("policy: the trainer names no endpoint, and neither policy.base_url nor policy.endpoints.urls does")
	}
	p.mu.Lock()
	p.given = nil
	p.mu.Unlock()
	if p.cfg.DNS {
		p.Resolve(ctx)
		return nil
	}
	return p.set(p.configured)
}

// clock is the time without pauses: waiting for the trainer uses up no retry budget. The lock is held.
func (p *Pool) clock() time.Time {
	now := time.Now()
	if !p.pausedAt.IsZero() {
		now = p.pausedAt
	}
	return now.Add(-p.pausedFor)
}

// Now is the time of a clock that stands still while the trainer pauses.
func (p *Pool) Now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clock()
}

func (p *Pool) stance() *Stated {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trainer
}

func (s Stated) salt() string {
	return strconv.FormatInt(s.Incarnation, 10) + "." + strconv.FormatInt(s.Version, 10)
}

// versions are those of a call that began under s and ended under end. An update that nobody numbered
// makes the span mixed.
func (s Stated) versions(end Stated, own policy.Versions) policy.Versions {
	v := policy.Versions{Known: true, Start: min(s.Version, end.Version), End: max(s.Version, end.Version)}
	updated := s.Incarnation != end.Incarnation || own.Known && own.Start != own.End
	if updated && v.Start == v.End {
		v.End++
	}
	return v
}
