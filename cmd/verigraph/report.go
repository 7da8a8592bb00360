package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/chat"
	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/rollout/compose"
	"github.com/verigraph/verigraph/trajectory"
)

// reportOptions are the flags of verigraph report.
type reportOptions struct {
	configFile, policy, model, tokenizer string
	maxTokens                            int
}

func newReport() *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report OUT ROLLOUT_ID",
		Short: "Write a rollout's report from its submitted claims",
		Long: `Writes a report that says only what the submitted claims say. With a policy the model arranges the
claims into paragraphs under headings; where its text states a number that no cited claim holds, and
without a policy, the report is the list of the claims. Prints Markdown and keeps the record of the call
in OUT/reports/DISPATCH/SAMPLE.json.`,
		Example: "  verigraph report out/demo local/0-0/0\n" +
			"  verigraph report out/demo local/0-0/0 --policy http://HOST:8000 --model NAME --tokenizer DIR",
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := runReport(cmd.Context(), o, args[0], args[1])
			if err != nil {
				return err
			}
			if !r.Composed && o.policy != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "the list of claims stands in for the report: %s\n", r.Problem)
			}
			for _, g := range r.Grounding {
				if g.Why != "" {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s does not hold: %s\n", g.Claim, g.Why)
				}
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), r.Report)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.configFile, "config", "", "configuration file (flags win over it)")
	f.StringVar(&o.policy, "policy", "", "policy endpoint URL; none prints the list of claims")
	f.StringVar(&o.model, "model", "", "name of the served model")
	f.StringVar(&o.tokenizer, "tokenizer", "", "directory with the model's tokenizer.json")
	f.IntVar(&o.maxTokens, "max-tokens", 4096, "longest report, in tokens")
	return cmd
}

func runReport(ctx context.Context, o reportOptions, out, id string) (r compose.Record, err error) {
	s, err := archive.Read(out, id)
	if err != nil {
		return r, cli.Usage(err)
	}
	t := &s.Trajectory
	if len(t.Graph.Submitted) == 0 {
		return r, cli.Usage(fmt.Errorf("rollout %s submitted nothing", id))
	}
	w, done, err := o.writer(t)
	if err != nil {
		return r, err
	}
	defer done()
	if r, err = compose.Compose(ctx, w, &t.Graph, taskText(t)); err != nil {
		return r, err
	}
	path := filepath.Join(out, "reports", t.ID.Dispatch, strconv.Itoa(t.ID.Sample)+".json")
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return r, err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, append(data, '\n'), 0o644)); err != nil {
		return r, fmt.Errorf("report: %w", err)
	}
	return r, nil
}

// writer is the policy, or nil without one.
func (o reportOptions) writer(t *trajectory.Trajectory) (compose.Writer, func(), error) {
	none := func() {}
	if o.policy == "" {
		return nil, none, nil
	}
	cfg, err := config.LoadOptional(o.configFile)
	if err != nil {
		return nil, none, cli.Usage(err)
	}
	cfg.Policy.BaseURL = o.policy
	if o.model != "" {
		cfg.Policy.Model = o.model
	}
	if o.tokenizer != "" {
		cfg.Policy.Tokenizer = o.tokenizer
	}
	tok, err := tokenizer.Load(cfg.Policy.Tokenizer)
	if err != nil {
		return nil, none, cli.Usage(err)
	}
	ml, err := chat.New(tok)
	if err != nil {
		return nil, none, cli.Usage(err)
	}
	client, err := policy.NewClient(cfg.Policy.Config)
	if err != nil {
		return nil, none, cli.Usage(err)
	}
	w := &compose.PolicyWriter{
		Policy: client, Tokenizer: tok, Chat: ml, Name: cfg.Policy.Model, ID: t.ID.String(), MaxTokens: o.maxTokens,
	}
	return w, client.Close, nil
}
