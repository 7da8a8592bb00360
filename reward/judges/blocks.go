package judges

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/trajectory"
)

// Judge is the panel as a scorer takes it: it decides blocks too where all its members do.
func (p *Panel) Judge() reward.Judge {
	blocks := blockPanel{Panel: p}
	for _, m := range p.members {
		b, ok := m.(reward.BlockJudge)
		if !ok {
			return p
		}
		blocks.blocks = append(blocks.blocks, b)
	}
	return blocks
}

type blockPanel struct {
	*Panel
	blocks []reward.BlockJudge
}

var _ reward.BlockJudge = blockPanel{}

// EntailsBlock votes step by step. A member that names a first wrong step says that those before it hold
// and is silent on those after it. A step is decided by what more than half of all members say; where
// silence leaves one open, all are asked about the rest, with what was found true among the given. A
// member that failed is silent too, and then an open step is no verdict: asking on would put other texts
// to the members than they see when all answer, and an outage could change a reward.
func (p blockPanel) EntailsBlock(ctx context.Context, b reward.Block) (int, trajectory.Verdict, error) {
	v := trajectory.Verdict{Judge: p.Name(), Cached: true}
	var words []string
	for done := 0; ; {
		firsts, said, err := p.round(ctx, b, &v)
		words = append(words, said...)
		v.Reason = strings.Join(words, "; ")
		held, wrong := p.count(firsts, len(b.Steps))
		switch {
		case wrong:
			return done + held, v, nil
		case held == len(b.Steps):
			return -1, v, nil
		case err != nil:
			return -1, v, fmt.Errorf("vote undecided: %w", err)
		case held == 0: // every member spoke on the first step, an odd number of them
			return -1, v, fmt.Errorf("vote undecided: %w", reward.ErrNoVerdict)
		}
		given := slices.Clone(b.Given)
		for _, s := range b.Steps[:held] {
			given = append(given, s.Conclusion)
		}
		b.Given, b.Steps, done = given, b.Steps[held:], done+held
	}
}

// silent stands for a member that failed; -1 is "all hold".
const silent = -2

// round asks every member about a block at once.
func (p blockPanel) round(ctx context.Context, b reward.Block, v *trajectory.Verdict) (firsts []int, words []string, err error) {
	firsts = make([]int, len(p.blocks))
	verdicts := make([]trajectory.Verdict, len(p.blocks))
	errs := make([]error, len(p.blocks))
	var wg sync.WaitGroup
	for i, m := range p.blocks {
		wg.Go(func() { firsts[i], verdicts[i], errs[i] = m.EntailsBlock(ctx, b) })
	}
	wg.Wait()
	for i, m := range p.blocks {
		if errs[i] == nil && (firsts[i] < -1 || firsts[i] >= len(b.Steps)) {
			errs[i] = fmt.Errorf("%w: step %d of %d", reward.ErrNoVerdict, firsts[i]+1, len(b.Steps))
		}
		if errs[i] != nil {
			firsts[i] = silent
			words = append(words, m.Name()+": no verdict")
			continue
		}
		word := "all hold"
		if firsts[i] >= 0 {
			word = fmt.Sprintf("step %d of %d is wrong", firsts[i]+1, len(b.Steps))
		}
		words = append(words, fmt.Sprintf("%s: %s (%s)", m.Name(), word, verdicts[i].Reason))
		v.Repaired = v.Repaired || verdicts[i].Repaired
		v.Cached = v.Cached && verdicts[i].Cached
		if v.PromptHash == "" {
			v.PromptHash = verdicts[i].PromptHash
		}
	}
	return firsts, words, errors.Join(errs...)
}

// count is how many steps hold from the first on, and whether the one after them is wrong.
func (p blockPanel) count(firsts []int, steps int) (held int, wrong bool) {
	for at := range steps {
		yes, no := 0, 0
		for _, first := range firsts {
			switch {
			case first == at:
				no++
			case first == -1 || first > at:
				yes++
			}
		}
		switch {
		case 2*no > len(firsts):
			return at, true
		case 2*yes <= len(firsts):
			return at, false
		}
	}
	return steps, false
}
