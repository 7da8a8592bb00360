package feed_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/internal/patience"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
)

func TestMain(m *testing.M) { patience.Main(m) }

// memory is a run in memory, with real objects in a directory.
type memory struct {
	store *blob.Store

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change
	batches  []feed.Batch
	complete bool
	cursors  map[string]feed.Position
	dropped  map[int64]bool
	freed    int64

	submitted []feed.Submission
	final     bool
	submitErr error
}

func newMemory(t *testing.T) *memory {
	t.Helper()
	store, err := blob.OpenDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return &memory{store: store, changed: make(chan struct{}), cursors: map[string]feed.Position{}, dropped: map[int64]bool{}}
}

func (m *memory) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	close(m.changed)
	m.changed = make(chan struct{})
}

// add stores an object and appends its record.
func (m *memory) add(t *testing.T, data []byte, edit ...func(*feed.Batch)) feed.Batch {
	t.Helper()
	sum := sha256.Sum256(data)
	var b feed.Batch
	m.change(func() {
		b = feed.Batch{
			Sequence: int64(len(m.batches) + 1), Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:]),
			Groups: 2, Rollouts: 4, Rows: 5, PolicyVersionMin: 1, PolicyVersionMax: 2, Epoch: 3,
		}
		b.Object = fmt.Sprintf("batches/%d-3.parquet", b.Sequence)
		for _, e := range edit {
			e(&b)
		}
		require.NoError(t, m.store.Put(t.Context(), b.Object, data))
		m.batches = append(m.batches, b)
	})
	return b
}

func (m *memory) finish() { m.change(func() { m.complete = true }) }

func (m *memory) Next(ctx context.Context, seq int64, kind feed.Kind) (feed.Batch, bool, error) {
	for {
		m.mu.Lock()
		changed, complete := m.changed, m.complete
		for ; seq <= int64(len(m.batches)); seq++ {
			if b := m.batches[seq-1]; kind.Takes(b.Validate) && !m.dropped[seq] {
				m.mu.Unlock()
				return b, true, nil
			}
		}
		m.mu.Unlock()
		if complete {
			return feed.Batch{}, false, nil
		}
		select {
		case <-ctx.Done():
			return feed.Batch{}, false, ctx.Err()
		case <-changed:
		}
	}
}

func (m *memory) Last(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.batches)), nil
}

func (m *memory) Freed(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.freed, nil
}

func (m *memory) Position(_ context.Context, cursor string) (feed.Position, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cursors[cursor], nil
}

func (m *memory) Change(_ context.Context, cursor string, f func(feed.Position) (feed.Position, error)) (feed.Position, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := f(m.cursors[cursor])
	if err == nil {
		m.cursors[cursor] = p
	}
	return m.cursors[cursor], err
}

func (m *memory) status(context.Context) (feed.Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return feed.Status{
		Run: "run\xff", Prompts: 9, Backlog: 8,
		Ledger: feed.Ledger{
			Dispatched: 28, Delivered: 1, Filtered: 2, Stale: 3, Unscored: 4, Failed: 5, SetAside: 6, InFlight: 7,
		},
		BatchesWritten: int64(len(m.batches)), BatchesAcknowledged: m.cursors[feed.TrainerCursor].Acknowledged, Complete: m.complete,
	}, nil
}

func (m *memory) submit(_ context.Context, prompts []feed.Submission, final bool) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.submitErr != nil {
		return 0, m.submitErr
	}
	m.submitted, m.final = append(m.submitted, prompts...), final
	return len(prompts), nil
}

func (m *memory) source() feed.Source {
	return feed.Source{Batches: m, Objects: m.store, Cursors: m, Status: m.status, Submit: m.submit}
}

// running is a server on loopback.
type running struct {
	addr string
	stop context.CancelFunc
	done chan error
}

func serve(t *testing.T, source feed.Source, opts feed.Options) *running {
	t.Helper()
	server, err := feed.New(source, opts)
	require.NoError(t, err)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{addr: lis.Addr().String(), stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- server.Serve(ctx, lis) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, patience.Receive(t, r.done, "the end of the server"))
		r.done <- nil
	})
	return r
}

func (r *running) dial(t *testing.T, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	if len(opts) == 0 {
		opts = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	conn, err := grpc.NewClient(r.addr, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// start serves a run with default options and returns a client of it.
func start(t *testing.T, m *memory) pb.RolloutServiceClient {
	t.Helper()
	return pb.NewRolloutServiceClient(serve(t, m.source(), feed.Defaults()).dial(t))
}
