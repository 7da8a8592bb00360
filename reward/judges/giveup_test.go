package judges_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/judges"
	"github.com/verigraph/verigraph/trajectory"
)

// ailing knows the canaries while well and else fails in the way it is told to.
type ailing struct {
	reader
	right map[string]trajectory.VerdictKind
	mode  *atomic.Value // "", hang, error, rubbish
	calls *atomic.Int32
}

func (a ailing) Identity() string { return "ailing" }

func (a ailing) Outcome(context.Context, reward.OutcomeItem) (reward.OutcomeVerdict, error) {
	a.calls.Add(1)
	return reward.OutcomeVerdict{}, errDown
}

func (a ailing) Entails(ctx context.Context, s reward.Step) (trajectory.Verdict, error) {
	a.calls.Add(1)
	switch a.mode.Load() {
	case "hang":
		<-ctx.Done()
		return trajectory.Verdict{}, ctx.Err()
	case "error":
		return trajectory.Verdict{}, errDown
	case "rubbish":
		return trajectory.Verdict{}, fmt.Errorf("%w: %w: holds no JSON object", reward.ErrNoVerdict, reward.ErrText)
	}
	return trajectory.Verdict{Kind: a.right[s.Conclusion]}, nil
}

func newAiling(t *testing.T, mode string, change func(*judges.GuardConfig), notify func(judges.GuardState)) (ailing, *judges.Guard) {
	t.Helper()
	canaries, err := judges.Canaries()
	require.NoError(t, err)
	a := ailing{right: map[string]trajectory.VerdictKind{}, mode: &atomic.Value{}, calls: &atomic.Int32{}}
	a.mode.Store(mode)
	for _, c := range canaries {
		a.right[c.Conclusion] = c.Want
	}
	cfg := judges.GuardDefaults()
	if change != nil {
		change(&cfg)
	}
	g, err := judges.NewGuard(a, canaries, cfg, notify)
	require.NoError(t, err)
	return a, g
}

// guarding runs a guard in the bubble of a test; the function it returns stops it.
func guarding(t *testing.T, g *judges.Guard) (context.Context, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	return ctx, func() { cancel(); require.NoError(t, <-done) }
}

func TestJudgeThatIsBrokenFromTheStartHoldsWorkBackForABoundedTimeOnly(t *testing.T) {
	t.Parallel()
	for mode, longest := range map[string]time.Duration{
		"hang":    5*time.Minute + 30*time.Minute, // until the first check counts as failed, and the pause
		"error":   30 * time.Minute,
		"rubbish": 30 * time.Minute,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var changes []judges.GuardState
				judge, guard := newAiling(t, mode, nil, func(s judges.GuardState) { changes = append(changes, s) })
				start := time.Now()
				ctx, stop := guarding(t, guard)
				defer stop()
				require.NoError(t, guard.Admit(ctx))
				waited := time.Since(start)
				require.GreaterOrEqual(t, waited, 30*time.Minute, "the pause is not cut short")
				require.LessOrEqual(t, waited, longest+time.Minute)
				require.True(t, guard.State().GaveUp)
				require.True(t, guard.State().Paused)
				require.NotEmpty(t, guard.State().Reason)
				require.NotContains(t, guard.State().Reason, "\n")
				require.Len(t, changes, 2)

				before, calls := time.Now(), judge.calls.Load()
				work := guard.Judge(judge)
				_, err := work.Entails(ctx, reward.Step{Conclusion: "x"})
				require.ErrorIs(t, err, reward.ErrNoVerdict)
				require.NotErrorIs(t, err, reward.ErrText, "no text is to blame")
				require.ErrorContains(t, err, "failed its canaries for 30m")
				_, _, err = work.EntailsBlock(ctx, reward.Block{})
				require.ErrorIs(t, err, reward.ErrNoVerdict)
				_, err = work.Outcome(ctx, reward.OutcomeItem{})
				require.ErrorIs(t, err, reward.ErrNoVerdict)
				require.Zero(t, time.Since(before), "nothing waits for the judge any more")
				require.Equal(t, calls, judge.calls.Load())
				require.Equal(t, "ailing", work.Identity(), "verdicts in the cache stay good")

				judge.mode.Store("")
				<-time.After(6 * time.Minute)
				require.False(t, guard.State().Paused || guard.State().GaveUp)
				_, err = work.Entails(ctx, reward.Step{Conclusion: "x"})
				require.NoError(t, err, "a judge that heals is asked again")
				require.NoError(t, guard.Admit(ctx))
				require.Len(t, changes, 3)
				judge.mode.Store("error")
				<-time.After(6 * time.Minute)
				short, end := context.WithTimeout(ctx, time.Minute)
				defer end()
				require.ErrorIs(t, guard.Admit(short), context.DeadlineExceeded, "and a new outage is a new pause")
			})
		})
	}
}

func TestNoWorkBeginsBeforeTheFirstCheckHasPassed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		judge, guard := newAiling(t, "hang", nil, nil)
		ctx, stop := guarding(t, guard)
		defer stop()
		short, end := context.WithTimeout(ctx, 4*time.Minute)
		defer end()
		require.ErrorIs(t, guard.Admit(short), context.DeadlineExceeded)
		require.False(t, guard.State().Paused, "nothing is known of the judge yet")
		judge.mode.Store("")
		require.NoError(t, guard.Admit(ctx), "a judge that was still starting costs no rollout")
	})
}

func TestPauseWithoutABoundLastsUntilTheCanariesPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		judge, guard := newAiling(t, "error", func(c *judges.GuardConfig) { c.MaxPause = 0 }, nil)
		ctx, stop := guarding(t, guard)
		defer stop()
		day, end := context.WithTimeout(ctx, 24*time.Hour)
		defer end()
		require.ErrorIs(t, guard.Admit(day), context.DeadlineExceeded)
		_, err := guard.Judge(judge).Entails(ctx, reward.Step{})
		require.True(t, errors.Is(err, errDown), "the judge itself is asked")
		judge.mode.Store("")
		require.NoError(t, guard.Admit(ctx))
	})
}
