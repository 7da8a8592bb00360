package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/cmd/internal/line"
	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/promptfile"
	"github.com/verigraph/verigraph/sft/generate"
	"github.com/verigraph/verigraph/task"
)

type generateOptions struct {
	plan      string
	config    string
	accept    string
	out       string
	policy    string
	api       string
	model     string
	tokenizer string
	judge     string
	json      bool
}

func newGenerate() *cobra.Command {
	var o generateOptions
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Ask a teacher for trajectories until each source has enough accepted ones; the same command goes on",
		Example: `  # a teacher that gives text only
  sft-builder generate --plan configs/sft/generate.yaml --accept configs/sft/paper.yaml --config configs/local.yaml \
    --policy https://HOST --policy-api chat --model NAME --judge rules --out out/teacher`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runGenerate(cmd.Context(), o, cmd.Flags().Changed, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.plan, "plan", "", "what to generate: sources, weights, wanted numbers")
	f.StringVar(&o.config, "config", "", "configuration of policy, rollouts, sandbox and reward (flags win over it)")
	f.StringVar(&o.accept, "accept", "", "configuration of the corpus whose predicates accept a trajectory")
	f.StringVar(&o.out, "out", "", "output directory, an --in of build later")
	f.StringVar(&o.policy, "policy", "", "teacher endpoint URL")
	f.StringVar(&o.api, "policy-api", "", "completions (token ids), or chat: text only")
	f.StringVar(&o.model, "model", "", "name of the served model")
	f.StringVar(&o.tokenizer, "tokenizer", "", "directory with the model's tokenizer.json (completions)")
	f.StringVar(&o.judge, "judge", "", "judge endpoint URL (OpenAI API), or rules")
	cli.OutputFlag(f, &o.json, "the result")
	return cmd
}

// resolve builds the line's configuration from file and flags.
func (o generateOptions) resolve(changed func(string) bool, plan generate.Config) (config.Config, error) {
	cfg, err := config.LoadOptional(o.config)
	if err != nil {
		return cfg, err
	}
	for name, set := range map[string]func(){
		"policy":     func() { cfg.Policy.BaseURL = o.policy },
		"policy-api": func() { cfg.Policy.API = o.api },
		"model":      func() { cfg.Policy.Model = o.model },
		"tokenizer":  func() { cfg.Policy.Tokenizer = o.tokenizer },
	} {
		if changed(name) {
			set()
		}
	}
	cfg.Reward.SetJudge(o.judge, "")
	cfg.Run = plan.Run
	cfg.Blob, cfg.Reward.Archive, cfg.Worker.Cache = o.out, o.out, filepath.Join(o.out, "cache")
	cfg.Resolve()
	return cfg, errors.Join(cfg.ValidateWorker(), cfg.ValidateReward())
}

func runGenerate(ctx context.Context, o generateOptions, changed func(string) bool, stdout, stderr io.Writer) error {
	for name, v := range map[string]string{"--plan": o.plan, "--out": o.out} {
		if v == "" {
			return cli.Usage(fmt.Errorf("%s: is needed", name))
		}
	}
	plan, err := generate.Load(o.plan)
	if err != nil {
		return cli.Usage(err)
	}
	accept, err := loadConfig(o.accept)
	if err != nil {
		return cli.Usage(err)
	}
	cfg, err := o.resolve(changed, plan)
	if err != nil {
		return cli.Usage(err)
	}
	input, paths, err := prompts(ctx, plan)
	if err != nil {
		return cli.Usage(err)
	}
	if err := claim(o.out, plan); err != nil {
		return cli.Usage(err)
	}
	log, err := fileLogger(filepath.Join(o.out, "generate.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	blobs, err := blob.OpenDir(o.out)
	if err != nil {
		return err
	}
	defer blobs.Close()
	for sha, path := range paths {
		if err := blobs.PutFile(ctx, sha, path); err != nil {
			return err
		}
	}
	player, err := line.NewPlayer(ctx, cfg, blobs, log)
	if err != nil {
		return err
	}
	s := &generate.Session{Config: plan, Accept: &accept, Input: input, Player: player, Out: o.out, Progress: stderr}
	result, err := session(ctx, player, s)
	err = errors.Join(err, player.Close())
	return report(ctx, o, plan, result, err, stdout)
}

// session runs the session with the player's own loops beside it.
func session(ctx context.Context, player *line.Player, s *generate.Session) (result generate.Result, err error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	g, running := errgroup.WithContext(running)
	g.Go(func() error { return player.Run(running) })
	g.Go(func() error {
		defer stop()
		var err error
		result, err = s.Run(running)
		return err
	})
	if err = g.Wait(); errors.Is(err, context.Canceled) && ctx.Err() == nil {
		err = nil
	}
	return result, err
}

func report(ctx context.Context, o generateOptions, plan generate.Config, r generate.Result, err error, stdout io.Writer) error {
	if len(r.Sources) > 0 {
		if o.json {
			err = errors.Join(err, json.NewEncoder(stdout).Encode(r))
		} else {
			for _, s := range r.Sources {
				fmt.Fprintf(stdout, "%s: %d of %d wanted trajectories accepted, of %d rollouts\n", s.Name, s.Accepted, s.Want, s.Rollouts)
			}
			fmt.Fprintf(stdout, "this session: %d rollouts, %d tokens in, %d out, cost %.2f\n", r.Rollouts, r.InputTokens, r.OutputTokens, r.Cost)
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted; what was finished is kept, and the same command goes on in %s", o.out)
	}
	if err != nil {
		return err
	}
	for _, s := range r.Sources {
		if s.Accepted < s.Want {
			return fmt.Errorf("source %s: %d of %d wanted trajectories after every prompt was asked %d times; raise rounds, or add prompts", s.Name, s.Accepted, s.Want, plan.Rounds)
		}
	}
	return nil
}

// prompts imports the sources.
func prompts(ctx context.Context, plan generate.Config) (generate.Input, map[string]string, error) {
	in := generate.Input{References: map[string]task.Reference{}}
	paths := map[string]string{}
	var errs []error
	for _, s := range plan.Sources {
		list, refs, files, err := dataset.Import(ctx, dataset.ImportConfig{
			Prompts: s.Prompts, Format: dataset.Format(s.Format), Labels: s.Labels, DataDir: s.DataDir, ReadParquet: promptfile.ReadParquet,
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("source %s: %w", s.Name, err))
			continue
		}
		in.Prompts = append(in.Prompts, list)
		for _, r := range refs {
			in.References[r.PromptID] = r
		}
		for sha, path := range files {
			paths[sha] = path
		}
		for _, p := range list {
			if _, ok := in.References[p.ID]; !ok {
				errs = append(errs, fmt.Errorf("source %s: prompt %s: no reference answer to score it by", s.Name, p.ID))
			}
		}
	}
	return in, paths, errors.Join(errs...)
}

// claim takes a new or empty directory, or goes on in that of the same plan.
func claim(dir string, plan generate.Config) error {
	want, err := json.MarshalIndent(plan, "", " ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "generate.json")
	old, err := os.ReadFile(path)
	switch {
	case err == nil:
		if !bytes.Equal(old, want) {
			return fmt.Errorf("--out: %s was generated by another plan; choose another directory", dir)
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("--out: %w", err)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("--out: %s is not empty and was not generated", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return os.WriteFile(path, want, 0o644)
}

func fileLogger(path string) (*zap.Logger, error) {
	c := zap.NewProductionConfig()
	c.OutputPaths, c.ErrorOutputPaths, c.Sampling = []string{path}, []string{"stderr"}, nil
	return c.Build()
}
