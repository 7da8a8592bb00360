package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/sft/synth"
)

type syntheticOptions struct {
	tables     string
	tablebench string
	questions  string
	n          int
	seed       uint64
	out        string
}

func newSynthetic() *cobra.Command {
	var o syntheticOptions
	cmd := &cobra.Command{
		Use:     "synthetic",
		Short:   "Write synthetic trajectories over real tables, to measure builds",
		Example: `  sft-builder synthetic --tables examples/dabench/tables --n 1000 --out out/synthetic`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runSynthetic(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.tables, "tables", "", "directory of CSV files")
	f.StringVar(&o.tablebench, "tablebench", "", "TableBench file whose tables are used as well")
	f.StringVar(&o.questions, "questions", "", "DABench questions; one in 200 trajectories asks one, for a build to find")
	f.IntVar(&o.n, "n", 1000, "number of trajectories")
	f.Uint64Var(&o.seed, "seed", 1, "seed")
	f.StringVar(&o.out, "out", "", "output directory")
	return cmd
}

func runSynthetic(ctx context.Context, o syntheticOptions, stdout io.Writer) error {
	if o.tables == "" || o.out == "" || o.n < 1 {
		return cli.Usage(errors.New("--tables, --out and --n of at least 1 are needed"))
	}
	tables, err := synth.CSVTables(o.tables, "dabench")
	if err != nil {
		return cli.Usage(err)
	}
	if o.tablebench != "" {
		more, err := synth.TableBenchTables(o.tablebench)
		if err != nil {
			return cli.Usage(err)
		}
		tables = append(tables, more...)
	}
	var questions []string
	if o.questions != "" {
		if questions, err = readQuestions(o.questions); err != nil {
			return cli.Usage(err)
		}
	}
	p, err := synth.Write(ctx, o.out, synth.Options{Tables: tables, Questions: questions, N: o.n, Seed: o.seed, Run: "synthetic"})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: %d trajectories over %d tables, %.2f GB of text\n", o.out, p.Trajectories, len(tables), float64(p.Text)/1e9)
	return nil
}

func readQuestions(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var out []string
	dec := json.NewDecoder(bufio.NewReader(file))
	for n := 1; ; n++ {
		var q struct{ Question string }
		if err := dec.Decode(&q); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: question %d: %w", path, n, err)
		}
		out = append(out, q.Question)
	}
}
