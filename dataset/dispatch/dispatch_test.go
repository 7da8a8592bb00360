package dispatch_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/dispatch"
	"github.com/verigraph/verigraph/trajectory"
)

func TestCapacityIsTheTighterOfConcurrencyAndStaleness(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		p    dispatch.Policy
		l    dispatch.Load
		want int
	}{
		{"no bound on staleness", dispatch.Policy{MaxGroups: 10, BatchGroups: 4, MaxStaleness: -1}, dispatch.Load{Running: 3, Good: 2}, 5},
		{"synchronous: one batch in all", dispatch.Policy{MaxGroups: 10, BatchGroups: 4}, dispatch.Load{Running: 1, Good: 1}, 2},
		{"synchronous: nothing after a full batch", dispatch.Policy{MaxGroups: 10, BatchGroups: 4}, dispatch.Load{Delivered: 4}, 0},
		{"one step off: a second batch may run", dispatch.Policy{MaxGroups: 10, BatchGroups: 4, MaxStaleness: 1}, dispatch.Load{Delivered: 4, Running: 1}, 3},
		{"concurrency binds first", dispatch.Policy{MaxGroups: 5, BatchGroups: 4, MaxStaleness: 8}, dispatch.Load{Running: 5}, 0},
	}
	for _, c := range cases {
		require.Equal(t, c.want, c.p.Capacity(c.l), c.name)
	}
}

func TestAgeCountsFromTheOldestVersion(t *testing.T) {
	t.Parallel()
	p := dispatch.Policy{MaxStaleness: 2}
	require.False(t, p.TooOld(5, 7))
	require.True(t, p.TooOld(5, 8))
	require.False(t, dispatch.Policy{MaxStaleness: dispatch.Unbounded}.TooOld(0, math.MaxInt64))
	require.True(t, dispatch.Policy{}.TooOld(0, 1), "synchronous takes the current version only")
}

func yes(b bool) *bool { return &b }

func TestGroupIsFilteredWhenTheMetricDoesNotVaryOverItsRewardedMembers(t *testing.T) {
	t.Parallel()
	ok := func(acc, reward float64, correct *bool) trajectory.Score {
		return trajectory.Score{Status: trajectory.ScoreOK, Accuracy: acc, Reward: reward, Total: reward, Clipped: reward, Correct: correct}
	}
	lost := trajectory.Score{Status: trajectory.ScoreLost}
	f := dispatch.FilterDefaults()
	cases := []struct {
		name   string
		metric dispatch.Metric
		scores []trajectory.Score
		same   bool
		value  string
	}{
		{"all right by the rule, rewards differ", dispatch.MetricAuto, []trajectory.Score{ok(1, .9, yes(true)), ok(1, .8, yes(true))}, true, "1"},
		{"one wrong", dispatch.MetricAuto, []trajectory.Score{ok(1, .9, yes(true)), ok(0, .1, yes(false))}, false, ""},
		{"no rule: the reward decides", dispatch.MetricAuto, []trajectory.Score{ok(.5, .5, nil), ok(.5, .5, nil)}, true, "0.5"},
		{"no rule, rewards differ", dispatch.MetricAuto, []trajectory.Score{ok(.5, .5, nil), ok(.5, .6, nil)}, false, ""},
		{"a lost member takes no part", dispatch.MetricAcc, []trajectory.Score{ok(1, 1, nil), lost, ok(1, 1, nil)}, true, "1"},
		{"all wrong", dispatch.MetricAcc, []trajectory.Score{ok(0, 0, nil), ok(0, 0, nil)}, true, "0"},
		{"the final reward by name", dispatch.MetricFinal, []trajectory.Score{ok(1, .4, yes(true)), ok(1, .5, yes(true))}, false, ""},
	}
	for _, c := range cases {
		f.Metric = c.metric
		value, same := f.Same(c.scores)
		require.Equal(t, c.same, same, c.name)
		require.Equal(t, c.value, value, c.name)
	}
}

func TestRoundsAreBatchesWorthOfFilteredGroups(t *testing.T) {
	t.Parallel()
	f := dispatch.Filter{Enabled: true, MaxRounds: 2}
	require.False(t, f.RoundsUsed(7, 4))
	require.True(t, f.RoundsUsed(8, 4))
	require.False(t, dispatch.Filter{Enabled: true}.RoundsUsed(1000, 4), "0 is no bound")
}

func TestPoolsServeDataSourcesByWeightAndPriorityFirst(t *testing.T) {
	t.Parallel()
	p := dispatch.NewPools[string](map[string]float64{"a": 3})
	for range 40 {
		p.Push("a", "a", 0)
		p.Push("b", "b", 0)
	}
	p.Push("urgent", "b", 5)
	first, _ := p.Pop()
	require.Equal(t, "urgent", first)
	count := map[string]int{}
	for range 40 {
		s, _ := p.Pop()
		count[s]++
	}
	require.Equal(t, map[string]int{"a": 30, "b": 10}, count)
	for p.Len() > 0 {
		p.Pop()
	}
	_, ok := p.Pop()
	require.False(t, ok)
}

func TestPoolsWithoutWeightsAreAQueue(t *testing.T) {
	t.Parallel()
	p := dispatch.NewPools[int](nil)
	for i := range 5 {
		p.Push(i, []string{"x", "y"}[i%2], 0)
	}
	for i := range 5 {
		got, _ := p.Pop()
		require.Equal(t, i, got)
	}
}

func TestBadBoundsNameTheirKeys(t *testing.T) {
	t.Parallel()
	err := dispatch.Policy{MaxGroups: 1, BatchGroups: 2, MaxStaleness: -2}.Validate()
	require.ErrorContains(t, err, "leader.max_staleness")
	require.ErrorContains(t, err, "leader.max_groups")
	err = dispatch.Filter{Metric: "luck", MaxRounds: -1, Exhausted: "hope"}.Validate()
	for _, key := range []string{"leader.filter.metric", "leader.filter.max_rounds", "leader.filter.exhausted"} {
		require.ErrorContains(t, err, key)
	}
}
