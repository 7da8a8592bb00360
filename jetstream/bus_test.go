package jetstream_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/jetstream"
)

func TestMain(m *testing.M) { patience.Main(m) }

type item struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

type fixture struct {
	bus   *jetstream.Bus
	blobs *blob.Store
	dir   string
}

// start opens a bus on an embedded server; the store lives in dir, so that a test can restart it.
func start(t testing.TB, dir string, cfg jetstream.Config) (fixture, func()) {
	t.Helper()
	server, err := jetstream.StartServer(jetstream.ServerConfig{Dir: filepath.Join(dir, "nats")})
	require.NoError(t, err)
	nc, err := server.Connect()
	require.NoError(t, err)
	blobs, err := blob.OpenDir(dir)
	require.NoError(t, err)
	bus, err := jetstream.New(t.Context(), nc, blobs, cfg)
	require.NoError(t, err)
	return fixture{bus, blobs, dir}, func() {
		bus.Close()
		server.Stop()
		_ = blobs.Close()
	}
}

func open(t testing.TB, cfg jetstream.Config) fixture {
	t.Helper()
	f, stop := start(t, t.TempDir(), cfg)
	t.Cleanup(stop)
	return f
}

func queue(t *testing.T, f fixture, stream string) *jetstream.Queue[item] {
	t.Helper()
	q, err := jetstream.NewQueue[item](t.Context(), f.bus, stream, "r1")
	require.NoError(t, err)
	return q
}

func receive(t *testing.T, q *jetstream.Queue[item]) *jetstream.Message[item] {
	t.Helper()
	m, err := q.Receive(patience.Context(t))
	require.NoError(t, err)
	return m
}

func TestValueLeavesItsQueueOnlyWithTheAck(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	q := queue(t, f, jetstream.Prompts)
	require.NoError(t, q.Publish(t.Context(), "r1", "d-0", item{N: 7}))
	m := receive(t, q)
	require.Equal(t, item{N: 7}, m.Value)
	keys, err := f.bus.Keys(t.Context(), jetstream.Prompts, "r1")
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"d-0": 1}, keys, "a held message is an open lease")
	require.NoError(t, m.Ack(t.Context()))
	keys, err = f.bus.Keys(t.Context(), jetstream.Prompts, "r1")
	require.NoError(t, err)
	require.Empty(t, keys)
}

func TestNakGivesTheValueBackAndCountsTheDelivery(t *testing.T) {
	t.Parallel()
	q := queue(t, open(t, jetstream.Defaults()), jetstream.Prompts)
	require.NoError(t, q.Publish(t.Context(), "r1", "d-0", item{N: 1}))
	m := receive(t, q)
	require.Equal(t, 1, m.Deliveries)
	require.NoError(t, m.Nak(0))
	m = receive(t, q)
	require.Equal(t, 2, m.Deliveries)
	require.NoError(t, m.Ack(t.Context()))
}

func TestHeldValueIsNotHandedOutAgainAfterTheAckWait(t *testing.T) {
	t.Parallel()
	cfg := jetstream.Defaults()
	cfg.AckWait = 4 * time.Second
	q := queue(t, open(t, cfg), jetstream.Prompts)
	require.NoError(t, q.Publish(t.Context(), "r1", "d-0", item{N: 1}))
	m := receive(t, q)
	ctx, cancel := context.WithTimeout(t.Context(), cfg.AckWait*5/4)
	defer cancel()
	_, err := q.Receive(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded, "progress signals keep the lease for longer than the ack wait")
	require.NoError(t, m.Ack(t.Context()))
}

func TestSecondPublishOfAWaitingKeyIsNotStored(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	q := queue(t, f, jetstream.Backlog)
	for range 3 {
		require.NoError(t, q.Publish(t.Context(), "r1", "p", item{N: 1}))
	}
	keys, err := f.bus.Keys(t.Context(), jetstream.Backlog, "r1")
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"p": 1}, keys)
}

