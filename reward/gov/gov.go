// Package gov verifies a derivation graph unit by unit (Graph of Verification, arXiv 2506.12509):
// in topological order, a unit being true only if all that it rests on is true and the judge agrees.
//
// Invariants: a unit is put to the judge only after everything it rests on is decided and nothing of
// that is false; blocks are runs of the order, so no block rests on a later one; a false premise
// makes what follows from it false without a call; a judge that fails ends the verification with its
// error and never with a verdict.
package gov

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Granularity is what one judge call decides.
type Granularity string

// Granularities.
const (
	Atomic Granularity = "atomic" // one node
	Block  Granularity = "block"  // a run of nodes
)

// Context is what the judge sees besides the unit.
type Context string

// Contexts.
const (
	Minimal   Context = "minimal"   // the direct premises
	Inclusive Context = "inclusive" // every earlier true node
)

// Stop says how far a false unit reaches.
type Stop string

// Stops.
const (
	StopBranch Stop = "branch" // what rests on it is false, everything else is judged
	StopGlobal Stop = "global" // nothing after it is judged
)

// Blocks says where blocks begin.
type Blocks string

// Kinds of blocks.
const (
	BlocksCells    Blocks = "cells"    // the nodes of one cell
	BlocksClosures Blocks = "closures" // what a terminal rests on that no earlier terminal does
)

// Config of a verification.
type Config struct {
	Granularity Granularity `json:"granularity" yaml:"granularity"`
	Context     Context     `json:"context" yaml:"context"`
	Stop        Stop        `json:"stop" yaml:"stop"`
	Blocks      Blocks      `json:"blocks" yaml:"blocks"`
}

// Defaults judge every node by its premises and stop per branch.
func Defaults() Config {
	return Config{Granularity: Atomic, Context: Minimal, Stop: StopBranch, Blocks: BlocksCells}
}

// Validate reports every problem at once.
func (c Config) Validate() error {
	var errs []error
	check := func(key, v string, allowed ...string) {
		if !slices.Contains(allowed, v) {
			errs = append(errs, fmt.Errorf("%s: %q is none of %v", key, v, allowed))
		}
	}
	check("granularity", string(c.Granularity), string(Atomic), string(Block))
	check("context", string(c.Context), string(Minimal), string(Inclusive))
	check("stop", string(c.Stop), string(StopBranch), string(StopGlobal))
	check("blocks", string(c.Blocks), string(BlocksCells), string(BlocksClosures))
	return errors.Join(errs...)
}

// Node is one claim or step. Base nodes are true or false by structure; Inherit ones are as true as
// their premises; all others are the judge's.
type Node struct {
	Premises []int
	Cell     int
	Base     bool
	Holds    bool
	Inherit  bool
}

// State is what a node turned out to be.
type State int

// States of a node.
const (
	Unjudged State = iota
	True
	False     // the judge, or the structure of a base node, says so
	Implied   // false, since something that it rests on is; no call was made
	Abstained // the judge could not tell
)

// Request is one judge call: nodes to be decided and the true nodes shown beside them.
type Request struct {
	Unit    []int
	Context []int
}

// Answer decides a request's unit. Wrong is the place in Unit of the first false node, -1 if there is
// none; Open are the places of nodes that the judge could not tell about.
type Answer struct {
	Wrong int
	Open  []int
}

// Ask is the judge. It is called from several goroutines at once.
type Ask func(ctx context.Context, r Request) (Answer, error)

// Result is the outcome of a verification.
type Result struct {
	States []State
	// First is the first false node in the order, -1 if there is none.
	First int
	// Valid: every node in the order is true.
	Valid bool
	// Calls made, and Saved: judge's nodes that no call decided.
	Calls, Saved int
}

// Graph is a set of nodes with an order of verification.
type Graph struct {
	nodes []Node
	order []int
	block []int // by node: number of its block
	cfg   Config
}

