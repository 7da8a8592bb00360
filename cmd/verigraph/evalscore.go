package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/cmd/internal/line"
	"github.com/verigraph/verigraph/eval"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/openai"
	"github.com/verigraph/verigraph/reward/verdicts"
)

// evalScoreOptions are the flags of scoring; verigraph eval run has them too.
type evalScoreOptions struct {
	name       string
	judge      string
	judgeModel string
	rejudge    bool
	bootstrap  uint64
	priceIn    float64
	priceOut   float64
	parallel   int
}

func newEvalScore() *cobra.Command {
	var o evalScoreOptions
	var configFile string
	cmd := &cobra.Command{
		Use:   "score DIR",
		Short: "Score a stored evaluation again, without the policy, and write its report",
		Long: `Reads every rollout below DIR, scores it by the benchmark's own rule and by the mended one, and writes records.jsonl, report.md,
report.json and report.html. Verdicts that a judge gave before are taken from DIR; a judge is needed for reports, for DSBench, and
for the Grounding Rate.`,
		Example: `  verigraph eval score out/eval
  verigraph eval score out/eval --judge http://HOST:8001/v1 --judge-model NAME`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], configFile, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&configFile, "config", "", "configuration file with the judge's settings")
	o.register(cmd.Flags())
	return cmd
}

func (o *evalScoreOptions) register(f *pflag.FlagSet) {
	f.StringVar(&o.name, "name", "", "what tables call this evaluation (default: the model and the agent)")
	f.StringVar(&o.judge, "judge", "", "judge endpoint URL (OpenAI API); none leaves out what needs it")
	f.StringVar(&o.judgeModel, "judge-model", "", "name of the judge model")
	f.BoolVar(&o.rejudge, "rejudge", false, "ask the judge for every verdict anew and replace the stored ones")
	f.Uint64Var(&o.bootstrap, "bootstrap-seed", 1, "seed of intervals and tests")
	f.Float64Var(&o.priceIn, "price-in", 0, "price of a million tokens sent")
	f.Float64Var(&o.priceOut, "price-out", 0, "price of a million tokens sampled")
	f.IntVar(&o.parallel, "parallel", 16, "rollouts scored at once")
}

func (o evalScoreOptions) run(ctx context.Context, dir, configFile string, stdout, stderr io.Writer) error {
	m, err := eval.ReadManifest(dir)
	if err != nil {
		return cli.Usage(err)
	}
	if o.parallel < 1 {
		return cli.Usage(fmt.Errorf("--parallel: %d, want at least 1", o.parallel))
	}
	var records []eval.Record
	judge := "none"
	for _, run := range m.Runs {
		bench, err := eval.Find(run.Benchmark)
		if err != nil {
			return cli.Usage(fmt.Errorf("%s: %w", dir, err))
		}
		measuring, name, done, err := o.measuring(filepath.Join(dir, bench.Name), configFile, bench, stderr)
		if err != nil {
			return err
		}
		of, err := measuring.Collect(ctx, filepath.Join(dir, bench.Name), m.Setup.Samples, o.parallel)
		if err := done(err); err != nil {
			return err
		}
		records, judge = append(records, of...), name
	}
	m.Setup.Judge, m.Setup.PriceIn, m.Setup.PriceOut = judge, o.priceIn, o.priceOut
	if o.name != "" {
		m.Setup.Name = o.name
	}
	report := eval.Build(m.Setup, m.Runs, records, o.bootstrap)
	if err := eval.WriteRecords(dir, records); err != nil {
		return err
	}
	if err := eval.WriteReport(dir, report); err != nil {
		return err
	}
	return printEvaluation(stdout, dir, report)
}

// measuring builds the scorers of one benchmark; done closes them and hands an error on.
func (o evalScoreOptions) measuring(dir, configFile string, bench eval.Benchmark, stderr io.Writer) (eval.Measuring, string, func(error) error, error) {
	none := eval.Measuring{}
	cfg, err := config.LoadOptional(configFile)
	if err != nil {
		return none, "", nil, cli.Usage(err)
	}
	rc := cfg.Reward
	rc.Preset, rc.Judge, rc.Archive, rc.Verdicts.Rejudge = "official", config.JudgeRules, dir, o.rejudge
	if o.judge != config.JudgeRules {
		rc.SetJudge(o.judge, o.judgeModel)
	}
	store, err := verdicts.OpenDir(line.VerdictDir(dir))
	if err != nil {
		return none, "", nil, err
	}
	log, err := stderrLogger(stderr)
	if err != nil {
		return none, "", nil, err
	}
	scoring, err := line.NewScoring(rc, store, log)
	if err != nil {
		return none, "", nil, cli.Usage(err)
	}
	done := func(err error) error {
		if closeErr := scoring.Close(); err == nil {
			return closeErr
		}
		return err
	}
	preset, err := reward.LoadPreset("official")
	if err != nil {
		return none, "", nil, done(err)
	}
	preset.Name, preset.OutcomeRule = "official, mended", reward.OutcomeFixed
	fixed, err := reward.New(reward.Config{Preset: preset})
	if err != nil {
		return none, "", nil, done(err)
	}
	measuring := eval.Measuring{Benchmark: bench, Official: scoring.Scorer, Fixed: fixed}
	name := "none"
	if rc.Judge == config.JudgeOpenAI {
		judge, err := openai.New(rc.OpenAI)
		if err != nil {
			return none, "", nil, done(cli.Usage(err))
		}
		measuring.Supporter, name = eval.JudgeSupporter{Judge: judge, Store: store, Rejudge: o.rejudge}, judge.Name()
	}
	return measuring, name, done, nil
}

func printEvaluation(w io.Writer, dir string, r eval.Report) error {
	if r.Overall != nil {
		fmt.Fprintf(w, "%-18s %s\n", "Overall", r.Overall.Score.String()+strings.TrimPrefix(r.Overall.Name(), "Overall"))
	}
	for _, b := range r.Benchmarks {
		fmt.Fprintf(w, "%-18s %s  (%d items; submitted %s; unscored %s %%)\n", b.Title, b.Score, b.Items, b.Submission, b.UnscoredShare())
		if remark := b.Remark(); remark != "" {
			fmt.Fprintf(w, "%-18s %s\n", "", remark)
		}
	}
	_, err := fmt.Fprintf(w, "%-18s %s, report.json, report.html, records.jsonl\n", "report", filepath.Join(dir, "report.md"))
	return err
}
