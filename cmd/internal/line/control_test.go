package line_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/cmd/internal/line"
	"github.com/verigraph/verigraph/jetstream"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a reward server on an embedded NATS with a client, and queues that stand in for a worker.
type rig struct {
	cfg     config.Config
	bus     *jetstream.Bus
	blobs   *blob.Store
	server  *line.RewardServer
	client  pb.RolloutServiceClient
	prompts *jetstream.Queue[task.Dispatch]
	groups  *jetstream.Queue[trajectory.Group]
}

func newRig(t *testing.T, change func(*config.Config)) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{cfg: config.Defaults()}
	r.cfg.Blob = dir
	r.cfg.Leader.GroupSize, r.cfg.Leader.BatchGroups = 2, 1
	if change != nil {
		change(&r.cfg)
	}
	r.cfg.Resolve()
	nats, err := jetstream.StartServer(jetstream.ServerConfig{Dir: filepath.Join(dir, "nats")})
	require.NoError(t, err)
	t.Cleanup(nats.Stop)
	nc, err := nats.Connect()
	require.NoError(t, err)
	r.blobs, err = blob.OpenDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.blobs.Close() })
	r.bus, err = jetstream.New(t.Context(), nc, r.blobs, r.cfg.NATS.Config)
	require.NoError(t, err)
	t.Cleanup(r.bus.Close)
	r.server, err = line.NewRewardServer(t.Context(), r.cfg, r.bus, r.blobs, zap.NewNop())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, r.server.Close())
	})
	conn, err := grpc.NewClient(r.server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	r.client = pb.NewRolloutServiceClient(conn)
	r.prompts, err = jetstream.NewQueue[task.Dispatch](t.Context(), r.bus, jetstream.Prompts, r.cfg.Run)
	require.NoError(t, err)
	r.groups, err = jetstream.NewQueue[trajectory.Group](t.Context(), r.bus, jetstream.Trajectories, r.cfg.Run)
	require.NoError(t, err)
	return r
}

func (r *rig) submit(t *testing.T, ids ...string) {
	t.Helper()
	req := &pb.SubmitPromptsRequest{}
	for _, id := range ids {
		req.Prompts = append(req.Prompts, &pb.Prompt{
			Id: id, Question: "Q?", DataSource: "x", Answers: []*pb.NamedAnswer{{Name: "a", Value: "1"}},
		})
	}
	_, err := r.client.SubmitPrompts(t.Context(), req)
	require.NoError(t, err)
}

// work plays one group as a worker would and returns its dispatch.
func (r *rig) work(t *testing.T) task.Dispatch {
	t.Helper()
	m, err := r.prompts.Receive(t.Context())
	require.NoError(t, err)
	d := m.Value
	g := trajectory.Group{Dispatch: d, Model: "m", TokenizerSHA256: "t", ChatTemplateSHA256: "c", Sampling: trajectory.Sampling{Temperature: 1, TopP: 1, TopK: -1, RepetitionPenalty: 1}}
	for i := range d.GroupSize {
		t := trajectory.Trajectory{
			ID:       task.RolloutID{Run: d.Run, Dispatch: d.ID, Sample: i},
			PromptID: d.Prompt.ID, DataSource: d.Prompt.DataSource, Termination: trajectory.NoSubmission,
			Turns: []trajectory.Turn{{Text: "x", FinishReason: "stop", SampledIDs: 1}},
			Segments: []trajectory.Segment{{
				PromptIDs: []int32{1}, ResponseIDs: []int32{2}, ResponseMask: []int8{1}, LogProbs: []float32{-0.5},
				Spans: []trajectory.Span{{End: 1, Kind: trajectory.SpanSampled, PolicyVersion: d.PolicyVersion, PolicyVersionEnd: d.PolicyVersion}},
			}},
		}
		t.Graph.SubmitTurn = -1
		g.Trajectories = append(g.Trajectories, t)
	}
	require.NoError(t, r.groups.Publish(t.Context(), d.Run, d.ID, g))
	require.NoError(t, m.Ack(t.Context()))
	return d
}

