package leader_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/task"
)

func TestARestoreTakesNothingBackThatTheCheckpointHoldsNorValidation(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := m.collect()
	submit(m, 2, false)
	cfg := config()
	cfg.BatchGroups = 1
	l := m.leader(t, cfg)
	leading(t, l)
	m.scored <- valued(next(t, published), 3, 0, 1)
	m.scored <- valued(next(t, published), 3, 0, 1)
	until(t, l, func() bool { return l.Last() == 2 })
	v := prompt("v")
	v.Validate = true
	m.backlog <- v
	m.scored <- valued(next(t, published), 3, 0, 1)
	until(t, l, func() bool { return l.Last() == 3 })
	_, err := l.Restore(t.Context(), 1, 1, leader.Policy{}, "again")
	require.ErrorIs(t, err, leader.ErrRefused)
	dropped, err := l.Restore(t.Context(), 1, 1, leader.Policy{}, leader.Regenerate)
	require.NoError(t, err)
	require.Equal(t, []int64{2}, dropped, "the first is in the checkpoint, the third is validation")
}

func TestANewLifeOfTheTrainerMayHaveAnEarlierVersion(t *testing.T) {
	t.Parallel()
	l := newMemory().leader(t, config())
	leading(t, l)
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Version: 5}, 0))
	require.ErrorIs(t, l.SetPolicy(t.Context(), leader.Policy{Version: 4}, 0), leader.ErrRefused)
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Version: 2, Incarnation: 1}, 0))
}

// stuck is a store that deletes nothing for a while.
type stuck struct {
	*memory
	err error
}

func (s *stuck) Delete(ctx context.Context, name string) error {
	if s.err != nil {
		return s.err
	}
	return s.memory.Delete(ctx, name)
}

func TestABatchThatCannotBeDeletedIsFreedByTheNextCommit(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = func(d task.Dispatch) { m.scored <- valued(d, 0, 0, 1) }
	submit(m, 4, false)
	s := &stuck{m, errors.New("away")}
	l := m.leaderWith(t, config(), func(d *leader.Deps) { d.Objects = s })
	leading(t, l)
	until(t, l, func() bool { return l.Last() == 2 })
	n, err := l.Commit(t.Context(), 1, 1)
	require.NoError(t, err)
	require.Zero(t, n)
	s.err = nil // between two calls nothing is deleted
	n, err = l.Commit(t.Context(), 2, 2)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Empty(t, m.objects)
}

func TestWhatWasJustSetAsideCanBeRequeuedAndWhatWasDeliveredCannot(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := m.collect()
	submit(m, 3, false)
	l := m.leader(t, config())
	leading(t, l)
	a, b, c := next(t, published), next(t, published), next(t, published)
	m.scored <- valued(a, 0, 0, 1)
	m.scored <- valued(b, 0, 0, 1)
	until(t, l, func() bool { return l.Last() == 1 })
	require.ErrorIs(t, l.Requeue(t.Context(), a.ID), leader.ErrRefused)
	m.mu.Lock()
	m.aside[c.ID] = true
	m.mu.Unlock()
	require.NoError(t, l.Requeue(t.Context(), c.ID), "it is not waited for until it is looked for")
	require.Equal(t, c.Prompt.ID, next(t, published).Prompt.ID)
}

func TestRowsOfARequestAreDeletedOnceTheyWereSentOrReplaced(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := m.collect()
	l := m.leader(t, config())
	leading(t, l)
	ask := func() string {
		ids, err := l.Request(t.Context(), []leader.Asked{{UID: "u", Prompt: task.Prompt{ID: "q", Question: "?"}, Rollouts: 2}})
		require.NoError(t, err)
		m.scored <- valued(next(t, published), 0, 0, 1)
		until(t, l, func() bool { _, ended := l.Answer(ids[0]); return ended })
		return ids[0]
	}
	stored := func() int {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.objects)
	}
	ask()
	second := ask()
	require.Equal(t, 1, stored(), "those of the first are gone")
	l.Forget(t.Context(), second)
	require.Zero(t, stored())
	require.NotEqual(t, second, ask())
}
