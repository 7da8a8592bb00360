// Command sft-builder distils the SFT corpus from stored trajectories. On this version it states its
// purpose and refuses to build.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	flags := flag.NewFlagSet("sft-builder", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "sft-builder: distils an SFT corpus from stored trajectories and batches")
		fmt.Fprintln(flags.Output(), "\nUsage: sft-builder --help\n\nThis version has no builds yet; docs/status.md says what is there.")
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	flags.Usage()
	return 2
}
