// Command verigraph runs the whole line on one machine, and looks after runs elsewhere.
package main

import (
	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/sandbox"
)

func main() {
	sandbox.MaybeInit() // a session's init is this binary, started again
	cli.Main(newRoot())
}

func newRoot() *cobra.Command {
	return cli.Root(&cobra.Command{
		Use:   "verigraph",
		Short: "Rollouts with evidence for RL training: run, submit, inspect",
	},
		newRun(), newSubmit(), newStatus(), newAside(), newGraph(), newProbe(), newImport(), newReplay(), newReport(), newSandbox(),
		newScore(), newVerify(), newView(), newConfig(), newPermissions(), newSizing(), newEval())
}
