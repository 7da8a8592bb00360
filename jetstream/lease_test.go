package jetstream_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/jetstream"
)

func TestOnlyOneCandidateLeadsAndASilentHolderIsReplaced(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	const lease = time.Second
	first, second := jetstream.NewLease(f.bus, "r1", lease), jetstream.NewLease(f.bus, "r1", lease)
	ok, err := first.TryAcquire(t.Context(), "a:1", false)
	require.NoError(t, err)
	require.True(t, ok)
	begin := time.Now()
	patience.Until(t, "the first one, which never renews, is replaced", func() bool {
		taken, err := second.TryAcquire(t.Context(), "b:1", false)
		require.NoError(t, err)
		return taken
	})
	require.GreaterOrEqual(t, time.Since(begin), lease, "a holder is replaced only after the lease time")
	require.Equal(t, "b:1", first.Holder(t.Context()))
	require.ErrorIs(t, first.Hold(t.Context(), "a:1"), jetstream.ErrLeaseLost, "the late holder notices")
}

func TestAHeldLeaseStaysAndAReleasedOneIsFreeAtOnce(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	const lease = 6 * time.Second // the holder may be kept from renewing for most of it
	first, second := jetstream.NewLease(f.bus, "r1", lease), jetstream.NewLease(f.bus, "r1", lease)
	ok, err := first.TryAcquire(t.Context(), "a:1", false)
	require.NoError(t, err)
	require.True(t, ok)
	ctx, stop := context.WithCancel(t.Context())
	held := make(chan error, 1)
	go func() { held <- first.Hold(ctx, "a:1") }()
	begin := time.Now()
	patience.Until(t, "more than the lease time is over", func() bool {
		ok, err := second.TryAcquire(t.Context(), "b:1", false)
		require.NoError(t, err)
		require.False(t, ok, "the holder renews")
		return time.Since(begin) > lease*5/4
	})
	stop()
	require.NoError(t, patience.Receive(t, held, "the end of the holder"))
	first.Release(t.Context())
	ok, err = second.TryAcquire(t.Context(), "b:1", false)
	require.NoError(t, err)
	require.True(t, ok)
}

func TestAHolderWhoseLastRenewalLostItsAnswerStillReleases(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	holder := jetstream.NewLease(f.bus, "r1", time.Minute)
	ok, err := holder.TryAcquire(t.Context(), "a:1", false)
	require.NoError(t, err)
	require.True(t, ok)
	// The server took a renewal that the holder never heard of: the stored revision is newer.
	var stored map[string]any
	_, err = f.bus.GetState(t.Context(), "leader.r1", &stored)
	require.NoError(t, err)
	require.NotEmpty(t, stored)
	require.NoError(t, f.bus.PutState(t.Context(), "leader.r1", stored))
	holder.Release(t.Context())
	next := jetstream.NewLease(f.bus, "r1", time.Minute)
	ok, err = next.TryAcquire(t.Context(), "b:1", false)
	require.NoError(t, err)
	require.True(t, ok)
}

func TestStateThatTwoProcessesChangeAtOnceLosesNothing(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				_, err := jetstream.UpdateState(t.Context(), f.bus, "counter", func(n int) (int, error) { return n + 1, nil })
				require.NoError(t, err)
			}
		})
	}
	all.Wait()
	var n int
	_, err := f.bus.GetState(t.Context(), "counter", &n)
	require.NoError(t, err)
	require.Equal(t, 40, n)
}

func TestAReaderSeesEveryMessageInOrderUntilItIsDeleted(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	for i, key := range []string{"a", "b", "c"} {
		require.NoError(t, f.bus.PublishOnce(t.Context(), jetstream.Backlog, "r1", key, item{N: i}))
	}
	read := func(n int) (got []int, r *jetstream.Reader[item], last jetstream.Entry[item]) {
		r, err := jetstream.NewReader[item](t.Context(), f.bus, jetstream.Backlog, "r1")
		require.NoError(t, err)
		for range n {
			last, err = r.Next(t.Context())
			require.NoError(t, err)
			got = append(got, last.Value.N)
		}
		return got, r, last
	}
	got, r, last := read(2)
	require.Equal(t, []int{0, 1}, got)
	require.NoError(t, r.Delete(t.Context(), last.Sequence))
	require.NoError(t, r.Delete(t.Context(), last.Sequence), "deleting twice is no error")
	got, _, _ = read(2)
	require.Equal(t, []int{0, 2}, got, "the next reader starts at the beginning")
}

func TestAnUnreadableMessageIsSetAsideAndPassedOver(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	require.NoError(t, f.bus.PublishOnce(t.Context(), jetstream.Backlog, "r1", "bad", "not an item"))
	require.NoError(t, f.bus.PublishOnce(t.Context(), jetstream.Backlog, "r1", "good", item{N: 4}))
	r, err := jetstream.NewReader[item](t.Context(), f.bus, jetstream.Backlog, "r1")
	require.NoError(t, err)
	e, err := r.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, e.Value.N)
	aside, err := f.bus.SetAsideRecords(t.Context(), "r1")
	require.NoError(t, err)
	require.Len(t, aside, 1)
	require.Equal(t, "bad", aside[0].Dispatch)
	require.Equal(t, jetstream.Backlog, aside[0].Stage)
	require.NoError(t, f.bus.DeleteSetAside(t.Context(), "r1", "bad"))
	aside, err = f.bus.SetAsideRecords(t.Context(), "r1")
	require.NoError(t, err)
	require.Empty(t, aside)
}
