package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/eval"
	"github.com/verigraph/verigraph/reward/items"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/task"
)

// evalRunOptions are the flags of verigraph eval run.
type evalRunOptions struct {
	run       runOptions
	score     evalScoreOptions
	benchmark string
	agent     string
	samples   int
	replay    bool
	without   []string
	noReport  bool
}

func newEvalRun() *cobra.Command {
	var o evalRunOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Ask one benchmark's questions and keep the rollouts in an evaluation directory",
		Long: `Runs the items of one benchmark through the same line as training, without a trainer, and keeps every rollout below OUT. Further
benchmarks of the same policy go into the same OUT. Then everything in OUT is scored (see verigraph eval score) and the
report is written. --resume goes on where a killed evaluation stopped.`,
		Example: `  verigraph eval run --benchmark dabench --prompts da-dev-questions.jsonl --labels da-dev-labels.jsonl --data-dir tables \
    --policy http://HOST:8000 --model NAME --tokenizer DIR --samples 4 --out out/eval
  verigraph eval run --benchmark tablebench --prompts TableBench.jsonl --agent codeact --policy https://HOST --policy-api chat \
    --model NAME --judge http://HOST:8001/v1 --judge-model NAME --out out/baseline`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.execute(cmd.Context(), cmd.Flags().Changed, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.benchmark, "benchmark", "", "one of "+eval.BenchmarkNames())
	f.StringVar(&o.agent, "agent", string(rollout.AgentVeriGraph), "verigraph, codeact (code and an answer in words) or direct (no tools)")
	f.IntVar(&o.samples, "samples", 1, "rollouts per item")
	f.BoolVar(&o.replay, "replay", true, "run every submission again: the Grounding Rate needs it")
	f.StringSliceVar(&o.without, "without", nil, "files of a shared context that are not at hand, e.g. payments.csv")
	f.BoolVar(&o.noReport, "no-report", false, "keep the rollouts and score nothing")
	r := &o.run
	f.StringVar(&r.in.Prompts, "prompts", "", "the benchmark's file")
	f.StringVar(&r.in.Labels, "labels", "", "labels file (dabench)")
	f.StringVar(&r.in.DataDir, "data-dir", "", "directory of the data files")
	f.IntVar(&r.in.Limit, "limit", 0, "take only the first items")
	f.StringVar(&r.configFile, "config", "", "configuration file (flags win over it)")
	f.StringVar(&r.policy, "policy", "", "policy endpoint URL, or script:FILE for scripted turns")
	f.StringVar(&r.api, "policy-api", "", "completions (token ids) or chat (text only)")
	f.StringVar(&r.model, "model", "", "name of the served model")
	f.StringVar(&r.tokenizer, "tokenizer", "", "directory with the model's tokenizer.json, or server")
	f.StringVar(&r.python, "python", "", "Python interpreter of the sessions")
	f.Int64Var(&r.seed, "seed", 0, "seed of the evaluation")
	f.BoolVar(&r.resume, "resume", false, "go on with what OUT holds of this benchmark")
	f.StringVar(&r.out, "out", "", "evaluation directory")
	o.score.register(f)
	return cmd
}

func (o evalRunOptions) execute(ctx context.Context, changed func(string) bool, stdout, stderr io.Writer) error {
	bench, err := eval.Find(o.benchmark)
	if err != nil {
		return cli.Usage(fmt.Errorf("--benchmark: %w", err))
	}
	if o.run.out == "" {
		return cli.Usage(errors.New("--out: an evaluation directory is needed"))
	}
	if o.samples < 1 {
		return cli.Usage(fmt.Errorf("--samples: %d, want at least 1", o.samples))
	}
	dir := o.run.out
	o.run.out = filepath.Join(dir, bench.Name)
	cfg, err := o.config(bench, dir, changed)
	if err != nil {
		return cli.Usage(err)
	}
	m, err := eval.OpenManifest(dir, o.setup(cfg))
	if err != nil {
		return cli.Usage(fmt.Errorf("--out: %w", err))
	}
	in, err := o.items(ctx)
	if err != nil {
		return err
	}
	if err := o.generate(ctx, &m, dir, bench, cfg, in, stderr); err != nil {
		return err
	}
	if o.noReport {
		return nil
	}
	return o.score.run(ctx, dir, o.run.configFile, stdout, stderr)
}