func TestRunsDoNotSeeEachOthersValues(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	q := queue(t, f, jetstream.Prompts)
	other, err := jetstream.NewQueue[item](t.Context(), f.bus, jetstream.Prompts, "r2")
	require.NoError(t, err)
	require.NoError(t, other.Publish(t.Context(), "r2", "d-0", item{N: 2}))
	require.NoError(t, q.Publish(t.Context(), "r1", "d-0", item{N: 1}))
	m := receive(t, q)
	require.Equal(t, 1, m.Value.N)
	require.NoError(t, m.Ack(t.Context()))
	m2 := receive(t, other)
	require.Equal(t, 2, m2.Value.N)
	require.NoError(t, m2.Ack(t.Context()))
}

func TestLargeValueTravelsThroughTheBlobStore(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	q := queue(t, f, jetstream.Trajectories)
	// Random-looking text, so that compression does not make it small.
	var b strings.Builder
	x := uint64(88172645463325252)
	for b.Len() < 2<<20 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b.WriteString(string(rune('!' + x%90)))
	}
	want := item{N: 3, Text: b.String()}
	require.NoError(t, q.Publish(t.Context(), "r1", "d-0", want))
	parts, err := os.ReadDir(filepath.Join(f.dir, "parts"))
	require.NoError(t, err)
	require.Len(t, parts, 1)
	m := receive(t, q)
	require.Equal(t, want, m.Value)
	require.NoError(t, m.Ack(t.Context()))

	require.NoError(t, q.Publish(t.Context(), "r1", "d-1", want))
	require.NoError(t, f.bus.DeleteParts(t.Context(), "r1", "d-0"))
	files, err := filepath.Glob(filepath.Join(f.dir, "parts", "r1", "*", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		require.Equal(t, "d-1", filepath.Base(filepath.Dir(file)), "those of d-0 are freed")
	}
	m = receive(t, q)
	require.Equal(t, want, m.Value)
	require.NoError(t, m.Ack(t.Context()))
	require.NoError(t, f.bus.DeleteParts(t.Context(), "r1", "d-0"), "freed already")
}

func TestUnreadableValueIsSetAsideAndDoesNotBlockTheNext(t *testing.T) {
	t.Parallel()
	cfg := jetstream.Defaults()
	cfg.MaxDeliver = 1
	f := open(t, cfg)
	bad, err := jetstream.NewQueue[string](t.Context(), f.bus, jetstream.Prompts, "r1")
	require.NoError(t, err)
	require.NoError(t, bad.Publish(t.Context(), "r1", "bad-0", "not an item"))
	q := queue(t, f, jetstream.Prompts)
	require.NoError(t, q.Publish(t.Context(), "r1", "good-0", item{N: 5}))
	m := receive(t, q)
	require.Equal(t, 5, m.Value.N)
	require.NoError(t, m.Ack(t.Context()))
	aside, err := f.bus.Keys(t.Context(), jetstream.SetAside, "r1")
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"bad-0": 1}, aside)
}

func TestSecondWriterOfALogIsFenced(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	old, entries, err := jetstream.OpenLog[item](t.Context(), f.bus, jetstream.Ledger, "r1")
	require.NoError(t, err)
	require.Empty(t, entries)
	require.NoError(t, old.Append(t.Context(), item{N: 1}))
	next, entries, err := jetstream.OpenLog[item](t.Context(), f.bus, jetstream.Ledger, "r1")
	require.NoError(t, err)
	require.Equal(t, []item{{N: 1}}, entries)
	require.ErrorIs(t, old.Append(t.Context(), item{N: 3}), jetstream.ErrFenced, "before the next one has written anything")
	require.NoError(t, next.Append(t.Context(), item{N: 2}))
	require.ErrorIs(t, old.Append(t.Context(), item{N: 3}), jetstream.ErrFenced)
	read, err := jetstream.ReadLog[item](t.Context(), f.bus, jetstream.Ledger, "r1")
	require.NoError(t, err)
	require.Equal(t, []item{{N: 1}, {N: 2}}, read)
	require.NoError(t, next.Append(t.Context(), item{N: 4}), "reading takes nothing over")
	_, entries, err = jetstream.OpenLog[item](t.Context(), f.bus, jetstream.Ledger, "r1")
	require.NoError(t, err)
	require.Equal(t, []item{{N: 1}, {N: 2}, {N: 4}}, entries)
}

