package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/cmd/internal/line"
	"github.com/verigraph/verigraph/cmd/internal/tracing"
	"github.com/verigraph/verigraph/jetstream"
)

func newSubmit() *cobra.Command {
	var in inputFlags
	var configFile, url, store, run string
	var final, validate bool
	var priority int
	cmd := &cobra.Command{
		Use:     "submit",
		Short:   "Queue prompts for the workers of a NATS cluster",
		Example: "  verigraph submit --config configs/reward-server.yaml --prompts prompts.jsonl --data-dir data --final",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			cfg, err := config.LoadOptional(configFile)
			if err != nil {
				return cli.Usage(err)
			}
			for _, o := range []struct {
				value string
				into  *string
			}{{url, &cfg.NATS.URL}, {store, &cfg.Blob}, {run, &cfg.Run}} {
				if o.value != "" {
					*o.into = o.value
				}
			}
			if cfg.Blob == "" {
				return cli.Usage(errors.New("--blob: the object store of the run is needed"))
			}
			if err := errors.Join(cfg.External(), jetstream.CheckRun(cfg.Run)); err != nil {
				return cli.Usage(err)
			}
			loaded, err := in.load(ctx)
			if err != nil {
				return err
			}
			bus, blobs, closeAll, err := line.Connect(ctx, cfg)
			if err != nil {
				return err
			}
			defer closeAll()
			sub := line.NewSubmitter(bus, blobs, cfg.Run)
			sub.Validate, sub.Priority = validate, priority
			if sub.Tracer, err = tracing.Open(ctx, cfg.Telemetry.Traces, "verigraph", cfg.Run, zap.NewNop()); err != nil {
				return cli.Usage(err)
			}
			defer sub.Tracer.Close()
			if err := sub.Submit(ctx, loaded.prompts, loaded.references, loaded.paths, final); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d prompts queued for run %s\n", len(loaded.prompts), cfg.Run)
			return err
		},
	}
	in.register(cmd.Flags())
	cmd.Flags().StringVar(&configFile, "config", "", "configuration file (flags win over it)")
	cmd.Flags().StringVar(&url, "nats", "", "NATS URL")
	cmd.Flags().StringVar(&store, "blob", "", "object store of the run: directory or URL")
	cmd.Flags().StringVar(&run, "run", "", "name of the run")
	cmd.Flags().BoolVar(&validate, "validate", false, "validation prompts: past filters and staleness, in batches of their own")
	cmd.Flags().IntVar(&priority, "priority", 0, "higher leaves the backlog first")
	cmd.Flags().BoolVar(&final, "final", false, "no more prompts will come: the last, partial batch is written")
	return cmd
}
