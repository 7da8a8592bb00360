package feed_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/internal/patience"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
)

const chunk = 512 << 10

func randomBytes(n int) []byte {
	data := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(data)
	return data
}

// receive reads one whole batch and checks its chunks.
func receive(t *testing.T, stream grpc.ServerStreamingClient[pb.BatchChunk], offset int64) ([]byte, *pb.BatchInfo) {
	t.Helper()
	var data []byte
	var info *pb.BatchInfo
	for first := true; ; first = false {
		c, err := stream.Recv()
		require.NoError(t, err)
		require.Equal(t, offset+int64(len(data)), c.GetOffset())
		require.LessOrEqual(t, len(c.GetData()), chunk)
		require.Equal(t, first, c.GetInfo() != nil, "the first chunk of a batch, and only that, carries its record")
		if first {
			info = c.GetInfo()
		}
		require.Equal(t, info.GetSequence(), c.GetSequence())
		data = append(data, c.GetData()...)
		if c.GetLast() {
			return data, info
		}
	}
}

func TestStreamDeliversEveryBatchInOrderByteForByteAndEndsWithTheRun(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	var want [][]byte
	for _, size := range []int{1, chunk - 1, chunk, chunk + 1, 5<<20 + 17} { // the last is over gRPC's message limit
		want = append(want, randomBytes(size))
		m.add(t, want[len(want)-1])
	}
	m.finish()
	stream, err := start(t, m).StreamBatches(t.Context(), &pb.StreamBatchesRequest{})
	require.NoError(t, err)
	for i, data := range want {
		got, info := receive(t, stream, 0)
		sum := sha256.Sum256(got)
		assert.Equal(t, int64(i+1), info.GetSequence())
		assert.Equal(t, hex.EncodeToString(sum[:]), info.GetSha256())
		assert.Equal(t, int64(len(data)), info.GetSize())
		assert.Equal(t, int32(5), info.GetRows())
		assert.Equal(t, int64(3), info.GetEpoch())
	}
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)
}

func TestStreamWaitsForBatchesThatDoNotExistYet(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	stream, err := start(t, m).StreamBatches(t.Context(), &pb.StreamBatchesRequest{})
	require.NoError(t, err)
	for i := range 3 {
		m.add(t, []byte{byte(i)})
		got, _ := receive(t, stream, 0)
		require.Equal(t, []byte{byte(i)}, got)
	}
	m.finish()
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)
}

func TestStreamResumesInsideABatchAtAnyOffset(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	data := randomBytes(chunk + 100)
	m.add(t, []byte("first"))
	m.add(t, data)
	m.add(t, []byte("third"))
	m.finish()
	client := start(t, m)
	for _, offset := range []int64{1, chunk, int64(len(data)) - 1, int64(len(data))} {
		stream, err := client.StreamBatches(t.Context(), &pb.StreamBatchesRequest{FromSequence: 2, Offset: offset})
		require.NoError(t, err)
		got, info := receive(t, stream, offset)
		assert.Equal(t, int64(2), info.GetSequence())
		assert.Equal(t, data[offset:], append([]byte{}, got...))
		got, _ = receive(t, stream, 0)
		assert.Equal(t, "third", string(got))
		_, err = stream.Recv()
		require.ErrorIs(t, err, io.EOF)
	}
}

func TestAnUnacknowledgedBatchIsServedAgainAndAnAcknowledgedOneNever(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	for i := range 3 {
		m.add(t, []byte{byte(i)})
	}
	m.finish()
	client := start(t, m)
	sequences := func(req *pb.StreamBatchesRequest) (got []int64) {
		stream, err := client.StreamBatches(t.Context(), req)
		require.NoError(t, err)
		for {
			c, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return got
			}
			require.NoError(t, err)
			got = append(got, c.GetSequence())
		}
	}
	assert.Equal(t, []int64{1, 2, 3}, sequences(&pb.StreamBatchesRequest{}))
	assert.Equal(t, []int64{1, 2, 3}, sequences(&pb.StreamBatchesRequest{}), "nothing was acknowledged")
	_, err := client.Ack(t.Context(), &pb.AckRequest{Sequence: 2})
	require.NoError(t, err)
	assert.Equal(t, []int64{3}, sequences(&pb.StreamBatchesRequest{}))
	assert.Equal(t, []int64{3}, sequences(&pb.StreamBatchesRequest{Cursor: "trainer"}))
	assert.Equal(t, []int64{1, 2, 3}, sequences(&pb.StreamBatchesRequest{Cursor: "viewer"}), "cursors are apart")
	assert.Empty(t, sequences(&pb.StreamBatchesRequest{FromSequence: 4}))
	stream, err := client.StreamBatches(t.Context(), &pb.StreamBatchesRequest{FromSequence: 2})
	require.NoError(t, err)
	_, err = stream.Recv()
	assert.Equal(t, codes.FailedPrecondition, status.Code(err))
}

