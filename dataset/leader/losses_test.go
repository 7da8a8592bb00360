package leader_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// untilInFlight returns when so many rollouts are in work, of so many that were dispatched in all (0: any). The leases
// are the broker's: the leader does not announce them.
func untilInFlight(t *testing.T, l *leader.Leader, n, dispatched int) {
	t.Helper()
	patience.Until(t, fmt.Sprintf("%d of %d rollouts are in work", n, dispatched), func() bool {
		of := ledgerOf(t, l)
		return of.InFlight == n && (dispatched == 0 || of.Dispatched == dispatched)
	})
}

func TestDispatchingPausesButForOneGroupWhileMostRolloutsAreLost(t *testing.T) {
	t.Parallel()
	const window = 16
	m := newMemory()
	published := make(chan task.Dispatch, 100)
	m.onPublish = func(d task.Dispatch) { published <- d }
	for i := range 60 {
		m.backlog <- prompt(fmt.Sprint(i))
	}
	said, log := observer.New(zap.InfoLevel)
	l := m.leaderWith(t, config(), func(d *leader.Deps) { d.Log = zap.New(said) })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()

	for range window - 4 { // four are in work
		m.scored <- group(next(t, published), trajectory.ScoreLost, trajectory.ScoreLost)
	}
	for range 3 {
		m.scored <- group(next(t, published), trajectory.ScoreLost, trajectory.ScoreOK) // too few for a group: all of it is lost
	}
	// The window lacks one group, and four more are out; only then the next losses.
	untilInFlight(t, l, 8, 2*(window-1+4))
	require.Zero(t, log.FilterMessageSnippet("dispatching pauses").Len(), "the window is not full")
	last := next(t, published)
	for range 3 { // they were dispatched before
		m.scored <- group(next(t, published), trajectory.ScoreLost, trajectory.ScoreLost)
	}
	waitsFor(t, l, "100% of the rollouts of the last 16 groups were lost (max_lost 0.5)")
	untilInFlight(t, l, 2, 0) // one group of two
	require.Empty(t, published)
	require.Equal(t, 1, log.FilterMessageSnippet("dispatching pauses").Len())

	cancel()
	require.NoError(t, patience.Receive(t, done, "the end of the leader"))
	for i := range 30 { // the queue gives again what the leader before did not admit
		m.backlog <- prompt(fmt.Sprint("again", i))
	}
	l = m.leaderWith(t, config(), func(d *leader.Deps) { d.Log = zap.New(said) })
	ctx, cancel = context.WithCancel(t.Context())
	go func() { done <- l.Run(ctx) }()
	waitsFor(t, l, "were lost (max_lost 0.5)") // a new leader knows it from the logs
	require.Empty(t, published)

	for range window / 2 { // one by one, until half of the window is good again
		require.Empty(t, published)
		m.scored <- group(last, trajectory.ScoreOK, trajectory.ScoreOK)
		last = next(t, published)
	}
	for range 3 {
		next(t, published)
	}
	untilInFlight(t, l, 8, 0) // all four again
	require.Equal(t, 1, log.FilterMessageSnippet("dispatching goes on").Len())
	cancel()
	require.NoError(t, patience.Receive(t, done, "the end of the leader"))
}
