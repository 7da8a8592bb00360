package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/cmd/internal/line"
	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/task"
)

// runOptions are the flags of verigraph run.
type runOptions struct {
	in         inputFlags
	configFile string
	run        string
	policy     string
	api        string
	model      string
	tokenizer  string
	judge      string
	judgeModel string
	groupSize  int
	out        string
	preset     string
	python     string
	seed       int64
	resume     bool
	trainer    string
	await      bool
	json       bool
	// validate submits the prompts as validation: they are asked once, whatever comes of them.
	validate bool
}

func newRun() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the whole line in this process: prompts in, trajectories, rewards, Parquet batches out",
		Example: `  # the demo, without a model
  verigraph run --prompts examples/dabench/questions.jsonl --labels examples/dabench/labels.jsonl \
    --format dabench --data-dir examples/dabench/tables --policy script:examples/dabench/script.jsonl \
    --judge rules --out out/demo

  # a real endpoint and a real judge
  verigraph run --prompts prompts.jsonl --data-dir data --policy http://HOST:8000 --model NAME \
    --tokenizer DIR --judge http://HOST:8001/v1 --judge-model NAME --out out/first`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runLocal(cmd.Context(), o, cmd.Flags().Changed, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	o.in.register(f)
	f.StringVar(&o.configFile, "config", "", "configuration file (flags win over it)")
	f.StringVar(&o.run, "run", "", "name of the run")
	f.StringVar(&o.policy, "policy", "", "policy endpoint URL, or script:FILE for scripted turns")
	f.StringVar(&o.api, "policy-api", "", "completions (token ids), or chat: text only, for teachers and baselines, never training rows")
	f.StringVar(&o.model, "model", "", "name of the served model")
	f.StringVar(&o.tokenizer, "tokenizer", "", "directory with the model's tokenizer.json, or server: rebuilt from the policy server")
	f.StringVar(&o.judge, "judge", "", "judge endpoint URL (OpenAI API), or rules")
	f.StringVar(&o.judgeModel, "judge-model", "", "name of the judge model")
	f.IntVar(&o.groupSize, "group-size", 0, "rollouts per prompt")
	f.StringVar(&o.out, "out", "", "output directory")
	f.StringVar(&o.preset, "reward", "", "reward preset: "+strings.Join(reward.PresetNames(), ", ")+", or a file")
	f.StringVar(&o.python, "python", "", "Python interpreter of the sessions")
	f.Int64Var(&o.seed, "seed", 0, "seed of the run")
	f.BoolVar(&o.resume, "resume", false, "go on with the run in --out")
	f.StringVar(&o.trainer, "trainer", "", "command that takes the batches; started with VERIGRAPH_FEED set to the feed's address")
	f.BoolVar(&o.await, "await-trainer", false, "serve batches until a trainer has acknowledged all")
	cli.OutputFlag(f, &o.json, "the summary")
	return cmd
}

// resolve builds the configuration from file and flags.
func (o runOptions) resolve(changed func(string) bool) (config.Config, error) {
	cfg, err := config.LoadOptional(o.configFile)
	if err != nil {
		return cfg, err
	}
	set := func(name string, apply func()) {
		if changed(name) {
			apply()
		}
	}
	set("run", func() { cfg.Run = o.run })
	set("policy-api", func() { cfg.Policy.API = o.api })
	set("model", func() { cfg.Policy.Model = o.model })
	set("tokenizer", func() { cfg.Policy.Tokenizer = o.tokenizer })
	set("group-size", func() { cfg.Leader.GroupSize = o.groupSize })
	set("reward", func() { cfg.Reward.Preset = o.preset })
	set("python", func() { cfg.Sandbox.Python = o.python })
	set("seed", func() { cfg.Leader.Seed = o.seed })
	cfg.Reward.SetJudge(o.judge, o.judgeModel)
	if o.policy != "" && !strings.HasPrefix(o.policy, scriptPrefix) {
		cfg.Policy.BaseURL = o.policy
	}
	if o.out == "" {
		return cfg, errors.New("--out: an output directory is needed")
	}
	cfg.Blob, cfg.Reward.Archive, cfg.Worker.Cache = o.out, o.out, filepath.Join(o.out, "cache")
	cfg.Worker.Drain = 0 // the broker goes too: what is in work is handed back, and its journal stays
	cfg.Resolve()
	return cfg, nil
}

