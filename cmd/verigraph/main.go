// Command verigraph runs the whole line on one machine, and looks after runs elsewhere.
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
	code := execute(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func execute(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	return exitCode(root.ExecuteContext(ctx), os.Stderr)
}

// exitCode reports an error and turns it into the exit code.
func exitCode(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "verigraph: %v\n", err)
	var u usageError
	if errors.As(err, &u) {
		return exitUsage
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "verigraph",
		Short:         "Rollouts with evidence for RL training: run, submit, inspect",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.AddCommand(newRun(), newSubmit(), newStatus(), newAside(), newGraph(), newProbe(), newImport(), newReplay(), newReport(), newSandbox())
	root.AddCommand(newScore(), newVerify(), newView(), newConfig(), newPermissions(), newEval())
	return root
}

// noArgs and exactArgs report wrong arguments as usage errors.
func noArgs(cmd *cobra.Command, args []string) error { return usage(cobra.NoArgs(cmd, args)) }

func exactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return usage(cobra.ExactArgs(n)(cmd, args)) }
}
