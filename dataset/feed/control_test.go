package feed_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/verigraph/verigraph/dataset/feed"
	"github.com/verigraph/verigraph/internal/patience"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
)

// steered records the orders of a trainer and answers them.
type steered struct {
	mu       sync.Mutex
	calls    []string
	refuse   error
	dropped  []int64
	groups   map[string]feed.Group
	requests []feed.Asked
	sent     []string
}

func (s *steered) note(format string, args ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
	return s.refuse
}

func (s *steered) Commit(_ context.Context, step, seq int64) (int, error) {
	return 2, s.note("commit step %d batch %d", step, seq)
}

func (s *steered) SetPolicy(_ context.Context, p feed.Policy, acknowledged int64) error {
	return s.note("policy %d/%d %v paused %t after %d", p.Version, p.Incarnation, p.Endpoints, p.Paused, acknowledged)
}

func (s *steered) Restore(_ context.Context, step, base int64, p feed.Policy, mode string) ([]int64, error) {
	return s.dropped, s.note("restore step %d batch %d policy %d/%d mode %q", step, base, p.Version, p.Incarnation, mode)
}

func (s *steered) Request(_ context.Context, asked []feed.Asked) ([]string, error) {
	var ids []string
	for _, a := range asked {
		ids = append(ids, "d-"+a.UID)
	}
	s.requests = asked
	return ids, s.note("request of %d", len(asked))
}

func (s *steered) Ended(_ context.Context, dispatches []string) (int, feed.Group, error) {
	last := len(dispatches) - 1 // groups end in another order than they were asked for
	return last, s.groups[dispatches[last]], nil
}

func (s *steered) Sent(_ context.Context, d string) { s.sent = append(s.sent, d) }

func (s *steered) SetAside(context.Context) ([]feed.Aside, error) {
	return []feed.Aside{{Dispatch: "a-0", Stage: "PROMPTS", Reason: "no\xffanswer", Deliveries: 6}}, s.note("list")
}

func (s *steered) Requeue(_ context.Context, d string) error { return s.note("requeue %s", d) }

func steer(t *testing.T, m *memory, s *steered) pb.RolloutServiceClient {
	t.Helper()
	source := m.source()
	source.Control = s
	return pb.NewRolloutServiceClient(serve(t, source, feed.Defaults()).dial(t))
}

func TestATrainersLifeAcknowledgesCommitsAndRestoresByStep(t *testing.T) {
	t.Parallel()
	m, s := newMemory(t), &steered{dropped: []int64{3}}
	for i := range 4 {
		m.add(t, []byte{byte(i)})
	}
	client := steer(t, m, s)
	ctx := t.Context()
	for seq := int64(1); seq <= 3; seq++ {
		_, err := client.Ack(ctx, &pb.AckRequest{Sequence: seq, TrainerStep: 10 * seq})
		require.NoError(t, err)
	}
	_, err := client.SetPolicy(ctx, &pb.SetPolicyRequest{Version: 3, Incarnation: 1, Endpoints: []string{"a:1"}, Paused: true})
	require.NoError(t, err)
	committed, err := client.Commit(ctx, &pb.CommitRequest{CheckpointStep: 15})
	require.NoError(t, err)
	require.EqualValues(t, 1, committed.GetSequence())
	require.EqualValues(t, 2, committed.GetFreed())

	restored, err := client.Restore(ctx, &pb.RestoreRequest{CheckpointStep: 20, PolicyVersion: 2, Incarnation: 2, Mode: pb.RestoreMode_RESTORE_MODE_REPLAY})
	require.NoError(t, err)
	require.EqualValues(t, 2, restored.GetSequence())
	require.Equal(t, []int64{3}, restored.GetDropped())
	require.Equal(t, []string{
		"policy 3/1 [a:1] paused true after 3", "commit step 15 batch 1", `restore step 20 batch 2 policy 2/2 mode "replay"`,
	}, s.calls)

	m.change(func() { m.dropped[3] = true })
	step := int64(20)
	stream, err := client.StreamBatches(ctx, &pb.StreamBatchesRequest{FromStep: &step})
	require.NoError(t, err)
	_, info := receive(t, stream, 0)
	require.EqualValues(t, 4, info.GetSequence(), "what was taken back is left out")

	for _, wrong := range []int64{5, 10} { // behind the commit; not where the cursor stands
		stream, err := client.StreamBatches(ctx, &pb.StreamBatchesRequest{FromStep: &wrong})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.Contains(t, []codes.Code{codes.InvalidArgument, codes.FailedPrecondition}, status.Code(err), "step %d", wrong)
	}
	_, err = client.Restore(ctx, &pb.RestoreRequest{CheckpointStep: 5})
	require.Equal(t, codes.InvalidArgument, status.Code(err), "its batches were freed")
}

