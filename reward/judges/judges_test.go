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

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/judges"
	"github.com/verigraph/verigraph/trajectory"
)

func TestMain(m *testing.M) { patience.Main(m) }

var errDown = fmt.Errorf("%w: down", reward.ErrNoVerdict)

// fixed says one word, or fails.
type fixed struct {
	name string
	kind trajectory.VerdictKind
	axes []reward.Axis
	err  error
}

func (f fixed) Name() string { return f.name }
func (f fixed) Entails(context.Context, reward.Step) (trajectory.Verdict, error) {
	return trajectory.Verdict{Kind: f.kind, Reason: "because"}, f.err
}

func (f fixed) Outcome(context.Context, reward.OutcomeItem) (reward.OutcomeVerdict, error) {
	return reward.OutcomeVerdict{Axes: f.axes, Judge: f.name}, f.err
}

func TestVoteTakesWhatMoreThanHalfSayWhoeverElseFails(t *testing.T) {
	t.Parallel()
	yes, no, open := fixed{kind: trajectory.Entailed}, fixed{kind: trajectory.NotEntailed}, fixed{kind: trajectory.Abstained}
	down := fixed{err: errDown}
	for _, c := range []struct {
		name    string
		members []fixed
		want    trajectory.VerdictKind // empty: no verdict
	}{
		{"all", []fixed{yes, yes, yes}, trajectory.Entailed},
		{"two of three", []fixed{no, yes, no}, trajectory.NotEntailed},
		{"one is down and two agree", []fixed{yes, down, yes}, trajectory.Entailed},
		{"one is down and two differ", []fixed{yes, down, no}, ""},
		{"two are down", []fixed{yes, down, down}, ""},
		{"all differ", []fixed{yes, no, open}, trajectory.Abstained},
		{"three of five", []fixed{no, yes, no, down, no}, trajectory.NotEntailed},
		{"two of five", []fixed{no, yes, no, down, yes}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var members []reward.Judge
			for i, m := range c.members {
				m.name = fmt.Sprintf("j%d", i)
				members = append(members, m)
			}
			p, err := judges.NewPanel(members, nil)
			require.NoError(t, err)
			v, err := p.Entails(t.Context(), reward.Step{})
			if c.want == "" {
				require.ErrorIs(t, err, reward.ErrNoVerdict)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, v.Kind)
			require.Contains(t, v.Reason, "j0: ", "each member's word is kept")
		})
	}
	_, err := judges.NewPanel([]reward.Judge{yes, no}, nil)
	require.ErrorContains(t, err, "odd number")
}

func TestVoteOnAnswersIsTheMedianByAxisAndNeedsEveryMember(t *testing.T) {
	t.Parallel()
	grade := func(v float64) fixed { return fixed{axes: []reward.Axis{{Name: "content", Value: v}}} }
	members := []reward.Judge{fixed{}, fixed{}, fixed{}}
	p, err := judges.NewPanel(members, []reward.OutcomeJudge{grade(0.9), grade(0.1), grade(0.5)})
	require.NoError(t, err)
	v, err := p.Outcome(t.Context(), reward.OutcomeItem{})
	require.NoError(t, err)
	require.Equal(t, []reward.Axis{{Name: "content", Value: 0.5}}, v.Axes)
	p, err = judges.NewPanel(members, []reward.OutcomeJudge{grade(0.9), fixed{err: errDown}, grade(0.5)})
	require.NoError(t, err)
	_, err = p.Outcome(t.Context(), reward.OutcomeItem{})
	require.ErrorIs(t, err, reward.ErrNoVerdict)
}

// switched answers by the canaries' own key while up, and fails or errs otherwise.
type switched struct {
	right map[string]trajectory.VerdictKind
	mode  atomic.Int32 // 0 up, 1 down, 2 always entailed
	calls atomic.Int32
}

