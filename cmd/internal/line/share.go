package line

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/jetstream"
)

const (
	// claimEvery is how often a leader says what its run wants.
	claimEvery = time.Second
	// claimSilence is when a run that says nothing more wants nothing.
	claimSilence = 10 * time.Second
	claimPrefix  = "share."
)

// shares is a leader's view of what the runs on this broker want. Each leader divides the capacity from the
// same claims, so that nobody has to be asked.
type shares struct {
	bus *jetstream.Bus
	log *zap.Logger

	mu   sync.Mutex
	own  leader.Claim
	seen map[string]seenClaim // by run, this one not among them
}

// seenClaim is another run's claim; no clocks are compared: it counts while it is renewed.
type seenClaim struct {
	leader.Claim
	revision uint64
	at       time.Time
}

func newShares(bus *jetstream.Bus, run string, s leader.Share, log *zap.Logger) *shares {
	return &shares{bus: bus, log: log, own: leader.Claim{Run: run, Share: s}, seen: map[string]seenClaim{}}
}

// may notes what the run wants and says what it may have.
func (s *shares) may(wants int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own.Wants = wants
	claims := []leader.Claim{s.own}
	for _, c := range s.seen {
		if time.Since(c.at) < claimSilence {
			claims = append(claims, c.Claim)
		}
	}
	return leader.Divide(claims)[s.own.Run]
}

// look tells the others what this run wants, and takes in what they want.
func (s *shares) look(ctx context.Context) error {
	s.mu.Lock()
	own := s.own
	s.mu.Unlock()
	if err := s.bus.PutState(ctx, claimPrefix+own.Run, own); err != nil {
		return err
	}
	claims, err := jetstream.States[leader.Claim](ctx, s.bus, claimPrefix)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range claims {
		if c.Value.Run == own.Run || s.seen[c.Value.Run].revision == c.Revision {
			continue
		}
		s.seen[c.Value.Run] = seenClaim{c.Value, c.Revision, time.Now()}
	}
	return nil
}

// run looks until ctx ends.
func (s *shares) run(ctx context.Context) error {
	tick := time.NewTicker(claimEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.look(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("shares of other runs not read", zap.Error(err)) // the last ones hold for a while
		}
	}
}