// New orders the nodes that the terminals rest on (all nodes where there is no terminal) by terminal
// closure, or by cell where blocks follow cells. Premises that no node has, and cycles, are errors.
func New(nodes []Node, terminals []int, cfg Config) (*Graph, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g := &Graph{nodes: nodes, cfg: cfg, block: make([]int, len(nodes))}
	if len(terminals) == 0 {
		terminals = make([]int, len(nodes))
		for i := range nodes {
			terminals[i] = i
		}
	}
	mark := make([]int8, len(nodes)) // 1 being visited, 2 done
	var visit func(i, closure int) error
	visit = func(i, closure int) error {
		switch {
		case i < 0 || i >= len(nodes):
			return fmt.Errorf("gov: no node %d", i)
		case mark[i] == 1:
			return fmt.Errorf("gov: node %d rests on itself", i)
		case mark[i] == 2:
			return nil
		}
		mark[i] = 1
		for _, p := range nodes[i].Premises {
			if err := visit(p, closure); err != nil {
				return err
			}
		}
		mark[i] = 2
		g.block[i] = closure
		g.order = append(g.order, i)
		return nil
	}
	for closure, t := range terminals {
		if err := visit(t, closure); err != nil {
			return nil, err
		}
	}
	if cfg.Blocks == BlocksCells {
		return g, g.byCells()
	}
	return g, nil
}

// byCells sorts the order by cell. It stays topological only if no node rests on a later cell.
func (g *Graph) byCells() error {
	for _, i := range g.order {
		g.block[i] = g.nodes[i].Cell
		for _, p := range g.nodes[i].Premises {
			if g.nodes[p].Cell > g.nodes[i].Cell {
				return fmt.Errorf("gov: node %d of cell %d rests on a node of cell %d", i, g.nodes[i].Cell, g.nodes[p].Cell)
			}
		}
	}
	slices.SortStableFunc(g.order, func(a, b int) int { return g.nodes[a].Cell - g.nodes[b].Cell })
	return nil
}

// Order lists the nodes in the order of verification.
func (g *Graph) Order() []int { return slices.Clone(g.order) }

// Units are the runs that are judged together: blocks, or single nodes.
func (g *Graph) Units() [][]int {
	var out [][]int
	for at, i := range g.order {
		if at > 0 && g.cfg.Granularity == Block && g.block[i] == g.block[g.order[at-1]] {
			out[len(out)-1] = append(out[len(out)-1], i)
			continue
		}
		out = append(out, []int{i})
	}
	return out
}

// Verify decides the nodes, making at most parallel calls at once where their order does not matter.
func (g *Graph) Verify(ctx context.Context, ask Ask, parallel int) (Result, error) {
	v := &verification{Graph: g, ask: ask, states: make([]State, len(g.nodes)), asked: make([]bool, len(g.nodes))}
	var err error
	if g.cfg.Granularity == Atomic && g.cfg.Context == Minimal && g.cfg.Stop == StopBranch {
		err = v.waves(ctx, max(parallel, 1))
	} else {
		err = v.inOrder(ctx)
	}
	if err != nil {
		return Result{}, err
	}
	return v.result(), nil
}

type verification struct {
	*Graph
	ask    Ask
	states []State
	asked  []bool
	calls  int
}

// settle decides what needs no call and reports whether the node is decided.
func (v *verification) settle(i int) bool {
	n := &v.nodes[i]
	switch {
	case v.states[i] != Unjudged:
	case n.Base && n.Holds:
		v.states[i] = True
	case n.Base:
		v.states[i] = False
	case v.restsOnFalse(i):
		v.states[i] = Implied
	case n.Inherit:
		v.states[i] = True
		for _, p := range n.Premises {
			if v.states[p] != True {
				v.states[i] = v.states[p] // abstained
			}
		}
	default:
		return false
	}
	return true
}

func (v *verification) restsOnFalse(i int) bool {
	return slices.ContainsFunc(v.nodes[i].Premises, func(p int) bool { return v.states[p] == False || v.states[p] == Implied })
}

