package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/eval"
	"github.com/verigraph/verigraph/reward/gov"
	"github.com/verigraph/verigraph/reward/verify"
)

// evalVerifyOptions are the flags of verigraph eval nts and processbench.
type evalVerifyOptions struct {
	verifyOptions
	settings []string
	dir      string
	boot     uint64
}

var verifySettings = []string{"holistic", "atomic", "block"}

func newEvalVerify(format string) *cobra.Command {
	var o evalVerifyOptions
	o.format = format
	cmd := &cobra.Command{
		Use: format + " FILE...", Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.evaluate(cmd.Context(), args, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.settings, "settings", verifySettings, "holistic (the whole solution at once), atomic, block")
	f.StringVar(&o.judgeModel, "judge-model", "", "name of the judge model")
	f.StringVar(&o.configFile, "config", "", "configuration file with the judge's settings")
	f.IntVar(&o.limit, "limit", 0, "take only the first solutions of each file")
	f.IntVar(&o.parallel, "parallel", 16, "solutions checked at once")
	f.Uint64Var(&o.boot, "bootstrap-seed", 1, "seed of the intervals")
	f.StringVar(&o.dir, "out", "", "directory for report.md, report.json, report.html and the predictions of each setting")
	cli.OutputFlag(f, &o.json, "the figures")
	if format == "nts" {
		f.StringVar(&o.judge, "judge", config.JudgeRules, "judge endpoint URL (OpenAI API), or rules")
		cmd.Short = "Verify Number Triangle Summation holistically, by sums and by layers"
		cmd.Long = `Settings: holistic asks about the whole solution at once; atomic about each sum with the two sums that it rests on; block about each
layer with all earlier ones. Prints the papers' figures; triangles are made by verigraph verify --generate.`
		cmd.Example = "  verigraph eval nts triangles.csv --out out/nts\n  verigraph eval nts triangles.csv --judge http://HOST:8001/v1 --judge-model NAME"
		return cmd
	}
	f.StringVar(&o.judge, "judge", "", "judge endpoint URL (OpenAI API)")
	cmd.Short = "Verify ProcessBench solutions holistically and step by step"
	cmd.Long = `Settings: holistic asks about the whole solution at once; atomic about each step with the one before it; block about each step with all
earlier ones, as in the Graph-of-Verification paper. Prints the papers' figures by subset.`
	cmd.Example = "  verigraph eval processbench gsm8k.jsonl math.jsonl --judge http://HOST:8001/v1 --judge-model NAME --out out/processbench"
	return cmd
}

func (o evalVerifyOptions) evaluate(ctx context.Context, files []string, stdout io.Writer) error {
	for _, s := range o.settings {
		if !slices.Contains(verifySettings, s) {
			return cli.Usage(fmt.Errorf("--settings: %q is none of holistic, atomic, block", s))
		}
	}
	if len(o.settings) == 0 || o.parallel < 1 || o.limit < 0 {
		return cli.Usage(errors.New("--settings, --parallel, --limit: at least one setting and one solution at once are needed"))
	}
	judge, err := o.checker()
	if err != nil {
		return cli.Usage(err)
	}
	var all []verify.Item
	for _, file := range files {
		items, err := o.read(file)
		if err != nil {
			return cli.Usage(fmt.Errorf("%s: %w", file, err))
		}
		if o.limit > 0 {
			items = items[:min(o.limit, len(items))]
		}
		all = append(all, items...)
	}
	if len(all) == 0 {
		return cli.Usage(fmt.Errorf("%s: no solution", files[0]))
	}
	var settings []eval.Setting
	for _, name := range o.settings {
		items, method := o.setting(name, judge, all)
		predictions, err := verify.Run(ctx, items, method, o.parallel)
		if err != nil {
			return err
		}
		settings = append(settings, eval.MeasureSetting(name, predictions, o.boot))
		if o.dir != "" {
			if err := writePredictionsBelow(o.dir, name, predictions); err != nil {
				return err
			}
		}
	}
	return o.report(stdout, settings)
}

// setting chooses units and engine: the paper's are atomic and minimal for nts, block and inclusive for processbench.
func (o evalVerifyOptions) setting(name string, judge solutionJudge, items []verify.Item) ([]verify.Item, verify.Method) {
	cfg := gov.Defaults()
	switch name {
	case "holistic":
		return items, verify.Holistic(judge)
	case "block":
		cfg.Granularity, cfg.Context = gov.Block, gov.Inclusive
		if o.format == "nts" {
			items = verify.Blocks(items)
		}
	}
	return items, verify.Graph(judge, cfg)
}

func writePredictionsBelow(dir, name string, predictions []verify.Prediction) error {
	path := filepath.Join(dir, "predictions_"+name+".jsonl")
	return replaceFile(path, func(w io.Writer) error { return encodePredictions(w, predictions) })
}

func (o evalVerifyOptions) report(stdout io.Writer, settings []eval.Setting) error {
	title := map[string]string{"nts": "Number Triangle Summation", "processbench": "ProcessBench"}[o.format]
	judge := o.judgeModel
	if judge == "" {
		judge = o.judge
	}
	asJSON := func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			Benchmark string         `json:"benchmark"`
			Judge     string         `json:"judge"`
			Settings  []eval.Setting `json:"settings"`
		}{o.format, judge, settings})
	}
	if o.dir != "" {
		err := errors.Join(
			replaceFile(filepath.Join(o.dir, "report.md"), func(w io.Writer) error {
				return eval.WriteVerification(w, title, judge, o.boot, settings)
			}),
			replaceFile(filepath.Join(o.dir, "report.html"), func(w io.Writer) error {
				return eval.WriteVerificationHTML(w, title, judge, o.boot, settings)
			}),
			replaceFile(filepath.Join(o.dir, "report.json"), asJSON),
		)
		if err != nil {
			return err
		}
	}
	if o.json {
		return asJSON(stdout)
	}
	return eval.WriteVerification(stdout, title, judge, o.boot, settings)
}
