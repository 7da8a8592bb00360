package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox"
	"github.com/verigraph/verigraph/trajectory"
)

// place says which claim one is without its id: the k-th that its turn made. Ids shift when cells
// that hold no wanted claim are left out.
type place struct{ turn, order int }

func places(g *evidence.Export) map[string]place {
	made := map[int]int{}
	out := map[string]place{}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Kind == evidence.NodeAtomic || n.Kind == evidence.NodeDerived {
			out[n.ID] = place{n.Turn, made[n.Turn]}
			made[n.Turn]++
		}
	}
	return out
}

// plan is what one replay has to run.
type plan struct {
	cells  []evidence.CellInfo
	places map[string]place
	wanted []evidence.Node
}

// stretch is a run of cells that share one namespace.
type stretch struct{ from, to int }

// stretches are the cells to run, cut where the namespace was lost: up to the last cell that made a
// wanted claim in each, and none of those that made none.
func (p *plan) stretches() []stretch {
	needed := map[int]bool{}
	for _, n := range p.wanted {
		needed[n.Turn] = true
	}
	var out []stretch
	from, to := 0, -1
	for i, c := range p.cells {
		if needed[c.Turn] {
			to = i
		}
		if lost(c.Status) || i == len(p.cells)-1 {
			if to >= from {
				out = append(out, stretch{from, to})
			}
			from, to = i+1, -1
		}
	}
	return out
}

func lost(status string) bool {
	switch trajectory.CellStatus(status) {
	case trajectory.CellTimeout, trajectory.CellMemory, trajectory.CellDied:
		return true
	}
	return false
}

// performance is what one replay made.
type performance struct {
	claims     map[place]evidence.Node
	began, end time.Time
}

// play runs the plan's cells on the given data. The static pass is not needed: only texts are
// compared, and the pass decides about edges alone.
func (r *Replayer) play(ctx context.Context, p *plan, task evidence.Task, cfg evidence.Config, spec sandbox.Spec) (*performance, error) {
	out := &performance{claims: map[place]evidence.Node{}, began: r.now()}
	for _, s := range p.stretches() {
		// A graph of its own: handles of an earlier namespace are gone, as they were then.
		g := evidence.New(task, cfg)
		if err := r.stretch(ctx, p.cells[s.from:s.to+1], g, spec); err != nil {
			return nil, err
		}
		export := g.Export()
		at := places(&export)
		for _, n := range export.Nodes {
			if where, ok := at[n.ID]; ok {
				out.claims[where] = n
			}
		}
	}
	out.end = r.now()
	return out, nil
}

func (r *Replayer) stretch(ctx context.Context, cells []evidence.CellInfo, g *evidence.Graph, spec sandbox.Spec) (err error) {
	session, err := r.Sandbox.Start(ctx, spec)
	if err != nil {
		return fmt.Errorf("replay: start session: %w", err)
	}
	defer func() { _ = session.Close() }() // the session is gone either way
	for _, c := range cells {
		if c.Status == string(trajectory.CellSyntaxError) {
			continue // it never ran
		}
		cell := g.Begin(c.Turn, c.Code, evidence.Analysis{})
		res, err := session.Run(ctx, c.Code, cell)
		if err != nil {
			return fmt.Errorf("replay: turn %d: %w", c.Turn, err)
		}
		cell.End(string(res.Status))
		if res.NamespaceLost {
			return nil // what was made before it counts, as it did then
		}
	}
	return nil
}

// text is what the replay made in a claim's place, empty if it made nothing of its kind.
func (p *performance) text(plan *plan, n evidence.Node) string {
	if got, ok := p.claims[plan.places[n.ID]]; ok && got.Kind == n.Kind {
		return got.Text
	}
	return ""
}

// agrees reports whether the replay made the claim's text.
func (p *performance) agrees(plan *plan, n evidence.Node) bool {
	got := p.text(plan, n)
	return got != "" && SameText(n.Text, got, p.began, p.end)
}
