package jetstream_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/jetstream"
)

// accounts starts a server with the accounts that the operations page shows.
func accounts(t *testing.T) (url string) {
	t.Helper()
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "```conf\n")
	require.True(t, ok, "the page has no block of accounts")
	conf, _, _ := strings.Cut(rest, "```")
	file := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(conf), 0o600))
	opts, err := server.ProcessConfigFile(file)
	require.NoError(t, err)
	opts.Host, opts.Port, opts.StoreDir, opts.NoSigs, opts.NoLog = "127.0.0.1", server.RANDOM_PORT, t.TempDir(), true, true
	s, err := server.NewServer(opts)
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(10*time.Second))
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s.ClientURL()
}

// TestRunsWithAccountsOfTheirOwnSeeNothingOfEachOther: even under one name, with every right of their own account.
func TestRunsWithAccountsOfTheirOwnSeeNothingOfEachOther(t *testing.T) {
	t.Parallel()
	url := accounts(t)
	blobs, err := blob.OpenDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = blobs.Close() })
	open := func(user string) (*jetstream.Bus, natsjs.JetStream) {
		nc, err := jetstream.Dial(strings.Replace(url, "://", "://"+user+":change-me@", 1), "", "r1")
		require.NoError(t, err)
		bus, err := jetstream.New(t.Context(), nc, blobs, jetstream.Defaults())
		require.NoError(t, err)
		t.Cleanup(bus.Close)
		js, err := natsjs.New(nc)
		require.NoError(t, err)
		return bus, js
	}
	first, _ := open("first")
	second, js := open("second")
	q, err := jetstream.NewQueue[item](t.Context(), first, jetstream.Prompts, "r1")
	require.NoError(t, err)
	require.NoError(t, q.Publish(t.Context(), "r1", "d-0", item{N: 1}))
	require.NoError(t, first.PutReference(t.Context(), "r1", "p", item{N: 42}))
	require.NoError(t, first.PutState(t.Context(), "policy.r1", item{N: 7}))
	journal, _, err := jetstream.OpenJournal[item](t.Context(), first, "r1", "d-0", 0)
	require.NoError(t, err)
	require.NoError(t, journal.Append(t.Context(), item{N: 3}))

	stored := uint64(0)
	for s := range js.ListStreams(t.Context()).Info() {
		stored += s.State.Msgs
	}
	require.Zero(t, stored, "messages in the second account's streams")
	require.ErrorIs(t, second.GetReference(t.Context(), "r1", "p", &item{}), jetstream.ErrNoReference)
	ok, err := second.GetState(t.Context(), "policy.r1", &item{})
	require.NoError(t, err)
	require.False(t, ok)
	entries, err := jetstream.ReadJournal[item](t.Context(), second, "r1", "d-0", 0)
	require.NoError(t, err)
	require.Empty(t, entries)
	other, err := jetstream.NewQueue[item](t.Context(), second, jetstream.Prompts, "r1")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = other.Receive(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	m := receive(t, q)
	require.Equal(t, 1, m.Value.N, "its owner gets it")
	require.NoError(t, m.Ack(t.Context()))
	var answer item
	require.NoError(t, first.GetReference(t.Context(), "r1", "p", &answer))
	require.Equal(t, 42, answer.N)
}
