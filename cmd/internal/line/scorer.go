package line

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/cmd/internal/tracing"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/account"
	"github.com/verigraph/verigraph/reward/items"
	"github.com/verigraph/verigraph/reward/judges"
	"github.com/verigraph/verigraph/reward/openai"
	"github.com/verigraph/verigraph/reward/rpc"
	"github.com/verigraph/verigraph/reward/scorehook"
	"github.com/verigraph/verigraph/reward/verdicts"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// NewScorer builds the scorer with its judge and no store, to check a configuration.
func NewScorer(cfg config.Reward) (*reward.Scorer, error) {
	s, err := NewScoring(cfg, nil, zap.NewNop())
	if err != nil {
		return nil, err
	}
	return s.Scorer, s.Close()
}

// Scoring is a scorer with all that stands around it: judges behind the verdict cache, the guard, the
// books, and the gRPC service.
type Scoring struct {
	Scorer *reward.Scorer
	Book   *account.Book
	// Guard is nil where no LLM judge works.
	Guard *judges.Guard

	judges  []*openai.Judge
	cache   *reward.Cache
	hooks   []*scorehook.Hook
	keeper  *items.Keeper
	service *rpc.Server
	listen  net.Listener
	metrics prometheus.Collector
	// seconds is how long scoring a rollout took, its judging included.
	seconds prometheus.Histogram
	tracer  *tracing.Tracer
	log     *zap.Logger
}

// NewScoring builds a scorer. Store may be nil. Close it.
func NewScoring(cfg config.Reward, store reward.Store, log *zap.Logger) (*Scoring, error) {
	return newScoring(cfg, store, nil, log)
}

func newScoring(cfg config.Reward, store reward.Store, tracer *tracing.Tracer, log *zap.Logger) (_ *Scoring, err error) {
	s := &Scoring{Book: &account.Book{}, tracer: tracer, log: log, seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "verigraph_reward_score_seconds", Help: "Time of scoring one rollout, its judging included.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 11),
	})}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	preset, err := reward.LoadPreset(cfg.Preset)
	if err != nil {
		return nil, err
	}
	s.cache = reward.NewSharedCache(reward.CacheConfig{
		Limit: cfg.Verdicts.Memory, Tenant: cfg.Verdicts.Tenant, Store: store, Rejudge: cfg.Verdicts.Rejudge,
	})
	rc := reward.Config{Preset: preset, Judge: rulesJudge(tracer), Deadline: cfg.RolloutDeadline, Hooks: map[string]reward.Hook{}}
	if cfg.Judge == config.JudgeOpenAI {
		if err := s.openJudges(cfg, &rc); err != nil {
			return nil, err
		}
	}
	for name, hook := range cfg.Scorers {
		h, err := scorehook.New(name, hook)
		if err != nil {
			return nil, err
		}
		s.hooks = append(s.hooks, h)
		rc.Hooks[name] = h
	}
	s.Scorer, err = reward.New(rc)
	return s, err
}

func (s *Scoring) openJudges(cfg config.Reward, rc *reward.Config) error {
	var bare []reward.Judge // the guard's calls never come from the cache
	for _, jc := range cfg.Panel() {
		j, err := openai.New(jc)
		if err != nil {
			return err
		}
		for _, w := range jc.Warnings() {
			s.log.Warn(w, zap.String("model", jc.Model))
		}
		s.judges, bare = append(s.judges, j), append(bare, j)
	}
	if err := s.watch(cfg, bare); err != nil {
		return err
	}
	rc.Healthy = s.Guard.Healthy
	var members []reward.Judge
	var outcomes []reward.OutcomeJudge
	for _, j := range s.judges {
		guarded := s.Guard.Judge(traceJudge(j, s.tracer))
		members, outcomes = append(members, s.cache.Judge(guarded)), append(outcomes, s.cache.Outcome(guarded))
	}
	rc.Judge, rc.Outcome = members[0], outcomes[0]
	if len(members) > 1 {
		panel, err := judges.NewPanel(members, outcomes)
		if err != nil {
			return err
		}
		rc.Judge, rc.Outcome = panel.Judge(), panel
	}
	return nil
}

// watch sets the guard over the judges, which vote on its canaries as they do on the work.
func (s *Scoring) watch(cfg config.Reward, members []reward.Judge) error {
	judge := members[0]
	if len(members) > 1 {
		panel, err := judges.NewPanel(members, nil)
		if err != nil {
			return err
		}
		judge = panel
	}
	canaries, err := judges.Canaries()
	if err != nil {
		return err
	}
	s.Guard, err = judges.NewGuard(judge, canaries, cfg.Canaries, func(st judges.GuardState) {
		switch {
		case st.GaveUp:
			s.log.Error("scoring goes on without the judge: what needs a new verdict leaves unscored",
				zap.Duration("paused_for", time.Since(st.Since)), zap.String("reason", st.Reason))
		case st.Paused:
			s.log.Error("scoring is paused: the judge fails its canaries", zap.String("reason", st.Reason))
		default:
			s.log.Info("scoring goes on: the judge passes its canaries")
		}
	})
	return err
}

