// Command sft-builder distils the SFT corpus from stored trajectories, and looks after what it built.
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
		Use:   "sft-builder",
		Short: "Distil an SFT corpus from stored trajectories: build, generate, inspect, verify",
	},
		newBuild(), newGenerate(), newInspect(), newVerify(), newSynthetic())
}
