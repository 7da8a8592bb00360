package pool

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/policy"
)

func TestTheTrainersVersionCountsInPlaceOfTheEndpointsOwn(t *testing.T) {
	t.Parallel()
	e := newEngine(t, true)
	e.version = "70"
	p := newPool(t, nil, e.URL)
	p.CheckNow(t.Context())
	require.Equal(t, int64(70), p.Version(), "the trainer said nothing")
	call := func(during func()) policy.Versions {
		done := make(chan policy.Completion, 1)
		go func() {
			c, err := p.Complete(t.Context(), ask("s"))
			if err != nil {
				t.Error(err)
			}
			done <- c
		}()
		patience.Receive(t, e.arrived, "a call")
		during()
		e.hold <- struct{}{}
		return patience.Receive(t, done, "the answer").Versions
	}
	require.Equal(t, policy.Versions{Known: true, Start: 70, End: 70}, call(func() {}))
	p.State(Stated{Version: 3, Incarnation: 1})
	require.Equal(t, int64(3), p.Version())
	require.Equal(t, policy.Versions{Known: true, Start: 3, End: 3}, call(func() {}))
	require.Equal(t, policy.Versions{Known: true, Start: 3, End: 4}, call(func() { p.State(Stated{Version: 4, Incarnation: 1}) }))
	require.Equal(t, policy.Versions{Known: true, Start: 4, End: 5}, call(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.version = "71"
	}), "an update that the trainer did not number yet")
	require.Equal(t, policy.Versions{Known: true, Start: 2, End: 4}, call(func() { p.State(Stated{Version: 2, Incarnation: 2}) }), "a restore")
	require.Equal(t, policy.Versions{Known: true, Start: 2, End: 3}, call(func() { p.State(Stated{Version: 2, Incarnation: 3}) }), "another life")
	require.Equal(t, "3.2", p.stance().salt())
}

func TestNoCallIsPlacedWhileTheTrainerPausesAndTheWaitUsesUpNoBudget(t *testing.T) {
	t.Parallel()
	e := newEngine(t, false)
	p := newPool(t, func(_ *Config, c *policy.Config) { c.RetryBudget = time.Nanosecond }, e.URL)
	p.State(Stated{Version: 1, Paused: true})
	done := make(chan policy.Completion, 1)
	waiting, counted := policy.WithWaiting(t.Context())
	go func() {
		c, err := p.Complete(waiting, ask("s"))
		if err != nil {
			t.Error(err)
		}
		done <- c
	}()
	patience.Until(t, "the call waits", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.waiting) == 1
	})
	before := p.Now()
	p.State(Stated{Version: 1, Paused: true})
	select {
	case <-e.arrived:
		t.Fatal("a call was placed")
	case <-time.After(100 * time.Millisecond): // ten looks at whether waiting has any hope
	}
	require.Equal(t, before, p.Now(), "the clock of the budget stands still")
	require.Less(t, counted.Total(p.Now()), 50*time.Millisecond, "and the wait is not counted twice")
	p.State(Stated{Version: 2})
	require.Equal(t, policy.Versions{Known: true, Start: 2, End: 2}, patience.Receive(t, done, "the answer").Versions, "the version after the wait")
	gone, leave := context.WithCancel(t.Context())
	leave()
	p.State(Stated{Version: 2, Paused: true})
	_, err := p.Complete(gone, ask("s"))
	require.ErrorIs(t, err, context.Canceled)
}

func TestAPoolGoesBackFromATrainersEndpointsToTheConfiguredOnes(t *testing.T) {
	t.Parallel()
	p := newPool(t, func(c *Config, _ *policy.Config) { c.Allow = []string{"a:1"} }, "http://base:1", "http://more:1")
	require.NoError(t, p.SetEndpoints([]string{"http://a:1"}))
	require.Len(t, p.Status(), 1)
	require.NoError(t, p.ResetEndpoints(t.Context()))
	require.Len(t, p.Status(), 2)
	require.Equal(t, "http://base:1", p.Status()[0].Endpoint)
}
