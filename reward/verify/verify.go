// Package verify checks worked solutions outside of any rollout: Graph of Verification on Number
// Triangle Summation and ProcessBench, beside the holistic baseline and by the papers' metric.
//
// Invariant: every item gets one prediction; a judge that fails, and text that can't be read, is a
// failed prediction, which counts as wrong and never as "no error".
package verify

import (
	"context"
	"fmt"
	"sync"

	"github.com/verigraph/verigraph/reward/gov"
)

// NoError is the label and the prediction of a solution without error.
const NoError = -1

// Item is one solution to be checked.
type Item struct {
	ID      string
	Group   string // items of one group are reported together
	Problem string
	Units   []Unit
	// Label is the place of the first error, in the units' own numbering, or NoError.
	Label int
	// Unreadable says why the solution has no units.
	Unreadable string
}

// Unit is one checkable part of a solution.
type Unit struct {
	Text string
	// Place is what a label would name if this unit were the first wrong one.
	Place int
	// Premises are the units that this one rests on directly.
	Premises []int
}

// Checker decides one unit, given the problem and earlier units that were found right.
type Checker interface {
	Correct(ctx context.Context, problem string, earlier []string, unit string) (bool, error)
}

// Reader finds the first wrong unit of a whole solution at once, from 0; -1 is none.
type Reader interface {
	FirstError(ctx context.Context, problem string, units []string) (int, error)
}

// Prediction is what came out for one item.
type Prediction struct {
	Item  Item
	Place int
	// Failed says why there is no prediction.
	Failed string
	// Calls made of the judge, and units that none was made for.
	Calls, Saved int
}

// Right reports whether the prediction is the label.
func (p Prediction) Right() bool { return p.Failed == "" && p.Place == p.Item.Label }

// Method checks one item.
type Method func(ctx context.Context, it Item) Prediction

// Graph verifies unit by unit, stopping at the first wrong one.
func Graph(judge Checker, cfg gov.Config) Method {
	cfg.Stop, cfg.Blocks = gov.StopGlobal, gov.BlocksCells // the text's order
	return func(ctx context.Context, it Item) Prediction {
		p := Prediction{Item: it, Place: NoError, Failed: it.Unreadable}
		if p.Failed != "" {
			return p
		}
		nodes := make([]gov.Node, len(it.Units))
		for i, u := range it.Units {
			nodes[i] = gov.Node{Premises: u.Premises, Cell: i}
		}
		g, err := gov.New(nodes, nil, cfg)
		if err != nil {
			p.Failed = err.Error()
			return p
		}
		r, err := g.Verify(ctx, func(ctx context.Context, r gov.Request) (gov.Answer, error) {
			ok, err := judge.Correct(ctx, it.Problem, texts(it, r.Context), it.Units[r.Unit[0]].Text)
			if err != nil || ok {
				return gov.Answer{Wrong: -1}, err
			}
			return gov.Answer{Wrong: 0}, nil
		}, 1)
		if err != nil {
			p.Failed = err.Error()
			return p
		}
		p.Calls, p.Saved = r.Calls, r.Saved
		if r.First >= 0 {
			p.Place = it.Units[r.First].Place
		}
		return p
	}
}

// Holistic is the baseline: one question about the whole solution.
func Holistic(judge Reader) Method {
	return func(ctx context.Context, it Item) Prediction {
		p := Prediction{Item: it, Place: NoError, Failed: it.Unreadable}
		if p.Failed != "" {
			return p
		}
		all := make([]int, len(it.Units))
		for i := range all {
			all[i] = i
		}
		p.Calls = 1
		first, err := judge.FirstError(ctx, it.Problem, texts(it, all))
		switch {
		case err != nil:
			p.Failed = err.Error()
		case first >= len(it.Units) || first < -1:
			p.Failed = fmt.Sprintf("unit %d of %d", first+1, len(it.Units))
		case first >= 0:
			p.Place = it.Units[first].Place
		}
		return p
	}
}

func texts(it Item, units []int) []string {
	out := make([]string, len(units))
	for k, i := range units {
		out[k] = it.Units[i].Text
	}
	return out
}

// Run checks all items, parallel at a time, in their order.
func Run(ctx context.Context, items []Item, method Method, parallel int) ([]Prediction, error) {
	out := make([]Prediction, len(items))
	slots := make(chan struct{}, max(parallel, 1))
	var wg sync.WaitGroup
	for i, it := range items {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if ctx.Err() == nil {
				out[i] = method(ctx, it)
			}
		})
	}
	wg.Wait()
	return out, ctx.Err()
}

// Score is the papers' metric over a set of predictions.
type Score struct {
	Group string `json:"group"`
	// Wrong and Right count the items with and without an error.
	Wrong int `json:"wrong"`
	Right int `json:"right"`
	// ErrorAccuracy is the share of wrong items whose error was located, CorrectAccuracy the share of
	// right items that were found right, F1 their harmonic mean (0 if both are 0).
	ErrorAccuracy   float64 `json:"error_accuracy"`
	CorrectAccuracy float64 `json:"correct_accuracy"`
	F1              float64 `json:"f1"`
	Failed          int     `json:"failed"`
	Calls           int     `json:"calls"`
	Saved           int     `json:"calls_saved"`
}

// Measure scores one set.
func Measure(group string, predictions []Prediction) Score {
	s := Score{Group: group}
	located, cleared := 0, 0
	for _, p := range predictions {
		s.Calls += p.Calls
		s.Saved += p.Saved
		if p.Failed != "" {
			s.Failed++
		}
		if p.Item.Label == NoError {
			s.Right++
			if p.Right() {
				cleared++
			}
			continue
		}
		s.Wrong++
		if p.Right() {
			located++
		}
	}
	if s.Wrong > 0 {
		s.ErrorAccuracy = float64(located) / float64(s.Wrong)
	}
	if s.Right > 0 {
		s.CorrectAccuracy = float64(cleared) / float64(s.Right)
	}
	if sum := s.ErrorAccuracy + s.CorrectAccuracy; sum > 0 {
		s.F1 = 2 * s.ErrorAccuracy * s.CorrectAccuracy / sum
	}
	return s
}

// ByGroup scores each group, in the order of their first items, then all items.
func ByGroup(predictions []Prediction) []Score {
	var order []string
	groups := map[string][]Prediction{}
	for _, p := range predictions {
		if groups[p.Item.Group] == nil {
			order = append(order, p.Item.Group)
		}
		groups[p.Item.Group] = append(groups[p.Item.Group], p)
	}
	var out []Score
	for _, g := range order {
		out = append(out, Measure(g, groups[g]))
	}
	if len(order) != 1 {
		out = append(out, Measure("all", predictions))
	}
	return out
}
