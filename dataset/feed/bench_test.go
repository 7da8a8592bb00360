package feed_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/dataset/feed"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
)

// gigabyte is a run of one batch of 1 GiB in a directory store.
func gigabyte(b *testing.B) (*memory, feed.Batch) {
	b.Helper()
	store, err := blob.OpenDir(b.TempDir())
	require.NoError(b, err)
	b.Cleanup(func() { _ = store.Close() })
	m := &memory{store: store, changed: make(chan struct{}), cursors: map[string]feed.Position{}, dropped: map[int64]bool{}}
	data := randomBytes(1 << 30)
	sum := sha256.Sum256(data)
	require.NoError(b, store.Put(b.Context(), "big", data))
	r := feed.Batch{Sequence: 1, Object: "big", Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
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
	for b.Loop() {
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
	}
}

// BenchmarkDeliveryOf1GiBToPython is the same with the Python package, checksums included.
func BenchmarkDeliveryOf1GiBToPython(b *testing.B) {
	root, err := filepath.Abs("../..")
	require.NoError(b, err)
	m, r := gigabyte(b)
	addr := addrB(b, m.source())
	const script = `
import hashlib, sys, time, zlib, grpc
from verigraph.v1 import rollout_service_pb2 as pb
from verigraph.v1.rollout_service_pb2_grpc import RolloutServiceStub
channel = grpc.insecure_channel(sys.argv[1], options=[("grpc.max_receive_message_length", 8 << 20), ("grpc.enable_http_proxy", 0)])
start, data = time.monotonic(), bytearray()
for chunk in RolloutServiceStub(channel).StreamBatches(pb.StreamBatchesRequest()):
    assert zlib.crc32(chunk.data) == chunk.crc32
    data += chunk.data
assert hashlib.sha256(data).hexdigest() == sys.argv[2]
print(len(data) / (time.monotonic() - start) / 1e6, "MB/s with checksums")
`
	b.SetBytes(r.Size)
	for b.Loop() {
		cmd := exec.Command(filepath.Join(root, ".venv/client/bin/python"), "-c", script, addr, r.SHA256)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "clients/python/src"))
		out, err := cmd.CombinedOutput()
		require.NoError(b, err, string(out))
		fmt.Print(string(out))
	}
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
