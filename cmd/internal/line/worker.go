package line

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/cmd/internal/tracing"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/policy/pool"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/rollout/replay"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/sandbox/analysis"
)

// Worker is a rollout worker with all that it owns.
type Worker struct {
	worker    *rollout.Worker
	endpoints *pool.Pool // nil with a text-only policy
	follower  *follower
	prober    *prober
	box       *sandbox.Sandbox
	// callLimit is how long a policy call may be open before it is ended as lost.
	callLimit time.Duration
	log       *zap.Logger
	closers   []func() error
	Tier      sandbox.Tier
	Identity  rollout.Identity
}

// NewWorker checks the environment (Python packages, isolation, policy endpoint, tokenizer) and
// builds a worker that takes groups of cfg.Run. Close it.
func NewWorker(ctx context.Context, cfg config.Config, bus *jetstream.Bus, blobs *blob.Store, log *zap.Logger) (_ *Worker, err error) {
	w := &Worker{log: log}
	defer func() {
		if err != nil {
			_ = w.Close()
		}
	}()
	tracer, err := tracing.Open(ctx, cfg.Telemetry.Traces, config.RoleWorker, cfg.Run, log)
	if err != nil {
		return nil, err
	}
	w.closers = append(w.closers, tracer.Close)
	runner, err := w.runner(ctx, cfg)
	if err != nil {
		return nil, err
	}
	dir := cfg.Worker.Cache
	if dir == "" {
		if dir, err = os.MkdirTemp("", "verigraph-data-"); err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
		w.closers = append(w.closers, func() error { return os.RemoveAll(dir) })
	}
	if err := readable(dir); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	source, err := newStage(ctx, bus, cfg.Run, jetstream.Prompts, jetstream.Trajectories, ofDispatch, ofGroup)
	if err != nil {
		return nil, err
	}
	metrics := newWorkerMetrics(w.box, w.endpoints)
	w.closers = append(w.closers, register(metrics))
	runner.Sandbox = countedSandbox{runner.Sandbox, metrics.kills}
	traceRunner(runner, tracer)
	groups := rollout.Source(countedGroups{source, metrics})
	if w.endpoints != nil { // a text-only policy has no trainer
		w.follower = follow(bus, cfg, w.endpoints, w.prober.run, log)
		if err := w.follower.begin(ctx); err != nil {
			return nil, err
		}
		w.endpoints.CheckNow(ctx)
		groups = informed{groups, w.follower}
	}
	groupRunner := &rollout.GroupRunner{Runner: runner, Identity: w.Identity, Log: log, MaxStaleness: staleness(cfg.Rollout)}
	if cfg.Rollout.Journal == rollout.JournalOn {
		groupRunner.Journal = journals{bus}
		w.closers = append(w.closers, register(resumedMetrics{&groupRunner.Resumed}))
	}
	w.worker = &rollout.Worker{
		Source: groups, Files: &blob.Cache{Store: blobs, Dir: dir, Max: cfg.Worker.CacheBytes}, Runner: groupRunner,
		Groups: cfg.Worker.Groups, MaxDeliver: cfg.NATS.MaxDeliver, Drain: cfg.Worker.Drain, Log: log,
	}
	return w, nil
}

func (w *Worker) runner(ctx context.Context, cfg config.Config) (*rollout.Runner, error) {
	templates, err := rollout.LoadAgentTemplates(cfg.Rollout.Agent, cfg.Rollout.Prompts)
	if err != nil {
		return nil, err
	}
	runner := &rollout.Runner{Templates: templates}
	if cfg.Policy.API == config.APIChat {
		err = w.textPolicy(ctx, cfg, runner)
	} else {
		err = w.exactPolicy(ctx, cfg, runner)
	}
	if err != nil {
		return nil, err
	}
	box, analyzer, err := w.python(ctx, cfg.Sandbox)
	if err != nil {
		return nil, err
	}
	w.box, w.Tier = box, box.Tier()
	runner.Config, runner.Sandbox, runner.Analyzer = cfg.Rollout, box, analyzer
	runner.HashSeed, runner.SessionClock = cfg.Sandbox.HashSeed, cfg.Sandbox.Clock
	if cfg.Rollout.Replay == rollout.ReplaySubmitted {
		runner.Replay = &replay.Replayer{Sandbox: box, Evidence: cfg.Rollout.Evidence, Sensitivity: true, Python: cfg.Sandbox.Python}
	}
	return runner, nil
}

// python checks the environment and starts what runs in it, side by side: each takes a second or more.
func (w *Worker) python(ctx context.Context, cfg sandbox.Config) (box *sandbox.Sandbox, analyzer *analysis.Analyzer, err error) {
	var checked, started, analysed error
	var g sync.WaitGroup
	g.Go(func() { checked = sandbox.CheckPython(ctx, cfg) })
	g.Go(func() { box, started = sandbox.New(cfg) })
	g.Go(func() { analyzer, analysed = analysis.New(analysis.Config{Python: cfg.Python}) })
	g.Wait()
	if started == nil {
		w.closers = append(w.closers, box.Close)
	}
	if analysed == nil {
		w.closers = append(w.closers, analyzer.Close)
	}
	// A package that is missing explains what else went wrong.
	return box, analyzer, cmp.Or(checked, started, analysed)
}

// staleness is the bound that cancels groups, nil for none.
func staleness(cfg rollout.Config) func() int64 {
	if cfg.MaxStaleness < 0 {
		return nil
	}
	return func() int64 { return cfg.MaxStaleness }
}

// lostCallCheck is how often open policy calls are looked through.
const lostCallCheck = 10 * time.Second

// Run works until ctx ends and the groups in work have ended within the drain time, or were handed back.
func (w *Worker) Run(ctx context.Context) error {
	// What the groups need outlives ctx as long as they do.
	rest, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, rest := errgroup.WithContext(rest)
	if w.endpoints != nil {
		g.Go(func() error { return w.endpoints.Run(rest) })
		g.Go(func() error { return w.follower.Run(rest) })
		g.Go(func() error { return w.endLostCalls(rest) })
	}
	taking, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(rest, cancel)()
	g.Go(func() error {
		defer stop()
		return w.worker.Run(taking)
	})
	return g.Wait()
}

// endLostCalls names and ends the policy calls that are open for longer than any may be.
func (w *Worker) endLostCalls(ctx context.Context) error {
	tick := time.NewTicker(lostCallCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			for _, c := range w.endpoints.Open().EndOver(w.callLimit, now) {
				w.log.Error("policy call was lost", zap.String("request_id", c.RequestID), zap.String("endpoint", c.Endpoint),
					zap.String("kind", c.Kind), zap.Time("since", c.Start))
			}
		}
	}
}

// Close frees sessions, the analyser and connections. It is idempotent.
func (w *Worker) Close() error {
	var errs []error
	for i := len(w.closers) - 1; i >= 0; i-- {
		errs = append(errs, w.closers[i]())
	}
	w.closers = nil
	return errors.Join(errs...)
}
