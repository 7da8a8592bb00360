package reward_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// shelf is a store that several caches share; it can fail.
type shelf struct {
	mu     sync.Mutex
	values map[string][]byte
	broken bool
}

func (s *shelf) Get(_ context.Context, key string) ([]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return nil, false, errors.New("store is down")
	}
	v, ok := s.values[key]
	return v, ok, nil
}

func (s *shelf) Put(_ context.Context, key string, value []byte, replace bool) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return nil, errors.New("store is down")
	}
	if old, ok := s.values[key]; ok && !replace {
		return old, nil
	}
	s.values[key] = value
	return value, nil
}

func TestReplicasShareVerdictsThroughTheStoreAndTenantsDoNot(t *testing.T) {
	t.Parallel()
	store := &shelf{values: map[string][]byte{}}
	step := reward.Step{Conclusion: "a +"}
	ask := func(tenant string, rejudge bool) (*scripted, trajectory.Verdict) {
		judge := &scripted{}
		v, err := reward.NewSharedCache(reward.CacheConfig{Limit: 9, Tenant: tenant, Store: store, Rejudge: rejudge}).Judge(judge).Entails(t.Context(), step)
		require.NoError(t, err)
		return judge, v
	}
	first, v := ask("a", false)
	require.Len(t, first.calls, 1)
	require.False(t, v.Cached)
	second, v := ask("a", false)
	require.Empty(t, second.calls, "another replica's verdict is taken from the store")
	require.True(t, v.Cached)
	require.Equal(t, trajectory.Entailed, v.Kind)
	other, _ := ask("b", false)
	require.Len(t, other.calls, 1, "another tenant asks for itself")
	rejudged, _ := ask("a", true)
	require.Len(t, rejudged.calls, 1)
}

// two words of one judge at two times: replicas must agree on the first.
func TestReplicasThatJudgedAtOnceAgreeOnTheFirstVerdict(t *testing.T) {
	t.Parallel()
	store := &shelf{values: map[string][]byte{}}
	a := reward.NewSharedCache(reward.CacheConfig{Limit: 9, Store: store})
	b := reward.NewSharedCache(reward.CacheConfig{Limit: 9, Store: store})
	inner := b.Judge(said{"same", trajectory.NotEntailed})
	outer := a.Judge(said{"same", trajectory.Entailed})
	racing := a.Judge(during{said{"same", trajectory.Entailed}, func() {
		v, err := inner.Entails(t.Context(), reward.Step{Conclusion: "x"})
		require.NoError(t, err)
		require.Equal(t, trajectory.NotEntailed, v.Kind)
	}})
	v, err := racing.Entails(t.Context(), reward.Step{Conclusion: "x"})
	require.NoError(t, err)
	require.Equal(t, trajectory.NotEntailed, v.Kind, "the verdict that was stored first stands")
	v, err = outer.Entails(t.Context(), reward.Step{Conclusion: "x"})
	require.NoError(t, err)
	require.Equal(t, trajectory.NotEntailed, v.Kind)
}

type said struct {
	name string
	kind trajectory.VerdictKind
}

func (s said) Name() string { return s.name }
func (s said) Entails(context.Context, reward.Step) (trajectory.Verdict, error) {
	return trajectory.Verdict{Kind: s.kind}, nil
}

// during does something between the question and the answer.
type during struct {
	said
	do func()
}

func (d during) Entails(ctx context.Context, step reward.Step) (trajectory.Verdict, error) {
	d.do()
	return d.said.Entails(ctx, step)
}

func TestBrokenStoreCostsJudgeCallsAndNeverAVerdict(t *testing.T) {
	t.Parallel()
	judge := &scripted{}
	cache := reward.NewSharedCache(reward.CacheConfig{Limit: 9, Store: &shelf{broken: true}})
	for range 2 {
		v, err := cache.Judge(judge).Entails(t.Context(), reward.Step{Conclusion: "a +"})
		require.NoError(t, err)
		require.Equal(t, trajectory.Entailed, v.Kind)
	}
	require.Len(t, judge.calls, 1, "memory still holds it")
	require.EqualValues(t, 2, cache.StoreFaults(), "one look and one put")
	store := &shelf{values: map[string][]byte{}}
	_, err := reward.NewSharedCache(reward.CacheConfig{Limit: 9, Store: store}).Judge(judge).Entails(t.Context(), reward.Step{Conclusion: "b +"})
	require.NoError(t, err)
	for key := range store.values {
		store.values[key] = []byte(`{"kind": "certainly"}`) // damaged
	}
	v, err := reward.NewSharedCache(reward.CacheConfig{Limit: 9, Store: store}).Judge(judge).Entails(t.Context(), reward.Step{Conclusion: "b +"})
	require.NoError(t, err)
	require.Equal(t, trajectory.Entailed, v.Kind)
	require.False(t, v.Cached)
}
