package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	verigraphv1 "github.com/verigraph/verigraph/proto/verigraph/v1"
)

func newStatus() *cobra.Command {
	var feed feedFlags
	var output string
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print a run's ledger, ages, rates and what everything waits for, from its feed",
		Example: "  verigraph status --feed 127.0.0.1:50051\n" +
			"  verigraph status --feed 127.0.0.1:50051 --output text --watch 2s",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return cli.Usage(fmt.Errorf("--output: %q, want json or text", output))
			}
			ctx, client, closeConn, err := feed.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer closeConn()
			out := cmd.OutOrStdout()
			for {
				st, err := client.GetStatus(ctx, &verigraphv1.GetStatusRequest{})
				switch {
				case every > 0 && ctx.Err() != nil:
					return nil
				case every > 0 && status.Code(err) == codes.Unavailable: // another server may lead soon
					fmt.Fprintf(cmd.ErrOrStderr(), "status: %s: %v\n", feed.addr, err)
				case err != nil:
					return fmt.Errorf("status: %s: %w", feed.addr, err)
				default:
					err = showStatus(out, st, output == "text")
					if err != nil {
						return err
					}
				}
				if every <= 0 || st.GetComplete() {
					return nil
				}
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(every):
					fmt.Fprintln(out)
				}
			}
		},
	}
	feed.register(cmd.Flags())
	cmd.Flags().StringVar(&output, "output", "json", "json, or text for people")
	cmd.Flags().DurationVar(&every, "watch", 0, "print again after this time until the run is complete")
	return cmd
}

func showStatus(w io.Writer, st *verigraphv1.GetStatusResponse, text bool) error {
	if text {
		printStatus(w, st)
		return nil
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{
		"run": st.GetRun(), "prompts": st.GetPrompts(), "backlog": st.GetBacklog(), "ledger": st.GetLedger(),
		"batches_written": st.GetBatchesWritten(), "batches_acknowledged": st.GetBatchesAcknowledged(),
		"batches_committed": st.GetBatchesCommitted(), "batches_dropped": st.GetBatchesDropped(),
		"policy": st.GetPolicy(), "reasons": st.GetReasons(), "lengths": st.GetLengths(), "ages": st.GetAges(),
		"delivered_per_second": st.GetDeliveredPerSecond(), "unscored_share": st.GetUnscoredShare(),
		"rounds_used_up": st.GetRoundsUsedUp(), "waiting": st.GetWaiting(), "unaccounted": st.GetUnaccounted(),
		"complete": st.GetComplete(), "time": time.Now().UTC().Format(time.RFC3339),
	})
}

func printStatus(w io.Writer, st *verigraphv1.GetStatusResponse) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	state := "running"
	if st.GetComplete() {
		state = "complete"
	}
	row("run", "%s, %s; %d prompts, %d wait for their dispatch", st.GetRun(), state, st.GetPrompts(), st.GetBacklog())
	l := st.GetLedger()
	row("ledger", "dispatched %d = delivered %d + filtered %d + stale %d + unscored %d + failed %d + set aside %d + in flight %d",
		l.GetDispatched(), l.GetDelivered(), l.GetFiltered(), l.GetStale(), l.GetUnscored(), l.GetFailed(), l.GetSetAside(), l.GetInFlight())
	if n := st.GetUnaccounted(); n != 0 {
		row("ALARM", "%d rollouts are not accounted for; if this stays, messages were lost", n)
	}
	row("batches", "%d written, %d acknowledged, %d committed, %d taken back", st.GetBatchesWritten(),
		st.GetBatchesAcknowledged(), st.GetBatchesCommitted(), st.GetBatchesDropped())
	p := st.GetPolicy()
	row("policy", "version %d, incarnation %d, paused %t %s", p.GetVersion(), p.GetIncarnation(), p.GetPaused(), strings.Join(p.GetEndpoints(), " "))
	row("rate", "%.2f rollouts/s delivered over the last minute, %.1f %% unscored", st.GetDeliveredPerSecond(), 100*st.GetUnscoredShare())
	for _, age := range slices.Sorted(maps.Keys(st.GetAges())) {
		row("age", "%d versions: %d batches", age, st.GetAges()[age])
	}
	for _, reason := range slices.Sorted(maps.Keys(st.GetReasons())) {
		row("left", "%d rollouts: %s", st.GetReasons()[reason], reason)
	}
	for _, c := range st.GetLengths() {
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(c.GetOutcomes())) {
			parts = append(parts, fmt.Sprintf("%s %d", k, c.GetOutcomes()[k]))
		}
		row("length", "up to %d tokens: %s", c.GetUpTo(), strings.Join(parts, ", "))
	}
	for _, wait := range st.GetWaiting() {
		row("waiting", "%d %s for: %s", wait.GetCount(), wait.GetWhat(), wait.GetReason())
	}
}
