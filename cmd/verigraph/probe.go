package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/probe"
	"github.com/verigraph/verigraph/policy/servertok"
	"github.com/verigraph/verigraph/policy/tokenizer"
)

func newProbe() *cobra.Command {
	var configFile, url, model, tok, output, keyEnv string
	cmd := &cobra.Command{
		Use:   "probe --policy URL --model NAME",
		Short: "Find out whether a policy server can serve exact rollouts",
		Example: `  verigraph probe --policy http://HOST:8000 --model NAME --tokenizer DIR
  verigraph probe --config worker.yaml --output json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.LoadOptional(configFile)
			if err != nil {
				return cli.Usage(err)
			}
			for value, into := range map[string]*string{
				url: &cfg.Policy.BaseURL, model: &cfg.Policy.Model, tok: &cfg.Policy.Tokenizer, keyEnv: &cfg.Policy.APIKeyEnv,
			} {
				if value != "" {
					*into = value
				}
			}
			if output != "table" && output != "json" {
				return cli.Usage(fmt.Errorf("--output: %q, want table or json", output))
			}
			return runProbe(cmd, cfg, configFile != "", output)
		},
	}
	f := cmd.Flags()
	f.StringVar(&configFile, "config", "", "a worker's configuration file (flags win over it)")
	f.StringVar(&url, "policy", "", "policy endpoint URL")
	f.StringVar(&model, "model", "", "name of the served model")
	f.StringVar(&tok, "tokenizer", "", "directory with the model's tokenizer.json, to compare with the server's; or server: see whether one can be rebuilt from it")
	f.StringVar(&keyEnv, "api-key-env", "", "environment variable that holds the server's key")
	f.StringVar(&output, "output", "table", "table or json")
	return cmd
}

// probePatience is how long a server that is just starting is waited for.
const probePatience = 5 * time.Second

func runProbe(cmd *cobra.Command, cfg config.Config, limits bool, output string) error {
	cfg.Policy.RetryBudget, cfg.Policy.CallTimeout = probePatience, time.Minute
	client, err := policy.NewClient(cfg.Policy.Config)
	if err != nil {
		return cli.Usage(err)
	}
	defer client.Close()
	opt := probe.Options{Endpoint: cfg.Policy.BaseURL, Model: cfg.Policy.Model, Sampling: cfg.Rollout.Sampling}
	if limits { // without a file the trainer's lengths are only defaults
		opt.NeedContext = cfg.Trainer.PromptLength + cfg.Trainer.ResponseLength
	}
	switch cfg.Policy.Tokenizer {
	case "":
	case config.TokenizerServer:
		opt.Tokenizer, opt.TokenizerError = servertok.Load(cmd.Context(), client)
	default:
		if opt.Tokenizer, err = tokenizer.Load(cfg.Policy.Tokenizer); err != nil {
			return cli.Usage(err)
		}
	}
	report := probe.Run(cmd.Context(), client, opt)
	if err := printProbe(cmd.OutOrStdout(), report, output); err != nil {
		return err
	}
	if !report.Fit() {
		return errors.New("probe: the server cannot serve exact rollouts as it is")
	}
	return nil
}

func printProbe(w io.Writer, r probe.Report, output string) error {
	if output == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(t, "CHECK\tSTATE\tFOUND\n")
	for _, c := range r.Checks {
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.Name, c.State, c.Found)
		if c.Fix != "" {
			fmt.Fprintf(t, "\t\t-> %s\n", c.Fix)
		}
	}
	return t.Flush()
}
