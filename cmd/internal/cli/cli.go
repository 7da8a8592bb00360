// Package cli is what the commands for people share: exit codes, usage errors and --output.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes beside 0, which is done.
const (
	ExitFailed = 1 // something failed
	ExitUsage  = 2 // what the user wrote is wrong
)

// usageError is a mistake in flags, configuration or input files.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// Usage marks an error as a mistake in flags, configuration or input files; nil stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// Root makes cmd a program's root: its errors are printed once, by ExitCode, and wrong flags are usage errors.
func Root(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage(err) })
	cmd.AddCommand(commands...)
	for _, c := range append(commands, cmd) {
		if c.HasSubCommands() {
			c.Args, c.RunE = unknown, func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
	return cmd
}

// unknown refuses what is no subcommand, and names the nearest ones.
func unknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	}
	return Usage(err)
}

// Main runs a root until it is done or a signal ends it, and exits.
func Main(root *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	root.SetArgs(os.Args[1:])
	code := ExitCode(root.Name(), root.ExecuteContext(ctx), os.Stderr)
	stop()
	os.Exit(code)
}

// ExitCode prints an error under the program's name and turns it into the exit code.
func ExitCode(program string, err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "%s: %v\n", program, err)
	var u usageError
	if errors.As(err, &u) {
		return ExitUsage
	}
	return ExitFailed
}

// Args makes the complaint of a check of arguments a usage error.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return Usage(check(cmd, args)) }
}

// OutputFlag registers --output; asJSON is whether json was chosen.
func OutputFlag(f *pflag.FlagSet, asJSON *bool, what string) {
	f.Var((*outputValue)(asJSON), "output", what+": text or json")
}

type outputValue bool

func (v *outputValue) String() string {
	if *v {
		return "json"
	}
	return "text"
}

func (v *outputValue) Set(s string) error {
	switch s {
	case "text", "json":
		*v = s == "json"
		return nil
	}
	return errors.New("want text or json")
}

func (v *outputValue) Type() string { return "FORMAT" }
