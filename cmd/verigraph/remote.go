package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/cmd/internal/line"
	"github.com/verigraph/verigraph/jetstream"
	verigraphv1 "github.com/verigraph/verigraph/proto/verigraph/v1"
)

func newSubmit() *cobra.Command {
	var in inputFlags
	var configFile, url, store, run string
	var final bool
	cmd := &cobra.Command{
		Use:     "submit",
		Short:   "Queue prompts for the workers of a NATS cluster",
		Example: "  verigraph submit --config configs/reward-server.yaml --prompts prompts.jsonl --data-dir data --final",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			cfg := config.Defaults()
			if configFile != "" {
				var err error
				if cfg, err = config.Load(configFile); err != nil {
					return usage(err)
				}
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
				return usage(errors.New("--blob: the object store of the run is needed"))
			}
			if err := errors.Join(cfg.External(), jetstream.CheckRun(cfg.Run)); err != nil {
				return usage(err)
			}
			loaded, err := in.load(ctx)
			if err != nil {
				return err
			}
			blobs, err := blob.Open(ctx, cfg.Blob)
			if err != nil {
				return err
			}
			defer blobs.Close()
			nc, err := jetstream.Dial(cfg.NATS.URL, cfg.NATS.Credentials)
			if err != nil {
				return err
			}
			bus, err := jetstream.New(ctx, nc, blobs, cfg.NATS.Config)
			if err != nil {
				nc.Close()
				return err
			}
			defer bus.Close()
			sub, err := line.NewSubmitter(ctx, bus, blobs, cfg.Run)
			if err != nil {
				return err
			}
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
	cmd.Flags().BoolVar(&final, "final", false, "no more prompts will come: the last, partial batch is written")
	return cmd
}

// feedFlags reach a run's feed.
type feedFlags struct {
	address, tokenEnv string
}

func (f *feedFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.address, "feed", os.Getenv("VERIGRAPH_FEED"), "HOST:PORT of the feed (default: VERIGRAPH_FEED)")
	cmd.Flags().StringVar(&f.tokenEnv, "token-env", "", "environment variable with the feed's bearer token")
}

// call runs one call against the feed.
func (f *feedFlags) call(ctx context.Context, do func(context.Context, verigraphv1.RolloutServiceClient) error) error {
	if f.address == "" {
		return usage(errors.New("--feed: HOST:PORT of the run's feed is needed"))
	}
	conn, err := grpc.NewClient(f.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return usage(fmt.Errorf("--feed: %w", err))
	}
	defer conn.Close()
	if f.tokenEnv != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+os.Getenv(f.tokenEnv))
	}
	if err := do(ctx, verigraphv1.NewRolloutServiceClient(conn)); err != nil {
		return fmt.Errorf("%s: %w", f.address, err)
	}
	return nil
}

func newStatus() *cobra.Command {
	var feed feedFlags
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Print the ledger and progress of a run from its feed",
		Example: "  verigraph status --feed 127.0.0.1:50051",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return feed.call(cmd.Context(), func(ctx context.Context, c verigraphv1.RolloutServiceClient) error {
				st, err := c.GetStatus(ctx, &verigraphv1.GetStatusRequest{})
				if err != nil {
					return err
				}
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(map[string]any{
					"run": st.GetRun(), "prompts": st.GetPrompts(), "backlog": st.GetBacklog(), "ledger": st.GetLedger(),
					"batches_written": st.GetBatchesWritten(), "batches_acknowledged": st.GetBatchesAcknowledged(),
					"complete": st.GetComplete(), "policy_version": st.GetPolicyVersion(), "committed_step": st.GetCommittedStep(),
					"closed_by_reason": st.GetClosedByReason(), "filtered_by_value": st.GetFilteredByValue(),
					"time": time.Now().UTC().Format(time.RFC3339),
				})
			})
		},
	}
	feed.register(cmd)
	return cmd
}

func newAside() *cobra.Command {
	var feed feedFlags
	var requeue string
	cmd := &cobra.Command{
		Use:     "aside",
		Short:   "List groups that were set aside, or hand one out again",
		Example: "  verigraph aside --feed 127.0.0.1:50051\n  verigraph aside --feed 127.0.0.1:50051 --requeue 17-0",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return feed.call(cmd.Context(), func(ctx context.Context, c verigraphv1.RolloutServiceClient) error {
				if requeue != "" {
					_, err := c.Requeue(ctx, &verigraphv1.RequeueRequest{Dispatch: requeue})
					return err
				}
				list, err := c.ListSetAside(ctx, &verigraphv1.ListSetAsideRequest{})
				if err != nil {
					return err
				}
				for _, g := range list.GetGroups() {
					fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\t%d deliveries\t%s\n", g.GetDispatch(), g.GetStage(), g.GetDeliveries(), g.GetReason())
				}
				return nil
			})
		},
	}
	feed.register(cmd)
	cmd.Flags().StringVar(&requeue, "requeue", "", "dispatch of the group to hand out again")
	return cmd
}
