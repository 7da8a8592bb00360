// Package rollouttest plays written cells through what a rollout uses, for tests: real sessions, the
// static pass and the evidence graph, without a policy, tokens or a broker.
//
// Invariant: a cell goes through the same steps as in a rollout (analysis, graph, session, status),
// and nothing runs after an accepted submission.
package rollouttest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/sandbox/analysis"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// Stage holds what all plays share. Safe for concurrent use.
type Stage struct {
	Sandbox  *sandbox.Sandbox
	Analyzer *analysis.Analyzer
}

// Open starts a sandbox and a static pass over the interpreter that `make python` sets up below root.
func Open(root string) (*Stage, error) {
	python, err := filepath.Abs(filepath.Join(root, ".venv", "sandbox", "bin", "python"))
	if err != nil {
		return nil, err
	}
	cfg := sandbox.Defaults()
	cfg.Python = python
	box, err := sandbox.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("run `make python`: %w", err)
	}
	pass, err := analysis.New(analysis.Config{Python: python})
	if err != nil {
		return nil, errors.Join(err, box.Close())
	}
	return &Stage{Sandbox: box, Analyzer: pass}, nil
}

// Close ends all sessions and the static pass.
func (s *Stage) Close() error { return errors.Join(s.Sandbox.Close(), s.Analyzer.Close()) }

// Play is one trajectory to be.
type Play struct {
	Question string
	// Files maps names in the data directory to host paths.
	Files map[string]string
	Cells []string
	Seed  int64
	// Evidence is the graph's configuration; the zero value means the defaults.
	Evidence evidence.Config
	// NoStaticTaints and NoRuntimeTaints switch a defence off, to show what it is there for.
	NoStaticTaints, NoRuntimeTaints bool
}

// Played is what came of it.
type Played struct {
	Trajectory trajectory.Trajectory
	// Results are the sessions' own words, one for each cell that ran.
	Results []sandbox.Result
}

// Spec is what a session of the play gets.
func (p *Play) Spec() sandbox.Spec { return sandbox.Spec{Files: p.Files, Seed: p.Seed} }

// Run plays the cells one after the other until one submits. An error is ours.
func (s *Stage) Run(ctx context.Context, p Play) (out Played, err error) {
	t := evidence.Task{Question: p.Question}
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		if _, err := os.Stat(p.Files[name]); err != nil {
			return out, err
		}
		t.Sources = append(t.Sources, evidence.Source{Name: name, SHA256: "-"})
	}
	g := evidence.New(t, p.Evidence)
	var session sandbox.Session
	defer func() {
		if session != nil {
			err = errors.Join(err, session.Close())
		}
	}()
	for turn, code := range p.Cells {
		if session == nil {
			if session, err = s.Sandbox.Start(ctx, p.Spec()); err != nil {
				return out, err
			}
		}
		res, err := s.cell(ctx, &p, g, session, turn, code)
		if err != nil {
			return out, err
		}
		out.Results = append(out.Results, res)
		out.Trajectory.Turns = append(out.Trajectory.Turns, trajectory.Turn{Text: code, Code: code, HasCode: true, Status: res.Status})
		if res.NamespaceLost {
			if err := session.Close(); err != nil {
				return out, err
			}
			session = nil
			g.ResetNamespace()
		}
		if g.Submitted() {
			break
		}
	}
	out.finish(g)
	return out, nil
}

func (p *Played) finish(g *evidence.Graph) {
	t := &p.Trajectory
	t.ID = task.RolloutID{Run: "test", Dispatch: "p-0"}
	t.Termination = trajectory.NoSubmission
	if g.Submitted() {
		t.Termination = trajectory.Submitted
	}
	t.Graph = g.Export()
	t.Answer = t.Graph.Answer()
}

func (s *Stage) cell(ctx context.Context, p *Play, g *evidence.Graph, session sandbox.Session, turn int, code string) (sandbox.Result, error) {
	a, err := s.Analyzer.Analyze(ctx, code, g.Definitions())
	if err != nil {
		return sandbox.Result{}, err
	}
	if p.NoStaticTaints {
		for i := range a.Statements {
			a.Statements[i].Taints = nil
		}
	}
	cell := g.Begin(turn, code, a)
	if a.Error != "" {
		cell.End(string(trajectory.CellSyntaxError))
		return sandbox.Result{Status: trajectory.CellSyntaxError, Traceback: a.Error}, nil
	}
	host := &host{Cell: cell, deaf: p.NoRuntimeTaints}
	res, err := session.Run(ctx, code, host)
	if err != nil {
		return res, err
	}
	if host.refused && res.Status == trajectory.CellOK {
		res.Status = trajectory.CellRefused
	}
	cell.End(string(res.Status))
	return res, nil
}

// host notes refusals, and does not hear of taints where the play says so.
type host struct {
	*evidence.Cell
	deaf, refused bool
}

func (h *host) Taint(statement int, construct string) {
	if !h.deaf {
		h.Cell.Taint(statement, construct)
	}
}

func (h *host) Bind(q evidence.BindRequest) (string, string, *evidence.Refusal) {
	id, text, refusal := h.Cell.Bind(q)
	h.refused = h.refused || refusal != nil
	return id, text, refusal
}

func (h *host) Infer(q evidence.InferRequest) (string, string, *evidence.Refusal) {
	id, text, refusal := h.Cell.Infer(q)
	h.refused = h.refused || refusal != nil
	return id, text, refusal
}

func (h *host) Submit(q evidence.SubmitRequest) *evidence.Refusal {
	refusal := h.Cell.Submit(q)
	h.refused = h.refused || refusal != nil
	return refusal
}
