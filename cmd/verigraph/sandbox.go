package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/sandbox/analysis"
	"github.com/verigraph/verigraph/trajectory"
)

// sandboxFlags are what both commands take.
type sandboxFlags struct {
	python, tier, requirements string
}

func (f *sandboxFlags) config() sandbox.Config {
	cfg := sandbox.Defaults()
	if f.python != "" {
		cfg.Python = f.python
	}
	cfg.MinTier = sandbox.Tier(f.tier)
	cfg.Requirements, cfg.MaxSessions = f.requirements, 1
	return cfg
}

func newSandbox() *cobra.Command {
	var f sandboxFlags
	cmd := &cobra.Command{Use: "sandbox", Short: "Check the isolation of sessions, and run cells by hand"}
	cmd.PersistentFlags().StringVar(&f.python, "python", "", "Python interpreter of the environment")
	cmd.PersistentFlags().StringVar(&f.tier, "min-tier", string(sandbox.TierStrict), "least isolation: strict, gvisor, confined or none")
	cmd.AddCommand(newSandboxCheck(&f), newSandboxRun(&f))
	return cmd
}

func newSandboxCheck(f *sandboxFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Verify a Python environment and measure the isolation of this host",
		Example: "  verigraph sandbox check --python .venv/sandbox/bin/python",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg := f.config()
			if err := cli.Usage(cfg.Validate()); err != nil {
				return err
			}
			if err := sandbox.CheckPython(cmd.Context(), cfg); err != nil {
				return err
			}
			box, err := sandbox.New(cfg)
			if err != nil {
				return err
			}
			return errors.Join(printChecks(cmd.Context(), cmd.OutOrStdout(), cfg, box), box.Close(), printPass(cmd.OutOrStdout(), cfg.Python))
		},
	}
	cmd.Flags().StringVar(&f.requirements, "requirements", "", "file of pinned packages that the environment must hold; empty is the shipped list")
	return cmd
}

func printChecks(ctx context.Context, w io.Writer, cfg sandbox.Config, box *sandbox.Sandbox) error {
	st := box.Stats()
	first, err := firstResult(ctx, box)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "environment  %s: all packages are there\ntier         %s\nengine       %s", cfg.Python, st.Tier, st.Engine)
	if st.Fallback != "" {
		fmt.Fprintf(w, " (%s)", st.Fallback)
	}
	fmt.Fprintf(w, "\nfirst result %s after a session is asked for\ncgroups      %s\nsignals by   %s\n", first.Round(time.Millisecond), st.Groups, st.Signals)
	for _, c := range box.Checks() {
		state := "holds"
		switch {
		case c.Problem != "" && c.Required:
			state = "FAILS: " + c.Problem
		case c.Problem != "":
			state = "not promised by this tier: " + c.Problem
		}
		if _, err := fmt.Fprintf(w, "  %-22s %s\n", c.Name, state); err != nil {
			return err
		}
	}
	return nil
}

// printPass says how the provenance pass runs.
func printPass(w io.Writer, python string) error {
	a, err := analysis.New(analysis.Config{Python: python})
	if err != nil {
		return err
	}
	how := "compiled"
	if why := a.Interpreted(); why != "" {
		how = "interpreted (" + why + ")"
	}
	_, err = fmt.Fprintf(w, "provenance   %s\n", how)
	return errors.Join(err, a.Close())
}

// firstResult is the median of five sessions' time from start to the result of a cell that uses what analyses use.
func firstResult(ctx context.Context, box *sandbox.Sandbox) (time.Duration, error) {
	const code = "import pandas, numpy, scipy.stats\nprint(pandas.DataFrame({'x': [1]}).x.sum())"
	var times []time.Duration
	for range 5 {
		begin := time.Now()
		sess, err := box.Start(ctx, sandbox.Spec{})
		if err != nil {
			return 0, err
		}
		res, err := sess.Run(ctx, code, evidence.New(evidence.Task{}, evidence.Config{}).Begin(1, code, evidence.Analysis{}))
		times = append(times, time.Since(begin))
		if err = errors.Join(err, sess.Close()); err == nil && res.Status != trajectory.CellOK {
			err = fmt.Errorf("first cell: %s: %s", res.Status, res.Traceback)
		}
		if err != nil {
			return 0, err
		}
	}
	slices.Sort(times)
	return times[2], nil
}

func newSandboxRun(f *sandboxFlags) *cobra.Command {
	var data []string
	cmd := &cobra.Command{
		Use:     "run FILE...",
		Short:   "Run files as the cells of one session and print what the model would see",
		Example: "  verigraph sandbox run first.py second.py --data table.csv",
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg := f.config()
			if err := cli.Usage(cfg.Validate()); err != nil {
				return err
			}
			cells := make([]string, len(args))
			for i, path := range args {
				b, err := os.ReadFile(path)
				if err != nil {
					return cli.Usage(err)
				}
				cells[i] = string(b)
			}
			box, err := sandbox.New(cfg)
			if err != nil {
				return err
			}
			return errors.Join(runCells(cmd.Context(), cmd.OutOrStdout(), box, cfg.Python, cells, data), box.Close())
		},
	}
	cmd.Flags().StringArrayVar(&data, "data", nil, "data file, under its own name; may be repeated")
	return cmd
}

// runCells runs cells in one session. A cell that fails is an observation; only what is ours is an error.
func runCells(ctx context.Context, w io.Writer, box *sandbox.Sandbox, python string, cells, data []string) error {
	templates, err := rollout.LoadTemplates(rollout.Defaults().Prompts)
	if err != nil {
		return err
	}
	analyzer, err := analysis.New(analysis.Config{Python: python})
	if err != nil {
		return err
	}
	defer analyzer.Close()
	spec := sandbox.Spec{Files: map[string]string{}}
	for _, path := range data {
		spec.Files[filepath.Base(path)] = path
	}
	sess, err := box.Start(ctx, spec)
	if err != nil {
		return cli.Usage(err)
	}
	defer sess.Close()
	graph := evidence.New(evidence.Task{}, evidence.Config{})
	for i, code := range cells {
		a, err := analyzer.Analyze(ctx, code, graph.Definitions())
		if err != nil {
			return fmt.Errorf("cell %d: %w", i+1, err)
		}
		cell := graph.Begin(i+1, code, a)
		res, err := sess.Run(ctx, code, cell)
		if err != nil {
			return fmt.Errorf("cell %d: %w", i+1, err)
		}
		cell.End(string(res.Status))
		text, err := templates.Observe(res, graph.Claims())
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "cell %d\n%s\n", i+1, text); err != nil {
			return err
		}
		if res.NamespaceLost {
			return nil
		}
	}
	return nil
}
