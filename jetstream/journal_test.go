package jetstream_test

import (
	"crypto/rand"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/jetstream"
)

func openJournal(t *testing.T, f fixture) (*jetstream.Journal[item], []item) {
	t.Helper()
	j, entries, err := jetstream.OpenJournal[item](t.Context(), f.bus, "r1", "d-0", 2)
	require.NoError(t, err)
	return j, entries
}

func TestJournalGivesTheNextWriterAllEntriesAndRefusesTheOneBefore(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	first, entries := openJournal(t, f)
	require.Empty(t, entries)
	want := []item{{N: 1}, {N: 2, Text: random(t, 400_000)}, {N: 3}} // the second one travels through the blob store
	for _, e := range want {
		require.NoError(t, first.Append(t.Context(), e))
	}
	second, entries := openJournal(t, f)
	require.Equal(t, want, entries)
	require.ErrorIs(t, first.Append(t.Context(), item{N: 4}), jetstream.ErrFenced, "also before the second one wrote anything")
	require.NoError(t, second.Append(t.Context(), item{N: 5}))
	_, entries = openJournal(t, f)
	require.Equal(t, append(want, item{N: 5}), entries)
}

func TestFreedJournalIsEmptyAndRefusesAWriterThatSleptThroughIt(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	late, _ := openJournal(t, f)
	require.NoError(t, late.Append(t.Context(), item{N: 1, Text: random(t, 400_000)}))
	require.NoError(t, f.bus.FreeJournals(t.Context(), "r1", "d-0", 3))
	names, err := f.blobs.Names(t.Context(), "parts/")
	require.NoError(t, err)
	require.Empty(t, names)
	require.ErrorIs(t, late.Append(t.Context(), item{N: 2}), jetstream.ErrFenced)
	again, entries := openJournal(t, f)
	require.Empty(t, entries)
	require.NoError(t, again.Append(t.Context(), item{N: 3}))
	_, entries = openJournal(t, f)
	require.Equal(t, []item{{N: 3}}, entries)
	require.NoError(t, f.bus.PurgeJournals(t.Context(), "r1", "d-0"))
	keys, err := f.bus.Keys(t.Context(), jetstream.JournalStream, "r1")
	require.NoError(t, err)
	require.NotContains(t, keys, "d-0.2")
}

func TestJournalThatLostAPartIsBegunAnew(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	j, _ := openJournal(t, f)
	require.NoError(t, j.Append(t.Context(), item{N: 1, Text: random(t, 400_000)}))
	require.NoError(t, j.Append(t.Context(), item{N: 2}))
	require.NoError(t, f.blobs.DeleteAll(t.Context(), "parts/"))
	_, entries := openJournal(t, f)
	require.Empty(t, entries)
}

func TestQueueHoldsAMessageUntilItsAck(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	q := queue(t, f, jetstream.Prompts)
	require.NoError(t, q.Publish(t.Context(), "r1", "d-0", item{N: 1}))
	m := receive(t, q)
	held, err := f.bus.Holds(t.Context(), jetstream.Prompts, "r1", "d-0")
	require.NoError(t, err)
	require.True(t, held)
	require.NoError(t, m.Ack(t.Context()))
	held, err = f.bus.Holds(t.Context(), jetstream.Prompts, "r1", "d-0")
	require.NoError(t, err)
	require.False(t, held)
}

// random is text that does not compress below half its length.
func random(t *testing.T, n int) string {
	t.Helper()
	b := make([]byte, n)
	_, err := rand.Read(b)
	require.NoError(t, err)
	return hex.EncodeToString(b)
}
