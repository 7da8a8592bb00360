package judges

import (
	"context"
	"fmt"
	"time"

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/trajectory"
)

// LLM is a judge of steps, blocks and answers.
type LLM interface {
	reward.BlockJudge
	reward.OutcomeJudge
	Identity() string
}

// Judge is j for the work: after the guard gave up it gives no verdict at once, where each rollout would
// else wait for the judge's deadline. It belongs behind the cache, whose verdicts stay good.
func (g *Guard) Judge(j LLM) LLM { return guarded{j, g} }

type guarded struct {
	LLM
	guard *Guard
}

func (j guarded) Entails(ctx context.Context, s reward.Step) (trajectory.Verdict, error) {
	if err := j.guard.refusal(); err != nil {
		return trajectory.Verdict{}, err
	}
	return j.LLM.Entails(ctx, s)
}

func (j guarded) EntailsBlock(ctx context.Context, b reward.Block) (int, trajectory.Verdict, error) {
	if err := j.guard.refusal(); err != nil {
		return -1, trajectory.Verdict{}, err
	}
	return j.LLM.EntailsBlock(ctx, b)
}

func (j guarded) Outcome(ctx context.Context, item reward.OutcomeItem) (reward.OutcomeVerdict, error) {
	if err := j.guard.refusal(); err != nil {
		return reward.OutcomeVerdict{}, err
	}
	return j.LLM.Outcome(ctx, item)
}

func (g *Guard) refusal() error {
	st := g.State()
	if !st.GaveUp {
		return nil
	}
	return fmt.Errorf("%w: the judge has failed its canaries for %s: %s", reward.ErrNoVerdict, time.Since(st.Since).Round(time.Second), st.Reason)
}
