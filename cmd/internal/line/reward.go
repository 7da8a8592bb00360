package line

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/dataset/parquet"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/service"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// overlongOwners translates the preset's owner of overlong shaping to the batch's.
var overlongOwners = map[reward.Owner]dataset.OverlongOwner{
	reward.OwnerNone: dataset.OverlongNone, reward.OwnerServer: dataset.OverlongReward, reward.OwnerTrainer: dataset.OverlongTrainer,
}

// RewardServer scores groups, leads the run (admission, batches) and serves the feed.
type RewardServer struct {
	Leader  *leader.Leader
	Scoring *Scoring
	scoring *service.Server
	feed    *feed.Server
	listen  net.Listener
	cursors *cursors
	written sync.Map // sequence -> time.Time, for the summary
	archive *archive.Archive
	backlog *jetstream.Queue[leader.BacklogItem]
	bus     *jetstream.Bus
	blobs   *blob.Store
	run     string
}

// NewRewardServer builds the reward side of cfg.Run from the streams. Close it.
func NewRewardServer(ctx context.Context, cfg config.Config, bus *jetstream.Bus, blobs *blob.Store, log *zap.Logger) (_ *RewardServer, err error) {
	s := &RewardServer{bus: bus, blobs: blobs, run: cfg.Run}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if s.Scoring, err = openScoring(ctx, cfg, bus, log); err != nil {
		return nil, err
	}
	keep := func(trajectory.ScoredGroup) error { return nil }
	if cfg.Reward.Archive != "" {
		if s.archive, err = archive.Open(cfg.Reward.Archive); err != nil {
			return nil, err
		}
		keep = s.archive.Add
	}
	cfg.Leader.Overlong = overlongOwners[s.Scoring.Scorer.Preset().Overlong.Owner]
	if err := s.lead(ctx, cfg, keep, log); err != nil {
		return nil, err
	}
	source, err := newStage(ctx, bus, cfg.Run, jetstream.Trajectories, jetstream.Scored, ofGroup, ofScoredGroup)
	if err != nil {
		return nil, err
	}
	s.scoring = &service.Server{
		Source: source, References: references{bus}, Scorer: booked{s.Scoring},
		Groups: cfg.Reward.Groups, MaxDeliver: cfg.NATS.MaxDeliver, Log: log,
	}
	if s.Scoring.Guard != nil {
		s.scoring.Gate = s.Scoring.Guard
	}
	return s, s.serve(ctx, cfg)
}

func (s *RewardServer) lead(ctx context.Context, cfg config.Config, keep func(trajectory.ScoredGroup) error, log *zap.Logger) error {
	epoch, err := s.bus.NextEpoch(ctx, cfg.Run)
	if err != nil {
		return err
	}
	ledger, events, err := jetstream.OpenLog[leader.Event](ctx, s.bus, jetstream.Ledger, cfg.Run)
	if err != nil {
		return err
	}
	batches, records, err := jetstream.OpenLog[leader.BatchRecord](ctx, s.bus, jetstream.Batches, cfg.Run)
	if err != nil {
		return err
	}
	st := leaderStreams{bus: s.bus, run: cfg.Run}
	if st.backlog, err = jetstream.NewQueue[leader.BacklogItem](ctx, s.bus, jetstream.Backlog, cfg.Run); err != nil {
		return err
	}
	if st.prompts, err = jetstream.NewQueue[task.Dispatch](ctx, s.bus, jetstream.Prompts, cfg.Run); err != nil {
		return err
	}
	if st.scored, err = jetstream.NewQueue[trajectory.ScoredGroup](ctx, s.bus, jetstream.Scored, cfg.Run); err != nil {
		return err
	}
	s.backlog = st.backlog
	s.Leader, err = leader.New(cfg.Leader, leader.Deps{
		Streams: st, Ledger: ledger, Batches: batches, Objects: s.blobs, Archive: keep, Epoch: epoch, Log: log,
		Encode: func(w *bytes.Buffer, m dataset.Meta, rows []dataset.Row) error { return parquet.Write(w, m, rows) },
		Wrote:  func(r leader.BatchRecord) { s.written.Store(r.Sequence, time.Now()) },
	}, events, records)
	return err
}

func (s *RewardServer) serve(ctx context.Context, cfg config.Config) error {
	s.cursors = &cursors{bus: s.bus, run: cfg.Run, acked: map[int64]time.Time{}, acknowledged: s.Leader.Acknowledged}
	opts := feed.Defaults()
	if cfg.Feed.TokenEnv != "" {
		opts.Token = feed.Token(os.Getenv(cfg.Feed.TokenEnv))
	}
	var err error
	s.feed, err = feed.New(feed.Source{
		Batches: batchLog{s.Leader}, Objects: s.blobs, Cursors: s.cursors, Status: s.Status, Submit: s.submitFeed,
		Control: control{s},
	}, opts)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	if s.listen, err = lc.Listen(ctx, "tcp", cfg.Feed.Listen); err != nil {
		return fmt.Errorf("feed.listen: %w", err)
	}
	return nil
}

// Addr is where the feed listens.
func (s *RewardServer) Addr() string { return s.listen.Addr().String() }

// Run works until ctx ends or a part fails.
func (s *RewardServer) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Leader.Run(ctx) })
	g.Go(func() error { return s.scoring.Run(ctx) })
	g.Go(func() error { return s.Scoring.Run(ctx) })
	g.Go(func() error { return s.feed.Serve(ctx, s.listen) })
	return g.Wait()
}