// waves asks for all nodes whose premises are decided at once, then for what that decided.
func (v *verification) waves(ctx context.Context, parallel int) error {
	left := slices.Clone(v.order)
	for len(left) > 0 {
		var wave, next []int
		open := map[int]bool{}
		for _, i := range left {
			if slices.ContainsFunc(v.nodes[i].Premises, func(p int) bool { return open[p] }) {
				open[i] = true
				next = append(next, i)
			} else if !v.settle(i) {
				open[i] = true
				wave = append(wave, i)
			}
		}
		if err := v.wave(ctx, wave, parallel); err != nil {
			return err
		}
		left = next
	}
	return nil
}

func (v *verification) wave(ctx context.Context, wave []int, parallel int) error {
	slots := make(chan struct{}, parallel)
	errs := make([]error, len(wave))
	var wg sync.WaitGroup
	for k, i := range wave {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			a, err := v.ask(ctx, Request{Unit: []int{i}, Context: v.nodes[i].Premises})
			if err != nil {
				errs[k] = err
				return
			}
			v.states[i] = decide(a, 0)
		})
	}
	wg.Wait()
	v.calls += len(wave)
	for _, i := range wave {
		v.asked[i] = true
	}
	return errors.Join(errs...)
}

func decide(a Answer, at int) State {
	switch {
	case slices.Contains(a.Open, at):
		return Abstained
	case a.Wrong == at:
		return False
	case a.Wrong >= 0 && a.Wrong < at:
		return Unjudged
	}
	return True
}

// inOrder judges unit by unit. Of a block with a false node, what stands after it and does not rest
// on it is asked for again, so that stopping per branch leaves nothing unjudged.
func (v *verification) inOrder(ctx context.Context) error {
	for _, unit := range v.Units() {
		for {
			var open []int
			undecided := map[int]bool{}
			for _, i := range unit {
				waits := slices.ContainsFunc(v.nodes[i].Premises, func(p int) bool { return undecided[p] })
				if v.states[i] == Unjudged && v.nodes[i].Inherit && waits && !v.restsOnFalse(i) {
					undecided[i] = true // as true as a node of this call
					continue
				}
				if !v.settle(i) {
					open, undecided[i] = append(open, i), true
				}
				if v.stopped() {
					return nil
				}
			}
			if len(open) == 0 {
				break
			}
			v.calls++
			a, err := v.ask(ctx, Request{Unit: open, Context: v.context(open)})
			if err != nil {
				return err
			}
			if a.Wrong >= len(open) {
				return fmt.Errorf("gov: the judge names step %d of %d", a.Wrong, len(open))
			}
			for at, i := range open {
				v.asked[i] = true
				v.states[i] = decide(a, at)
			}
			if v.stopped() {
				return nil
			}
		}
	}
	return nil
}

func (v *verification) stopped() bool {
	return v.cfg.Stop == StopGlobal && slices.Contains(v.states, False)
}

// context lists what the judge sees beside a unit, in order.
func (v *verification) context(unit []int) []int {
	inside := map[int]bool{}
	for _, i := range unit {
		inside[i] = true
	}
	want := map[int]bool{}
	for _, i := range unit {
		for _, p := range v.nodes[i].Premises {
			want[p] = true
		}
	}
	var out []int
	for _, i := range v.order {
		if i == unit[0] && v.cfg.Context == Inclusive && v.cfg.Granularity == Atomic {
			break
		}
		if !inside[i] && v.states[i] != Unjudged && (want[i] || v.cfg.Context == Inclusive && v.states[i] == True) {
			out = append(out, i)
		}
	}
	return out
}

func (v *verification) result() Result {
	r := Result{States: v.states, First: -1, Valid: len(v.order) > 0, Calls: v.calls}
	for _, i := range v.order {
		if v.states[i] == False && r.First < 0 {
			r.First = i
		}
		r.Valid = r.Valid && v.states[i] == True
		if n := &v.nodes[i]; !n.Base && !n.Inherit && !v.asked[i] {
			r.Saved++
		}
	}
	return r
}
