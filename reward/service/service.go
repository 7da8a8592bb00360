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
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/lease"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Source hands out finished groups.
type Source = lease.Source[trajectory.Group, trajectory.ScoredGroup]

// References holds the reference answers.
type References interface {
	Reference(ctx context.Context, run, promptID string) (task.Reference, error)
}

// Scorer scores one rollout. *reward.Scorer is the real one.
type Scorer interface {
	Score(ctx context.Context, t trajectory.Trajectory, p task.Prompt, ref task.Reference) trajectory.Score
}

// Gate may hold new work back, e.g. while the judge's canaries fail.
type Gate interface {
	Admit(ctx context.Context) error
}

// Server takes groups and scores them, Groups at a time, all members of a group at once.
type Server struct {
	Source     Source
	References References
	Scorer     Scorer
	Groups     int
	MaxDeliver int
	// Gate is asked before each group is taken; nil admits at once.
	Gate Gate
	Log  *zap.Logger
}

// gated takes a group only once the gate lets it.
type gated struct {
	Source
	gate Gate
}

func (g gated) Receive(ctx context.Context) (lease.Lease[trajectory.Group, trajectory.ScoredGroup], error) {
	if err := g.gate.Admit(ctx); err != nil {
		return nil, err
	}
	return g.Source.Receive(ctx)
}

// Run works until ctx ends; it returns nil then, after every held group was given back.
func (s *Server) Run(ctx context.Context) error {
	source := s.Source
	if s.Gate != nil {
		source = gated{s.Source, s.Gate}
	}
	loop := lease.Loop[trajectory.Group, trajectory.ScoredGroup]{
		Source: source, Slots: s.Groups, MaxDeliver: s.MaxDeliver, Work: s.score, Log: s.Log,
		Fields: func(g trajectory.Group) []zap.Field {
			return []zap.Field{zap.String("run", g.Dispatch.Run), zap.String("dispatch", g.Dispatch.ID)}
		},
	}
	if err := loop.Run(ctx); err != nil {
		return fmt.Errorf("reward server: %w", err)
	}
	return nil
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
	// The group that was received stays as it is: it may be delivered again.
	out.Group.Trajectories = slices.Clone(g.Trajectories)
	for i, s := range out.Scores {
		support(&out.Group.Trajectories[i].Graph, s)
	}
	return out, errors.Join(faults...)
}

// support stores in the graph what the verdicts say of the submitted claims. A rollout that is lost was
// never put to a judge.
func support(g *evidence.Export, s trajectory.Score) {
	if s.Status == trajectory.ScoreLost {
		return
	}
	said := map[string]evidence.Support{}
	for _, v := range s.Verdicts {
		if v.Kind == trajectory.Entailed || v.Kind == trajectory.NotEntailed {
			said[v.Claim] = evidence.Support{Entailed: v.Kind == trajectory.Entailed, Reason: v.Reason}
		}
	}
	g.ApplyVerdicts(said)
}
