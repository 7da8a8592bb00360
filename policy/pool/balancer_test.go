package pool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/policy"
)

func TestMain(m *testing.M) { patience.Main(m) }

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func acquire(t *testing.T, b *Balancer, session string, now time.Time) string {
	t.Helper()
	name, ok := b.Acquire(session, now)
	require.True(t, ok)
	return name
}

func TestATrajectoryStaysOnItsEndpointAndOthersGoWhereLeastIsInFlight(t *testing.T) {
	t.Parallel()
	b := NewBalancer(3, 100)
	b.Set([]string{"b", "a", "c", "a"})
	require.Equal(t, "a", acquire(t, b, "s1", t0))
	require.Equal(t, "b", acquire(t, b, "s2", t0))
	require.Equal(t, "c", acquire(t, b, "s3", t0))
	for range 5 {
		require.Equal(t, "b", acquire(t, b, "s2", t0), "sticky although the busiest")
	}
	require.Equal(t, "a", acquire(t, b, "s4", t0))
	b.Release("c", "s3", Answered, t0)
	require.Equal(t, "c", acquire(t, b, "s5", t0))
}

func TestAnEndpointNeverHoldsMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	b := NewBalancer(3, 2)
	b.Set([]string{"a", "b"})
	count := map[string]int{}
	for range 4 {
		count[acquire(t, b, "s", t0)]++ // the session's own is full after two: it moves on
	}
	require.Equal(t, map[string]int{"a": 2, "b": 2}, count)
	_, ok := b.Acquire("s", t0)
	require.False(t, ok)
	b.SetLimit("a", 3)
	require.Equal(t, "a", acquire(t, b, "other", t0))
	b.SetLimit("a", 0)
	b.Release("b", "s", Answered, t0)
	require.Equal(t, "b", acquire(t, b, "other", t0))
}

func TestFailuresInARowEjectAndAHealthCheckReturns(t *testing.T) {
	t.Parallel()
	b := NewBalancer(2, 100)
	b.Set([]string{"a", "b"})
	fail := func(now time.Time) {
		for b.endpoints["a"].failures < 2 || !b.endpoints["a"].ejected {
			b.endpoints["a"].inFlight++
			b.Release("a", "", Failed, now)
		}
	}
	require.Equal(t, "a", acquire(t, b, "s", t0))
	b.Release("a", "s", Failed, t0)
	require.Equal(t, "b", acquire(t, b, "s", t0), "one failure: the trajectory goes elsewhere")
	require.Equal(t, 2, b.Usable())
	fail(t0)
	require.Equal(t, 1, b.Usable())
	require.Equal(t, []string{"b"}, b.Due(t0))
	require.Equal(t, []string{"a", "b"}, b.Due(t0.Add(firstEjection)))
	b.Checked("a", false, t0.Add(firstEjection))
	require.Equal(t, []string{"b"}, b.Due(t0.Add(2*firstEjection)), "the second ejection is twice as long")
	b.Checked("a", true, t0.Add(3*firstEjection))
	require.Equal(t, 2, b.Usable())
	fail(t0.Add(4 * firstEjection))
	require.Equal(t, t0.Add(8*firstEjection), b.endpoints["a"].until, "returned but not proven: four times as long")
	b.Checked("a", true, t0.Add(9*firstEjection))
	require.Equal(t, "a", acquire(t, b, "fresh", t0.Add(9*firstEjection)))
	b.Release("a", "fresh", Answered, t0.Add(9*firstEjection))
	fail(t0.Add(10 * firstEjection))
	require.Equal(t, t0.Add(11*firstEjection), b.endpoints["a"].until, "an answer clears the record")
}

func TestAFailedHealthCheckEjectsAtOnceAndEjectionIsBounded(t *testing.T) {
	t.Parallel()
	b := NewBalancer(3, 100)
	b.Set([]string{"a"})
	now := t0
	for range 12 {
		b.Checked("a", false, now)
		_, ok := b.Acquire("s", now)
		require.False(t, ok)
		require.LessOrEqual(t, b.endpoints["a"].until.Sub(now), maxEjection)
		now = b.endpoints["a"].until
	}
	require.Equal(t, maxEjection, b.endpoints["a"].penalty)
}

func TestOverloadMovesATrajectoryButEjectsNothing(t *testing.T) {
	t.Parallel()
	b := NewBalancer(1, 100)
	b.Set([]string{"a", "b"})
	require.Equal(t, "a", acquire(t, b, "s", t0))
	acquire(t, b, "x", t0)
	acquire(t, b, "y", t0)
	b.Release("a", "s", Refused, t0)
	require.Equal(t, 2, b.Usable())
	require.NotContains(t, b.sticky, "s")
}

