package jetstream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
)

// Others count a lease from when they saw it renewed. A holder that counted from the answer would believe in it for
// longer than they do when answers are slow.
func TestALeaseCountsFromWhenItsRenewalWasSent(t *testing.T) {
	t.Parallel()
	bus, _ := serverOfItsOwn(t)
	l := NewLease(bus, "r1", time.Hour)
	inTime := func() {
		t.Helper()
		e, err := bus.state.Get(patience.Context(t), l.key)
		require.NoError(t, err)
		require.Equal(t, l.revision, e.Revision())
		require.False(t, l.renewed.After(e.Created()), "the server stores it after it was sent")
	}
	for range 2 { // it is made, then changed
		ok, err := l.TryAcquire(t.Context(), "a:1", false)
		require.NoError(t, err)
		require.True(t, ok)
		inTime()
	}
	require.True(t, l.renew(t.Context(), []byte(`{}`)))
	inTime()

	// One more was stored, whose answer was lost: it counts from the one before.
	before := l.renewed
	require.NoError(t, bus.PutState(t.Context(), l.key, leaseState{Owner: l.owner}))
	require.True(t, l.renew(t.Context(), []byte(`{}`)))
	require.Equal(t, before, l.renewed)
	require.True(t, l.renew(t.Context(), []byte(`{}`)), "the next one builds on it")
	inTime()

	other := NewLease(bus, "r1", time.Hour)
	ok, err := other.TryAcquire(t.Context(), "b:1", true)
	require.NoError(t, err)
	require.True(t, ok)
	require.False(t, l.renew(t.Context(), []byte(`{}`)), "another process has it")
}

func TestAHolderWhoseServerIsGoneStopsBeforeOthersMayLead(t *testing.T) {
	t.Parallel()
	bus, s := serverOfItsOwn(t)
	l := NewLease(bus, "r1", time.Second)
	ok, err := l.TryAcquire(t.Context(), "a:1", false)
	require.NoError(t, err)
	require.True(t, ok)
	s.Stop()
	held := make(chan error, 1)
	go func() { held <- l.Hold(t.Context(), "a:1") }()
	err = patience.Receive(t, held, "the end of the holder")
	require.ErrorIs(t, err, ErrLeaseLost)
	require.ErrorContains(t, err, "not renewed for 750ms")
}

func serverOfItsOwn(t *testing.T) (*Bus, *Server) {
	t.Helper()
	s, err := StartServer(ServerConfig{Dir: t.TempDir()})
	require.NoError(t, err)
	nc, err := s.Connect()
	require.NoError(t, err)
	bus, err := New(t.Context(), nc, nil, Defaults())
	require.NoError(t, err)
	t.Cleanup(func() {
		bus.Close()
		s.Stop()
	})
	return bus, s
}