// config builds the run's configuration and checks it; nothing is read or started yet.
func (o *evalRunOptions) config(bench eval.Benchmark, dir string, changed func(string) bool) (config.Config, error) {
	o.run.in.format, o.run.in.Without = string(bench.Format), o.without
	if bench.Format == dataset.FormatTableBench {
		o.run.in.TablesDir = filepath.Join(dir, "tables", bench.Name)
	}
	cfg, err := o.run.resolve(changed)
	if err != nil {
		return cfg, err
	}
	cfg.Run = strings.ReplaceAll(bench.Name, "_", "-")
	cfg.Rollout.Agent = rollout.Agent(o.agent)
	cfg.Rollout.Replay = rollout.ReplayOff
	if o.replay && cfg.Rollout.Agent == rollout.AgentVeriGraph {
		cfg.Rollout.Replay = rollout.ReplaySubmitted
	}
	// What is kept is scored later, by judges too; here only the rules look at it.
	cfg.Reward.Preset, cfg.Reward.Judge = "official", config.JudgeRules
	cfg.Leader.Seed = o.run.seed
	cfg.Resolve()
	check := cfg
	if strings.HasPrefix(o.run.policy, scriptPrefix) {
		check.Policy.BaseURL, check.Policy.Model, check.Policy.Tokenizer = "http://127.0.0.1", "scripted", "scripted"
	} else if cfg.Policy.BaseURL == "" {
		return cfg, errors.New("--policy: an endpoint URL or script:FILE is needed")
	}
	return cfg, errors.Join(check.ValidateWorker(), cfg.ValidateReward())
}

// items imports the benchmark.
func (o *evalRunOptions) items(ctx context.Context) (input, error) {
	in, err := o.run.in.load(ctx)
	if err != nil {
		return in, err
	}
	in.references = withHidden(in)
	for i := range in.prompts {
		in.prompts[i].Sampling = &task.Sampling{N: &o.samples}
	}
	o.run.validate = true
	return in, nil
}

// withHidden gives items whose answer is hidden a reference without one: they are asked like the others.
func withHidden(in input) []task.Reference {
	refs := slices.Clone(in.references)
	for _, p := range in.prompts {
		if !slices.ContainsFunc(in.references, func(r task.Reference) bool { return r.PromptID == p.ID }) {
			refs = append(refs, task.Reference{PromptID: p.ID, DataSource: p.DataSource})
		}
	}
	return refs
}

func (o evalRunOptions) setup(cfg config.Config) eval.Setup {
	s := cfg.Rollout.Sampling
	model := cfg.Policy.Model
	if strings.HasPrefix(o.run.policy, scriptPrefix) {
		model = "scripted"
	}
	setup := eval.Setup{
		Name: o.score.name, Agent: o.agent, Model: model, API: cfg.Policy.API, Samples: o.samples, Seed: o.run.seed,
		Sampling: fmt.Sprintf("temperature %g, top_p %g, top_k %d, at most %d turns of %d tokens", s.Temperature, s.TopP, s.TopK, cfg.Rollout.MaxTurns, cfg.Rollout.MaxTurnTokens),
	}
	if setup.Name == "" {
		setup.Name = model + " / " + o.agent
	}
	return setup
}

// generate asks what is not kept yet and books what it took, also when it ends early.
func (o evalRunOptions) generate(ctx context.Context, m *eval.Manifest, dir string, bench eval.Benchmark, cfg config.Config, in input, stderr io.Writer) error {
	id := identity(cfg, in)
	run := m.Run(bench.Name)
	if run.Complete && run.Input == id.Input {
		fmt.Fprintf(stderr, "%s: all %d items were asked already\n", bench.Title, run.Items)
		return nil
	}
	if _, err := os.Stat(filepath.Join(o.run.out, identityName)); err != nil {
		o.run.resume = false // this benchmark was not begun
	}
	if err := openOut(o.run.out, o.run.resume, id); err != nil {
		return cli.Usage(err)
	}
	o.run.resume = true
	if err := keepItems(o.run.out, in); err != nil {
		return err
	}
	// Booked before the work: a killed evaluation can be scored too.
	run.Items, run.Input, run.Replay = len(in.prompts), id.Input, string(cfg.Rollout.Replay)
	if len(o.without) > 0 {
		run.Note = "Asked without " + strings.Join(o.without, ", ") + ": items that need them cannot be answered."
	}
	if err := m.Write(dir); err != nil {
		return err
	}
	_, sum, runErr, err := runLine(ctx, o.run, cfg, in, stderr)
	if err != nil {
		return err
	}
	run.Tier = sum.Tier
	run.Complete = sum.Complete && runErr == nil && ctx.Err() == nil
	run.WallSeconds, run.PeakMemoryMiB, run.Runs = run.WallSeconds+sum.WallSeconds, max(run.PeakMemoryMiB, sum.PeakMemoryMiB), run.Runs+1
	if err := m.Write(dir); err != nil {
		return errors.Join(runErr, err)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %d rollouts are kept in %s; go on with --resume", sum.Rollouts, o.run.out)
	}
	return runErr
}

// keepItems keeps all items before the first is asked: those that never come back are in the denominator too.
func keepItems(dir string, in input) (err error) {
	k, err := items.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	refs := map[string]task.Reference{}
	for _, r := range in.references {
		refs[r.PromptID] = r
	}
	for _, p := range in.prompts {
		if err := k.Add(items.Item{Prompt: p, Reference: refs[p.ID]}); err != nil {
			return err
		}
	}
	return nil
}
