package leader_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/dispatch"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// valued is a scored group whose members have these accuracies, sampled under a version.
func valued(d task.Dispatch, version int64, acc ...float64) trajectory.ScoredGroup {
	statuses := make([]trajectory.ScoreStatus, len(acc))
	for i := range acc {
		statuses[i] = trajectory.ScoreOK
	}
	g := group(d, statuses...)
	for i, a := range acc {
		right := a == 1
		g.Scores[i].Accuracy, g.Scores[i].Correct = a, &right
		sp := &g.Group.Trajectories[i].Segments[0].Spans[0]
		sp.PolicyVersion, sp.PolicyVersionEnd = version, version
	}
	return g
}

func submit(m *memory, n int, final bool) {
	for i := range n {
		m.backlog <- prompt(fmt.Sprintf("p%d", i))
	}
	if final {
		m.backlog <- leader.BacklogItem{Final: true}
	}
}

func TestGroupsWithoutVarianceAreFilteredReplacedAndCountedByValue(t *testing.T) {
	t.Parallel()
	m := newMemory()
	n := 0
	m.onPublish = func(d task.Dispatch) {
		n++
		switch n % 3 {
		case 0:
			m.scored <- valued(d, 0, 1, 1)
		case 1:
			m.scored <- valued(d, 0, 0, 0)
		default:
			m.scored <- valued(d, 0, 0, 1)
		}
	}
	cfg := config()
	cfg.Filter.Enabled = true
	submit(m, 12, true)
	l := m.leader(t, cfg)
	run(t, l)
	got := ledgerOf(t, l)
	require.Equal(t, leader.Ledger{Dispatched: 24, Delivered: 8, Filtered: 16}, got)
	p, err := l.Progress(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int{"0": 4, "1": 4}, p.FilteredByValue)
	require.Len(t, m.batches, 2, "new prompts fill the batches")
}

func TestUsedUpRoundsEndInTheStatedOutcome(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, outcome dispatch.Exhausted) (*memory, *leader.Leader) {
		m := newMemory()
		n := 0
		m.onPublish = func(d task.Dispatch) {
			if n++; n == 1 {
				m.scored <- valued(d, 0, 0, 1) // one good group, then none
				return
			}
			m.scored <- valued(d, 0, 0, 0)
		}
		cfg := config()
		cfg.Filter.Enabled, cfg.Filter.MaxRounds, cfg.Filter.Exhausted = true, 2, outcome
		submit(m, 12, true)
		return m, m.leader(t, cfg)
	}
	t.Run("partial writes the good groups that there are", func(t *testing.T) {
		t.Parallel()
		m, l := start(t, dispatch.ExhaustedPartial)
		run(t, l)
		require.Len(t, m.batches, 1)
		require.Len(t, m.batches[0].Groups, 1)
		require.Equal(t, leader.Ledger{Dispatched: 24, Delivered: 2, Filtered: 22}, ledgerOf(t, l))
	})
	t.Run("skip goes on to the next prompts", func(t *testing.T) {
		t.Parallel()
		m, l := start(t, dispatch.ExhaustedSkip)
		run(t, l)
		require.Len(t, m.batches, 1, "the good group leaves when the input has ended")
		require.True(t, ledgerOf(t, l).Balanced())
	})
	t.Run("stop ends the run and keeps the good group", func(t *testing.T) {
		t.Parallel()
		m, l := start(t, dispatch.ExhaustedStop)
		require.ErrorIs(t, l.Run(t.Context()), leader.ErrStopped)
		require.Contains(t, m.acks, "released scored p0-0")
	})
	t.Run("an all-filtered run sends no empty batch", func(t *testing.T) {
		t.Parallel()
		m := newMemory()
		m.onPublish = func(d task.Dispatch) { m.scored <- valued(d, 0, 1, 1) }
		cfg := config()
		cfg.Filter.Enabled = true
		submit(m, 4, true)
		l := m.leader(t, cfg)
		run(t, l)
		require.Empty(t, m.batches)
		require.Equal(t, leader.Ledger{Dispatched: 8, Filtered: 8}, ledgerOf(t, l))
	})
}

func TestSurplusGoodGroupsWaitForTheNextBatch(t *testing.T) {
	t.Parallel()
	m := newMemory()
	var held []task.Dispatch
	m.onPublish = func(d task.Dispatch) {
		if held = append(held, d); len(held) == 3 {
			for _, d := range held {
				m.scored <- valued(d, 0, 0, 1)
			}
		}
	}
	submit(m, 3, true)
	l := m.leader(t, config())
	run(t, l)
	require.Equal(t, leader.Ledger{Dispatched: 6, Delivered: 6}, ledgerOf(t, l))
	require.Len(t, m.batches, 2)
}

// leading runs the leader beside the test.
func leading(t *testing.T, l *leader.Leader) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
}

// until waits for a condition that changes with the leader's books.
func until(t *testing.T, l *leader.Leader, ok func() bool) {
	t.Helper()
	for {
		changed := l.Changed()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("never happened")
		}
	}
}

