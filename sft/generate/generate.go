// Package generate asks a teacher for trajectories until each source has as many accepted ones as it wants.
//
// Invariants: what was generated is archived before it is counted; a session that stopped anywhere goes on
// without asking again what is archived; a group that was lost for our reasons is not archived and not
// counted, and several in a row end the session, since then the fault is not in the prompts.
package generate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/sft"
	"github.com/verigraph/verigraph/sft/source"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// lostInARow is after how many lost groups in a row the session ends.
const lostInARow = 4

// Player runs and scores one group. An error is the end of the session.
type Player interface {
	Play(ctx context.Context, d task.Dispatch, ref task.Reference) (trajectory.ScoredGroup, error)
}

// Input are the prompts of the sources, in their order, and the reference answers by prompt.
type Input struct {
	Prompts    [][]task.Prompt
	References map[string]task.Reference
}

// Session is one session of generating.
type Session struct {
	Config Config
	// Accept are the predicates of the corpus that is to be built.
	Accept   *sft.Config
	Input    Input
	Player   Player
	Out      string
	Progress io.Writer

	archive  *archive.Archive
	schedule *schedule
	meter    meter
	ofPrompt map[string]int // prompt to source
	lost     int
	lostWhy  string
}

// Result is what the archive holds in the end.
type Result struct {
	Sources []SourceResult `json:"sources"`
	// Rollouts and tokens are of this session; Cost is by the configured price.
	Rollouts     int     `json:"rollouts"`
	InputTokens  int     `json:"input_tokens"`
	OutputTokens int     `json:"output_tokens"`
	Cost         float64 `json:"cost"`
}

// SourceResult is one source.
type SourceResult struct {
	Name     string `json:"name"`
	Accepted int    `json:"accepted"`
	Want     int    `json:"want"`
	Rollouts int    `json:"rollouts"`
}

// finished is a group that came back.
type finished struct {
	source int
	group  trajectory.ScoredGroup
}

// Run generates until every source is done or has no prompt left.
func (s *Session) Run(ctx context.Context) (Result, error) {
	if err := s.open(); err != nil {
		return Result{}, err
	}
	err := s.work(ctx)
	return s.result(), errors.Join(err, s.archive.Close())
}

// open reads what earlier sessions archived.
func (s *Session) open() (err error) {
	s.ofPrompt = map[string]int{}
	for i, list := range s.Input.Prompts {
		for _, p := range list {
			if other, twice := s.ofPrompt[p.ID]; twice {
				return fmt.Errorf("sources %s and %s: both hold a prompt %q", s.Config.Sources[other].Name, s.Config.Sources[i].Name, p.ID)
			}
			s.ofPrompt[p.ID] = i
		}
	}
	s.schedule = newSchedule(s.Config, s.Input.Prompts)
	s.meter = newMeter(s.Config)
	if s.archive, err = archive.Open(s.Out); err != nil {
		return err
	}
	old, err := source.Open(s.Out)
	if err != nil {
		return err
	}
	for ref, err := range old.Refs() {
		if err != nil {
			return err
		}
		r, err := ref.Load()
		if err != nil {
			return err
		}
		i, known := s.ofPrompt[r.PromptID]
		if !known {
			return fmt.Errorf("--out: %s holds rollout %s, whose prompt is in no source", s.Out, r.ID)
		}
		s.schedule.knows(i, r.Scored.Trajectory.ID.Dispatch)
		s.count(i, &r)
	}
	return nil
}

// count adds a record to what its source has.
func (s *Session) count(i int, r *sft.Record) {
	s.meter.rollouts[i]++
	if s.Accept.Reject(r) == "" {
		s.schedule.sources[i].accepted++
	}
}

// work keeps Parallel groups in work; only this goroutine touches schedule and archive.
func (s *Session) work(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	back := make(chan finished)
	open := 0
	var failed error
	for failed == nil {
		for open < s.Config.Parallel {
			d, i, more := s.schedule.take()
			if !more {
				break
			}
			open++
			g.Go(func() error {
				group, err := s.Player.Play(ctx, d, s.Input.References[d.Prompt.ID])
				if err != nil {
					return err
				}
				select {
				case back <- finished{i, group}:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		}
		if open == 0 {
			break
		}
		select {
		case f := <-back:
			open--
			failed = s.keep(f)
		case <-ctx.Done():
			failed = ctx.Err()
		}
	}
	if failed != nil {
		// What is in work still comes back, and is kept: it was paid for.
		go func() { _ = g.Wait(); close(back) }()
		for f := range back {
			if err := s.keep(f); err != nil && !errors.Is(failed, err) {
				failed = errors.Join(failed, err)
			}
		}
	}
	if err := g.Wait(); err != nil && !errors.Is(failed, context.Canceled) {
		return errors.Join(failed, err)
	}
	return failed
}

// keep archives a group and counts it.
func (s *Session) keep(f finished) error {
	s.schedule.back(f.source)
	if why := lostReason(&f.group); why != "" {
		s.lostWhy = why
		if s.lost++; s.lost == lostInARow {
			return fmt.Errorf("%d groups in a row were lost for reasons of ours; the last: %s", s.lost, s.lostWhy)
		}
		return nil
	}
	s.lost = 0
	if err := s.archive.Add(f.group); err != nil {
		return err
	}
	for k := range f.group.Group.Trajectories {
		scored := &trajectory.Scored{Trajectory: f.group.Group.Trajectories[k], Score: f.group.Scores[k]}
		t := &scored.Trajectory
		s.meter.add(t)
		s.count(f.source, &sft.Record{ID: t.ID.String(), PromptID: t.PromptID, DataSource: t.DataSource, Scored: scored, Verdicts: true})
	}
	s.show()
	return nil
}

// lostReason of a group of which no member has a reward for a reason of ours; empty otherwise.
func lostReason(g *trajectory.ScoredGroup) string {
	why := "no member"
	for i := range g.Scores {
		if g.Scores[i].Status != trajectory.ScoreLost {
			return ""
		}
		why = string(g.Group.Trajectories[i].Termination) + ": " + g.Group.Trajectories[i].Error
	}
	return why
}

func (s *Session) result() Result {
	r := Result{Rollouts: s.meter.session, InputTokens: s.meter.input, OutputTokens: s.meter.output, Cost: s.meter.cost()}
	for i, src := range s.Config.Sources {
		r.Sources = append(r.Sources, SourceResult{src.Name, s.schedule.sources[i].accepted, src.Want, s.meter.rollouts[i]})
	}
	return r
}

func (s *Session) show() {
	if s.Progress == nil || !s.meter.due(time.Now()) {
		return
	}
	fmt.Fprintln(s.Progress, s.line(time.Now()))
}
