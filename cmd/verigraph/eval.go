package main

import (
	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/cmd/internal/cli"
)

func newEval() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Measure a policy on benchmarks as the papers do",
		Args:  cli.Args(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEvalRun(), newEvalScore(), newEvalCompare(), newEvalVerify("nts"), newEvalVerify("processbench"))
	return cmd
}
