package jetstream

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/blob"
)

func TestConsumersAndStreamsAreWhatTheConfigurationSaysAlsoWhenItChanged(t *testing.T) {
	t.Parallel()
	bus, s := serverOfItsOwn(t)
	_, err := NewQueue[string](t.Context(), bus, Prompts, "r1")
	require.NoError(t, err)

	nc, err := s.Connect()
	require.NoError(t, err)
	cfg := Defaults()
	cfg.AckWait, cfg.MaxAckPending, cfg.MaxBytes = 9*time.Second, 11, map[string]int64{Scored: 1 << 20}
	changed, err := New(t.Context(), nc, nil, cfg)
	require.NoError(t, err)
	defer changed.Close()
	_, err = NewQueue[string](t.Context(), changed, Prompts, "r1")
	require.NoError(t, err)
	c, err := bus.js.Consumer(t.Context(), Prompts, durable("r1"))
	require.NoError(t, err)
	require.Equal(t, 9*time.Second, c.CachedInfo().Config.AckWait)
	require.Equal(t, 11, c.CachedInfo().Config.MaxAckPending)
	for name, want := range map[string]jetstream.StreamConfig{
		Scored:        {MaxBytes: 1 << 20, Retention: jetstream.WorkQueuePolicy},
		Ledger:        {MaxBytes: -1},
		References:    {MaxBytes: -1, MaxMsgsPerSubject: 1},
		SetAside:      {MaxBytes: -1, MaxMsgsPerSubject: 1},
		JournalStream: {MaxBytes: -1, MaxAge: 14 * 24 * time.Hour},
	} {
		s, err := bus.js.Stream(t.Context(), name)
		require.NoError(t, err)
		have := s.CachedInfo().Config
		require.Equal(t, want.MaxBytes, have.MaxBytes, name)
		require.Equal(t, want.Retention, have.Retention, name)
		require.Equal(t, want.MaxAge, have.MaxAge, name)
		require.Equal(t, want.MaxMsgsPerSubject == 1, have.MaxMsgsPerSubject == 1, name)
		require.Equal(t, jetstream.DiscardNew, have.Discard, name)
	}

	// A process that may not change the consumer signals progress by the wait that it has.
	nc, err = s.Connect()
	require.NoError(t, err)
	slow := Defaults()
	slow.AckWait, slow.Manage = time.Minute, false
	guest, err := New(t.Context(), nc, nil, slow)
	require.NoError(t, err)
	defer guest.Close()
	q, err := NewQueue[string](t.Context(), guest, Prompts, "r1")
	require.NoError(t, err)
	require.Equal(t, 3*time.Second, q.holdEvery)
}

func TestManyCandidatesForANewRunHaveOneLeaderAndNoError(t *testing.T) {
	t.Parallel()
	bus, _ := serverOfItsOwn(t)
	var won atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		all.Go(func() {
			ok, err := NewLease(bus, "r1", time.Hour).TryAcquire(t.Context(), "a:1", false)
			if errs[i] = err; ok {
				won.Add(1)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, won.Load())
}

// An entry whose answer was lost is sent again: it must not count as another writer's, nor stand there twice.
func TestAnEntryWhoseAnswerWasLostIsStoredOnce(t *testing.T) {
	t.Parallel()
	bus, _ := serverOfItsOwn(t)
	log, _, err := OpenLog[string](t.Context(), bus, Ledger, "r1")
	require.NoError(t, err)
	msg, err := bus.message(t.Context(), subject("r1", Ledger, "log"), "entry")
	require.NoError(t, err)
	msg.Header.Set(entryHeader, "one")
	before := log.last
	require.NoError(t, log.try(t.Context(), msg))
	log.last = before // as if no answer had come
	require.NoError(t, log.try(t.Context(), msg))
	require.NoError(t, log.Append(t.Context(), "next"))
	entries, err := ReadLog[string](t.Context(), bus, Ledger, "r1")
	require.NoError(t, err)
	require.Equal(t, []string{"entry", "next"}, entries)

	j, _, err := OpenJournal[string](t.Context(), bus, "r1", "d-0", 0)
	require.NoError(t, err)
	last, n := j.last, j.n
	require.NoError(t, j.Append(t.Context(), "entry"))
	j.last, j.n = last, n
	require.NoError(t, j.Append(t.Context(), "entry"))
	require.NoError(t, j.Append(t.Context(), "next"))
	_, entries, err = OpenJournal[string](t.Context(), bus, "r1", "d-0", 0)
	require.NoError(t, err)
	require.Equal(t, []string{"entry", "next"}, entries)
}

func TestAJournalThatLostItsBeginningIsBegunAnewAndAFreedOneRefusesForAnHour(t *testing.T) {
	t.Parallel()
	bus, _ := serverOfItsOwn(t)
	blobs, err := blob.OpenDir(t.TempDir())
	require.NoError(t, err)
	defer blobs.Close()
	bus.blobs = blobs
	j, _, err := OpenJournal[string](t.Context(), bus, "r1", "d-0", 0)
	require.NoError(t, err)
	for _, v := range []string{"a", "b"} {
		require.NoError(t, j.Append(t.Context(), v))
	}
	s, err := bus.js.Stream(t.Context(), JournalStream)
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context(), jetstream.WithPurgeSequence(j.last)))
	next, entries, err := OpenJournal[string](t.Context(), bus, "r1", "d-0", 0)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.ErrorIs(t, j.Append(t.Context(), "c"), ErrFenced)
	require.NoError(t, next.Append(t.Context(), "a"))

	require.NoError(t, bus.FreeJournals(t.Context(), "r1", "d-0", 1))
	m, _, err := bus.lastOf(t.Context(), JournalStream, j.subj)
	require.NoError(t, err)
	require.Equal(t, "1h0m0s", m.Header.Get(jetstream.MsgTTLHeader))
}

func TestAPartOfAnotherContentIsRefused(t *testing.T) {
	t.Parallel()
	bus, _ := serverOfItsOwn(t)
	blobs, err := blob.OpenDir(t.TempDir())
	require.NoError(t, err)
	defer blobs.Close()
	bus.blobs = blobs
	big := make([]byte, 2*partLimit)
	_, _ = rand.Read(big)
	msg, err := bus.message(t.Context(), subject("r1", Prompts, "d-0"), hex.EncodeToString(big))
	require.NoError(t, err)
	name := msg.Header.Get(partHeader)
	require.NotEmpty(t, name)
	var back string
	require.NoError(t, bus.decode(t.Context(), msg.Header, msg.Data, &back))
	other, err := bus.message(t.Context(), subject("r1", Prompts, "d-1"), "another value")
	require.NoError(t, err)
	require.NoError(t, blobs.Put(t.Context(), name, other.Data))
	require.ErrorContains(t, bus.decode(t.Context(), msg.Header, nil, &back), "content has digest")
}
