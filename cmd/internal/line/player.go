package line

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Player runs and scores single groups in this process, without a broker: the rollout machinery for those
// who want trajectories and no batches. Safe for concurrent use.
type Player struct {
	worker  *Worker
	groups  *rollout.GroupRunner
	scoring *Scoring
	files   *blob.Cache
}

// NewPlayer checks the environment as NewWorker does. Data files come from blobs. Close it.
func NewPlayer(ctx context.Context, cfg config.Config, blobs *blob.Store, log *zap.Logger) (_ *Player, err error) {
	w := &Worker{log: log}
	p := &Player{worker: w, files: &blob.Cache{Store: blobs, Dir: cfg.Worker.Cache, Max: cfg.Worker.CacheBytes}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	runner, err := w.runner(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if w.endpoints != nil {
		w.endpoints.CheckNow(ctx)
		if err := w.prober.run(ctx); err != nil {
			return nil, err
		}
	}
	if p.files.Dir, err = filepath.Abs(p.files.Dir); err != nil {
		return nil, err
	}
	if err := readable(p.files.Dir); err != nil {
		return nil, fmt.Errorf("player: %w", err)
	}
	p.groups = &rollout.GroupRunner{Runner: runner, Identity: w.Identity, Log: log}
	p.scoring, err = NewScoring(cfg.Reward, nil, log)
	return p, err
}

// Supports reports a reference that this reward configuration can't score.
func (p *Player) Supports(ref task.Reference) error { return p.scoring.Scorer.Supports(ref) }

// Run looks after the endpoints and the judges until ctx ends.
func (p *Player) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.scoring.Run(ctx) })
	if p.worker.endpoints != nil {
		g.Go(func() error { return p.worker.endpoints.Run(ctx) })
		g.Go(func() error { return p.worker.endLostCalls(ctx) })
	}
	return g.Wait()
}

// Play runs all members of a group and scores them. An error means that ctx ended, or that a data file could
// not be read: what a policy or a judge could not do is in the result.
func (p *Player) Play(ctx context.Context, d task.Dispatch, ref task.Reference) (trajectory.ScoredGroup, error) {
	files := map[string]string{}
	for _, f := range d.Prompt.Files {
		path, release, err := p.files.Fetch(ctx, f.SHA256)
		if err != nil {
			return trajectory.ScoredGroup{}, err
		}
		defer release()
		files[f.Name] = path
	}
	g, err := p.groups.Run(ctx, d, files)
	if err != nil {
		return trajectory.ScoredGroup{}, err
	}
	out := trajectory.ScoredGroup{Group: g, Scores: make([]trajectory.Score, len(g.Trajectories))}
	for i := range g.Trajectories {
		if t := &g.Trajectories[i]; !t.Termination.Rewarded() {
			out.Scores[i] = trajectory.Score{Status: trajectory.ScoreLost, Reason: string(t.Termination)}
			continue
		}
		out.Scores[i] = booked{p.scoring}.Score(ctx, g.Trajectories[i], d.Prompt, ref)
	}
	return out, ctx.Err()
}

// Close frees sessions, connections and judges.
func (p *Player) Close() error {
	errs := []error{p.worker.Close()}
	if p.scoring != nil {
		errs = append(errs, p.scoring.Close())
	}
	return errors.Join(errs...)
}
