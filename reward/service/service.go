// Package service scores the groups that rollout workers finished.
//
// Invariant: a group leaves scored as a whole, every member with a score or a reason why there is
// none; the lease ends only after the scored group is durable. What cannot be scored because a
// reference answer or the broker is missing is retried and in the end set aside.
package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Lease is one finished group that this server holds.
type Lease interface {
	Group() trajectory.Group
	Deliveries() int
	Finish(ctx context.Context, g trajectory.ScoredGroup) error
	Retry(after time.Duration) error
	SetAside(ctx context.Context, reason string) error
}

// Source hands out finished groups.
type Source interface {
	Receive(ctx context.Context) (Lease, error)
}

// References holds the reference answers.
type References interface {
	Reference(ctx context.Context, run, promptID string) (task.Reference, error)
}

// Scorer scores one rollout. *reward.Scorer is the real one.
type Scorer interface {
	Score(ctx context.Context, t trajectory.Trajectory, p task.Prompt, ref task.Reference) trajectory.Score
}

// Server takes groups and scores them, Groups at a time, all members of a group at once.
type Server struct {
	Source     Source
	References References
	Scorer     Scorer
	Groups     int
	MaxDeliver int
	Log        *zap.Logger
}

// Run works until ctx ends; it returns nil then, after every held group was given back.
func (s *Server) Run(ctx context.Context) error {
	var slots errgroup.Group
	for range s.Groups {
		slots.Go(func() error { return s.slot(ctx) })
	}
	return slots.Wait()
}

func (s *Server) slot(ctx context.Context) error {
	for {
		lease, err := s.Source.Receive(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("reward server: %w", err)
		}
		s.work(ctx, lease)
	}
}

func (s *Server) work(ctx context.Context, lease Lease) {
	group := lease.Group()
	log := s.Log.With(zap.String("run", group.Dispatch.Run), zap.String("dispatch", group.Dispatch.ID))
	scored, err := s.score(ctx, group)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	switch {
	case err == nil:
		err = lease.Finish(end, scored)
	case ctx.Err() != nil:
		err = lease.Retry(0)
	case lease.Deliveries() >= s.MaxDeliver:
		log.Error("group set aside", zap.Error(err))
		err = lease.SetAside(end, err.Error())
	default:
		log.Warn("group will be scored again", zap.Error(err), zap.Int("deliveries", lease.Deliveries()))
		err = lease.Retry(time.Second << min(lease.Deliveries(), 6))
	}
	if err != nil && ctx.Err() == nil {
		log.Error("lease not ended", zap.Error(err)) // the broker redelivers it
	}
}

func (s *Server) score(ctx context.Context, g trajectory.Group) (trajectory.ScoredGroup, error) {
	out := trajectory.ScoredGroup{Group: g, Scores: make([]trajectory.Score, len(g.Trajectories))}
	ref, err := s.References.Reference(ctx, g.Dispatch.Run, g.Dispatch.Prompt.ID)
	if err != nil {
		return out, err
	}
	var members sync.WaitGroup
	faults := make([]error, len(g.Trajectories))
	for i := range g.Trajectories {
		members.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					faults[i] = fmt.Errorf("rollout %s: panic while scoring: %v", g.Trajectories[i].ID, p)
				}
			}()
			start := time.Now()
			out.Scores[i] = s.Scorer.Score(ctx, g.Trajectories[i], g.Dispatch.Prompt, ref)
			out.Scores[i].ScoreS = time.Since(start).Seconds()
		})
	}
	members.Wait()
	if err := ctx.Err(); err != nil {
		return out, err
	}
	return out, errors.Join(faults...)
}
