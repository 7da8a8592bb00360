package rollout

import (
	"context"
	"fmt"
	"time"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/trajectory"
)

// cell runs one cell and gives its observation to the machine. An error is ours.
func (r *run) cell(ctx context.Context, m *Machine, c RunCell) error {
	start := time.Now()
	res, err := r.execute(ctx, c.Turn, c.Code)
	if err != nil {
		return err
	}
	claims := r.graph.Claims()
	if r.Config.Agent != AgentVeriGraph {
		claims = nil
	}
	observation, err := r.Templates.Observe(res, claims)
	if err != nil {
		return err
	}
	o, err := r.observed(ctx, c.Turn, Observed{Text: observation, Status: res.Status, ToolS: time.Since(start).Seconds()})
	if err != nil {
		return err
	}
	t := &m.turns[c.Turn]
	t.Status, t.Observation, t.ToolS = o.Status, o.Text, o.ToolS
	r.out.Timing.ToolS += t.ToolS
	m.Observed(o.Text, r.Config.Agent == AgentVeriGraph && r.graph.Submitted())
	return nil
}

func (r *run) execute(ctx context.Context, turn int, code string) (sandbox.Result, error) {
	analysis, err := r.Analyzer.Analyze(ctx, code, r.graph.Definitions())
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("analyse turn %d: %w", turn, err)
	}
	cell := r.graph.Begin(turn, code, analysis)
	if analysis.Error != "" {
		// What the pass cannot read must not run: its effects would be unknown.
		cell.End(string(trajectory.CellSyntaxError))
		return sandbox.Result{Status: trajectory.CellSyntaxError, Traceback: analysis.Error}, nil
	}
	if err := r.ensureSession(ctx); err != nil {
		return sandbox.Result{}, err
	}
	host := &watchingHost{Cell: cell}
	res, err := r.session.Run(ctx, code, host)
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("run turn %d: %w", turn, err)
	}
	if host.refused && res.Status == trajectory.CellOK {
		res.Status = trajectory.CellRefused // a refusal counts even where the cell swallowed it
	}
	cell.End(string(res.Status))
	if res.NamespaceLost {
		r.close()
		r.graph.ResetNamespace()
	}
	return res, nil
}

func (r *run) ensureSession(ctx context.Context) error {
	if r.session != nil {
		return nil
	}
	start := time.Now()
	placed := policy.BeginWaiting(ctx, r.clock)
	s, err := r.Sandbox.Start(ctx, sandbox.Spec{Files: r.files, Seed: r.seed})
	placed()
	if err != nil {
		return fmt.Errorf("start session: %w", err)
	}
	r.session = s
	r.out.Timing.QueueS += time.Since(start).Seconds()
	return nil
}

// watchingHost notes whether the graph refused something.
type watchingHost struct {
	*evidence.Cell
	refused bool
}

func (h *watchingHost) Bind(q evidence.BindRequest) (string, string, *evidence.Refusal) {
	id, text, refusal := h.Cell.Bind(q)
	h.refused = h.refused || refusal != nil
	return id, text, refusal
}

func (h *watchingHost) Infer(q evidence.InferRequest) (string, string, *evidence.Refusal) {
	id, text, refusal := h.Cell.Infer(q)
	h.refused = h.refused || refusal != nil
	return id, text, refusal
}

func (h *watchingHost) Submit(q evidence.SubmitRequest) *evidence.Refusal {
	refusal := h.Cell.Submit(q)
	h.refused = h.refused || refusal != nil
	return refusal
}
