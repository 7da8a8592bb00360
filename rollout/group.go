package rollout

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/lease"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Identity is what every group of a worker is stamped with.
type Identity struct {
	Model              string
	TokenizerSHA256    string
	ChatTemplateSHA256 string
	PadTokenID         int32
}

// GroupRunner runs all members of a group at once.
type GroupRunner struct {
	Runner   *Runner
	Identity Identity
	Log      *zap.Logger
	// MaxStaleness cancels a group once its oldest sampled version is more than this behind the newest
	// known one, since the trainer would drop it; nil never does. Validation prompts are exempt.
	MaxStaleness func() int64
	// Recheck is how often that is looked at during long calls; 0 means every second.
	Recheck time.Duration
	// Journal makes every turn durable before the next one starts; nil keeps nothing.
	Journal Journal
	// Resumed counts what came of journals that held something.
	Resumed Resumed
}

// Run runs every member to its end; a member that ended for our reasons is tried again up to
// MaxAttempts times. It returns an error only when ctx ended, since then the group is not complete,
// or errStale when the whole group was canceled as too old.
func (g *GroupRunner) Run(ctx context.Context, d task.Dispatch, files map[string]string) (trajectory.Group, error) {
	group := trajectory.Group{
		Dispatch: d, Trajectories: make([]trajectory.Trajectory, d.GroupSize),
		Model: g.Identity.Model, TokenizerSHA256: g.Identity.TokenizerSHA256,
		ChatTemplateSHA256: g.Identity.ChatTemplateSHA256, PadTokenID: g.Identity.PadTokenID,
		Sampling: g.Runner.Config.asked(d.Prompt.Sampling).Sampling,
	}
	age := g.newAge(d)
	held, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	aged, stop := age.watch(held, g.Recheck)
	common := shared{files: files, age: age, task: graphTask(d.Prompt).Shared(), abandon: abandon}
	var members sync.WaitGroup
	for sample := range d.GroupSize {
		members.Go(func() { group.Trajectories[sample] = g.member(aged, d, sample, common) })
	}
	members.Wait()
	stop()
	if err := ctx.Err(); err != nil {
		return trajectory.Group{}, err
	}
	if errors.Is(context.Cause(held), lease.ErrSuperseded) {
		return trajectory.Group{}, fmt.Errorf("dispatch %s: %w", d.ID, lease.ErrSuperseded)
	}
	for i := range group.Trajectories {
		if group.Trajectories[i].Termination == trajectory.Stale {
			return trajectory.Group{}, fmt.Errorf("dispatch %s: %w", d.ID, errStale)
		}
	}
	return group, nil
}

// member never panics out: a fault in our code ends this member and not its siblings.
func (g *GroupRunner) member(ctx context.Context, d task.Dispatch, sample int, common shared) (t trajectory.Trajectory) {
	rec, err := g.open(ctx, d, sample)
	if err != nil {
		return failed(d, sample, 0, trajectory.Canceled, g.given(err, common))
	}
	if rec != nil && rec.finished != nil {
		return *rec.finished
	}
	common.record = rec
	first := rec.first()
	for attempt := first; attempt < first+g.Runner.Config.MaxAttempts; attempt++ {
		t = g.attempt(ctx, d, sample, attempt, common)
		if err := rec.end(ctx, t); err != nil {
			return failed(d, sample, attempt, trajectory.Canceled, g.given(err, common))
		}
		if t.Termination.Rewarded() || t.Termination == trajectory.Stale || ctx.Err() != nil {
			return t
		}
		g.Log.Warn("rollout attempt lost", zap.Stringer("rollout_id", t.ID), zap.Int("attempt", attempt),
			zap.String("termination_reason", string(t.Termination)), zap.String("error", t.Error))
		if attempt+1 < first+g.Runner.Config.MaxAttempts && pause(ctx, backoff(attempt-first)) != nil {
			return t
		}
	}
	return t
}

// given ends the whole group where another worker has it.
func (g *GroupRunner) given(err error, common shared) error {
	if errors.Is(err, lease.ErrSuperseded) {
		common.abandon(err)
	}
	return err
}

// failed is a member that ended before its trajectory began, or beside it.
func failed(d task.Dispatch, sample, attempt int, reason trajectory.Termination, err error) trajectory.Trajectory {
	return trajectory.Trajectory{
		ID:      task.RolloutID{Run: d.Run, Dispatch: d.ID, Sample: sample},
		Attempt: attempt, PromptID: d.Prompt.ID, DataSource: d.Prompt.DataSource, Termination: reason, Error: err.Error(),
	}
}

func (g *GroupRunner) attempt(ctx context.Context, d task.Dispatch, sample, attempt int, common shared) (t trajectory.Trajectory) {
	ctx, ended := g.Runner.began(ctx, d, sample, attempt)
	defer func() { ended(t.Termination) }() // after what a panic comes to
	defer func() {
		if p := recover(); p != nil {
			t = failed(d, sample, attempt, trajectory.SandboxLost, fmt.Errorf("panic: %v", p))
			g.Log.Error("rollout panicked", zap.Stringer("rollout_id", t.ID), zap.Any("panic", p), zap.Stack("stack"))
		}
	}()
	return g.Runner.runShared(ctx, d, sample, attempt, common)
}

// backoff is 0.5s, 1s, 2s, ... with jitter, at most 10s.
func backoff(attempt int) time.Duration {
	base := min(500*time.Millisecond<<min(attempt, 5), 10*time.Second)
	return base/2 + rand.N(base/2)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
