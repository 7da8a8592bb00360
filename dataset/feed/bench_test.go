package feed_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/dataset/parquet"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
)

// gigabyte is a run of one batch of 1 GiB in a directory store: 16 rows with 64 MiB each that do not compress.
func gigabyte(b *testing.B) (*memory, feed.Batch) {
	b.Helper()
	store, err := blob.OpenDir(b.TempDir())
	require.NoError(b, err)
	b.Cleanup(func() { _ = store.Close() })
	m := &memory{store: store, changed: make(chan struct{}), cursors: map[string]feed.Position{}, dropped: map[int64]bool{}}
	rows := make([]dataset.Row, 16)
	for i := range rows {
		experts := randomBytes(64 << 20)
		rows[i] = dataset.Row{
			RowIdx: int32(i), UID: "a-0", SessionID: int32(i), RolloutID: fmt.Sprintf("r/a-0/%d", i), RewardStatus: "ok", LossValid: true,
			PromptIDs: []int32{1}, ResponseIDs: []int32{2}, ResponseMask: []int8{1}, RolloutLogProbs: []float32{-1},
			Spans: []dataset.Span{{End: 1, Kind: "sampled"}}, TerminationReason: "submitted", RoutedExperts: &experts,
		}
	}
	var file bytes.Buffer
	meta := dataset.Meta{Run: "run", Model: "m", PromptLength: 8, ResponseLength: 16, OverlongOwner: dataset.OverlongNone}
	require.NoError(b, parquet.Write(&file, meta, rows))
	sum := sha256.Sum256(file.Bytes())
	require.NoError(b, store.Put(b.Context(), "big", file.Bytes()))
	r := feed.Batch{Sequence: 1, Object: "big", Size: int64(file.Len()), SHA256: hex.EncodeToString(sum[:]), Rows: len(rows)}
	require.GreaterOrEqual(b, r.Size, int64(1<<30))
	m.batches, m.complete = []feed.Batch{r}, true
	return m, r
}

// BenchmarkDeliveryOf1GiB is a whole batch over loopback without TLS, to a Go client in the same process.
func BenchmarkDeliveryOf1GiB(b *testing.B) { deliver(b, false) }

// BenchmarkDeliveryOf1GiBWithChecksums: the client also checks every chunk and the whole.
func BenchmarkDeliveryOf1GiBWithChecksums(b *testing.B) { deliver(b, true) }

func deliver(b *testing.B, check bool) {
	b.Helper()
	m, r := gigabyte(b)
	server := serveB(b, m.source())
	client := pb.NewRolloutServiceClient(server)
	b.SetBytes(r.Size)
	best := time.Hour
	for b.Loop() {
		start := time.Now()
		stream, err := client.StreamBatches(b.Context(), &pb.StreamBatchesRequest{})
		require.NoError(b, err)
		n, whole := int64(0), sha256.New()
		for {
			c, err := stream.Recv()
			require.NoError(b, err)
			if check {
				require.Equal(b, c.GetCrc32(), crc32.ChecksumIEEE(c.GetData()))
				whole.Write(c.GetData())
			}
			if n += int64(len(c.GetData())); c.GetLast() {
				break
			}
		}
		require.Equal(b, r.Size, n)
		require.True(b, !check || hex.EncodeToString(whole.Sum(nil)) == r.SHA256)
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(r.Size)/best.Seconds()/1e6, "best-MB/s")
}

// BenchmarkDeliveryOf1GiBToPython is the same with verigraph.Feed, which checks every chunk and the whole and opens the batch.
func BenchmarkDeliveryOf1GiBToPython(b *testing.B) {
	root, err := filepath.Abs("../..")
	require.NoError(b, err)
	m, r := gigabyte(b)
	addr := addrB(b, m.source())
	const script = `
import sys, time
from verigraph import Feed
with Feed(sys.argv[1]) as feed:
    start = time.monotonic()
    batch = next(feed.batches())
    print(time.monotonic() - start)
assert batch.num_rows == 16
`
	b.SetBytes(r.Size)
	best := math.Inf(1)
	for b.Loop() {
		cmd := exec.Command(filepath.Join(root, ".venv/client/bin/python"), "-c", script, addr)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "clients/python/src"))
		out, err := cmd.CombinedOutput()
		require.NoError(b, err, string(out))
		seconds, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		require.NoError(b, err)
		best = min(best, seconds)
	}
	b.ReportMetric(float64(r.Size)/best/1e6, "best-MB/s") // without the interpreter's start
}

// addrB serves a source for a benchmark.
func addrB(b *testing.B, source feed.Source) string {
	b.Helper()
	server, err := feed.New(source, feed.Defaults())
	require.NoError(b, err)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, lis) }()
	b.Cleanup(func() { cancel(); require.NoError(b, <-done) })
	return lis.Addr().String()
}

func serveB(b *testing.B, source feed.Source) *grpc.ClientConn {
	b.Helper()
	conn, err := grpc.NewClient(addrB(b, source), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}
