package line

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/cmd/internal/tracing"
	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/dataset/parquet"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Lead leads a run while it holds the run's lease, and stands by otherwise.
//
// Invariant: a leader lives within one term of the lease. Whatever ends it (a lost lease, a log that
// another leader appended to, a broker that is away), the next term rebuilds it from the logs.
type Lead struct {
	cfg   config.Config
	bus   *jetstream.Bus
	blobs leader.Objects
	keep  func(trajectory.ScoredGroup) error
	log   *zap.Logger
	lease *jetstream.Lease
	// alone: the broker is embedded, so that a lease left behind belongs to nobody.
	alone bool
	// Address is told to those who ask a server that does not lead.
	address string
	// tracer is nil where nothing is traced; then taken is when scored groups came, leaving when rows of requests began to leave.
	tracer         *tracing.Tracer
	taken, leaving sync.Map
	// shares are set where the run shares the workers with others.
	shares *shares

	backlog *jetstream.Reader[leader.BacklogItem]
	scored  *jetstream.Queue[trajectory.ScoredGroup]
	// along is what was read of the logs while standing by; nil before.
	along *along

	mu      sync.Mutex
	leader  *leader.Leader // nil while standing by
	last    *leader.Leader // the newest one, also when its term is over
	changed chan struct{}  // closed and replaced with it
	why     error          // the last term ended, or none began

	written sync.Map // sequence -> time.Time, for the summary
}

// maxFailedTerms is how many terms in a row may end within a moment before the process gives up.
const maxFailedTerms = 20

// leaseTime is how long a holder may be silent. Where nobody else could lead, a machine that is too busy to renew in time
// is no reason to give the lead up.
func leaseTime(cfg config.Config) time.Duration {
	if cfg.NATS.URL == "" {
		return max(cfg.NATS.AckWait, time.Minute)
	}
	return cfg.NATS.AckWait
}

func newLead(cfg config.Config, bus *jetstream.Bus, blobs *blob.Store, keep func(trajectory.ScoredGroup) error, log *zap.Logger) *Lead {
	l := &Lead{
		cfg: cfg, bus: bus, blobs: blobs, keep: keep, log: log, alone: cfg.NATS.URL == "",
		lease: jetstream.NewLease(bus, cfg.Run, leaseTime(cfg)), changed: make(chan struct{}),
	}
	if cfg.Leader.Share.Capacity > 0 {
		l.shares = newShares(bus, cfg.Run, cfg.Leader.Share, log)
	}
	return l
}

// begin opens what every term needs, so that a later one finds it without the cluster's help, and starts the
// first term right away if nobody else leads, so that whoever built the server finds a leader.
func (l *Lead) begin(ctx context.Context) error {
	if err := l.open(ctx); err != nil {
		return err
	}
	ok, err := l.lease.TryAcquire(ctx, l.address, l.alone)
	if err != nil || !ok {
		return err
	}
	return l.rebuild(ctx)
}

func (l *Lead) open(ctx context.Context) (err error) {
	if l.backlog == nil {
		if l.backlog, err = jetstream.NewReader[leader.BacklogItem](ctx, l.bus, jetstream.Backlog, l.cfg.Run); err != nil {
			l.backlog = nil
			return err
		}
	}
	if l.scored == nil {
		l.scored, err = jetstream.NewQueue[trajectory.ScoredGroup](ctx, l.bus, jetstream.Scored, l.cfg.Run)
	}
	return err
}

// standby is how often a server that does not lead asks whether it may, and waits how long one waits for the
// answer, by how often none came. Both are short: a dead leader is to be followed within 10 s.
const standby = 250 * time.Millisecond

func waits(unanswered int) time.Duration {
	if unanswered < 10 { // as long as an election may take
		return time.Second
	}
	return time.Second << min(unanswered-9, 6)
}