const scriptPrefix = "script:"

// samplesOf is the size of a prompt's group.
func samplesOf(p task.Prompt, groupSize int) int {
	if p.Sampling != nil && p.Sampling.N != nil {
		return *p.Sampling.N
	}
	return groupSize
}

// startScript starts the scripted policy when --policy asks for it and points cfg at it.
func (o runOptions) startScript(ctx context.Context, cfg *config.Config, prompts []task.Prompt) (stop func(), err error) {
	path, scripting := strings.CutPrefix(o.policy, scriptPrefix)
	if !scripting {
		return func() {}, nil
	}
	script, err := scripted.LoadScript(path)
	if err != nil {
		return nil, cli.Usage(err)
	}
	var missing []string
	for _, p := range prompts {
		for k := range samplesOf(p, cfg.Leader.GroupSize) {
			if !script.Has(p.ID, k) {
				missing = append(missing, fmt.Sprintf("%s/%d", p.ID, k))
			}
		}
	}
	if len(missing) > 0 {
		return nil, cli.Usage(fmt.Errorf("script: %s has no turns for prompt/sample %s", path, strings.Join(missing, ", ")))
	}
	server, err := scripted.New(script, scripted.Defaults())
	if err != nil {
		return nil, err
	}
	url, stop, err := server.Start(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Policy.BaseURL, cfg.Policy.Model = url, scripted.Defaults().Model
	cfg.Policy.Tokenizer = filepath.Join(cfg.Blob, "tokenizer.json")
	if err := os.WriteFile(cfg.Policy.Tokenizer, scripted.TokenizerJSON(), 0o644); err != nil {
		stop()
		return nil, fmt.Errorf("run: %w", err)
	}
	return stop, nil
}

// prepare checks everything that the user wrote before anything is started or written.
func (o runOptions) prepare(ctx context.Context, changed func(string) bool) (config.Config, input, error) {
	cfg, err := o.resolve(changed)
	if err != nil {
		return cfg, input{}, cli.Usage(err)
	}
	in, err := o.in.load(ctx)
	if err != nil {
		return cfg, in, err
	}
	scorer, err := line.NewScorer(cfg.Reward)
	if err != nil {
		return cfg, in, cli.Usage(err)
	}
	if err := in.scorable(scorer); err != nil {
		return cfg, in, cli.Usage(err)
	}
	check := cfg
	if strings.HasPrefix(o.policy, scriptPrefix) { // filled in when the script's server runs
		check.Policy.BaseURL, check.Policy.Model, check.Policy.Tokenizer = "http://127.0.0.1", "scripted", "scripted"
	} else if cfg.Policy.BaseURL == "" && len(cfg.Policy.Endpoints.Allow) == 0 {
		return cfg, in, cli.Usage(errors.New("--policy: an endpoint URL or script:FILE is needed"))
	}
	return cfg, in, cli.Usage(errors.Join(check.ValidateWorker(), cfg.ValidateReward()))
}

func runLocal(ctx context.Context, o runOptions, changed func(string) bool, stdout, stderr io.Writer) error {
	cfg, in, err := o.prepare(ctx, changed)
	if err != nil {
		return err
	}
	l, sum, runErr, err := runLine(ctx, o, cfg, in, stderr)
	if err != nil {
		return err
	}
	if o.json {
		if err := json.NewEncoder(stdout).Encode(sum); err != nil {
			return err
		}
	} else {
		sum.print(stdout, o.out)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %d batches and %d trajectories are kept in %s; go on with --resume",
			sum.Batches.Written, sum.Rollouts, o.out)
	}
	if runErr == nil && !sum.accounted() {
		runErr = fmt.Errorf("the ledger does not balance: %+v", sum.Ledger)
	}
	if runErr == nil {
		runErr = l.judgeGone(sum, o.out)
	}
	return runErr
}