// verdictStore opens the store that the configuration names.
func verdictStore(ctx context.Context, cfg config.Config, bus *jetstream.Bus) (reward.Store, error) {
	store := cfg.Reward.Verdicts.Store
	switch {
	case cfg.Reward.Judge == config.JudgeRules: // recomputing costs less than looking up
		return nil, nil
	case store == config.VerdictsAuto && cfg.NATS.URL == "" && cfg.Reward.Archive != "":
		store = config.VerdictsDir + VerdictDir(cfg.Reward.Archive)
	case store == config.VerdictsAuto:
		store = config.VerdictsNATS
	}
	if dir, ok := strings.CutPrefix(store, config.VerdictsDir); ok {
		return verdicts.OpenDir(dir)
	}
	if store == config.VerdictsNATS {
		return bus.OpenVerdicts(ctx)
	}
	return nil, nil
}

// VerdictDir is where an output directory keeps verdicts.
func VerdictDir(out string) string { return filepath.Join(out, "verdicts") }

// openScoring builds the scoring of a reward server, with its service and its books on /metrics.
func openScoring(ctx context.Context, cfg config.Config, bus *jetstream.Bus, tracer *tracing.Tracer, log *zap.Logger) (_ *Scoring, err error) {
	store, err := verdictStore(ctx, cfg, bus)
	if err != nil {
		return nil, err
	}
	s, err := newScoring(cfg.Reward, store, tracer, log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if cfg.Reward.Archive != "" {
		if s.keeper, err = items.Open(cfg.Reward.Archive); err != nil {
			return nil, err
		}
	}
	s.metrics = scoringMetrics{s}
	if err := prometheus.Register(s.metrics); err != nil {
		s.metrics = nil // another server of this process, as in tests: its books stay its own
	}
	return s, s.openService(ctx, cfg.Reward.Service)
}

func (s *Scoring) openService(ctx context.Context, cfg config.RewardService) (err error) {
	if cfg.Listen == "" {
		return nil
	}
	opts, err := cfg.Options()
	if err != nil {
		return err
	}
	if s.Guard != nil {
		opts.Paused = func() (bool, string) { st := s.Guard.State(); return st.Paused, st.Reason }
	}
	if s.service, err = rpc.New(booked{s}, opts); err != nil {
		return err
	}
	var lc net.ListenConfig
	if s.listen, err = lc.Listen(ctx, "tcp", cfg.Listen); err != nil {
		return fmt.Errorf("reward.service.listen: %w", err)
	}
	s.log.Info("reward service", zap.String("address", s.listen.Addr().String()))
	return nil
}

// booked is the scorer that counts, and keeps what scoring again will need.
type booked struct{ s *Scoring }

var _ rpc.Scorer = booked{}

func (b booked) Score(ctx context.Context, t trajectory.Trajectory, p task.Prompt, ref task.Reference) trajectory.Score {
	start := time.Now()
	score := b.s.Scorer.Score(ctx, t, p, ref)
	if ctx.Err() != nil {
		return score // will not be kept
	}
	b.s.seconds.Observe(time.Since(start).Seconds())
	b.s.Book.Add(score)
	if score.Status == trajectory.ScoreUnscored || score.Status == trajectory.ScoreUnjudgeable {
		b.s.log.Warn("rollout has no reward", zap.Stringer("rollout", t.ID), zap.String("status", string(score.Status)),
			zap.Int("edges", score.Edges), zap.String("reason", score.Reason))
	}
	if b.s.keeper != nil {
		if err := b.s.keeper.Add(items.Item{Prompt: p, Reference: ref}); err != nil {
			b.s.log.Error("item not kept for scoring again", zap.Error(err))
		}
	}
	return score
}
func (b booked) Supports(ref task.Reference) error { return b.s.Scorer.Supports(ref) }
func (b booked) Preset() reward.Preset             { return b.s.Scorer.Preset() }

// Run runs the guard and the service until ctx ends.
func (s *Scoring) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if s.Guard != nil {
		g.Go(func() error { return s.Guard.Run(ctx) })
	}
	if s.service != nil {
		g.Go(func() error { return s.service.Serve(ctx, s.listen) })
	}
	return g.Wait()
}

// ServiceAddr is where the reward service listens, "" where it is not served.
func (s *Scoring) ServiceAddr() string {
	if s.listen == nil {
		return ""
	}
	return s.listen.Addr().String()
}

// Close frees connections and files.
func (s *Scoring) Close() error {
	var errs []error
	for _, h := range s.hooks {
		errs = append(errs, h.Close())
	}
	if s.keeper != nil {
		errs = append(errs, s.keeper.Close())
	}
	if s.metrics != nil {
		prometheus.Unregister(s.metrics)
	}
	if s.listen != nil {
		if err := s.listen.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	s.hooks, s.keeper, s.metrics, s.listen = nil, nil, nil, nil
	return errors.Join(errs...)
}