// Close closes the archive and the listener.
func (s *RewardServer) Close() error {
	var errs []error
	if s.Scoring != nil {
		errs = append(errs, s.Scoring.Close())
	}
	if s.archive != nil {
		errs = append(errs, s.archive.Close())
	}
	if s.listen != nil {
		if err := s.listen.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Status is the run's progress for the feed and for people.
func (s *RewardServer) Status(ctx context.Context) (feed.Status, error) {
	p, err := s.Leader.Progress(ctx)
	if err != nil {
		return feed.Status{}, err
	}
	waiting, err := s.bus.Keys(ctx, jetstream.Backlog, s.run)
	if err != nil {
		return feed.Status{}, err
	}
	acked, err := s.cursors.Acknowledged(ctx, feed.TrainerCursor)
	if err != nil {
		return feed.Status{}, err
	}
	delete(waiting, finalKey)
	l := p.Ledger
	return feed.Status{
		Run: p.Run, Prompts: int64(p.Prompts + len(waiting)), Backlog: int64(len(waiting)),
		Ledger: feed.Ledger{
			Dispatched: int64(l.Dispatched), Delivered: int64(l.Delivered), Filtered: int64(l.Filtered), Stale: int64(l.Stale),
			Unscored: int64(l.Unscored), Failed: int64(l.Failed), SetAside: int64(l.SetAside), InFlight: int64(l.InFlight),
		},
		BatchesWritten: int64(p.BatchesWritten), BatchesAcknowledged: acked, Complete: p.Complete,
		Policy: feed.Policy{Version: p.Policy.Version, Incarnation: p.Policy.Incarnation}, CommittedStep: p.CommittedStep,
		ClosedByReason: wide(p.ClosedByReason), FilteredByValue: wide(p.FilteredByValue),
	}, nil
}

func wide(m map[string]int) map[string]int64 {
	out := make(map[string]int64, len(m))
	for k, n := range m {
		out[k] = int64(n)
	}
	return out
}

// batchLog is the feed's view of the leader's records.
type batchLog struct{ l *leader.Leader }

func (b batchLog) Next(ctx context.Context, seq int64) (feed.Batch, bool, error) {
	for {
		changed := b.l.Changed() // taken before looking, so that no change is missed
		if r, ok := b.l.Batch(seq); ok {
			return feed.Batch{
				Sequence: r.Sequence, Object: r.Object, Size: r.Size, SHA256: r.SHA256, Groups: len(r.Groups),
				Rollouts: r.Rollouts(), Rows: r.Rows, PolicyVersionMin: r.PolicyVersionMin,
				PolicyVersionMax: r.PolicyVersionMax, Epoch: r.Epoch,
			}, true, nil
		}
		if b.l.Complete() {
			return feed.Batch{}, false, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return feed.Batch{}, false, ctx.Err()
		}
	}
}

func (b batchLog) Last(context.Context) (int64, error) { return int64(len(b.l.Batches())), nil }

// cursors stores cursors in the state bucket.
type cursors struct {
	bus *jetstream.Bus
	run string

	// acknowledged notes the trainer's acks in the leader's log.
	acknowledged func(ctx context.Context, seq, step int64) error

	mu    sync.Mutex
	acked map[int64]time.Time // when the trainer acknowledged, for the summary
}

// rewind moves a cursor back.
func (c *cursors) rewind(ctx context.Context, cursor string, seq, step int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bus.PutState(ctx, c.key(cursor), cursorState{Acknowledged: seq, TrainerStep: step})
}

type cursorState struct {
	Acknowledged int64 `json:"acknowledged"`
	TrainerStep  int64 `json:"trainer_step"`
}

func (c *cursors) key(cursor string) string { return "cursor." + c.run + "." + task.Slug(cursor) }

func (c *cursors) Acknowledged(ctx context.Context, cursor string) (int64, error) {
	var st cursorState
	_, err := c.bus.GetState(ctx, c.key(cursor), &st)
	return st.Acknowledged, err
}

func (c *cursors) Acknowledge(ctx context.Context, cursor string, seq, step int64) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var st cursorState
	if _, err := c.bus.GetState(ctx, c.key(cursor), &st); err != nil {
		return 0, err
	}
	if seq <= st.Acknowledged {
		return st.Acknowledged, nil
	}
	if cursor == feed.TrainerCursor { // the log first: a commit must know every acknowledged batch
		if err := c.acknowledged(ctx, seq, step); err != nil {
			return st.Acknowledged, err
		}
	}
	if err := c.bus.PutState(ctx, c.key(cursor), cursorState{Acknowledged: seq, TrainerStep: step}); err != nil {
		return st.Acknowledged, err
	}
	if cursor == feed.TrainerCursor {
		for s := st.Acknowledged + 1; s <= seq; s++ {
			c.acked[s] = time.Now()
		}
	}
	return seq, nil
}

// AckTimes says when the trainer acknowledged each batch during this process's life.
func (s *RewardServer) AckTimes() map[int64]time.Time {
	s.cursors.mu.Lock()
	defer s.cursors.mu.Unlock()
	out := make(map[int64]time.Time, len(s.cursors.acked))
	for k, v := range s.cursors.acked {
		out[k] = v
	}
	return out
}

// WrittenAt says when this process wrote a batch.
func (s *RewardServer) WrittenAt(seq int64) (time.Time, bool) {
	at, ok := s.written.Load(seq)
	if !ok {
		return time.Time{}, false
	}
	return at.(time.Time), true
}
