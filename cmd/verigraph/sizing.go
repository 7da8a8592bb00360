package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/sizing"
)

func newSizing() *cobra.Command {
	load := sizing.Defaults()
	var gpus []int
	cmd := &cobra.Command{
		Use:   "sizing",
		Short: "Compute workers, reward servers and NATS for a number of GPUs from measured costs",
		Long: `The formulas and what they rest on stand in docs/sizing.md. Cores, memory and bandwidth are those of all workers
and of all reward servers together, and of each of three NATS servers (bandwidth: of one that leads every stream).`,
		Example: "  verigraph sizing\n  verigraph sizing --gpus 64 --tokens-per-gpu 1800 --turns 8 --cell-time 2s --session-mib 200",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var errs []error
			for _, n := range gpus {
				load.GPUs = n
				errs = append(errs, load.Validate())
			}
			if err := errors.Join(errs...); err != nil {
				return cli.Usage(err)
			}
			return printSizes(cmd.OutOrStdout(), load, gpus)
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&gpus, "gpus", []int{8, 16, 32, 64, 128, 256, 512}, "GPUs that serve the policy")
	f.Float64Var(&load.TokensPerGPU, "tokens-per-gpu", load.TokensPerGPU, "tokens that one GPU samples a second, all its calls together")
	f.Float64Var(&load.TokensPerCall, "tokens-per-call", load.TokensPerCall, "tokens a second that one call gets of it")
	f.Float64Var(&load.Turns, "turns", load.Turns, "turns of a trajectory")
	f.Float64Var(&load.TokensPerTurn, "tokens-per-turn", load.TokensPerTurn, "tokens sampled in a turn")
	f.Float64Var(&load.ObservationTokens, "observation-tokens", load.ObservationTokens, "tokens of an observation")
	f.Float64Var(&load.PromptTokens, "prompt-tokens", load.PromptTokens, "tokens of the first prompt")
	f.DurationVar(&load.CellTime, "cell-time", load.CellTime, "from a turn's last token to the next call")
	f.DurationVar(&load.CellCPU, "cell-cpu", load.CellCPU, "what a cell computes beyond one of the measurement")
	f.Float64Var(&load.SessionMiB, "session-mib", load.SessionMiB, "what a session's tables take beyond those of the measurement")
	f.Float64Var(&load.JudgeCalls, "judge-calls", load.JudgeCalls, "calls of an LLM judge for a trajectory")
	return cmd
}

func printSizes(w io.Writer, load sizing.Load, gpus []int) error {
	_, err := fmt.Fprint(w, "| GPUs | trajectories/s | each takes | in flight = sessions | workers | their cores | their GiB | "+
		"reward servers | their cores | judge calls/s | NATS cores | NATS GiB | NATS Mbit/s | policy Mbit/s | to the trainer Mbit/s |\n"+
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, n := range gpus {
		load.GPUs = n
		s := sizing.Measured.Size(load)
		if err == nil {
			_, err = fmt.Fprintf(w, "| %d | %.1f | %s | %d | %d | %.1f | %.0f | %d | %.1f | %.0f | %.2f | %.1f | %.0f | %.0f | %.1f |\n", n, s.PerSecond, s.Takes.Round(100*time.Millisecond), s.InFlight,
				s.Workers, s.WorkerCores, s.WorkerGiB, s.Servers, s.ServerCores, s.JudgeCalls, s.NATSCores, s.NATSGiB, s.BrokerMBit, s.PolicyMBit, s.DeliveredMBit)
		}
	}
	return err
}