// Run leads whenever it can until ctx ends.
func (l *Lead) Run(ctx context.Context) error {
	leads := l.current() != nil // by begin
	for failed, unanswered := 0, 0; ; {
		pause := min(standby, l.cfg.NATS.AckWait/5)
		if !leads {
			var err error
			leads, err = l.acquire(ctx, waits(unanswered))
			switch {
			case ctx.Err() != nil:
				return nil
			case err == nil:
				if unanswered = 0; !leads {
					l.readAlong(ctx)
				}
			default:
				unanswered++
				l.log.Warn("cannot lead yet", zap.Error(err))
				l.cannot(err)
			}
		}
		if leads {
			start := time.Now()
			err := l.term(ctx)
			leads, pause = false, min(time.Second, l.cfg.NATS.AckWait/5)
			switch {
			case ctx.Err() != nil:
				return nil
			case errors.Is(err, leader.ErrExhausted):
				return err
			case time.Since(start) > time.Minute:
				failed = 0
			}
			failed++
			l.log.Warn("term ended", zap.Error(err))
			l.cannot(err)
			if failed >= maxFailedTerms {
				return fmt.Errorf("leader: %d terms failed, the last one: %w", failed, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// acquire takes the lease, if it is to be had, and makes a leader, which takes as long as it takes: the lease is
// held meanwhile.
func (l *Lead) acquire(ctx context.Context, limit time.Duration) (bool, error) {
	if ok, err := l.ask(ctx, limit); err != nil || !ok {
		return false, err
	}
	err := l.rebuild(ctx)
	return err == nil, err
}

func (l *Lead) ask(ctx context.Context, limit time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := l.open(ctx); err != nil {
		return false, err
	}
	return l.lease.TryAcquire(ctx, l.address, false)
}

// term runs the leader that rebuild made until it fails or the lease is lost.
func (l *Lead) term(ctx context.Context) error {
	cur := l.current()
	g, within := errgroup.WithContext(ctx)
	g.Go(func() error { return l.lease.Hold(within, l.address) })
	g.Go(func() error { return cur.Run(within) })
	if l.shares != nil {
		g.Go(func() error { return l.shares.run(within) })
	}
	err := g.Wait()
	l.set(nil)
	if !errors.Is(err, jetstream.ErrLeaseLost) {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		l.lease.Release(end)
		cancel()
	}
	return err
}

// rebuild makes a leader from the logs, and holds the lease meanwhile: those of a long run take longer than it.
func (l *Lead) rebuild(ctx context.Context) error {
	ctx, done := context.WithCancel(ctx)
	defer done()
	g, within := errgroup.WithContext(ctx)
	g.Go(func() error { return l.lease.Hold(within, l.address) })
	var cur *leader.Leader
	g.Go(func() (err error) {
		defer done()
		cur, err = l.fromLogs(within)
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	l.set(cur)
	l.log.Info("leads", zap.String("run", l.cfg.Run))
	return nil
}

// fromLogs waits for the streams side by side: after the loss of a NATS server each may be electing its leader.
func (l *Lead) fromLogs(ctx context.Context) (*leader.Leader, error) {
	var epoch int64
	past := l.along
	if l.along = nil; past == nil {
		past = l.newAlong()
	}
	var ledger *jetstream.Log[leader.Event]
	var batches *jetstream.Log[leader.BatchRecord]
	var events []leader.Event
	var records []leader.BatchRecord
	var share func(int) int
	g, within := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		epoch, err = l.bus.NextEpoch(within, l.cfg.Run)
		return err
	})
	g.Go(func() (err error) {
		ledger, events, err = past.ledger.TakeOver(within)
		return err
	})
	g.Go(func() (err error) {
		batches, records, err = past.batches.TakeOver(within)
		return err
	})
	if l.shares != nil {
		share = l.shares.may
		g.Go(func() error { return l.shares.look(within) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	past.history.Add(events, records)
	st := leaderStreams{l.bus, l.cfg.Run, l.backlog.FromStart(), l.scored}
	streams, log := leader.Streams(st), leader.Log[leader.BatchRecord](batches)
	if l.tracer != nil {
		streams, log = tracedStreams{st, l.tracer, &l.taken}, tracedBatches{log, l.tracer, &l.taken}
	}
	return leader.New(l.cfg.Leader, leader.Deps{
		Share:   share,
		Streams: streams, Ledger: ledger, Batches: log, Objects: l.blobs, Archive: l.keep, Epoch: epoch, Log: l.log,
		Encode: func(w *bytes.Buffer, m dataset.Meta, rows []dataset.Row) error { return parquet.Write(w, m, rows) },
		Wrote:  func(r leader.BatchRecord) { l.written.Store(r.Sequence, time.Now()) },
		Forget: func(ctx context.Context, dispatch string) error {
			return errors.Join(l.bus.PurgeJournals(ctx, l.cfg.Run, dispatch), l.bus.DeleteParts(ctx, l.cfg.Run, dispatch))
		},
	}, past.history)
}

func (l *Lead) set(cur *leader.Leader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader = cur; cur != nil {
		l.last, l.why = cur, nil
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// cannot keeps why nobody leads here, for those who ask.
func (l *Lead) cannot(why error) {
	if silent := errors.Is(why, context.DeadlineExceeded) || errors.Is(why, jetstream.ErrLeaseLost); silent && !errors.Is(why, jetstream.ErrUnanswered) {
		why = fmt.Errorf("%w: %w", why, jetstream.ErrUnanswered)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why = why
}

func (l *Lead) current() *leader.Leader {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader
}

// newest is the leader of this term or of the one before.
func (l *Lead) newest() *leader.Leader {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// leading returns the leader of this process, or ErrNotLeading with the address of the one that leads.
func (l *Lead) leading(ctx context.Context) (*leader.Leader, <-chan struct{}, error) {
	l.mu.Lock()
	cur, changed, why := l.leader, l.changed, l.why
	l.mu.Unlock()
	if cur == nil {
		holder := l.lease.Holder(ctx)
		if (holder == "" || holder == l.address) && why != nil {
			return nil, changed, fmt.Errorf("%w, and this server cannot: %w", feed.ErrNotLeading, why)
		}
		return nil, changed, fmt.Errorf("%w; it is led at %q", feed.ErrNotLeading, holder)
	}
	return cur, changed, nil
}

// leaderStreams is the leader's side of the broker.
type leaderStreams struct {
	bus     *jetstream.Bus
	run     string
	backlog *jetstream.Reader[leader.BacklogItem]
	scored  *jetstream.Queue[trajectory.ScoredGroup]
}

// NextPrompt implements leader.Streams: prompts stay in the backlog until they are admitted.
func (s leaderStreams) NextPrompt(ctx context.Context) (leader.Held[leader.BacklogItem], error) {
	e, err := s.backlog.Next(ctx)
	if err != nil {
		return leader.Held[leader.BacklogItem]{}, err
	}
	return leader.Held[leader.BacklogItem]{
		Value: e.Value, Trace: e.Trace, Release: func() {},
		Ack: func(ctx context.Context) error { return s.backlog.Delete(ctx, e.Sequence) },
	}, nil
}

// NextScored implements leader.Streams.
func (s leaderStreams) NextScored(ctx context.Context) (leader.Held[trajectory.ScoredGroup], error) {
	m, err := s.scored.Receive(ctx)
	if err != nil {
		return leader.Held[trajectory.ScoredGroup]{}, err
	}
	release := func() { _ = m.Nak(0) } // a nak that is lost costs one ack wait
	return leader.Held[trajectory.ScoredGroup]{Value: m.Value, Trace: m.Trace, Ack: m.Ack, Release: release, Drop: m.Drop}, nil
}

// Publish implements leader.Streams.
func (s leaderStreams) Publish(ctx context.Context, d task.Dispatch) error {
	return s.bus.PublishOnce(jetstream.WithTrace(ctx, d.Trace), jetstream.Prompts, s.run, d.ID, d)
}

// SetAside implements leader.Streams.
func (s leaderStreams) SetAside(ctx context.Context) (map[string]bool, error) {
	return s.keys(ctx, jetstream.SetAside)
}

// ForgetSetAside implements leader.Streams.
func (s leaderStreams) ForgetSetAside(ctx context.Context, dispatch string) error {
	return s.bus.DeleteSetAside(ctx, s.run, dispatch)
}

// OpenLeases implements leader.Streams: a group is in flight while some queue holds it, also when it was
// just set aside and not yet closed. The streams are asked in the order in which groups move, so that one on
// its way is seen.
func (s leaderStreams) OpenLeases(ctx context.Context) (map[string]bool, error) {
	return s.keys(ctx, jetstream.Prompts, jetstream.Trajectories, jetstream.Scored, jetstream.SetAside)
}

func (s leaderStreams) keys(ctx context.Context, streams ...string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, stream := range streams {
		keys, err := s.bus.Keys(ctx, stream, s.run)
		if err != nil {
			return nil, err
		}
		for k := range keys {
			out[k] = true
		}
	}
	return out, nil
}

var _ leader.Streams = leaderStreams{}
