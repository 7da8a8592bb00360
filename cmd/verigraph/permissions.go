package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/jetstream"
)

func newPermissions() *cobra.Command {
	var run, role string
	cmd := &cobra.Command{
		Use:     "permissions",
		Short:   "Print what the NATS user of a role needs, as a part of the server's configuration",
		Example: "  verigraph permissions --run first --role worker",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := jetstream.CheckRun(run); err != nil {
				return cli.Usage(err)
			}
			if !slices.Contains(jetstream.Roles(), jetstream.Role(role)) {
				return cli.Usage(fmt.Errorf("--role: %q, want one of %v", role, jetstream.Roles()))
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), jetstream.PermissionsConfig(run, jetstream.Role(role)))
			return err
		},
	}
	cmd.Flags().StringVar(&run, "run", "", "name of the run")
	cmd.Flags().StringVar(&role, "role", "", "worker, server or submit")
	return cmd
}
