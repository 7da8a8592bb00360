package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/build"
	"github.com/verigraph/verigraph/sft/card"
)

type buildOptions struct {
	in        []string
	config    string
	out       string
	tokenizer string
	seed      int64
}

func newBuild() *cobra.Command {
	var o buildOptions
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build a corpus; the same command goes on with a build that was killed",
		Example: `  sft-builder build --in out/demo --config configs/sft/paper.yaml --out out/sft
  sft-builder build --config configs/sft/paper.yaml --out out/sft --in batches/*.parquet sft_data.json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.in = append(o.in, args...) // what a shell makes of a pattern
			return runBuild(cmd.Context(), o, cmd.Flags().Changed, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.in, "in", nil, "output directory of a run, Parquet batches, or finished samples (.json, .jsonl); repeatable, and arguments are more of them")
	f.StringVar(&o.config, "config", "", "configuration file; without one the defaults hold")
	f.StringVar(&o.out, "out", "", "directory of the corpus")
	f.StringVar(&o.tokenizer, "tokenizer", "", "directory or file with the target's tokenizer.json (wins over the file)")
	f.Int64Var(&o.seed, "seed", 0, "seed (wins over the file)")
	return cmd
}

func loadConfig(path string) (sft.Config, error) {
	if path == "" {
		return sft.Defaults(), nil
	}
	return sft.Read(path)
}

func runBuild(ctx context.Context, o buildOptions, changed func(string) bool, stdout, stderr io.Writer) error {
	cfg, err := loadConfig(o.config)
	if err != nil {
		return cli.Usage(err)
	}
	if changed("tokenizer") {
		cfg.Target.Tokenizer = o.tokenizer
	}
	if changed("seed") {
		cfg.Seed = o.seed
	}
	switch {
	case o.out == "":
		return cli.Usage(errors.New("--out: a directory is needed"))
	case len(o.in) == 0:
		return cli.Usage(errors.New("--in: a directory or file is needed"))
	}
	if err := cfg.Validate(); err != nil {
		return cli.Usage(fmt.Errorf("%s: %w", cmp.Or(o.config, "configuration"), err))
	}
	m, err := build.Run(ctx, build.Options{In: o.in, Config: cfg, Out: o.out, Progress: stderr, Card: card.Write})
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted; the same command goes on in %s", o.out)
	}
	if err != nil {
		return err
	}
	printManifest(stdout, o.out, m)
	return nil
}

func printManifest(w io.Writer, dir string, m *build.Manifest) {
	fmt.Fprintf(w, "%s: %d of %d records taken\n", dir, m.Taken, m.Read)
	for _, r := range sft.Reasons {
		if n := m.Rejected[r]; n > 0 {
			fmt.Fprintf(w, "  %6d %s\n", n, r)
		}
	}
	for _, k := range sft.Kinds {
		if c := m.Kinds[k]; c != nil && c.Samples > 0 {
			fmt.Fprintf(w, "%-16s %6d samples (%d for validation), %d trained turns\n", k, c.Samples, c.Validation, c.TrainedTurns)
		}
	}
	formats := map[string][2]int64{}
	var names []string
	for _, f := range m.Files {
		t := formats[f.Format]
		formats[f.Format] = [2]int64{t[0] + 1, t[1] + f.Bytes}
		if !slices.Contains(names, f.Format) {
			names = append(names, f.Format)
		}
	}
	for _, n := range names {
		fmt.Fprintf(w, "%s: %d files, %.1f MB\n", n, formats[n][0], float64(formats[n][1])/1e6)
	}
}
