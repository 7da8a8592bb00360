package leader

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/task"
)

func TestACommitKeepsThePromptsOfBatchesThatWereTakenBack(t *testing.T) {
	t.Parallel()
	l := still(t, func(*Config) {})
	b := l.books
	for _, id := range []string{"a", "b"} {
		l.dispatched(id, 0, training)
	}
	b.batch(BatchRecord{Sequence: 1, Groups: []BatchGroup{{Dispatch: "a", Outcomes: Outcomes{Delivered: 2}, Tokens: 300}}})
	b.batch(BatchRecord{Sequence: 2, Groups: []BatchGroup{{Dispatch: "b", Outcomes: Outcomes{Delivered: 2}, Tokens: 300}}})
	b.event(Event{Kind: Restored, Policy: &Policy{}, Dropped: []int64{1}})
	require.Equal(t, map[string]int{"stale by restore": 2}, b.reasons)
	require.Equal(t, map[int]Outcomes{512: {Delivered: 2, Stale: 2}}, b.lengths)
	b.event(Event{Kind: InputEnded})
	require.False(t, b.complete(), "a waits for its next dispatch")
	b.event(Event{Kind: Committed, UpTo: 2})
	require.Len(t, b.again, 1)
	require.NotNil(t, b.all["a"].body, "it can be dispatched again")
	require.Nil(t, b.all["b"].body, "nobody will ask for it")
}

func TestValidationGroupsTakePlacesAndAreNotAmongTheRunning(t *testing.T) {
	t.Parallel()
	l := still(t, func(*Config) {})
	l.dispatched("t", 0, training)
	l.dispatched("v", 0, validation)
	l.dispatched("r", 0, request)
	require.Equal(t, load{open: 2, running: 1}, l.books.load(0))
}

func TestAReplacedRequestIsNotPublishedAgainAndEachAttemptHasANameOfItsOwn(t *testing.T) {
	t.Parallel()
	l := still(t, func(*Config) {})
	for _, id := range []string{"u-0", "u-1", "u-2"} {
		l.dispatched(id, 0, func(e *Event) { e.UID = "u" })
	}
	b := l.books
	require.Nil(t, b.all["u-0"].body)
	require.Nil(t, b.all["u-1"].body)
	require.NotNil(t, b.all["u-2"].body)
	require.Equal(t, 2, b.requests["u"].count)
}

func TestFailedUnscoredAndSetAsideRolloutsAreLost(t *testing.T) {
	t.Parallel()
	for outcome, lost := range map[Outcome]bool{Failed: true, Unscored: true, SetAside: true, Stale: false, Filtered: false, Delivered: false} {
		var l losses
		for range lossWindow {
			l.left(Outcomes{outcome: 2})
		}
		require.Equal(t, lost, l.share() == 1, outcome)
	}
}

// The oldest of those that wait go first: what is behind them is trained on later.
func TestAStragglerIsARunningGroupThatTheNextBatchWouldMakeTooOld(t *testing.T) {
	t.Parallel()
	c := Defaults()
	c.MaxStaleness, c.BatchGroups = 1, 1
	for name, x := range map[string]struct {
		waiting []waiter
		pending int64
		want    string
	}{
		"it runs":                  {waiting: []waiter{{"a", 0, true}}, pending: 1, want: "a"},
		"it waits for its batch":   {waiting: []waiter{{"a", 0, false}}, pending: 1},
		"it is too old already":    {waiting: []waiter{{"a", 0, true}}, pending: 2},
		"there is time":            {waiting: []waiter{{"a", 0, true}}, pending: 0},
		"an older one goes before": {waiting: []waiter{{"a", 1, true}, {"z", 0, false}}, pending: 1, want: "a"},
	} {
		id, _ := c.straggler(x.waiting, clock{0, x.pending})
		require.Equal(t, x.want, id, name)
	}
}

func TestSeedsOfTwoDispatchesOfOnePromptDiffer(t *testing.T) {
	t.Parallel()
	l := still(t, func(*Config) {})
	p := task.Prompt{ID: "p"}
	require.NotEqual(t, l.dispatch(p, 0, false).Seed, l.dispatch(p, 1, false).Seed)
	require.Equal(t, l.dispatch(p, 0, false).Seed, l.dispatch(p, 0, false).Seed)
}
