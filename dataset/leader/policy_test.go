package leader_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/internal/patience"
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

// leading runs the leader beside the test.
func leading(t *testing.T, l *leader.Leader) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, patience.Receive(t, done, "the end of the leader"))
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
		patience.Receive(t, changed, "a change")
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
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Version: 1}, 1))
	until(t, l, func() bool { return len(l.Batches()) == 2 })
	require.Len(t, published, 4)
	b, _, _ := l.Batch(2)
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
	a, b := next(t, published), next(t, published)
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Version: 2}, 0))
	m.scored <- valued(a, 0, 0, 1) // two versions behind
	m.scored <- valued(b, 1, 0, 1) // one behind: may wait
	until(t, l, func() bool { return ledgerOf(t, l).Stale == 2 })
	require.Empty(t, l.Batches())
	require.ErrorIs(t, l.SetPolicy(t.Context(), leader.Policy{Version: 1}, 0), leader.ErrRefused, "versions do not go back")
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Version: 2, Incarnation: 1}, 0))
	require.ErrorIs(t, l.SetPolicy(t.Context(), leader.Policy{Version: 3}, 0), leader.ErrOldIncarnation, "a dead trainer's call")
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

func TestTheStatusHasTheRateOfTheLastMinuteAndTheAgesOfBatches(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 10)
	m.onPublish = func(d task.Dispatch) { published <- d }
	var seconds atomic.Int64
	cfg := config()
	cfg.MaxStaleness = 1
	submit(m, 2, false)
	l := m.leaderWith(t, cfg, func(d *leader.Deps) { d.Now = func() time.Time { return time.Unix(seconds.Load(), 0) } })
	leading(t, l)
	a, b := next(t, published), next(t, published)
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Version: 1}, 0))
	m.scored <- valued(a, 0, 0, 1)
	m.scored <- valued(b, 1, 0, 1)
	until(t, l, func() bool { return l.Last() == 1 })
	progress := func() leader.Progress {
		p, err := l.Progress(t.Context())
		require.NoError(t, err)
		return p
	}
	require.InDelta(t, 4.0/60, progress().PerSecond, 1e-9)
	require.Equal(t, map[int64]int{1: 1}, progress().Ages)
	seconds.Store(61)
	require.Zero(t, progress().PerSecond)
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
	require.ErrorIs(t, l.Requeue(t.Context(), "nobody-0"), leader.ErrRefused)
	require.NoError(t, l.Requeue(t.Context(), "p0-0"))
	require.NotContains(t, m.aside, "p0-0")
	untilInFlight(t, l, 2, 4)
	require.Equal(t, leader.Ledger{Dispatched: 4, SetAside: 2, InFlight: 2}, ledgerOf(t, l))
	m.scored <- valued(m.published[1], 0, 0, 1)
	until(t, l, l.Complete)
	require.Equal(t, leader.Ledger{Dispatched: 4, SetAside: 2, Delivered: 2}, ledgerOf(t, l))
}
