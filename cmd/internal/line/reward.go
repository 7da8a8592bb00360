package line

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/cmd/internal/tracing"
	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/service"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
	"github.com/verigraph/verigraph/viewer"
)

// overlongOwners translates the preset's owner of overlong shaping to the batch's.
var overlongOwners = map[reward.Owner]dataset.OverlongOwner{
	reward.OwnerNone: dataset.OverlongNone, reward.OwnerServer: dataset.OverlongReward, reward.OwnerTrainer: dataset.OverlongTrainer,
}

// RewardServer scores groups, leads the run (admission, batches) while no other server does, and serves
// the feed.
type RewardServer struct {
	Scoring *Scoring
	// Tracer is nil where nothing is traced.
	Tracer  *tracing.Tracer
	lead    *Lead
	scoring *service.Server
	feed    *feed.Server
	listen  net.Listener
	cursors *cursors
	archive *archive.Archive
	bus     *jetstream.Bus
	blobs   *blob.Store
	run     string
	// viewer shows the archive on the admin port; nil where it may not be shown.
	viewer http.Handler
	shown  *viewer.Run
	// unregister takes the run's metrics back.
	unregister func() error
}

// NewRewardServer builds the reward side of cfg.Run from the streams. Close it.
func NewRewardServer(ctx context.Context, cfg config.Config, bus *jetstream.Bus, blobs *blob.Store, log *zap.Logger) (_ *RewardServer, err error) {
	s := &RewardServer{bus: bus, blobs: blobs, run: cfg.Run}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if s.Tracer, err = tracing.Open(ctx, cfg.Telemetry.Traces, config.RoleReward, cfg.Run, log); err != nil {
		return nil, err
	}
	if s.Scoring, err = openScoring(ctx, cfg, bus, s.Tracer, log); err != nil {
		return nil, err
	}
	keep := func(trajectory.ScoredGroup) error { return nil }
	if cfg.Reward.Archive != "" {
		if s.archive, err = archive.Open(cfg.Reward.Archive); err != nil {
			return nil, err
		}
		keep = s.archive.Add
		if err := s.openViewer(ctx, cfg, log); err != nil {
			return nil, err
		}
	}
	if err := bus.Prepare(ctx, cfg.Run); err != nil {
		return nil, err
	}
	cfg.Leader.Overlong = overlongOwners[s.Scoring.Scorer.Preset().Overlong.Owner]
	source, err := newStage(ctx, bus, cfg.Run, jetstream.Trajectories, jetstream.Scored, ofGroup, ofScoredGroup)
	if err != nil {
		return nil, err
	}
	s.scoring = &service.Server{
		Source: source, References: references{bus}, Scorer: booked{s.Scoring},
		Groups: cfg.Reward.Groups, MaxDeliver: cfg.NATS.MaxDeliver, Log: log,
	}
	if s.Tracer != nil {
		s.scoring.Scorer = tracedScorer{s.scoring.Scorer, s.Tracer}
	}
	if s.Scoring.Guard != nil {
		s.scoring.Gate = s.Scoring.Guard
	}
	s.lead = newLead(cfg, bus, blobs, keep, log)
	s.lead.tracer = s.Tracer
	if err := s.serve(ctx, cfg); err != nil {
		return nil, err
	}
	s.unregister = register(runMetrics{s})
	return s, s.lead.begin(ctx)
}

func (s *RewardServer) serve(ctx context.Context, cfg config.Config) error {
	s.cursors = &cursors{bus: s.bus, run: cfg.Run, acked: map[int64]time.Time{}, acknowledged: s.lead.acknowledged}
	objects := feed.Objects(s.blobs)
	if s.Tracer != nil {
		objects = tracedObjects{objects, s.Tracer, s.lead}
	}
	opts, err := cfg.Feed.Options()
	if err != nil {
		return err
	}
	s.feed, err = feed.New(feed.Source{
		Batches: s.lead, Objects: objects, Cursors: s.cursors, Status: s.Status, Submit: s.submitFeed,
		Control: control{s.lead, func(ctx context.Context, ref task.Reference) error {
			return s.bus.PutReference(ctx, s.run, task.Slug(ref.PromptID), ref)
		}},
	}, opts)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	if s.listen, err = lc.Listen(ctx, "tcp", cfg.Feed.Listen); err != nil {
		return fmt.Errorf("feed.listen: %w", err)
	}
	s.lead.address = advertised(cfg.Feed, s.Addr())
	return nil
}

// advertised is listen under the host that the environment states.
func advertised(cfg config.Feed, listen string) string {
	_, port, err := net.SplitHostPort(listen)
	if cfg.AdvertiseEnv == "" || err != nil {
		return listen
	}
	return net.JoinHostPort(os.Getenv(cfg.AdvertiseEnv), port)
}

// Addr is where the feed listens.
func (s *RewardServer) Addr() string { return s.listen.Addr().String() }

// Leader is the run's leader in this process, between two terms the one before; nil where it never led. The end of a
// term closes its Changed channel.
func (s *RewardServer) Leader() *leader.Leader { return s.lead.newest() }

// Run works until ctx ends or a part fails.
func (s *RewardServer) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.lead.Run(ctx) })
	g.Go(func() error { return s.scoring.Run(ctx) })
	g.Go(func() error { return s.Scoring.Run(ctx) })
	g.Go(func() error { return s.feed.Serve(ctx, s.listen) })
	return g.Wait()
}

// Close closes the archive and the listener.
func (s *RewardServer) Close() error {
	var errs []error
	if s.unregister != nil {
		errs = append(errs, s.unregister())
	}
	if s.Scoring != nil {
		errs = append(errs, s.Scoring.Close())
	}
	if s.archive != nil {
		errs = append(errs, s.archive.Close())
	}
	if s.shown != nil {
		errs = append(errs, s.shown.Close())
	}
	if s.listen != nil {
		if err := s.listen.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, s.Tracer.Close())
	return errors.Join(errs...)
}

// AckTimes says when the trainer acknowledged each batch during this process's life.
func (s *RewardServer) AckTimes() map[int64]time.Time {
	s.cursors.mu.Lock()
	defer s.cursors.mu.Unlock()
	return maps.Clone(s.cursors.acked)
}

// WrittenAt says when this process wrote a batch.
func (s *RewardServer) WrittenAt(seq int64) (time.Time, bool) {
	at, ok := s.lead.written.Load(seq)
	if !ok {
		return time.Time{}, false
	}
	return at.(time.Time), true
}
