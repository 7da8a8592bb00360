package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/rollout/replay"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/trajectory"
)

// errNotReplayed is the exit code 1 of a replay that found something.
var errNotReplayed = errors.New("some claims do not replay")

// replayOptions are the flags of verigraph replay.
type replayOptions struct {
	configFile, python string
	sensitivity, json  bool
}

func newReplay() *cobra.Command {
	o := replayOptions{}
	cmd := &cobra.Command{
		Use:   "replay OUT [ROLLOUT_ID]",
		Short: "Run the cells of submitted rollouts again and compare their claims",
		Long: `Runs the cells behind every submitted claim again, in fresh sessions on the original data with the
same seed, and compares the texts. Numbers are also computed on changed copies of the data; those that
never change are constants. Prints one line per claim, and beside it the values that it rests on and that
nothing could follow. Exit code 1 means that a claim did not replay, depends on no data, or could not be told.`,
		Example: "  verigraph replay out/demo\n  verigraph replay out/demo local/0-0/0 --output json",
		Args:    cli.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runReplay(cmd.Context(), o, args, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.configFile, "config", "", "configuration file of the run")
	f.StringVar(&o.python, "python", "", "Python interpreter of the sessions")
	f.BoolVar(&o.sensitivity, "sensitivity", true, "also run on changed data and name the numbers that never change")
	cli.OutputFlag(f, &o.json, "what is printed")
	return cmd
}

// replayLine is one claim of the output.
type replayLine struct {
	RolloutID string `json:"rollout_id"`
	evidence.ReplayResult
	// Untracked are the values behind the claim that the static pass could not follow.
	Untracked []evidence.UntrackedMark `json:"untracked,omitempty"`
}

// note is what a person should know of a claim: what is wrong with it, and what could not be followed.
func (l *replayLine) note() string {
	var all []string
	if why := l.suspect(); why != "" {
		all = append(all, why)
	}
	for _, u := range l.Untracked {
		all = append(all, fmt.Sprintf("untracked: %s of turn %d, line %d (%s)", u.Name, u.Turn, u.Line, u.Construct))
	}
	return strings.Join(all, "; ")
}

// suspect says what is wrong with a claim, "" if nothing is.
func (l *replayLine) suspect() string {
	var all []string
	if l.Outcome != evidence.ReplaySame {
		all = append(all, l.Detail)
	}
	if len(l.Constant) > 0 {
		all = append(all, "does not change with the data: "+strings.Join(l.Constant, ", "))
	}
	if l.Dodged {
		all = append(all, "runs on the original data only")
	}
	return strings.Join(all, "; ")
}

func runReplay(ctx context.Context, o replayOptions, args []string, stdout io.Writer) (err error) {
	cfg, err := config.LoadOptional(o.configFile)
	if err != nil {
		return cli.Usage(err)
	}
	if o.python != "" {
		cfg.Sandbox.Python = o.python
	}
	out := args[0]
	ids, err := submittedRollouts(out, args[1:])
	if err != nil {
		return cli.Usage(err)
	}
	if len(ids) > 0 {
		first, err := archive.Read(out, ids[0])
		if err != nil {
			return fmt.Errorf("replay: rollout %s: %w", ids[0], err)
		}
		cfg.Sandbox.HashSeed, cfg.Sandbox.Clock = first.Trajectory.HashSeed, first.Trajectory.Clock
	}
	blobs, err := blob.OpenDir(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, blobs.Close()) }()
	box, err := sandbox.New(cfg.Sandbox)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	dir, err := os.MkdirTemp("", "verigraph-data-")
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // sessions run under other uids
		return fmt.Errorf("replay: %w", err)
	}
	r := &replay.Replayer{Sandbox: box, Evidence: cfg.Rollout.Evidence, Sensitivity: o.sensitivity, Python: cfg.Sandbox.Python}
	var lines []replayLine
	for _, id := range ids {
		found, err := replayOne(ctx, r, blobs, out, id, dir, cfg.Sandbox)
		if err != nil {
			return fmt.Errorf("replay: rollout %s: %w", id, err)
		}
		lines = append(lines, found...)
	}
	return printReplay(stdout, lines, o.json)
}

// submittedRollouts lists the rollouts with a submission, or the one that was named.
func submittedRollouts(out string, named []string) ([]string, error) {
	entries, err := archive.ReadIndex(out)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if len(named) > 0 && e.RolloutID == named[0] || len(named) == 0 && e.Submitted {
			ids = append(ids, e.RolloutID)
		}
	}
	if len(ids) == 0 && len(named) > 0 {
		return nil, fmt.Errorf("%s: no rollout %q", out, named[0])
	}
	return ids, nil
}

func replayOne(ctx context.Context, r *replay.Replayer, blobs *blob.Store, out, id, dir string, like sandbox.Config) ([]replayLine, error) {
	s, err := archive.Read(out, id)
	if err != nil {
		return nil, err
	}
	t := &s.Trajectory
	if t.HashSeed != like.HashSeed || t.Clock != like.Clock {
		return nil, fmt.Errorf("its hash seed is %d and its clock %q, those of the first rollout %d and %q: replay it by its id", t.HashSeed, t.Clock, like.HashSeed, like.Clock)
	}
	spec := sandbox.Spec{Files: map[string]string{}, Seed: t.Seed}
	for _, n := range t.Graph.Nodes {
		if n.Kind != evidence.NodeSource {
			continue
		}
		if spec.Files[n.Name], err = blobs.Fetch(ctx, n.SHA256, dir); err != nil {
			return nil, err
		}
	}
	results, err := r.Replay(ctx, &t.Graph, taskText(t), spec)
	if err != nil {
		return nil, err
	}
	lines := make([]replayLine, len(results))
	for i, result := range results {
		lines[i] = replayLine{RolloutID: id, ReplayResult: result, Untracked: t.Graph.UntrackedUnder(result.Claim)}
	}
	return lines, nil
}

// taskText is the user message, which holds the whole question: the archive keeps no prompts.
func taskText(t *trajectory.Trajectory) string {
	for _, m := range t.Messages {
		if m.Role == "user" {
			return m.Content
		}
	}
	return ""
}

func printReplay(w io.Writer, lines []replayLine, asJSON bool) error {
	suspects := 0
	enc, table := json.NewEncoder(w), tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if !asJSON {
		fmt.Fprintln(table, "ROLLOUT\tCLAIM\tREPLAY\tWHY")
	}
	for _, l := range lines {
		if l.suspect() != "" {
			suspects++
		}
		if asJSON {
			if err := enc.Encode(l); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", l.RolloutID, l.Claim, l.Outcome, l.note())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if suspects > 0 {
		return fmt.Errorf("%w: %d of %d", errNotReplayed, suspects, len(lines))
	}
	return nil
}
