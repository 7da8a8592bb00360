package jetstream_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/jetstream"
)

func short() jetstream.Config {
	cfg := jetstream.Defaults()
	cfg.AckWait = time.Second
	return cfg
}

func TestAMessageWhoseHolderDiedComesAgainAfterTheAckWait(t *testing.T) {
	t.Parallel()
	s, err := jetstream.StartServer(jetstream.ServerConfig{Dir: t.TempDir()})
	require.NoError(t, err)
	defer s.Stop()
	blobs, err := blob.OpenDir(t.TempDir())
	require.NoError(t, err)
	defer blobs.Close()
	connect := func() *jetstream.Bus {
		nc, err := s.Connect()
		require.NoError(t, err)
		bus, err := jetstream.New(t.Context(), nc, blobs, short())
		require.NoError(t, err)
		return bus
	}
	dead, alive := connect(), connect()
	defer alive.Close()
	q, err := jetstream.NewQueue[item](t.Context(), dead, jetstream.Prompts, "r1")
	require.NoError(t, err)
	require.NoError(t, q.Publish(t.Context(), "r1", "d-0", item{N: 1}))
	held := receive(t, q)
	dead.Close()
	require.Error(t, held.Nak(0), "nothing can be handed back any more")
	q, err = jetstream.NewQueue[item](t.Context(), alive, jetstream.Prompts, "r1")
	require.NoError(t, err)
	again := receive(t, q)
	require.Equal(t, 2, again.Deliveries)
	require.NoError(t, again.Ack(t.Context()))
}

func TestAHolderThatLostItsMessageAndTheNextOneStoreOneResult(t *testing.T) {
	t.Parallel()
	f := open(t, short())
	prompts, results := queue(t, f, jetstream.Prompts), queue(t, f, jetstream.Trajectories)
	require.NoError(t, prompts.Publish(t.Context(), "r1", "d-0", item{N: 1}))
	stalled := receive(t, prompts)
	stalled.Drop() // it signals no progress for longer than the ack wait
	next := receive(t, prompts)
	require.Equal(t, 2, next.Deliveries)
	for _, m := range []*jetstream.Message[item]{stalled, next} {
		require.NoError(t, results.Publish(t.Context(), "r1", "d-0", m.Value))
		require.NoError(t, m.Ack(t.Context()))
	}
	for stream, want := range map[string]map[string]uint64{jetstream.Prompts: {}, jetstream.Trajectories: {"d-0": 1}} {
		keys, err := f.bus.Keys(t.Context(), stream, "r1")
		require.NoError(t, err)
		require.Equal(t, want, keys, stream)
	}
}

func TestTheSameKeyIsANewMessageOnceTheFirstHasLeft(t *testing.T) {
	t.Parallel()
	q := queue(t, open(t, jetstream.Defaults()), jetstream.Prompts)
	for n := range 3 { // far within any window of duplicates
		require.NoError(t, q.Publish(t.Context(), "r1", "d-0", item{N: n}))
		m := receive(t, q)
		require.Equal(t, n, m.Value.N)
		require.NoError(t, m.Ack(t.Context()))
	}
}

func TestAParkedReceiverGetsMessagesAfterTheServerCameBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := jetstream.ServerConfig{Dir: filepath.Join(dir, "nats"), Listen: true}
	s, err := jetstream.StartServer(at)
	require.NoError(t, err)
	at.Port = s.Port()
	blobs, err := blob.OpenDir(dir)
	require.NoError(t, err)
	defer blobs.Close()
	nc, err := jetstream.Dial(s.URL(), "", "r1")
	require.NoError(t, err)
	bus, err := jetstream.New(t.Context(), nc, blobs, jetstream.Defaults())
	require.NoError(t, err)
	defer bus.Close()
	q := queue(t, fixture{bus: bus}, jetstream.Prompts)
	for n := range 2 {
		got := make(chan *jetstream.Message[item], 1)
		go func() {
			m, err := q.Receive(t.Context())
			if err == nil {
				got <- m
			}
			close(got)
		}()
		patience.Until(t, "the receiver is parked", func() bool {
			takers, err := bus.Takers(t.Context(), jetstream.Prompts, "r1")
			require.NoError(t, err)
			return takers.Asking > 0
		})
		s.Stop()
		s, err = jetstream.StartServer(at)
		require.NoError(t, err)
		inner, err := s.Connect()
		require.NoError(t, err)
		second, err := jetstream.New(t.Context(), inner, blobs, jetstream.Defaults())
		require.NoError(t, err)
		require.NoError(t, second.PublishOnce(t.Context(), jetstream.Prompts, "r1", "d", item{N: n}))
		second.Close()
		m := patience.Receive(t, got, "the message")
		require.NotNil(t, m)
		require.Equal(t, n, m.Value.N)
		require.NoError(t, m.Ack(t.Context()))
	}
	s.Stop()
}

func TestTakersTellWorkFromWaiting(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	are := func(want jetstream.Takers) { // a consumer counts a moment after the stream has stored
		t.Helper()
		patience.Until(t, fmt.Sprintf("%+v", want), func() bool {
			got, err := f.bus.Takers(t.Context(), jetstream.Prompts, "r1")
			require.NoError(t, err)
			return got == want
		})
	}
	require.NoError(t, f.bus.PublishOnce(t.Context(), jetstream.Prompts, "r1", "d-0", item{N: 1}))
	got, err := f.bus.Takers(t.Context(), jetstream.Prompts, "r1")
	require.NoError(t, err)
	require.Zero(t, got, "nobody ever took anything")
	q := queue(t, f, jetstream.Prompts)
	require.NoError(t, q.Publish(t.Context(), "r1", "d-1", item{N: 2}))
	are(jetstream.Takers{Queued: 2})
	m := receive(t, q)
	are(jetstream.Takers{Held: 1, Queued: 1})
	require.NoError(t, m.Ack(t.Context()))
	are(jetstream.Takers{Queued: 1})
}

func TestAServerWhoseMessagesMayBeTooSmallIsRefused(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 64 << 10, NoSigs: true, NoLog: true,
	})
	require.NoError(t, err)
	s.Start()
	defer s.Shutdown()
	require.True(t, s.ReadyForConnections(patience.Limit))
	nc, err := jetstream.Dial(s.ClientURL(), "", "r1")
	require.NoError(t, err)
	defer nc.Close()
	_, err = jetstream.New(t.Context(), nc, nil, jetstream.Defaults())
	require.ErrorContains(t, err, "max_payload is 65536 bytes")
}
