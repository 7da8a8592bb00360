// Command sft-builder distils the SFT corpus from stored trajectories, and looks after what it built.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/sandbox"
)

// Exit codes.
const (
	exitFailed = 1 // something failed
	exitUsage  = 2 // what the user wrote is wrong
)

// usageError is a mistake in flags, configuration or input files.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

func main() {
	sandbox.MaybeInit() // a session's init is this binary, started again
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	root := newRoot()
	root.SetArgs(os.Args[1:])
	code := exitCode(root.ExecuteContext(ctx), os.Stderr)
	stop()
	os.Exit(code)
}

func exitCode(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "sft-builder: %v\n", err)
	var u usageError
	if errors.As(err, &u) {
		return exitUsage
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "sft-builder",
		Short:         "Distil an SFT corpus from stored trajectories: build, generate, inspect, verify",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.AddCommand(newBuild(), newGenerate(), newInspect(), newVerify(), newSynthetic())
	return root
}

func noArgs(cmd *cobra.Command, args []string) error { return usage(cobra.NoArgs(cmd, args)) }

func exactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return usage(cobra.ExactArgs(n)(cmd, args)) }
}
