package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/cmd/internal/line"
	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/account"
	"github.com/verigraph/verigraph/reward/audit"
	"github.com/verigraph/verigraph/reward/items"
	"github.com/verigraph/verigraph/reward/verdicts"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

type scoreOptions struct {
	in         inputFlags
	configFile string
	preset     string
	judge      string
	judgeModel string
	rejudge    bool
	audit      bool
	out        string
	parallel   int
	json       bool
}

func newScore() *cobra.Command {
	var o scoreOptions
	cmd := &cobra.Command{
		Use:   "score OUT",
		Short: "Score a stored run again, without generating anything, or audit its reference answers",
		Long: `Reads the trajectories, prompts and reference answers of a run's output directory and scores them by a preset. Verdicts
that the run's judge gave are taken from OUT/verdicts. Nothing of the run is changed; the scores are written to OUT/scores.`,
		Example: `  verigraph score out/demo --reward paper
  verigraph score out/demo --reward default --judge http://HOST:8001/v1 --judge-model NAME --rejudge
  verigraph score out/demo --audit`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runScore(cmd.Context(), args[0], o, cmd.Flags().Changed, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	o.in.register(f)
	f.StringVar(&o.configFile, "config", "", "configuration file (flags win over it)")
	f.StringVar(&o.preset, "reward", "", "reward preset: "+strings.Join(reward.PresetNames(), ", ")+", or a file")
	f.StringVar(&o.judge, "judge", "", "judge endpoint URL (OpenAI API), or rules")
	f.StringVar(&o.judgeModel, "judge-model", "", "name of the judge model")
	f.BoolVar(&o.rejudge, "rejudge", false, "ask the judge for every verdict anew and replace the stored ones")
	f.BoolVar(&o.audit, "audit", false, "send every reference answer to its own scorer and report what is wrong")
	f.StringVar(&o.out, "scores", "", "file for the scores (default OUT/scores/PRESET.jsonl)")
	f.IntVar(&o.parallel, "parallel", 16, "rollouts scored at once")
	cli.OutputFlag(f, &o.json, "the summary")
	return cmd
}

// reward builds the reward section from file and flags.
func (o scoreOptions) reward(dir string, changed func(string) bool) (config.Reward, error) {
	cfg, err := config.LoadOptional(o.configFile)
	if err != nil {
		return cfg.Reward, err
	}
	if changed("reward") {
		cfg.Reward.Preset = o.preset
	}
	cfg.Reward.SetJudge(o.judge, o.judgeModel)
	cfg.Reward.Verdicts.Rejudge = o.rejudge
	cfg.Blob, cfg.Reward.Archive = dir, dir
	cfg.Resolve()
	return cfg.Reward, cfg.ValidateReward()
}

func runScore(ctx context.Context, dir string, o scoreOptions, changed func(string) bool, stdout, stderr io.Writer) error {
	cfg, err := o.reward(dir, changed)
	if err != nil {
		return cli.Usage(err)
	}
	if o.parallel < 1 {
		return cli.Usage(fmt.Errorf("--parallel: %d, want at least 1", o.parallel))
	}
	all, paths, err := o.items(ctx, dir)
	if err != nil {
		return err
	}
	var store reward.Store
	if cfg.Judge == config.JudgeOpenAI {
		if store, err = verdicts.OpenDir(line.VerdictDir(dir)); err != nil {
			return err
		}
	}
	log, err := stderrLogger(stderr)
	if err != nil {
		return err
	}
	s, err := line.NewScoring(cfg, store, log)
	if err != nil {
		return cli.Usage(err)
	}
	defer s.Close()
	if o.audit {
		return auditItems(ctx, dir, all, paths, s.Scorer, o.json, stdout)
	}
	return o.score(ctx, dir, all, s, stdout)
}

// stderrLogger prints warnings, e.g. of a judge whose deadline can't fit its tokens.
func stderrLogger(w io.Writer) (*zap.Logger, error) {
	cfg := zap.NewDevelopmentConfig()
	cfg.Level = zap.NewAtomicLevelAt(zap.WarnLevel)
	cfg.DisableStacktrace, cfg.DisableCaller = true, true
	if w != os.Stderr {
		return zap.NewNop(), nil
	}
	log, err := cfg.Build()
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return log, nil
}

// items are those of the run, or of --prompts where it is given, then with the data files' paths by content.
func (o scoreOptions) items(ctx context.Context, dir string) ([]items.Item, map[string]string, error) {
	if o.in.Prompts == "" {
		all, err := items.Read(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, cli.Usage(fmt.Errorf("%s holds no prompts with reference answers; name them by --prompts", dir))
		}
		return all, nil, err
	}
	in, err := o.in.load(ctx)
	if err != nil {
		return nil, nil, err
	}
	refs := map[string]task.Reference{}
	for _, r := range in.references {
		refs[r.PromptID] = r
	}
	var all []items.Item
	for _, p := range in.prompts {
		all = append(all, items.Item{Prompt: p, Reference: refs[p.ID]})
	}
	return all, in.paths, nil
}

// rescored is one line of the scores file.
type rescored struct {
	RolloutID string           `json:"rollout_id"`
	Before    *float64         `json:"before"`
	Score     trajectory.Score `json:"score"`
}

// scoreSummary is what verigraph score prints.
type scoreSummary struct {
	Preset     string           `json:"preset"`
	PresetHash string           `json:"preset_hash"`
	Rollouts   int              `json:"rollouts"`
	Books      account.Snapshot `json:"books"`
	Unscored   float64          `json:"unscored_share"`
	MeanReward *float64         `json:"mean_reward"`
	Accuracy   *float64         `json:"accuracy"`
	// Changed counts the rollouts whose reward differs from the stored one, to 9 decimals.
	Changed int    `json:"changed"`
	File    string `json:"file"`
}

func (o scoreOptions) score(ctx context.Context, dir string, all []items.Item, s *line.Scoring, stdout io.Writer) error {
	entries, err := archive.ReadIndex(dir)
	if err != nil {
		return cli.Usage(err)
	}
	byPrompt := map[string]items.Item{}
	for _, it := range all {
		byPrompt[it.Prompt.ID] = it
	}
	out := make([]rescored, len(entries))
	errs := make([]error, len(entries))
	slots := make(chan struct{}, o.parallel)
	var wg sync.WaitGroup
	for i, e := range entries {
		it, ok := byPrompt[e.PromptID]
		if !ok {
			return cli.Usage(fmt.Errorf("%s: prompt %s has no reference answer in what was given", dir, e.PromptID))
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out[i], errs[i] = scoreOne(ctx, dir, e, it, s)
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	sum := rescoreSummary(out, s)
	sum.File = o.out
	if sum.File == "" {
		sum.File = filepath.Join(dir, "scores", sum.Preset+".jsonl")
	}
	if err := writeScores(sum.File, out); err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(stdout).Encode(sum)
	}
	sum.print(stdout)
	return nil
}

func scoreOne(ctx context.Context, dir string, e archive.Entry, it items.Item, s *line.Scoring) (rescored, error) {
	r := rescored{RolloutID: e.RolloutID, Before: e.Rewards.Total}
	data, err := os.ReadFile(filepath.Join(dir, e.File))
	if err != nil {
		return r, fmt.Errorf("score: %w", err)
	}
	var stored trajectory.Scored
	if err := json.Unmarshal(data, &stored); err != nil {
		return r, fmt.Errorf("score: %s: %w", e.File, err)
	}
	r.Score = s.Scorer.Score(ctx, stored.Trajectory, it.Prompt, it.Reference)
	s.Book.Add(r.Score)
	return r, nil
}

func rescoreSummary(out []rescored, s *line.Scoring) scoreSummary {
	books := s.Book.Snapshot()
	preset := s.Scorer.Preset()
	sum := scoreSummary{
		Preset: preset.Name, PresetHash: preset.Hash(), Rollouts: len(out), Books: books, Unscored: books.UnscoredShare(), Accuracy: books.Accuracy(),
	}
	total, n := 0.0, 0
	for _, r := range out {
		scored := r.Score.Status == trajectory.ScoreOK
		if scored {
			total += r.Score.Reward
			n++
		}
		if scored != (r.Before != nil) || scored && num9(r.Score.Reward) != num9(*r.Before) {
			sum.Changed++
		}
	}
	if n > 0 {
		mean := total / float64(n)
		sum.MeanReward = &mean
	}
	return sum
}

func num9(v float64) string { return fmt.Sprintf("%.9f", v+0) }

func writeScores(path string, out []rescored) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("score: %w", err)
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("score: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	for _, r := range out {
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("score: %w", err)
		}
	}
	return w.Flush()
}

func (s scoreSummary) print(w io.Writer) {
	fmt.Fprintf(w, "preset     %s (%.12s)\n", s.Preset, s.PresetHash)
	fmt.Fprintf(w, "rollouts   %d: %s\n", s.Rollouts, counts(statusNames(s.Books.Status)))
	fmt.Fprintf(w, "rewards    mean %s, accuracy %s, %d changed\n", num(s.MeanReward), num(s.Accuracy), s.Changed)
	fmt.Fprintf(w, "verdicts   %s; %d from the store, %d repaired\n", counts(kindNames(s.Books.Verdicts)), s.Books.Cached, s.Books.Repaired)
	fmt.Fprintf(w, "methods    %s\n", counts(s.Books.Methods))
	fmt.Fprintf(w, "unscored   %.1f %%\n%s", 100*s.Unscored, s.Books.EdgesTable())
	fmt.Fprintf(w, "scores     %s\n", s.File)
}

func statusNames(m map[trajectory.ScoreStatus]int) map[string]int {
	out := map[string]int{}
	for k, v := range m {
		out[string(k)] = v
	}
	return out
}

func kindNames(m map[trajectory.VerdictKind]int) map[string]int {
	out := map[string]int{}
	for k, v := range m {
		out[string(k)] = v
	}
	return out
}

// auditItems reports on every item; findings that break scoring are a failure.
func auditItems(ctx context.Context, dir string, all []items.Item, paths map[string]string, s *reward.Scorer, asJSON bool, stdout io.Writer) error {
	store, err := blob.OpenDir(dir)
	if err != nil {
		return err
	}
	defer store.Close()
	findings, err := audit.Run(ctx, all, s, func(ctx context.Context, f task.File) (io.ReadCloser, error) {
		if path, ok := paths[f.SHA256]; ok {
			return os.Open(path)
		}
		return store.ReadRange(ctx, blob.DataName(f.SHA256), 0, -1)
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(findings, func(a, b audit.Finding) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
	broken := map[string]bool{}
	enc := json.NewEncoder(stdout)
	for _, f := range findings {
		if f.Kind == audit.NotFull || f.Kind == audit.Unscorable {
			broken[f.PromptID] = true
		}
		if asJSON {
			if err := enc.Encode(f); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(stdout, "%-16s %-12s %s\n", f.Kind, f.PromptID, f.Reason)
	}
	if !asJSON {
		fmt.Fprintf(stdout, "%d items, %d without full marks from their own scorer, %d remarks\n", len(all), len(broken), len(findings))
	}
	if len(broken) > 0 {
		return fmt.Errorf("audit: %d of %d reference answers do not get full marks from their own scorer", len(broken), len(all))
	}
	return nil
}