// read reads n batches and returns their sequence numbers.
func (r *rig) read(t *testing.T, n int) []int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := r.client.StreamBatches(ctx, &pb.StreamBatchesRequest{})
	require.NoError(t, err)
	var out []int64
	for len(out) < n {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if chunk.GetLast() {
			out = append(out, chunk.GetSequence())
		}
	}
	return out
}

func TestTrainerReadsAgainFromItsCheckpointAndACommitFreesTheRest(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.submit(t, "a", "b", "c")
	for range 3 {
		r.work(t)
	}
	require.Equal(t, []int64{1, 2, 3}, r.read(t, 3))
	for seq := int64(1); seq <= 3; seq++ {
		_, err := r.client.Ack(t.Context(), &pb.AckRequest{Sequence: seq, TrainerStep: 10 * seq})
		require.NoError(t, err)
	}
	freed, err := r.client.Commit(t.Context(), &pb.CommitRequest{CheckpointStep: 10})
	require.NoError(t, err)
	require.EqualValues(t, 1, freed.GetFreed())
	first, ok := r.server.Leader.Batch(1)
	require.True(t, ok)
	_, err = r.blobs.Get(t.Context(), first.Object)
	require.ErrorIs(t, err, blob.ErrNotFound)

	restored, err := r.client.Restore(t.Context(), &pb.RestoreRequest{CheckpointStep: 20})
	require.NoError(t, err)
	require.EqualValues(t, 2, restored.GetAcknowledged())
	require.Equal(t, []int64{3}, r.read(t, 1), "the batch after the checkpoint is served again")
	_, err = r.client.Restore(t.Context(), &pb.RestoreRequest{CheckpointStep: 5})
	require.Equal(t, codes.InvalidArgument, status.Code(err))

	st, err := r.client.GetStatus(t.Context(), &pb.GetStatusRequest{})
	require.NoError(t, err)
	require.EqualValues(t, 10, st.GetCommittedStep())
	require.EqualValues(t, 6, st.GetLedger().GetDelivered())
}

func TestPolicyUpdateOpensCapacityOfASynchronousRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.Leader.MaxStaleness = 0 })
	r.submit(t, "a", "b")
	require.EqualValues(t, 0, r.work(t).PolicyVersion)
	require.Equal(t, []int64{1}, r.read(t, 1))
	_, err := r.client.SetPolicy(t.Context(), &pb.SetPolicyRequest{Version: 1})
	require.NoError(t, err)
	require.EqualValues(t, 1, r.work(t).PolicyVersion, "dispatched only after the update")
	_, err = r.client.SetPolicy(t.Context(), &pb.SetPolicyRequest{Version: 0})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}

func TestSetAsideGroupIsListedAndGoesOnAfterARequeue(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.submit(t, "a")
	// The reference is missing only in the other run's name; here the worker sets the group aside.
	m, err := r.prompts.Receive(t.Context())
	require.NoError(t, err)
	require.NoError(t, line.SetAside(t.Context(), r.bus, m, m.Value, jetstream.Prompts, "poisoned"))
	changed := r.server.Leader.Changed()
	for {
		p, err := r.server.Leader.Progress(t.Context())
		require.NoError(t, err)
		if p.Ledger.SetAside == 2 {
			break
		}
		<-changed
		changed = r.server.Leader.Changed()
	}
	list, err := r.client.ListSetAside(t.Context(), &pb.ListSetAsideRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetGroups(), 1)
	require.Equal(t, "poisoned", list.GetGroups()[0].GetReason())
	_, err = r.client.Requeue(t.Context(), &pb.RequeueRequest{Dispatch: "nobody-0"})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	_, err = r.client.Requeue(t.Context(), &pb.RequeueRequest{Dispatch: list.GetGroups()[0].GetDispatch()})
	require.NoError(t, err)
	require.Equal(t, "a-0", r.work(t).ID)
	require.Equal(t, []int64{1}, r.read(t, 1))
	list, err = r.client.ListSetAside(t.Context(), &pb.ListSetAsideRequest{})
	require.NoError(t, err)
	require.Empty(t, list.GetGroups())
}