func TestSynchronousRunAdmitsTheNextBatchOnlyAfterThePolicyMovedOn(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 10)
	m.onPublish = func(d task.Dispatch) {
		published <- d
		m.scored <- valued(d, d.PolicyVersion, 0, 1)
	}
	cfg := config()
	cfg.MaxStaleness = 0
	submit(m, 4, false)
	l := m.leader(t, cfg)
	leading(t, l)
	until(t, l, func() bool { return len(l.Batches()) == 1 })
	require.Len(t, published, 2)
	require.NoError(t, l.SetPolicy(t.Context(), leader.PolicyState{Version: 1}))
	until(t, l, func() bool { return len(l.Batches()) == 2 })
	require.Len(t, published, 4)
	b, _ := l.Batch(2)
	require.EqualValues(t, 1, b.PolicyVersionMin, "dispatched under the new version")
}

func TestGroupThatBecameTooOldIsSweptBeforeNumbering(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 10)
	m.onPublish = func(d task.Dispatch) { published <- d }
	cfg := config()
	cfg.MaxStaleness = 1
	submit(m, 2, false)
	l := m.leader(t, cfg)
	leading(t, l)
	a, b := <-published, <-published
	require.NoError(t, l.SetPolicy(t.Context(), leader.PolicyState{Version: 2}))
	m.scored <- valued(a, 0, 0, 1) // two versions behind
	m.scored <- valued(b, 1, 0, 1) // one behind: may wait
	until(t, l, func() bool { return ledgerOf(t, l).Stale == 2 })
	require.Empty(t, l.Batches())
	require.ErrorIs(t, l.SetPolicy(t.Context(), leader.PolicyState{Version: 1}), leader.ErrInvalid, "versions do not go back")
	require.NoError(t, l.SetPolicy(t.Context(), leader.PolicyState{Version: 0, Incarnation: "restarted"}))
}

func TestValidationInterleavesStaysApartAndIsNeverFiltered(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = func(d task.Dispatch) {
		if d.Validate {
			m.scored <- valued(d, 0, 1, 1) // no variance
			return
		}
		m.scored <- valued(d, 0, 0, 1)
	}
	cfg := config()
	cfg.Filter.Enabled, cfg.MaxStaleness = true, 0
	submit(m, 2, false)
	v := prompt("v")
	v.Validate = true
	m.backlog <- v
	m.backlog <- leader.BacklogItem{Final: true}
	l := m.leader(t, cfg)
	run(t, l)
	require.Len(t, m.batches, 2)
	for _, b := range m.batches {
		if b.Validate {
			require.Equal(t, "v-0", b.Groups[0].Dispatch)
			require.Len(t, b.Groups, 1)
		}
	}
	require.Equal(t, leader.Ledger{Dispatched: 6, Delivered: 6}, ledgerOf(t, l))
}

func TestCommitFreesBatchesOfTheCheckpointAndRestoreReadsTheRestAgain(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = func(d task.Dispatch) { m.scored <- valued(d, 0, 0, 1) }
	submit(m, 6, false)
	l := m.leader(t, config())
	leading(t, l)
	until(t, l, func() bool { return len(l.Batches()) == 3 })
	for seq := int64(1); seq <= 3; seq++ {
		require.NoError(t, l.Acknowledged(t.Context(), seq, 10*seq))
	}
	free, err := l.Commit(t.Context(), 15)
	require.NoError(t, err)
	require.Equal(t, []string{m.batches[0].Object}, free)
	free, err = l.Commit(t.Context(), 15)
	require.NoError(t, err)
	require.Empty(t, free, "a commit frees once")
	point, err := l.RestorePoint(20)
	require.NoError(t, err)
	require.EqualValues(t, 2, point)
	_, err = l.RestorePoint(5)
	require.ErrorIs(t, err, leader.ErrInvalid)
}

func TestSetAsideGroupGoesOnAfterARequeue(t *testing.T) {
	t.Parallel()
	m := newMemory()
	first := true
	m.onPublish = func(d task.Dispatch) {
		if first {
			first = false
			m.mu.Lock()
			m.aside[d.ID] = true
			delete(m.leases, d.ID)
			m.mu.Unlock()
			return
		}
	}
	submit(m, 1, true)
	l := m.leader(t, config())
	leading(t, l)
	until(t, l, l.Complete)
	require.Equal(t, leader.Ledger{Dispatched: 2, SetAside: 2}, ledgerOf(t, l))
	require.ErrorIs(t, l.Requeue(t.Context(), "nobody-0", nil), leader.ErrInvalid)
	require.NoError(t, l.Requeue(t.Context(), "p0-0", func(context.Context) error {
		m.mu.Lock()
		delete(m.aside, "p0-0")
		m.leases["p0-0"] = true
		m.mu.Unlock()
		return nil
	}))
	require.Equal(t, leader.Ledger{Dispatched: 2, InFlight: 2}, ledgerOf(t, l))
	m.scored <- valued(task.Dispatch{ID: "p0-0", Run: "r1", GroupSize: 2, Prompt: task.Prompt{ID: "p0"}}, 0, 0, 1)
	until(t, l, l.Complete)
	require.Equal(t, leader.Ledger{Dispatched: 2, Delivered: 2}, ledgerOf(t, l))
}
