// Package judges puts several judges together and watches over one while it works.
//
// Invariants: a panel's verdict is what more than half of its members say, whoever else failed, so
// that an outage of one member changes no reward; a panel that can't tell gives no verdict; a paused
// guard lets no new work begin, and its canaries never come from a cache.
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

// Panel asks several judges for each verdict.
type Panel struct {
	members  []reward.Judge
	outcomes []reward.OutcomeJudge
}

var (
	_ reward.Judge        = (*Panel)(nil)
	_ reward.OutcomeJudge = (*Panel)(nil)
)

// NewPanel takes an odd number of judges, so that two words can't tie.
func NewPanel(members []reward.Judge, outcomes []reward.OutcomeJudge) (*Panel, error) {
	if len(members) < 3 || len(members)%2 == 0 {
		return nil, fmt.Errorf("judges: a vote needs an odd number of judges, at least 3, not %d", len(members))
	}
	return &Panel{members, outcomes}, nil
}

// Name lists the members.
func (p *Panel) Name() string {
	names := make([]string, len(p.members))
	for i, m := range p.members {
		names[i] = m.Name()
	}
	return "vote(" + strings.Join(names, ",") + ")"
}

// Identity is the members' identities, in their order.
func (p *Panel) Identity() string {
	ids := []string{"vote"}
	for _, m := range p.members {
		id := m.Name()
		if i, ok := m.(interface{ Identity() string }); ok {
			id = i.Identity()
		}
		ids = append(ids, id)
	}
	return strings.Join(ids, "\n")
}

// Entails returns the verdict of more than half of the members, failed ones counted as silent. Where
// no word has that many and nobody failed, the panel abstains; else it has no verdict.
func (p *Panel) Entails(ctx context.Context, step reward.Step) (trajectory.Verdict, error) {
	verdicts := make([]trajectory.Verdict, len(p.members))
	errs := make([]error, len(p.members))
	var wg sync.WaitGroup
	for i, m := range p.members {
		wg.Go(func() { verdicts[i], errs[i] = m.Entails(ctx, step) })
	}
	wg.Wait()
	v := trajectory.Verdict{Judge: p.Name(), Cached: true}
	votes := map[trajectory.VerdictKind]int{}
	var words []string
	for i, m := range p.members {
		if errs[i] != nil {
			words = append(words, m.Name()+": no verdict")
			continue
		}
		votes[verdicts[i].Kind]++
		words = append(words, fmt.Sprintf("%s: %s (%s)", m.Name(), verdicts[i].Kind, verdicts[i].Reason))
		v.Repaired = v.Repaired || verdicts[i].Repaired
		v.Cached = v.Cached && verdicts[i].Cached
		if v.PromptHash == "" {
			v.PromptHash = verdicts[i].PromptHash
		}
	}
	v.Reason, v.Split = strings.Join(words, "; "), len(votes) > 1
	for kind, n := range votes {
		if 2*n > len(p.members) {
			v.Kind = kind
			return v, nil
		}
	}
	if err := errors.Join(errs...); err != nil {
		return v, fmt.Errorf("vote undecided: %w", err)
	}
	v.Kind, v.Reason = trajectory.Abstained, "vote undecided: "+v.Reason
	return v, nil
}

// Outcome takes the median of the members' grades by axis. It needs every member: a median over
// those that answered would depend on who was down.
func (p *Panel) Outcome(ctx context.Context, item reward.OutcomeItem) (reward.OutcomeVerdict, error) {
	verdicts := make([]reward.OutcomeVerdict, len(p.outcomes))
	errs := make([]error, len(p.outcomes))
	var wg sync.WaitGroup
	for i, m := range p.outcomes {
		wg.Go(func() { verdicts[i], errs[i] = m.Outcome(ctx, item) })
	}
	wg.Wait()
	v := reward.OutcomeVerdict{Judge: p.Name(), Cached: true}
	if err := errors.Join(errs...); err != nil {
		return v, err
	}
	if len(verdicts) == 0 {
		return v, fmt.Errorf("%w: no member grades answers", reward.ErrNoVerdict)
	}
	for at, axis := range verdicts[0].Axes {
		var grades []float64
		for _, m := range verdicts {
			if at >= len(m.Axes) || m.Axes[at].Name != axis.Name {
				return v, fmt.Errorf("%w: the members grade different axes", reward.ErrNoVerdict)
			}
			grades = append(grades, m.Axes[at].Value)
		}
		slices.Sort(grades)
		v.Axes = append(v.Axes, reward.Axis{Name: axis.Name, Value: grades[len(grades)/2]})
	}
	var words []string
	for _, m := range verdicts {
		v.Cached = v.Cached && m.Cached
		v.Repaired = v.Repaired || m.Repaired
		words = append(words, m.Judge+": "+m.Reason)
	}
	v.Reason, v.PromptHash = strings.Join(words, "; "), verdicts[0].PromptHash
	return v, nil
}
