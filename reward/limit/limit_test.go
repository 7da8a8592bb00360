package limit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/reward/limit"
)

func TestMain(m *testing.M) { patience.Main(m) }

func TestBucketGivesAMinutesWorthAndThenByTheClock(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := limit.NewBucket(60)
	require.Zero(t, b.Wait(now, 60))
	b.Take(now, 60)
	require.InDelta(t, float64(time.Second), float64(b.Wait(now, 1)), 10)
	require.InDelta(t, float64(10*time.Second), float64(b.Wait(now, 10)), 10)
	now = now.Add(10*time.Second + time.Millisecond)
	require.Zero(t, b.Wait(now, 10))
	b.Take(now, -5)
	require.Zero(t, b.Wait(now, 15), "what was not used is given back")
	require.InDelta(t, float64(45*time.Second), float64(b.Wait(now, 1000)), float64(10*time.Millisecond), "more than a minute's worth is a minute's worth")
	require.Zero(t, limit.NewBucket(0).Wait(now, 1<<30))
}

func TestBreakerOpensAfterFailuresInARowAndOneProbeClosesIt(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := limit.NewBreaker(3, time.Second, 3*time.Second)
	fail := func() { b.Report(now, false) }
	fail()
	fail()
	b.Report(now, true)
	fail()
	fail()
	require.False(t, b.Open(), "a success in between starts the count again")
	fail()
	require.True(t, b.Open())
	require.Equal(t, time.Second, b.Admit(now))
	fail() // a call from before
	require.Equal(t, time.Second, b.Admit(now), "late failures of older calls do not prolong the pause")
	now = now.Add(time.Second)
	require.Zero(t, b.Admit(now))
	require.Positive(t, b.Admit(now), "one probe at a time")
	fail()
	require.Equal(t, 2*time.Second, b.Admit(now))
	now = now.Add(2 * time.Second)
	require.Zero(t, b.Admit(now))
	fail()
	require.Equal(t, 3*time.Second, b.Admit(now), "the pause grows up to its maximum")
	now = now.Add(3 * time.Second)
	require.Zero(t, b.Admit(now))
	b.Report(now, true)
	require.False(t, b.Open())
	require.Zero(t, b.Admit(now))
	require.Zero(t, b.Admit(now))
}

func TestCanceledProbeLetsTheNextOneTry(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := limit.NewBreaker(1, time.Second, time.Second)
	b.Report(now, false)
	now = now.Add(time.Second)
	require.Zero(t, b.Admit(now))
	b.Release()
	require.Zero(t, b.Admit(now))
}

func TestGateSpreadsCallsOverTheMinuteByRequestsAndTokens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg    limit.Config
		tokens int
	}{
		"requests": {limit.Config{RequestsPerMinute: 10}, 1},
		"tokens":   {limit.Config{TokensPerMinute: 1000}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := limit.New(c.cfg)
				start := time.Now()
				var wg sync.WaitGroup
				for range 30 {
					wg.Go(func() {
						if g.Enter(t.Context(), c.tokens) == nil {
							g.Leave(limit.Answered, c.tokens, c.tokens)
						}
					})
				}
				wg.Wait()
				require.InDelta(t, 120, time.Since(start).Seconds(), 1, "10 at once, 20 at 10 per minute")
			})
		})
	}
}

func TestGateCorrectsTheEstimateBySpend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := limit.New(limit.Config{TokensPerMinute: 1000})
		require.NoError(t, g.Enter(t.Context(), 1000))
		g.Leave(limit.Answered, 1000, 100)
		start := time.Now()
		require.NoError(t, g.Enter(t.Context(), 900))
		require.Zero(t, time.Since(start))
	})
}

func TestGateHoldsCallsBackWhileItsBreakerIsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := limit.New(limit.Config{BreakerFailures: 1, BreakerPause: 10 * time.Second, BreakerMaxPause: time.Minute})
		require.NoError(t, g.Enter(t.Context(), 1))
		g.Leave(limit.Failed, 1, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		require.ErrorIs(t, g.Enter(ctx, 1), context.DeadlineExceeded)
		start := time.Now()
		require.NoError(t, g.Enter(t.Context(), 1))
		require.Equal(t, 5*time.Second, time.Since(start))
		g.Leave(limit.Answered, 1, 1)
		open, times := g.Open()
		require.False(t, open)
		require.Equal(t, 1, times)
	})
}
