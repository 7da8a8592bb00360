package leader_test

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/dataset/parquet"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// published collects dispatches.
func (m *memory) collect() <-chan task.Dispatch {
	published := make(chan task.Dispatch, 20)
	m.onPublish = func(d task.Dispatch) { published <- d }
	return published
}

// A restore goes by the newest token of a batch, and the status by the version at which it is trained on.
func TestARecordHasTheVersionsOfAllItsGroupsAndTheOneItIsTrainedAt(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := m.collect()
	submit(m, 4, false)
	l := m.leader(t, config())
	leading(t, l)
	m.scored <- valued(next(t, published), 0, 0, 1)
	newer := valued(next(t, published), 0, 0, 1)
	newer.Group.Trajectories[1].Segments[0].Spans[0].PolicyVersionEnd = 3 // its last token
	m.scored <- newer
	until(t, l, func() bool { return l.Last() == 1 })
	m.scored <- valued(next(t, published), 0, 0, 1)
	m.scored <- valued(next(t, published), 0, 0, 1)
	until(t, l, func() bool { return l.Last() == 2 })
	first, _, _ := l.Batch(1)
	second, _, _ := l.Batch(2)
	require.Equal(t, []int64{0, 3, 0}, []int64{first.PolicyVersionMin, first.PolicyVersionMax, first.PolicyVersion})
	require.Equal(t, []int64{0, 0, 1}, []int64{second.PolicyVersionMin, second.PolicyVersionMax, second.PolicyVersion}, "one batch is trained on before it")
	dropped, err := l.Restore(t.Context(), 0, 0, leader.Policy{Incarnation: 1}, leader.Regenerate)
	require.NoError(t, err)
	require.Equal(t, []int64{1}, dropped)
}

func TestAGroupOfAnEngineThatStatesNoVersionsIsAsOldAsItsDispatch(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := m.collect()
	cfg := config()
	cfg.MaxStaleness = 0
	l := m.leader(t, cfg)
	leading(t, l)
	require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{Version: 7}, 0))
	submit(m, 2, false)
	m.scored <- valued(next(t, published), 0, 0, 1)
	m.scored <- valued(next(t, published), 0, 0, 1)
	until(t, l, func() bool { return l.Last() == 1 || ledgerOf(t, l).Stale > 0 })
	require.Zero(t, ledgerOf(t, l).Stale)
	r, _, _ := l.Batch(1)
	require.Equal(t, []int64{7, 7}, []int64{r.PolicyVersionMin, r.PolicyVersionMax})
}

// busy lets the loop go round: without its pause it would try again at one of these.
func busy(t *testing.T, l *leader.Leader) {
	t.Helper()
	for range 30 {
		require.NoError(t, l.SetPolicy(t.Context(), leader.Policy{}, 0))
	}
}

func waiting(t *testing.T, l *leader.Leader) (all string) {
	t.Helper()
	p, err := l.Progress(t.Context())
	require.NoError(t, err)
	for _, w := range p.Waiting {
		all += w.What + " for " + w.For + "\n"
	}
	return all
}

func TestAGroupThatCannotBeArchivedWaitsInItsQueueAndIsTriedASecondLater(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := m.collect()
	submit(m, 3, false)
	var seconds, tried atomic.Int64
	var full atomic.Bool
	full.Store(true)
	l := m.leaderWith(t, config(), func(d *leader.Deps) {
		d.Now = func() time.Time { return time.Unix(seconds.Load(), 0) }
		d.Archive = func(trajectory.ScoredGroup) error {
			tried.Add(1)
			if full.Load() {
				return errors.New("no room")
			}
			return nil
		}
	})
	leading(t, l)
	a, b, c := next(t, published), next(t, published), next(t, published)
	m.scored <- valued(a, 0, 0, 1)
	waitsFor(t, l, "archive: no room")
	m.scored <- valued(b, 0, 0, 1)
	m.scored <- valued(a, 0, 0, 1)
	busy(t, l)
	require.EqualValues(t, 1, tried.Load(), "nothing is taken before the second is over")
	m.mu.Lock()
	require.Equal(t, 1, countOf(m.acks, "released scored p0-0"))
	require.Empty(t, m.batches)
	m.mu.Unlock()
	full.Store(false)
	seconds.Store(2)
	busy(t, l)
	until(t, l, func() bool { return l.Last() == 1 })
	m.scored <- valued(c, 0, 0, 1)
	require.NotContains(t, waiting(t, l), "archive")
	require.EqualValues(t, 4, ledgerOf(t, l).Delivered)
}

