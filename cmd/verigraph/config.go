package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/reward"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check configuration files, show what they mean, print their schema"}
	cmd.AddCommand(newConfigCheck(), newConfigShow(), newConfigSchema())
	return cmd
}

const rolePreset = "preset"

func newConfigCheck() *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Report all problems of configuration files at once, each with its line",
		Example: "  verigraph config check configs/local.yaml\n" +
			"  verigraph config check --for rollout-worker configs/rollout-worker.yaml\n" +
			"  verigraph config check --for preset configs/reward/default.yaml",
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			found := 0
			for _, path := range args {
				problems := config.Problems(path, checkFile(path, role))
				for _, p := range problems {
					fmt.Fprintln(cmd.OutOrStdout(), p)
				}
				found += len(problems)
			}
			if found > 0 {
				return cli.Usage(fmt.Errorf("config check: %d problems", found))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d files, no problems\n", len(args))
			return nil
		},
	}
	cmd.Flags().StringVar(&role, "for", config.RoleRun, "the program that reads the file: "+config.RoleNames()+"; or preset for a reward preset")
	return cmd
}

func checkFile(path, role string) error {
	if role == rolePreset {
		_, err := reward.LoadPreset(path)
		return err
	}
	c, err := config.Load(path)
	if errors.As(err, new(*fs.PathError)) {
		return err
	}
	c.Resolve()
	return errors.Join(err, c.ValidateRole(role))
}

func newConfigShow() *cobra.Command {
	var resolved bool
	cmd := &cobra.Command{
		Use:   "show [FILE]",
		Short: "Print a configuration with every default filled in; keys and header values are not shown",
		Example: "  verigraph config show\n" +
			"  verigraph config show --resolved configs/local.yaml",
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := config.Defaults()
			if len(args) == 1 {
				var err error
				if c, err = config.Load(args[0]); err != nil {
					return cli.Usage(err)
				}
			}
			if resolved {
				c.Resolve()
			}
			enc := yaml.NewEncoder(cmd.OutOrStdout())
			enc.SetIndent(2)
			return errors.Join(enc.Encode(c), enc.Close())
		},
	}
	cmd.Flags().BoolVar(&resolved, "resolved", false, "also spread the values that one section gives to others")
	return cmd
}

func newConfigSchema() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON schema of configuration files, for editors",
		Example: "  verigraph config schema > verigraph.schema.json",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(config.Schema)
			return err
		},
	}
}
