package line

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/chat"
	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/rollout/replay"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/sandbox/analysis"
)

// Worker is a rollout worker with all that it owns.
type Worker struct {
	worker  *rollout.Worker
	client  *policy.Client
	version atomic.Int64
	// versioned: the server has /weight_info.
	versioned bool
	closers   []func() error
	Tier      sandbox.Tier
	Identity  rollout.Identity
}

// NewWorker checks the environment (Python packages, isolation, policy endpoint, tokenizer) and
// builds a worker that takes groups of cfg.Run. Close it.
func NewWorker(ctx context.Context, cfg config.Config, bus *jetstream.Bus, blobs *blob.Store, log *zap.Logger) (_ *Worker, err error) {
	w := &Worker{}
	defer func() {
		if err != nil {
			_ = w.Close()
		}
	}()
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
	// Sessions run under other uids: the files must be readable by all.
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	source, err := newStage(ctx, bus, cfg.Run, jetstream.Prompts, jetstream.Trajectories, ofDispatch, ofGroup)
	if err != nil {
		return nil, err
	}
	w.worker = &rollout.Worker{
		Source: source, Files: cachedFiles{store: blobs, dir: dir},
		Runner: &rollout.GroupRunner{Runner: runner, Identity: w.Identity, Log: log},
		Groups: cfg.Worker.Groups, MaxDeliver: cfg.NATS.MaxDeliver, Log: log,
	}
	return w, nil
}

func (w *Worker) runner(ctx context.Context, cfg config.Config) (*rollout.Runner, error) {
	templates, err := rollout.LoadTemplates(cfg.Rollout.Prompts)
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.Load(cfg.Policy.Tokenizer)
	if err != nil {
		return nil, err
	}
	ml, err := chat.New(tok)
	if err != nil {
		return nil, err
	}
	if w.client, err = policy.NewClient(cfg.Policy.Config); err != nil {
		return nil, err
	}
	w.closers = append(w.closers, func() error { w.client.Close(); return nil })
	model, err := w.client.Probe(ctx)
	if err != nil {
		return nil, err
	}
	if cfg.Rollout.MaxContext == 0 {
		cfg.Rollout.MaxContext = model.MaxModelLen
	}
	w.versioned = w.readVersion(ctx)
	if err := sandbox.CheckPython(ctx, cfg.Sandbox.Python); err != nil {
		return nil, err
	}
	box, err := sandbox.New(cfg.Sandbox)
	if err != nil {
		return nil, err
	}
	w.closers = append(w.closers, box.Close)
	w.Tier = box.Tier()
	analyzer, err := analysis.New(analysis.Config{Python: cfg.Sandbox.Python})
	if err != nil {
		return nil, err
	}
	w.closers = append(w.closers, analyzer.Close)
	w.Identity = rollout.Identity{
		Model: cfg.Policy.Model, TokenizerSHA256: tok.SHA256(), ChatTemplateSHA256: ml.SHA256(), PadTokenID: ml.Pad(),
	}
	runner := &rollout.Runner{
		Config: cfg.Rollout, Policy: w.client, Tokenizer: tok, Chat: ml, Sandbox: box,
		Analyzer: analyzer, Templates: templates, Version: w.version.Load,
	}
	if cfg.Rollout.Replay == rollout.ReplaySubmitted {
		runner.Replay = &replay.Replayer{Sandbox: box, Evidence: cfg.Rollout.Evidence, Sensitivity: true}
	}
	return runner, nil
}

// versionPoll is how often the server's weight version is asked for.
const versionPoll = time.Second

// readVersion reports whether the server states versions at all.
func (w *Worker) readVersion(ctx context.Context) bool {
	v, err := w.client.WeightVersion(ctx)
	if err == nil && v >= 0 {
		w.version.Store(v)
	}
	return err != nil || v >= 0
}

// Run works until ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if !w.versioned {
			return nil
		}
		tick := time.NewTicker(versionPoll)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				w.readVersion(ctx)
			}
		}
	})
	g.Go(func() error { return w.worker.Run(ctx) })
	return g.Wait()
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