func TestABatchThatTheStoreRefusesIsTriedASecondLater(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := m.collect()
	submit(m, 2, false)
	m.putErr = errors.New("no room")
	var seconds atomic.Int64
	l := m.leaderWith(t, config(), func(d *leader.Deps) { d.Now = func() time.Time { return time.Unix(seconds.Load(), 0) } })
	leading(t, l)
	m.scored <- valued(next(t, published), 0, 0, 1)
	m.scored <- valued(next(t, published), 0, 0, 1)
	waitsFor(t, l, "store: no room")
	busy(t, l)
	m.mu.Lock()
	require.Equal(t, 1, m.puts)
	m.putErr = nil
	m.mu.Unlock()
	seconds.Store(2)
	busy(t, l)
	until(t, l, func() bool { return l.Last() == 1 })
	require.NotContains(t, waiting(t, l), "store")
}

func TestTheRowsOfARequestAreNumberedAcrossItsGroupsAndWaitForAStoreWithoutRoom(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := m.collect()
	var seconds atomic.Int64
	l := m.leaderWith(t, config(), func(d *leader.Deps) { d.Now = func() time.Time { return time.Unix(seconds.Load(), 0) } })
	leading(t, l)
	ask := []leader.Asked{
		{UID: "u0", Prompt: task.Prompt{ID: "a", Question: "?"}, Rollouts: 2}, {UID: "u1", Prompt: task.Prompt{ID: "b", Question: "?"}, Rollouts: 2},
	}
	ids, err := l.Request(t.Context(), ask)
	require.NoError(t, err)
	a, b := next(t, published), next(t, published)
	m.mu.Lock()
	m.putErr = errors.New("no room")
	m.mu.Unlock()
	m.scored <- valued(b, 0, 0, 1)
	waitsFor(t, l, "store: no room")
	m.mu.Lock()
	require.Equal(t, []string{"released scored " + b.ID}, m.acks)
	m.putErr = nil
	m.mu.Unlock()
	seconds.Store(2)
	m.scored <- valued(b, 0, 0, 1)
	m.scored <- valued(a, 0, 0, 1)
	busy(t, l) // the clock is looked at when something happens
	var rows []int32
	for _, id := range ids {
		until(t, l, func() bool { _, ended := l.Answer(id); return ended })
		answer, _ := l.Answer(id)
		m.mu.Lock()
		data := m.objects[answer.Result.Object]
		m.mu.Unlock()
		_, read, err := parquet.Read(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		for _, r := range read {
			rows = append(rows, r.RowIdx)
		}
	}
	require.Equal(t, []int32{0, 1, 2, 3}, rows)
	require.NotContains(t, waiting(t, l), "store", "it has room again, also where no batch is ever written")
}

// An ack that fails ends the leader; the others' holds end all the same.
func TestOneAckThatFailsDoesNotKeepTheOthersOfItsBatch(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := m.collect()
	submit(m, 2, false)
	lost := errors.New("lost")
	m.ackErr = map[string]error{"scored p0-0": lost}
	l := m.leader(t, config())
	done := make(chan error, 1)
	go func() { done <- l.Run(t.Context()) }()
	m.scored <- valued(next(t, published), 0, 0, 1)
	m.scored <- valued(next(t, published), 0, 0, 1)
	require.ErrorIs(t, patience.Receive(t, done, "the end of the leader"), lost)
	require.Contains(t, m.acks, "scored p1-0")
}

func TestAPartialBatchOfUsedUpRoundsIsOfOneKind(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.onPublish = func(d task.Dispatch) {
		g := valued(d, 0, 0, 1)
		switch d.Prompt.ID {
		case "p1":
			g.Group.Model = "another"
		case "p2":
			g = valued(d, 0, 0, 0) // does not vary
		}
		m.scored <- g
	}
	cfg := config()
	cfg.BatchGroups, cfg.Filter.Enabled, cfg.Filter.MaxRounds = 3, true, 1
	submit(m, 3, false)
	l := m.leader(t, cfg)
	leading(t, l)
	until(t, l, func() bool { return l.Last() == 1 })
	first, _, _ := l.Batch(1)
	require.Len(t, first.Groups, 1)
	require.Equal(t, "p0-0", first.Groups[0].Dispatch)
}
