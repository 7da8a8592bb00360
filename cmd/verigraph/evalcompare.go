package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/eval"
)

func newEvalCompare() *cobra.Command {
	var seed uint64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two scored evaluations on the items that they share",
		Long: `Pairs the items of two evaluation directories. Where each side has one verdict per item the test is McNemar's exact one, else a
sign-flip permutation of the items' differences; the interval is a bootstrap of pairs. What is not shared, or has no score on a
side, is stated.`,
		Example: "  verigraph eval compare out/eval out/baseline",
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return compareEvaluations(args[0], args[1], seed, asJSON, cmd.OutOrStdout())
		},
	}
	cmd.Flags().Uint64Var(&seed, "bootstrap-seed", 1, "seed of intervals and tests")
	cli.OutputFlag(cmd.Flags(), &asJSON, "the comparison")
	return cmd
}

func compareEvaluations(a, b string, seed uint64, asJSON bool, stdout io.Writer) error {
	var names [2]string
	var records [2][]eval.Record
	for i, dir := range []string{a, b} {
		m, err := eval.ReadManifest(dir)
		if err != nil {
			return cli.Usage(err)
		}
		names[i] = fmt.Sprintf("%s (%s)", m.Setup.Name, dir)
		if records[i], err = eval.ReadRecords(dir); err != nil {
			return cli.Usage(fmt.Errorf("%w; verigraph eval score %s writes them", err, dir))
		}
	}
	all := eval.Compare(records[0], records[1], seed)
	if asJSON {
		return json.NewEncoder(stdout).Encode(all)
	}
	return eval.WriteComparison(stdout, names[0], names[1], all)
}