func TestARemovedEndpointFinishesItsCallsAndGetsNoMore(t *testing.T) {
	t.Parallel()
	b := NewBalancer(3, 100)
	b.Set([]string{"a", "b"})
	require.Equal(t, "a", acquire(t, b, "s", t0))
	b.Set([]string{"b"})
	require.Equal(t, "b", acquire(t, b, "s", t0))
	b.Release("a", "s", Answered, t0)
	require.NotContains(t, b.endpoints, "a")
	b.Release("a", "s", Answered, t0) // unknown by now: nothing happens
	b.Set([]string{"a", "b"})
	require.Equal(t, 0, b.endpoints["a"].inFlight)
}

func TestIdleSessionsAreForgotten(t *testing.T) {
	t.Parallel()
	b := NewBalancer(3, 1<<20)
	b.Set([]string{"a"})
	for i := range 1000 {
		acquire(t, b, string(rune('a'+i)), t0)
	}
	acquire(t, b, "late", t0.Add(2*stickFor))
	require.Len(t, b.sticky, 1)
}

func TestConcurrencyFollowsWhatTheEngineSays(t *testing.T) {
	t.Parallel()
	calm := policy.Load{Running: 10, KVUsage: 0.5}
	for name, tc := range map[string]struct {
		load     policy.Load
		inFlight int
		want     int
	}{
		"room and at the limit: up by a tenth":    {calm, 100, 110},
		"room but the limit does not bind: stays": {calm, 50, 100},
		"cache between the marks: stays":          {policy.Load{Running: 100, KVUsage: 0.9}, 100, 100},
		"a short queue: stays":                    {policy.Load{Running: 100, Waiting: 5, KVUsage: 0.5}, 100, 100},
		"a long queue: down by a fifth":           {policy.Load{Running: 100, Waiting: 20, KVUsage: 0.5}, 100, 80},
		"cache full: down by a fifth":             {policy.Load{Running: 100, KVUsage: 0.97}, 100, 80},
		"cache full with few of ours: from those": {policy.Load{Running: 100, KVUsage: 0.97}, 20, 16},
		"a preemption: down by a fifth":           {policy.Load{Running: 100, KVUsage: 0.5, Preemptions: 8}, 100, 80},
		"cache full with none of ours: least":     {policy.Load{Running: 100, KVUsage: 1}, 0, 4},
	} {
		c := Concurrency{Min: 4, Max: 1000, Limit: 100}
		c.Next(policy.Load{Running: 10, KVUsage: 0.9, Preemptions: 7}, 0)
		if tc.load.Preemptions == 0 {
			tc.load.Preemptions = 7
		}
		require.Equal(t, tc.want, c.Next(tc.load, tc.inFlight), name)
	}
}

func TestConcurrencyConvergesOnWhatFits(t *testing.T) {
	t.Parallel()
	const fits = 240 // an engine whose cache is full at 240 trajectories
	c := Concurrency{Min: 1, Max: 1024, Limit: 128}
	preemptions := 0.0
	low, high := 1024, 0
	for i := range 300 {
		running := c.Limit
		if running > fits {
			preemptions += float64(running - fits)
		}
		c.Next(policy.Load{Running: float64(running), KVUsage: min(1, float64(running)/fits), Preemptions: preemptions}, running)
		if i > 50 {
			low, high = min(low, c.Limit), max(high, c.Limit)
		}
	}
	require.GreaterOrEqual(t, low, fits*6/10)
	require.LessOrEqual(t, high, fits*11/10)
}

func TestConcurrencyStaysWithinItsBounds(t *testing.T) {
	t.Parallel()
	c := Concurrency{Min: 2, Max: 10, Limit: 8}
	for range 100 {
		require.LessOrEqual(t, c.Next(policy.Load{}, c.Limit), 10)
	}
	require.Equal(t, 10, c.Limit)
	for range 100 {
		require.GreaterOrEqual(t, c.Next(policy.Load{KVUsage: 1}, c.Limit), 2)
	}
	require.Equal(t, 2, c.Limit)
}

func TestATrajectoryWhoseCallFailedLeavesItsEndpointAlsoWhenThatAnswersOthers(t *testing.T) {
	t.Parallel()
	b := NewBalancer(3, 8)
	b.Set([]string{"a", "b"})
	take := func(session string) string { return acquire(t, b, session, t0) }
	require.Equal(t, "a", take("other"))
	require.Equal(t, "b", take("failing"))
	require.Equal(t, "a", take("third"))
	require.Equal(t, "b", take("fourth"))
	b.Release("b", "failing", Failed, t0)
	b.Release("b", "fourth", Answered, t0) // the endpoint has no failure in a row any more
	b.Release("a", "other", Answered, t0)
	b.Release("a", "third", Answered, t0)
	require.Equal(t, "b", take("fourth"), "this one stays")
	b.Release("b", "fourth", Answered, t0)
	require.Equal(t, "a", take("failing"))
}