func TestALogThatIsReadAlongIsTakenOverWithWhatCameSince(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	old, _, err := jetstream.OpenLog[item](t.Context(), f.bus, jetstream.Ledger, "r1")
	require.NoError(t, err)
	along := jetstream.NewLogReader[item](f.bus, jetstream.Ledger, "r1")
	for n := range 3 {
		require.NoError(t, old.Append(t.Context(), item{N: n}))
		got, err := along.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, []item{{N: n}}, got)
	}
	got, err := along.Read(t.Context())
	require.NoError(t, err)
	require.Empty(t, got)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, old.Append(t.Context(), item{N: 3}))
	got, err = along.Read(ended)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, got, "and nothing is passed over")
	next, got, err := along.TakeOver(t.Context())
	require.NoError(t, err)
	require.Equal(t, []item{{N: 3}}, got)
	require.ErrorIs(t, old.Append(t.Context(), item{N: 4}), jetstream.ErrFenced)
	require.NoError(t, next.Append(t.Context(), item{N: 4}))
}

func TestLogQueueAndStateSurviveARestartOfTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, stop := start(t, dir, jetstream.Defaults())
	l, _, err := jetstream.OpenLog[item](t.Context(), f.bus, jetstream.Batches, "r1")
	require.NoError(t, err)
	require.NoError(t, l.Append(t.Context(), item{N: 1}))
	require.NoError(t, queue(t, f, jetstream.Scored).Publish(t.Context(), "r1", "d-0", item{N: 2}))
	require.NoError(t, f.bus.PutState(t.Context(), "cursor.r1.trainer", 4))
	epoch, err := f.bus.NextEpoch(t.Context(), "r1")
	require.NoError(t, err)
	require.EqualValues(t, 1, epoch)
	stop()

	f, stop = start(t, dir, jetstream.Defaults())
	defer stop()
	_, entries, err := jetstream.OpenLog[item](t.Context(), f.bus, jetstream.Batches, "r1")
	require.NoError(t, err)
	require.Equal(t, []item{{N: 1}}, entries)
	m := receive(t, queue(t, f, jetstream.Scored))
	require.Equal(t, 2, m.Value.N)
	require.NoError(t, m.Ack(t.Context()))
	var cursor int
	found, err := f.bus.GetState(t.Context(), "cursor.r1.trainer", &cursor)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, 4, cursor)
	for want := range int64(3) {
		epoch, err = f.bus.NextEpoch(t.Context(), "r1")
		require.NoError(t, err)
		require.Equal(t, want+2, epoch, "none has it twice")
	}
}

func TestReferenceOfAnUnknownPromptIsATypedError(t *testing.T) {
	t.Parallel()
	f := open(t, jetstream.Defaults())
	require.NoError(t, f.bus.PutReference(t.Context(), "r1", "p", item{N: 9}))
	var got item
	require.NoError(t, f.bus.GetReference(t.Context(), "r1", "p", &got))
	require.Equal(t, 9, got.N)
	require.ErrorIs(t, f.bus.GetReference(t.Context(), "r1", "q", &got), jetstream.ErrNoReference)
}

func TestConfigNamesEveryWrongKey(t *testing.T) {
	t.Parallel()
	require.NoError(t, jetstream.Defaults().Validate())
	err := jetstream.Config{
		AckWait: time.Millisecond, MaxDeliver: 0, Replicas: 9, Storage: "tape", MaxBytes: map[string]int64{"PROMTS": 1 << 30, "LEDGER": 100},
	}.Validate()
	for _, key := range []string{
		"nats.ack_wait", "nats.max_deliver", "nats.replicas", "nats.max_ack_pending", "nats.storage", `no stream is called "PROMTS"`, "nats.max_bytes.LEDGER: 100",
	} {
		require.ErrorContains(t, err, key)
	}
	for replicas, fits := range map[int]bool{1: true, 2: false, 3: true, 4: false, 5: true} {
		cfg := jetstream.Defaults()
		cfg.Replicas = replicas
		require.Equal(t, fits, cfg.Validate() == nil, "replicas %d", replicas)
	}
	require.Error(t, jetstream.CheckRun("a_b"))
	require.Error(t, jetstream.CheckRun("a.b"))
	require.NoError(t, jetstream.CheckRun("run-1"))
}

func TestPasswordOfTheServerURLStaysOutOfErrors(t *testing.T) {
	t.Parallel()
	_, err := jetstream.Dial("nats://user:hunter2@127.0.0.1:1", "", "r1")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
}
