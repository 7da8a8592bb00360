package line

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/lease"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/pool"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// followEvery is how often a worker asks what the trainer said of its policy.
const followEvery = time.Second

// follower keeps a pool of endpoints at what the trainer said of its policy last. It is safe for
// concurrent use.
//
// Invariants: while an address that the trainer named is not allowed here, no policy call is made, since
// the other endpoints serve another policy than the one that the tokens would be counted under. No call is
// made to endpoints that the trainer named before one of them has passed the probe.
type follower struct {
	bus    *jetstream.Bus
	key    string
	scheme string // of the endpoints, with ://
	pool   *pool.Pool
	probe  func(context.Context) error
	log    *zap.Logger

	mu      sync.Mutex
	applied *leader.Policy // nil before the first
	refused bool
	begun   bool
	probed  bool   // the endpoints that the pool holds
	unfit   string // why the probe failed last
}

func follow(bus *jetstream.Bus, cfg config.Config, p *pool.Pool, probe func(context.Context) error, log *zap.Logger) *follower {
	scheme := "http://"
	if u := cfg.Policy.BaseURL; strings.HasPrefix(strings.ToLower(u), "https://") || u == "" && cfg.Policy.TLS != (policy.TLS{}) {
		scheme = "https://"
	}
	return &follower{bus: bus, key: PolicyKey(cfg.Run), scheme: scheme, pool: p, probe: probe, log: log}
}

// begin looks for the first time. While the trainer says nothing the endpoints of the configuration must
// pass the probe now; without any, calls wait until it names some.
func (f *follower) begin(ctx context.Context) error {
	if err := f.look(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun = true
	switch {
	case f.applied != nil:
		return nil // probed at the next look, which may wait for its servers
	case f.pool.Client() == nil:
		f.pool.State(pool.Stated{Paused: true})
		f.log.Info("waiting for the trainer to name the policy's endpoints")
		return nil
	}
	err := f.probe(ctx)
	f.probed = err == nil
	return err
}

// Run looks every second until ctx ends.
func (f *follower) Run(ctx context.Context) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		f.tryLook(ctx)
	}
}

func (f *follower) tryLook(ctx context.Context) {
	if err := f.look(ctx); err != nil && ctx.Err() == nil {
		f.log.Warn("trainer's policy not read", zap.Error(err))
	}
}

// look applies what the trainer said, if it is new.
func (f *follower) look(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var now leader.Policy
	ok, err := f.bus.GetState(ctx, f.key, &now)
	if err != nil || !ok {
		return err
	}
	old := f.applied
	if old == nil && (len(now.Endpoints) > 0 || f.pool.Client() == nil) || old != nil && !slices.Equal(old.Endpoints, now.Endpoints) {
		// No call is made between the change of the endpoints and that of their version.
		f.pool.State(pool.Stated{Version: now.Version, Incarnation: now.Incarnation, Paused: true})
		err := f.endpoints(ctx, now.Endpoints)
		if f.refused = err != nil; f.refused {
			f.log.Error("trainer's policy refused, no policy call is made until it names others",
				zap.Strings("endpoints", now.Endpoints), zap.Error(err))
		}
		f.probed = false
	}
	if f.begun && !f.probed && !f.refused && !now.Paused {
		f.tryProbe(ctx)
	}
	f.pool.State(pool.Stated{Version: now.Version, Incarnation: now.Incarnation, Paused: now.Paused || f.refused || !f.probed})
	f.applied = &now
	if old == nil || old.Version != now.Version || old.Incarnation != now.Incarnation || old.Paused != now.Paused ||
		!slices.Equal(old.Endpoints, now.Endpoints) {
		f.log.Info("trainer's policy", zap.Int64("version", now.Version), zap.Int64("incarnation", now.Incarnation),
			zap.Bool("paused", now.Paused), zap.Strings("endpoints", now.Endpoints))
	}
	return nil
}

// tryProbe is repeated at every look until it passes: the trainer's servers may be starting.
func (f *follower) tryProbe(ctx context.Context) {
	err := f.probe(ctx)
	if f.probed = err == nil; f.probed {
		f.unfit = ""
		return
	}
	if ctx.Err() == nil && err.Error() != f.unfit {
		f.unfit = err.Error()
		f.log.Error("policy servers lack something, no policy call is made until they have it", zap.Error(err))
	}
}

// endpoints makes them the trainer's, or the configured ones where it names none.
func (f *follower) endpoints(ctx context.Context, named []string) error {
	if len(named) == 0 {
		return f.pool.ResetEndpoints(ctx)
	}
	urls := make([]string, len(named))
	for i, e := range named {
		urls[i] = f.scheme + e
	}
	return f.pool.SetEndpoints(urls)
}

// informed looks before every group: a group that was dispatched after the trainer spoke is sampled as
// it said.
type informed struct {
	rollout.Source
	follower *follower
}

// Receive implements rollout.Source.
func (s informed) Receive(ctx context.Context) (lease.Lease[task.Dispatch, trajectory.Group], error) {
	held, err := s.Source.Receive(ctx)
	if err == nil {
		s.follower.tryLook(ctx)
	}
	return held, err
}
