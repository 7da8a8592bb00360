package leader_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/task"
)

func TestCommitFreesBatchesOfTheCheckpoint(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = func(d task.Dispatch) { m.scored <- valued(d, 0, 0, 1) }
	submit(m, 6, false)
	l := m.leader(t, config())
	leading(t, l)
	until(t, l, func() bool { return len(l.Batches()) == 3 })
	n, err := l.Commit(t.Context(), 15, 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	m.mu.Lock()
	require.NotContains(t, m.objects, m.batches[0].Object)
	require.Contains(t, m.objects, m.batches[1].Object)
	m.mu.Unlock()
	n, err = l.Commit(t.Context(), 15, 1)
	require.NoError(t, err)
	require.Zero(t, n, "a commit frees once")
	_, err = l.Commit(t.Context(), 20, 4)
	require.ErrorIs(t, err, leader.ErrRefused, "a batch that does not exist")
	_, err = l.Restore(t.Context(), 5, 0, leader.Policy{}, leader.Regenerate)
	require.ErrorIs(t, err, leader.ErrRefused, "behind the commit")
}

// TestCommitFreesTheMessagePartsOfItsGroupsAndOfNoOther: parts that cannot be freed do not hold the commit up.
func TestCommitFreesTheMessagePartsOfItsGroupsAndOfNoOther(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = func(d task.Dispatch) { m.scored <- valued(d, 0, 0, 1) }
	submit(m, 6, false)
	var forgotten []string
	l := m.leaderWith(t, config(), func(d *leader.Deps) {
		d.Forget = func(_ context.Context, dispatch string) error {
			forgotten = append(forgotten, dispatch)
			return errors.New("the store is away")
		}
	})
	leading(t, l)
	until(t, l, func() bool { return len(l.Batches()) == 3 })
	require.Empty(t, forgotten, "before a commit")
	n, err := l.Commit(t.Context(), 15, 2)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	var want []string
	for _, b := range m.batches[:2] {
		for _, g := range b.Groups {
			want = append(want, g.Dispatch)
		}
	}
	require.Len(t, want, 4)
	require.Equal(t, want, forgotten)
}

func TestRestoreTakesBackBatchesOfRolledBackPoliciesAndGeneratesThemAnew(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = func(d task.Dispatch) { m.scored <- valued(d, d.PolicyVersion, 0, 1) }
	cfg := config()
	cfg.MaxStaleness = 0
	submit(m, 4, true)
	l := m.leader(t, cfg)
	leading(t, l)
	until(t, l, func() bool { return l.Last() == 1 })
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Version: 1}, 1))
	until(t, l, func() bool { return l.Last() == 2 && l.Complete() })
	dropped, err := l.Restore(t.Context(), 0, 0, leader.Policy{Incarnation: 1}, leader.Regenerate)
	require.NoError(t, err)
	require.Equal(t, []int64{2}, dropped, "the first batch is of the restored policy")
	again, err := l.Restore(t.Context(), 0, 0, leader.Policy{Incarnation: 1}, leader.Regenerate)
	require.NoError(t, err)
	require.Empty(t, again, "repeating it changes nothing")
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Version: 1, Incarnation: 1}, 1))
	until(t, l, func() bool { return l.Last() == 3 && l.Complete() })
	require.Equal(t, leader.Ledger{Dispatched: 12, Delivered: 8, Stale: 4}, ledgerOf(t, l))
	r, _, _ := l.Batch(3)
	require.ElementsMatch(t, []string{"p2-1", "p3-1"}, []string{r.Groups[0].Dispatch, r.Groups[1].Dispatch})
	replayed, err := l.Restore(t.Context(), 0, 0, leader.Policy{Incarnation: 2}, leader.Replay)
	require.NoError(t, err)
	require.Empty(t, replayed)
	require.True(t, l.Complete(), "a replay generates nothing")
}

func TestARequestBypassesCapacityAndARepeatedUIDReplacesTheEarlierAttempt(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 20)
	m.onPublish = func(d task.Dispatch) { published <- d }
	cfg := config()
	cfg.MaxStaleness, cfg.MaxGroups = 0, 2
	submit(m, 4, false)
	l := m.leader(t, cfg)
	leading(t, l)
	next(t, published)
	next(t, published) // the capacity is used up
	ask := func() string {
		ids, err := l.Request(t.Context(), []leader.Asked{{UID: "u-1", Prompt: task.Prompt{ID: "q", Question: "?"}, Rollouts: 3}})
		require.NoError(t, err)
		return ids[0]
	}
	first := ask()
	old := next(t, published)
	require.Equal(t, 3, old.GroupSize)
	second := ask()
	d := next(t, published)
	require.NotEqual(t, first, second)
	a, ended := l.Answer(first)
	require.True(t, ended)
	require.True(t, a.Replaced)
	m.scored <- valued(old, 0, 0, 1, 1)
	m.scored <- valued(d, 0, 1, 1, 1) // no filter in request mode
	until(t, l, func() bool { _, ended := l.Answer(second); return ended })
	a, _ = l.Answer(second)
	require.Equal(t, 3, a.Result.Rows)
	until(t, l, func() bool { return ledgerOf(t, l).Stale == 3 })
	require.Equal(t, 3, ledgerOf(t, l).Delivered)
	require.Empty(t, l.Batches(), "its rows leave outside the batches")
	_, err := l.Request(t.Context(), []leader.Asked{{UID: "", Rollouts: 1}})
	require.ErrorIs(t, err, leader.ErrRefused)
}

func TestEndpointsOutsideTheAllowListAreRefused(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Endpoints = []string{"10.0.0.*:8000", "trainer:*"}
	l := newMemory().leader(t, cfg)
	leading(t, l)
	for endpoint, ok := range map[string]bool{
		"10.0.0.7:8000": true, "trainer:1234": true, "10.0.0.7:22": false, "evil:8000": false,
		"trainer": false, "user@trainer:80": false, "10.0.0.7:8000/../evil:1": false,
	} {
		err := l.SetPolicy(t.Context(), leader.Policy{Endpoints: []string{endpoint}}, 0)
		if ok {
			require.NoError(t, err, endpoint)
		} else {
			require.ErrorIs(t, err, leader.ErrRefused, endpoint)
		}
	}
	require.Len(t, l.Policy().Endpoints, 1, "what was refused changed nothing")
}

func TestAPausedRunDispatchesNothingUntilItIsResumed(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 10)
	m.onPublish = func(d task.Dispatch) { published <- d }
	l := m.leader(t, config())
	leading(t, l)
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Paused: true}, 0))
	submit(m, 1, false)
	waitsFor(t, l, "paused dispatching")
	require.Empty(t, published)
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{}, 0))
	next(t, published)
}
