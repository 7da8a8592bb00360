package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/reward/gov"
	"github.com/verigraph/verigraph/reward/openai"
	"github.com/verigraph/verigraph/reward/verify"
)

type verifyOptions struct {
	format     string
	judge      string
	judgeModel string
	configFile string
	baseline   bool
	limit      int
	parallel   int
	generate   int
	sizes      []int
	seed       uint64
	out        string
	json       bool
}

func newVerify() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Find the first error of worked solutions by Graph of Verification",
		Long: `Number Triangle Summation (nts) is verified sum by sum with the sums that each rests on; ProcessBench (processbench) step by
step with all earlier steps. --baseline asks about the whole solution at once. The figures are the share of wrong solutions whose
error was located, the share of right ones that were found right, and their harmonic mean; failures count as wrong.`,
		Example: `  verigraph verify --format nts --generate 500 --seed 1 triangles.csv
  verigraph verify --format nts --judge rules triangles.csv
  verigraph verify --format processbench --judge http://HOST:8001/v1 --judge-model NAME gsm8k.jsonl`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.format, "format", "", "nts or processbench")
	f.StringVar(&o.judge, "judge", config.JudgeRules, "judge endpoint URL (OpenAI API), or rules (nts only)")
	f.StringVar(&o.judgeModel, "judge-model", "", "name of the judge model")
	f.StringVar(&o.configFile, "config", "", "configuration file with the judge's settings")
	f.BoolVar(&o.baseline, "baseline", false, "ask about each solution as a whole")
	f.IntVar(&o.limit, "limit", 0, "take only the first solutions")
	f.IntVar(&o.parallel, "parallel", 16, "solutions checked at once")
	f.IntVar(&o.generate, "generate", 0, "write FILE with this many right and as many wrong triangles of each size")
	f.IntSliceVar(&o.sizes, "sizes", []int{2, 4, 6, 8}, "sizes of the generated triangles")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the generator")
	f.StringVar(&o.out, "predictions", "", "file for the predictions (JSONL)")
	cli.OutputFlag(f, &o.json, "the figures")
	return cmd
}

func (o verifyOptions) run(ctx context.Context, file string, stdout io.Writer) error {
	if o.generate > 0 {
		return o.write(file)
	}
	items, err := o.read(file)
	if err != nil {
		return cli.Usage(err)
	}
	if o.limit > 0 && o.limit < len(items) {
		items = items[:o.limit]
	}
	method, err := o.method()
	if err != nil {
		return cli.Usage(err)
	}
	predictions, err := verify.Run(ctx, items, method, o.parallel)
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := writePredictions(o.out, predictions); err != nil {
			return err
		}
	}
	scores := verify.ByGroup(predictions)
	if o.json {
		return json.NewEncoder(stdout).Encode(scores)
	}
	fmt.Fprintf(stdout, "%-14s %6s %6s %8s %8s %8s %7s %7s %7s\n", "group", "wrong", "right", "located", "cleared", "F1", "failed", "calls", "saved")
	for _, s := range scores {
		fmt.Fprintf(stdout, "%-14s %6d %6d %8.3f %8.3f %8.3f %7d %7d %7d\n",
			s.Group, s.Wrong, s.Right, s.ErrorAccuracy, s.CorrectAccuracy, s.F1, s.Failed, s.Calls, s.Saved)
	}
	return nil
}

func (o verifyOptions) write(file string) (err error) {
	if o.format != "nts" {
		return cli.Usage(errors.New("--generate: only --format nts has a generator"))
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return cli.Usage(err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return cli.Usage(verify.WriteTriangles(f, o.seed, o.sizes, o.generate))
}

func (o verifyOptions) read(file string) ([]verify.Item, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch o.format {
	case "nts":
		return verify.ReadTriangles(f)
	case "processbench":
		return verify.ReadProcessBench(f)
	}
	return nil, fmt.Errorf("--format: %q, want nts or processbench", o.format)
}

// method is atomic and minimal for nts, block and inclusive for processbench, as in the paper.
func (o verifyOptions) method() (verify.Method, error) {
	cfg := gov.Defaults()
	if o.format == "processbench" {
		cfg.Granularity, cfg.Context = gov.Block, gov.Inclusive
	}
	judge, err := o.checker()
	if err != nil {
		return nil, err
	}
	if o.baseline {
		return verify.Holistic(judge), nil
	}
	return verify.Graph(judge, cfg), nil
}

// solutionJudge decides units and whole solutions.
type solutionJudge interface {
	verify.Checker
	verify.Reader
}

func (o verifyOptions) checker() (solutionJudge, error) {
	if o.judge == config.JudgeRules {
		if o.format != "nts" {
			return nil, errors.New("--judge: the rules judge adds numbers; processbench needs a model's endpoint")
		}
		return verify.Adder{}, nil
	}
	c, err := config.LoadOptional(o.configFile)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(o.judge) != "" {
		c.Reward.OpenAI.BaseURL = o.judge
	}
	if o.judgeModel != "" {
		c.Reward.OpenAI.Model = o.judgeModel
	}
	return openai.New(c.Reward.OpenAI)
}

func writePredictions(path string, predictions []verify.Prediction) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	if err := encodePredictions(w, predictions); err != nil {
		return err
	}
	return w.Flush()
}

func encodePredictions(w io.Writer, predictions []verify.Prediction) error {
	enc := json.NewEncoder(w)
	for _, p := range predictions {
		row := struct {
			ID        string `json:"id"`
			Label     int    `json:"label"`
			Predicted *int   `json:"predicted"`
			Failed    string `json:"failed,omitempty"`
			Calls     int    `json:"calls"`
		}{p.Item.ID, p.Item.Label, &p.Place, p.Failed, p.Calls}
		if p.Failed != "" {
			row.Predicted = nil
		}
		if err := enc.Encode(row); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
	}
	return nil
}
