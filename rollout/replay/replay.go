// Package replay runs the cells of a finished trajectory again, in fresh sessions on the original
// data, and says of each claim whether its stored text holds (R) and whether its numbers depend on
// the data at all.
//
// Invariants:
//
//   - A replay never changes what was stored but through evidence.Export.ApplyReplay: R, flags, and S
//     where a flag denies it.
//   - A text that differs is held against the policy only when two replays agree on another one; two
//     replays that differ from each other are nondeterminism. A clock that was read, an address and a
//     path of the session are no difference.
//   - Infrastructure trouble is an error, never a result: then nothing is stored.
//   - A number is called constant only if it was rendered again on at least two changed copies of all
//     the data that it may depend on, and came out the same each time, or each time that they kept their shape.
package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/sandbox"
)

// Replayer replays trajectories. Safe for concurrent use.
type Replayer struct {
	Sandbox sandbox.Provider
	// Evidence is the configuration that the trajectories were made with.
	Evidence evidence.Config
	// Sensitivity also runs the cells on changed data.
	Sensitivity bool
	// Python changes JSON, Excel, Parquet and SQLite files for that: the sessions' interpreter. Without it such
	// files count as not changeable.
	Python string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Check replays every claim that the submission rests on and stores what it finds in g. question is
// the whole task text, as the graph knew it. Without a submission there is nothing to check.
func (r *Replayer) Check(ctx context.Context, g *evidence.Export, question string, spec sandbox.Spec) error {
	results, err := r.Replay(ctx, g, question, spec)
	if err != nil {
		return err
	}
	if len(results) > 0 {
		g.ApplyReplay(results)
	}
	return nil
}

// Replay returns one result for each claim that the submission rests on, in creation order.
func (r *Replayer) Replay(ctx context.Context, g *evidence.Export, question string, spec sandbox.Spec) ([]evidence.ReplayResult, error) {
	claims := g.ClaimsUnder()
	if len(claims) == 0 {
		return nil, nil
	}
	task := evidence.Task{Question: question}
	for _, n := range g.Nodes {
		if n.Kind == evidence.NodeSource {
			task.Sources = append(task.Sources, evidence.Source{Name: n.Name, SHA256: n.SHA256})
		}
	}
	p := &plan{cells: g.Cells, places: places(g), wanted: claims}
	results, err := r.same(ctx, p, task, spec)
	if err != nil {
		return nil, err
	}
	if r.Sensitivity {
		if err := r.sensitivity(ctx, g, p, task, spec, results); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// same compares the stored texts with those of one replay, and with a second one where they differ.
func (r *Replayer) same(ctx context.Context, p *plan, task evidence.Task, spec sandbox.Spec) ([]evidence.ReplayResult, error) {
	first, err := r.play(ctx, p, task, r.Evidence, spec)
	if err != nil {
		return nil, err
	}
	results := make([]evidence.ReplayResult, len(p.wanted))
	differ := false
	for i, n := range p.wanted {
		results[i] = evidence.ReplayResult{Claim: n.ID, Outcome: evidence.ReplaySame}
		if !first.agrees(p, n) {
			results[i].Outcome, differ = evidence.ReplayTampered, true
		}
	}
	if !differ {
		return results, nil
	}
	second, err := r.play(ctx, p, task, r.Evidence, spec)
	if err != nil {
		return nil, err
	}
	for i, n := range p.wanted {
		if results[i].Outcome == evidence.ReplaySame {
			continue
		}
		once, twice := first.text(p, n), second.text(p, n)
		switch {
		case second.agrees(p, n) || once != twice:
			results[i].Outcome = evidence.ReplayNondeterministic
			results[i].Detail = fmt.Sprintf("two replays give %q and %q", cut(once), cut(twice))
		case once == "":
			results[i].Detail = "a replay does not make this claim"
		default:
			results[i].Detail = fmt.Sprintf("a replay gives %q", cut(once))
		}
	}
	return results, nil
}

func (r *Replayer) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

func cut(s string) string {
	const limit = 120
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return s
}
