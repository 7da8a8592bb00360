package reward_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/trajectory"
)

func TestCacheKeepsVerdictsByContentAndNeverFailures(t *testing.T) {
	t.Parallel()
	judge := &scripted{}
	cached := reward.NewCache(10).Judge(judge)
	for i, c := range []struct {
		step  reward.Step
		calls int
	}{
		{reward.Step{Conclusion: "a +"}, 1},
		{reward.Step{Conclusion: "a +"}, 1},
		{reward.Step{Conclusion: "a +", Premises: []string{"p"}}, 2},
		{reward.Step{Conclusion: "a +", Premises: []string{"p", ""}}, 3},
		{reward.Step{Conclusion: "a +", Reasoning: "p"}, 4},
		{reward.Step{Conclusion: "a +", Question: "p"}, 5},
		{reward.Step{Conclusion: "open ?"}, 6},
		{reward.Step{Conclusion: "open ?"}, 6},
		{reward.Step{Conclusion: "down !"}, 7},
		{reward.Step{Conclusion: "down !"}, 8},
	} {
		v, err := cached.Entails(t.Context(), c.step)
		require.Len(t, judge.calls, c.calls, "step %d", i)
		if err == nil {
			require.NotEqual(t, trajectory.NoVerdict, v.Kind)
		}
	}
	v, err := cached.Entails(t.Context(), reward.Step{Conclusion: "a +"})
	require.NoError(t, err)
	require.True(t, v.Cached)
	require.Equal(t, trajectory.Entailed, v.Kind)
	require.Equal(t, "scripted", cached.Name())
}

type identified struct {
	*scripted
	id string
}

func (i identified) Identity() string { return i.id }

func TestCacheKeepsJudgesOfDifferentIdentityApart(t *testing.T) {
	t.Parallel()
	a, b := &scripted{}, &scripted{}
	cache := reward.NewCache(10)
	for _, j := range []reward.Judge{cache.Judge(identified{a, "template 1"}), cache.Judge(identified{b, "template 2"})} {
		_, err := j.Entails(t.Context(), reward.Step{Conclusion: "a +"})
		require.NoError(t, err)
	}
	require.Len(t, a.calls, 1)
	require.Len(t, b.calls, 1)
}

func TestFullCacheDropsItsOldestVerdict(t *testing.T) {
	t.Parallel()
	judge := &scripted{}
	cached := reward.NewCache(2).Judge(judge)
	for _, i := range []int{1, 2, 3, 2, 3, 1, 3} { // 1 leaves for 3; 2 leaves for the second 1
		_, err := cached.Entails(t.Context(), reward.Step{Conclusion: fmt.Sprintf("%d +", i)})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"1 +", "2 +", "3 +", "1 +"}, judge.calls)
}

func TestCachedOutcomesAreMarked(t *testing.T) {
	t.Parallel()
	cached := reward.NewCache(2).Outcome(&grader{verdict: reward.OutcomeVerdict{Axes: []reward.Axis{{Name: "correctness", Value: 0.5}}}})
	for _, want := range []bool{false, true} {
		v, err := cached.Outcome(t.Context(), reward.OutcomeItem{Question: "q"})
		require.NoError(t, err)
		require.Equal(t, want, v.Cached)
		require.InDelta(t, 0.5, v.Axes[0].Value, 0)
	}
}
