package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/archive"
)

func (f *inputFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.Prompts, "prompts", "", "prompts file")
	fs.StringVar(&f.format, "format", string(dataset.FormatJSONL), "format of the prompts file: "+dataset.FormatNames())
	fs.StringVar(&f.Labels, "labels", "", "labels file (dabench)")
	fs.StringVar(&f.DataDir, "data-dir", "", "directory of the data files")
	fs.IntVar(&f.Limit, "limit", 0, "take only the first prompts")
}

func newGraph() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "graph OUT ROLLOUT_ID",
		Short:   "Print a rollout's evidence DAG",
		Example: "  verigraph graph out/demo local/0-0/0 --format mermaid",
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := archive.Read(args[0], args[1])
			if err != nil {
				return cli.Usage(err)
			}
			g := &s.Trajectory.Graph
			switch format {
			case "json":
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(g)
			case "mermaid":
				_, err = fmt.Fprintln(cmd.OutOrStdout(), g.Mermaid())
			case "dot":
				_, err = fmt.Fprintln(cmd.OutOrStdout(), g.DOT())
			default:
				return cli.Usage(fmt.Errorf("--format: %q, want json, mermaid or dot", format))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&format, "format", "json", "json, mermaid or dot")
	return cmd
}
