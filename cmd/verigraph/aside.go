package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	verigraphv1 "github.com/verigraph/verigraph/proto/verigraph/v1"
)

func newAside() *cobra.Command {
	var feed feedFlags
	var requeue []string
	cmd := &cobra.Command{
		Use:   "aside",
		Short: "List the groups that were set aside, or send their prompts back into the line",
		Example: "  verigraph aside --feed 127.0.0.1:50051\n" +
			"  verigraph aside --feed 127.0.0.1:50051 --requeue 17-0",
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, client, closeConn, err := feed.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer closeConn()
			for _, d := range requeue {
				if _, err := client.Requeue(ctx, &verigraphv1.RequeueRequest{Dispatch: d}); err != nil {
					return fmt.Errorf("aside: %s: %w", d, err)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s requeued\n", d)
			}
			if len(requeue) > 0 {
				return nil
			}
			list, err := client.ListSetAside(ctx, &verigraphv1.ListSetAsideRequest{})
			if err != nil {
				return fmt.Errorf("aside: %w", err)
			}
			for _, g := range list.GetGroups() {
				fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\t%d deliveries\t%s\n", g.GetDispatch(), g.GetStage(), g.GetDeliveries(), g.GetReason())
			}
			return nil
		},
	}
	feed.register(cmd.Flags())
	cmd.Flags().StringSliceVar(&requeue, "requeue", nil, "dispatches to send back into the line")
	return cmd
}
