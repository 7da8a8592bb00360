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
// Invariant: while an address that the trainer named is not allowed here, no policy call is made, since
// the other endpoints serve another policy than the one that the tokens would be counted under.
type follower struct {
	bus    *jetstream.Bus
	key    string
	scheme string // of the endpoints, with ://
	pool   *pool.Pool
	log    *zap.Logger

	mu      sync.Mutex
	applied *leader.Policy // nil before the first
	refused bool
}

func follow(bus *jetstream.Bus, cfg config.Config, p *pool.Pool, log *zap.Logger) *follower {
	scheme := "http://"
	if strings.HasPrefix(strings.ToLower(cfg.Policy.BaseURL), "https://") {
		scheme = "https://"
	}
	return &follower{bus: bus, key: PolicyKey(cfg.Run), scheme: scheme, pool: p, log: log}
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
	if old == nil || !slices.Equal(old.Endpoints, now.Endpoints) {
		// No call is made between the change of the endpoints and that of their version.
		f.pool.State(pool.Stated{Version: now.Version, Incarnation: now.Incarnation, Paused: true})
		err := f.endpoints(ctx, now.Endpoints)
		if f.refused = err != nil; f.refused {
			f.log.Error("trainer's policy refused, no policy call is made until it names others",
				zap.Strings("endpoints", now.Endpoints), zap.Error(err))
		}
	}
	f.pool.State(pool.Stated{Version: now.Version, Incarnation: now.Incarnation, Paused: now.Paused || f.refused})
	f.applied = &now
	if old == nil || old.Version != now.Version || old.Incarnation != now.Incarnation || old.Paused != now.Paused ||
		!slices.Equal(old.Endpoints, now.Endpoints) {
		f.log.Info("trainer's policy", zap.Int64("version", now.Version), zap.Int64("incarnation", now.Incarnation),
			zap.Bool("paused", now.Paused), zap.Strings("endpoints", now.Endpoints))
	}
	return nil
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