func TestOrdersOfADeadTrainerAndOfAWrongServerAreRefusedByCode(t *testing.T) {
	t.Parallel()
	for refuse, want := range map[error]codes.Code{
		feed.ErrIncarnation: codes.FailedPrecondition, feed.ErrNotLeading: codes.Unavailable, feed.ErrInvalid: codes.InvalidArgument,
	} {
		client := steer(t, newMemory(t), &steered{refuse: refuse})
		_, err := client.SetPolicy(t.Context(), &pb.SetPolicyRequest{})
		require.Equal(t, want, status.Code(err))
		_, err = client.Requeue(t.Context(), &pb.RequeueRequest{Dispatch: "x"})
		require.Equal(t, want, status.Code(err))
	}
	_, err := start(t, newMemory(t)).SetPolicy(t.Context(), &pb.SetPolicyRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err), "a run without control")
}

func TestAStreamHoldsBatchesOfItsKindOnly(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	for i := range 4 {
		m.add(t, []byte{byte(i)}, func(b *feed.Batch) { b.Validate = i%2 == 1 })
	}
	m.finish()
	client := start(t, m)
	for kind, want := range map[pb.BatchKind][]int64{
		pb.BatchKind_BATCH_KIND_UNSPECIFIED: {1, 3}, pb.BatchKind_BATCH_KIND_VALIDATE: {2, 4}, pb.BatchKind_BATCH_KIND_ALL: {1, 2, 3, 4},
	} {
		stream, err := client.StreamBatches(t.Context(), &pb.StreamBatchesRequest{Kind: kind})
		require.NoError(t, err)
		var got []int64
		for {
			c, err := stream.Recv()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			require.Equal(t, crc32.ChecksumIEEE(c.GetData()), c.GetCrc32())
			got = append(got, c.GetSequence())
		}
		require.Equal(t, want, got, kind.String())
	}
}

// closing says when a reader of an object is done with it.
type closing struct {
	feed.Objects
	closed chan struct{}
}

type closingReader struct {
	io.ReadCloser
	closed chan struct{}
}

func (c closing) ReadRange(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	r, err := c.Objects.ReadRange(ctx, name, offset, length)
	return closingReader{r, c.closed}, err
}

func (c closingReader) Close() error {
	c.closed <- struct{}{}
	return c.ReadCloser.Close()
}

func TestAReaderThatTakesNothingIsDroppedWhileOthersAreServed(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	big := randomBytes(24 << 20) // far more than the flow-control windows hold
	m.add(t, big)
	opts := feed.Defaults()
	opts.SendTimeout = 4 * time.Second // a busy machine may keep the live one waiting for some of it
	source, dropped := m.source(), make(chan struct{}, 2)
	source.Objects = closing{source.Objects, dropped}
	server := serve(t, source, opts)
	client := pb.NewRolloutServiceClient(server.dial(t))
	dead, err := client.StreamBatches(t.Context(), &pb.StreamBatchesRequest{Cursor: "dead"})
	require.NoError(t, err)
	_, err = dead.Recv() // then it reads no more
	require.NoError(t, err)
	other := pb.NewRolloutServiceClient(server.dial(t))
	live, err := other.StreamBatches(t.Context(), &pb.StreamBatchesRequest{Cursor: "live"})
	require.NoError(t, err)
	got, _ := receive(t, live, 0)
	require.Len(t, got, len(big))
	for range 2 { // the live one has all, the dead one was asleep for longer than it may
		patience.Receive(t, dropped, "the end of both readers")
	}
	for err == nil {
		_, err = dead.Recv()
	}
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "took nothing")
}