// runLine runs the whole line in o.out. runErr is how the work ended; err says that there is no summary of it.
func runLine(ctx context.Context, o runOptions, cfg config.Config, in input, stderr io.Writer) (l *localLine, sum summary, runErr, err error) {
	start := time.Now()
	if err := openOut(o.out, o.resume, identity(cfg, in)); err != nil {
		return nil, sum, nil, cli.Usage(err)
	}
	log, err := runLogger(filepath.Join(o.out, "run.log"), stderr)
	if err != nil {
		return nil, sum, nil, err
	}
	defer func() { _ = log.Sync() }()
	memory := watchMemory(ctx)
	defer memory.stop()

	if l, err = openLine(ctx, o, &cfg, in, log); err != nil {
		return nil, sum, nil, err
	}
	runErr = l.work(ctx, o, in, stderr)
	// The summary is written also after a failure or Ctrl-C: what was kept is on disk.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	sum, sumErr := l.summary(end, start, memory)
	sumErr = errors.Join(sumErr, l.lastStatus(end, o.out))
	closeErr := l.close()
	if sumErr != nil {
		return nil, sum, nil, errors.Join(runErr, sumErr, closeErr)
	}
	if err := sum.write(o.out); err != nil {
		return nil, sum, nil, errors.Join(runErr, err, closeErr)
	}
	return l, sum, errors.Join(runErr, closeErr), nil
}

// localLine is everything that verigraph run starts.
type localLine struct {
	cfg        config.Config
	server     *jetstream.Server
	bus        *jetstream.Bus
	blobs      *blob.Store
	worker     *line.Worker
	reward     *line.RewardServer
	stopScript func()
	log        *zap.Logger
}

