package leader_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// dies is a log whose writer is gone before its entry.
type dies struct{}

var errDied = errors.New("died")

func (dies) Append(context.Context, leader.BatchRecord) error { return errDied }

func TestWhatDeadLeadersStoredAndDidNotRecordGoesWithTheNextBatchOfThatNumber(t *testing.T) {
	t.Parallel()
	m := newMemory()
	published := make(chan task.Dispatch, 2)
	m.onPublish = func(d task.Dispatch) { published <- d }
	m.backlog <- prompt("a")
	m.backlog <- prompt("b")
	others := []string{"batches/r1-e1-000003.parquet", "batches/r1-e9-000002.parquet", "batches/r2-e2-000002.parquet"}
	for _, name := range others {
		m.objects[name] = nil
	}
	m.objects["batches/r1-e2-000002.parquet"] = nil
	cfg := config()
	cfg.BatchGroups = 1
	lead := func(epoch int64, edit func(*leader.Deps)) (*leader.Leader, func() error) {
		l := m.leaderWith(t, cfg, func(d *leader.Deps) { d.Epoch = epoch; edit(d) })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		return l, func() error { stop(); return patience.Receive(t, done, "the end of the leader") }
	}
	l, end := lead(2, func(*leader.Deps) {})
	a, b := next(t, published), next(t, published)
	m.scored <- group(a, trajectory.ScoreOK, trajectory.ScoreOK)
	until(t, l, func() bool { return l.Last() == 1 })
	require.NoError(t, end())

	second := group(b, trajectory.ScoreOK, trajectory.ScoreOK)
	for _, epoch := range []int64{3, 5} {
		l, end := lead(epoch, func(d *leader.Deps) { d.Batches = dies{} })
		m.scored <- second
		patience.Receive(t, l.Stopped(), "the end of the leader")
		require.ErrorIs(t, end(), errDied)
	}
	require.Contains(t, m.objects, "batches/r1-e3-000002.parquet")
	require.Contains(t, m.objects, "batches/r1-e5-000002.parquet")

	l, end = lead(7, func(*leader.Deps) {})
	m.scored <- second
	until(t, l, func() bool { return l.Last() == 2 })
	require.NoError(t, end())
	want := append(others, "batches/r1-e2-000001.parquet", "batches/r1-e7-000002.parquet")
	require.ElementsMatch(t, want, slices.Collect(maps.Keys(m.objects)))
}