func TestARequestSendsEachGroupAsItEnds(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	rows := randomBytes(chunk + 10)
	record := m.add(t, rows)
	s := &steered{groups: map[string]feed.Group{
		"d-u1": {Object: record.Object, Size: record.Size, SHA256: record.SHA256, Rows: 4},
		"d-u2": {Reason: "1 of 4 members have a reward"},
		"d-u3": {Replaced: true, Reason: "asked for again"},
	}}
	client := steer(t, m, s)
	ask := &pb.RequestBatchRequest{Policy: &pb.SetPolicyRequest{Version: 7, Incarnation: 1}}
	for _, uid := range []string{"u1", "u2", "u3"} {
		ask.Prompts = append(ask.Prompts, &pb.RequestedPrompt{Uid: uid, Rollouts: 4, Prompt: &pb.Prompt{Id: "p" + uid, Question: "q"}})
	}
	stream, err := client.RequestBatch(t.Context(), ask)
	require.NoError(t, err)
	var order []string
	var got []byte
	for {
		c, err := stream.Recv()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if c.GetOffset() == 0 {
			order = append(order, fmt.Sprintf("%s %s %s %d", c.GetUid(), c.GetDispatch(), c.GetStatus(), c.GetRows()))
		}
		require.Equal(t, crc32.ChecksumIEEE(c.GetData()), c.GetCrc32())
		got = append(got, c.GetData()...)
	}
	require.Equal(t, []string{
		"u3 d-u3 GROUP_STATUS_REPLACED 0", "u2 d-u2 GROUP_STATUS_FAILED 0", "u1 d-u1 GROUP_STATUS_FINISHED 4",
	}, order)
	require.Equal(t, rows, got)
	require.Equal(t, []string{"d-u3", "d-u2", "d-u1"}, s.sent)
	require.Equal(t, []string{"policy 7/1 [] paused false after 0", "request of 3"}, s.calls)

	for _, bad := range []*pb.RequestBatchRequest{
		{},
		{Prompts: []*pb.RequestedPrompt{{Uid: "u", Rollouts: 1}}},
		{Prompts: []*pb.RequestedPrompt{{Rollouts: 1, Prompt: ask.GetPrompts()[0].GetPrompt()}}},
		{Prompts: []*pb.RequestedPrompt{{Uid: "u", Prompt: ask.GetPrompts()[0].GetPrompt()}}},
		{Prompts: []*pb.RequestedPrompt{{Uid: "u", Rollouts: 2, Prompt: &pb.Prompt{Id: "p", Question: "q", Sampling: &pb.Sampling{N: pointer[int32](2)}}}}},
	} {
		stream, err := client.RequestBatch(t.Context(), bad)
		require.NoError(t, err)
		_, err = stream.Recv()
		assert.Equal(t, codes.InvalidArgument, status.Code(err), "%v", bad)
	}
}

func TestGroupsThatWereSetAsideAreListed(t *testing.T) {
	t.Parallel()
	list, err := steer(t, newMemory(t), &steered{}).ListSetAside(t.Context(), &pb.ListSetAsideRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetGroups(), 1)
	require.Equal(t, "no\uFFFDanswer", list.GetGroups()[0].GetReason())
}

func TestAPositionFindsWhatEachCheckpointHolds(t *testing.T) {
	t.Parallel()
	var p feed.Position
	for seq := int64(1); seq <= 5; seq++ {
		p = p.Ack(seq, 2*seq)
	}
	require.Equal(t, p, p.Ack(3, 99), "an older acknowledgement changes nothing")
	for step, want := range map[int64]int64{0: 0, 1: 0, 2: 1, 5: 2, 100: 5} {
		got, err := p.At(step)
		require.NoError(t, err)
		require.Equal(t, want, got, "step %d", step)
	}
	p = p.Commit(5)
	_, err := p.At(4)
	require.ErrorIs(t, err, feed.ErrInvalid)
	back, err := p.Rewind(7)
	require.NoError(t, err)
	require.EqualValues(t, 3, back.Acknowledged)
	again, err := back.Rewind(7)
	require.NoError(t, err)
	require.Equal(t, back, again)
	require.EqualValues(t, 4, back.Ack(4, 8).Acknowledged)
	require.Equal(t, p, p.Commit(3), "an older commit changes nothing")
}