func openLine(ctx context.Context, o runOptions, cfg *config.Config, in input, log *zap.Logger) (_ *localLine, err error) {
	l := &localLine{log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if l.stopScript, err = o.startScript(ctx, cfg, in.prompts); err != nil {
		return nil, err
	}
	l.cfg = *cfg
	if l.blobs, err = blob.OpenDir(o.out); err != nil {
		return nil, err
	}
	if l.server, err = jetstream.StartServer(jetstream.ServerConfig{Dir: filepath.Join(o.out, "nats")}); err != nil {
		return nil, err
	}
	nc, err := l.server.Connect()
	if err != nil {
		return nil, err
	}
	if l.bus, err = jetstream.New(ctx, nc, l.blobs, cfg.NATS.Config); err != nil {
		nc.Close()
		return nil, err
	}
	if l.reward, err = line.NewRewardServer(ctx, *cfg, l.bus, l.blobs, log); err != nil {
		return nil, err
	}
	if l.worker, err = line.NewWorker(ctx, *cfg, l.bus, l.blobs, log); err != nil {
		return nil, err
	}
	return l, nil
}

// work submits the prompts and runs until every dispatched rollout has left, and the trainer, if
// one is expected, has acknowledged every batch.
func (l *localLine) work(ctx context.Context, o runOptions, in input, stderr io.Writer) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	g, running := errgroup.WithContext(running)
	g.Go(func() error { return l.reward.Run(running) })
	g.Go(func() error { return l.worker.Run(running) })
	g.Go(func() error { return l.keepStatus(running, o.out) })
	g.Go(func() error {
		defer stop() // the parts above run until the work is done
		return l.drive(running, o, in, stderr)
	})
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

func (l *localLine) drive(ctx context.Context, o runOptions, in input, stderr io.Writer) error {
	fmt.Fprintf(stderr, "run %s: %d prompts x %d rollouts, sandbox tier %s, feed on %s\n",
		l.cfg.Run, len(in.prompts), samplesOf(in.prompts[0], l.cfg.Leader.GroupSize), l.worker.Tier, l.reward.Addr())
	sub := line.NewSubmitter(l.bus, l.blobs, l.cfg.Run)
	sub.Tracer = l.reward.Tracer
	sub.Validate = o.validate
	if l.cfg.Policy.API == config.APIChat {
		fmt.Fprintln(stderr, "the policy gives text and no token ids: trajectories are scored and archived, and none becomes a training row")
	}
	known := l.reward.Leader()
	var fresh []task.Prompt
	for _, p := range in.prompts {
		if !known.Knows(p.ID) {
			fresh = append(fresh, p)
		}
	}
	if err := sub.Submit(ctx, fresh, in.references, in.paths, true); err != nil {
		return err
	}
	trainer := startTrainer(ctx, o.trainer, l.reward.Addr(), o.out)
	if err := l.untilComplete(ctx, trainer, stderr); err != nil {
		return err
	}
	if err := trainer.wait(); err != nil {
		return err
	}
	if o.trainer != "" || o.await {
		return l.awaitAcks(ctx)
	}
	return nil
}

// untilComplete waits until every dispatched rollout has left. A trainer that ends before is an error.
func (l *localLine) untilComplete(ctx context.Context, trainer *trainer, stderr io.Writer) error {
	progress := newProgress(stderr)
	defer progress.done()
	moved := time.Now()
	for {
		last := l.reward.Leader()
		changed := last.Changed()
		if last.Complete() {
			return nil
		}
		if time.Since(moved) > stallNotice {
			l.sayWaiting(ctx, stderr)
			moved = time.Now()
		}
		select {
		case <-changed:
			moved = time.Now()
		case <-trainer.ended:
			if last.Complete() {
				return nil
			}
			return fmt.Errorf("the trainer ended before the run: %w", errOr(trainer.wait(), errors.New("exit status 0")))
		case <-progress.tick():
			p, err := last.Progress(ctx)
			if err != nil {
				return err
			}
			progress.show(p)
		case <-time.After(time.Second): // a leader of a new term
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stallNotice is how long nothing may move before a person is told what everything waits for.
const stallNotice = 20 * time.Second

func (l *localLine) sayWaiting(ctx context.Context, stderr io.Writer) {
	st, err := l.reward.Status(ctx)
	if err != nil {
		return // the loop meets the same trouble
	}
	fmt.Fprintf(stderr, "nothing has moved for %s; waiting:\n", stallNotice)
	for _, w := range st.Waiting {
		fmt.Fprintf(stderr, "  %d %s: %s\n", w.Count, w.What, w.Reason)
	}
	fmt.Fprintf(stderr, "  (details in %s)\n", filepath.Join(l.cfg.Blob, "run.log"))
}

// awaitAcks waits until the trainer's cursor stands at the last batch.
func (l *localLine) awaitAcks(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		st, err := l.reward.Status(ctx)
		switch {
		case errors.Is(err, feed.ErrNotLeading): // between two terms
		case err != nil || st.BatchesAcknowledged >= st.BatchesWritten:
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// judgeGone is the error of a run whose last groups were scored without the judge.
func (l *localLine) judgeGone(sum summary, out string) error {
	if l.reward.Scoring.Guard == nil {
		return nil
	}
	st := l.reward.Scoring.Guard.State()
	if !st.GaveUp {
		return nil
	}
	return fmt.Errorf("the judge fails its canaries (%s): %d of %d rollouts left unscored; with a judge that works, verigraph score %s scores what is kept",
		st.Reason, sum.Ledger.Unscored, sum.Ledger.Dispatched, out)
}

func (l *localLine) close() error {
	var errs []error
	if l.worker != nil {
		errs = append(errs, l.worker.Close())
	}
	if l.reward != nil {
		errs = append(errs, l.reward.Close())
	}
	if l.bus != nil {
		l.bus.Close()
	}
	if l.server != nil {
		l.server.Stop()
	}
	if l.blobs != nil {
		errs = append(errs, l.blobs.Close())
	}
	if l.stopScript != nil {
		l.stopScript()
	}
	return errors.Join(errs...)
}

func errOr(err, fallback error) error {
	if err != nil {
		return err
	}
	return fallback
}

// input is what the prompts file held.
type input struct {
	prompts    []task.Prompt
	references []task.Reference
	paths      map[string]string
}

// scorable reports every prompt that this reward configuration can't score.
func (in input) scorable(s *reward.Scorer) error {
	refs := map[string]task.Reference{}
	for _, r := range in.references {
		refs[r.PromptID] = r
	}
	var errs []error
	for _, p := range in.prompts {
		ref, ok := refs[p.ID]
		if !ok {
			errs = append(errs, fmt.Errorf("prompt %s: no reference answer", p.ID))
			continue
		}
		errs = append(errs, s.Supports(ref))
	}
	return errors.Join(errs...)
}

// inputFlags are the flags that name prompts; run and submit share them.
type inputFlags struct {
	dataset.ImportConfig
	format string
}

func (f *inputFlags) load(ctx context.Context) (input, error) {
	f.Format = dataset.Format(f.format)
	prompts, refs, paths, err := dataset.Import(ctx, f.ImportConfig)
	if err != nil {
		if ctx.Err() != nil {
			return input{}, ctx.Err()
		}
		return input{}, cli.Usage(err)
	}
	if len(prompts) == 0 {
		return input{}, cli.Usage(fmt.Errorf("--prompts: %s holds no prompt", f.Prompts))
	}
	return input{prompts, refs, paths}, nil
}