func TestAStreamRequestThatCannotSucceedIsRefused(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	m.add(t, []byte("abc"))
	m.finish()
	client := start(t, m)
	for _, c := range []struct {
		name string
		req  *pb.StreamBatchesRequest
		code codes.Code
	}{
		{"negative sequence", &pb.StreamBatchesRequest{FromSequence: -1}, codes.InvalidArgument},
		{"negative offset", &pb.StreamBatchesRequest{FromSequence: 1, Offset: -1}, codes.InvalidArgument},
		{"offset without a batch", &pb.StreamBatchesRequest{Offset: 1}, codes.InvalidArgument},
		{"offset past the end", &pb.StreamBatchesRequest{FromSequence: 1, Offset: 4}, codes.InvalidArgument},
		{"cursor with a dot", &pb.StreamBatchesRequest{Cursor: "a.b"}, codes.InvalidArgument},
		{"batch after the last", &pb.StreamBatchesRequest{FromSequence: 3}, codes.NotFound},
		{"inside the batch after the last", &pb.StreamBatchesRequest{FromSequence: 2, Offset: 1}, codes.NotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			stream, err := client.StreamBatches(t.Context(), c.req)
			require.NoError(t, err)
			_, err = stream.Recv()
			assert.Equal(t, c.code, status.Code(err), "%v", err)
		})
	}
}

func TestAnObjectThatDiffersFromItsRecordIsDataLoss(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		edit func(*feed.Batch)
	}{
		{"shorter than its record", func(b *feed.Batch) { b.Size += 7 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := newMemory(t)
			m.add(t, []byte("abc"), c.edit)
			assert.Equal(t, codes.DataLoss, firstError(t, start(t, m)))
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		m := newMemory(t)
		m.add(t, []byte("abc"))
		m.batches[0].Object = "batches/gone.parquet"
		assert.Equal(t, codes.DataLoss, firstError(t, start(t, m)))
	})
}

// failing is storage that does not answer.
type failing struct{ err error }

func (f failing) ReadRange(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return nil, f.err
}

func TestStorageThatDoesNotAnswerIsUnavailableSoThatClientsTryAgain(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	m.add(t, []byte("abc"))
	source := m.source()
	source.Objects = failing{errors.New("connection reset")}
	client := pb.NewRolloutServiceClient(serve(t, source, feed.Defaults()).dial(t))
	assert.Equal(t, codes.Unavailable, firstError(t, client))
}

func firstError(t *testing.T, client pb.RolloutServiceClient) codes.Code {
	t.Helper()
	stream, err := client.StreamBatches(t.Context(), &pb.StreamBatchesRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	return status.Code(err)
}

func TestStoppingTheServerEndsWaitingStreamsAsUnavailableAndNotAsComplete(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	m.add(t, []byte("abc"))
	server := serve(t, m.source(), feed.Defaults())
	stream, err := pb.NewRolloutServiceClient(server.dial(t)).StreamBatches(t.Context(), &pb.StreamBatchesRequest{})
	require.NoError(t, err)
	receive(t, stream, 0)
	server.stop()
	_, err = stream.Recv()
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.ErrorContains(t, err, "stopping")
	require.NoError(t, patience.Receive(t, server.done, "the end of the server"))
	server.done <- nil
}

func TestAClientThatGivesUpEndsItsStream(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	left := make(chan error, 1)
	source := m.source()
	source.Batches = watched{m, left}
	client := pb.NewRolloutServiceClient(serve(t, source, feed.Defaults()).dial(t))
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := client.StreamBatches(ctx, &pb.StreamBatchesRequest{})
	require.NoError(t, err)
	m.add(t, []byte("abc"))
	receive(t, stream, 0)
	require.NoError(t, patience.Receive(t, left, "the end of the call"), "batch 1 was there")
	cancel()
	require.ErrorIs(t, patience.Receive(t, left, "the end of the call"), context.Canceled)
}

// watched reports the result of every Next.
type watched struct {
	*memory
	results chan error
}

func (w watched) Next(ctx context.Context, seq int64, kind feed.Kind) (feed.Batch, bool, error) {
	b, ok, err := w.memory.Next(ctx, seq, kind)
	w.results <- err
	return b, ok, err
}