func (*switched) Name() string { return "switched" }
func (s *switched) Entails(_ context.Context, step reward.Step) (trajectory.Verdict, error) {
	s.calls.Add(1)
	switch s.mode.Load() {
	case 1:
		return trajectory.Verdict{}, errDown
	case 2:
		return trajectory.Verdict{Kind: trajectory.Entailed}, nil
	}
	return trajectory.Verdict{Kind: s.right[step.Conclusion]}, nil
}

func watched(t *testing.T, notify func(judges.GuardState)) (*switched, *judges.Guard) {
	t.Helper()
	canaries, err := judges.Canaries()
	require.NoError(t, err)
	s := &switched{right: map[string]trajectory.VerdictKind{}}
	for _, c := range canaries {
		s.right[c.Conclusion] = c.Want
	}
	g, err := judges.NewGuard(s, canaries, judges.GuardDefaults(), notify)
	require.NoError(t, err)
	return s, g
}

func TestFailingCanariesPauseScoringUntilTheyPass(t *testing.T) {
	t.Parallel()
	for mode, name := range map[int32]string{1: "a judge that is down", 2: "a judge that agrees with everything"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var changes []bool
				judge, guard := watched(t, func(s judges.GuardState) { changes = append(changes, s.Paused) })
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- guard.Run(ctx) }()
				synctest.Wait()
				require.NoError(t, guard.Admit(ctx))

				judge.mode.Store(mode)
				<-time.After(6 * time.Minute) // past the next check
				require.True(t, guard.State().Paused)
				require.NotEmpty(t, guard.State().Reason)
				short, stop := context.WithTimeout(ctx, time.Minute)
				defer stop()
				require.ErrorIs(t, guard.Admit(short), context.DeadlineExceeded, "no work begins")
				require.False(t, guard.Healthy(ctx))

				judge.mode.Store(0)
				require.NoError(t, guard.Admit(ctx), "work goes on by itself once the canaries pass")
				require.False(t, guard.State().Paused)
				require.Equal(t, []bool{true, false}, changes)
				cancel()
				require.NoError(t, <-done)
			})
		})
	}
}

func TestHealthIsCheckedAfreshAndThenKnownForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		judge, guard := watched(t, nil)
		require.True(t, guard.Healthy(t.Context()))
		calls := judge.calls.Load()
		require.True(t, guard.Healthy(t.Context()))
		require.Equal(t, calls, judge.calls.Load())
		judge.mode.Store(1)
		<-time.After(time.Minute)
		require.False(t, guard.Healthy(t.Context()))
	})
}

func TestStoppingSaysNothingAboutTheJudge(t *testing.T) {
	t.Parallel()
	_, guard := watched(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, guard.Run(ctx))
	require.False(t, guard.State().Paused)
	require.Zero(t, guard.State().Checks)
}

func TestGuardRefusesSettingsThatWatchOverNothing(t *testing.T) {
	t.Parallel()
	require.NoError(t, judges.GuardDefaults().Validate())
	_, err := judges.NewGuard(fixed{}, nil, judges.GuardDefaults(), nil)
	require.ErrorContains(t, err, "watch over nothing")
	_, err = judges.NewGuard(fixed{}, nil, judges.GuardConfig{Allowed: -1}, nil)
	require.ErrorContains(t, err, "canaries.allowed")
	require.ErrorContains(t, err, "must be positive")
	require.False(t, errors.Is(err, reward.ErrNoVerdict))
}

// A canary set with one answer only could not tell a judge that always says it.
func TestShippedCanariesHoldBothVerdicts(t *testing.T) {
	t.Parallel()
	canaries, err := judges.Canaries()
	require.NoError(t, err)
	count := map[trajectory.VerdictKind]int{}
	for _, c := range canaries {
		count[c.Want]++
	}
	allowed := judges.GuardDefaults().Allowed
	require.Greater(t, count[trajectory.Entailed], allowed)
	require.Greater(t, count[trajectory.NotEntailed], allowed)
	require.Len(t, count, 2)
}
