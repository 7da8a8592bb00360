package line

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/internal/freeport"
	"github.com/verigraph/verigraph/jetstream"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// BenchmarkLatencyFromScoredGroupToTrainer is how long it takes from publishing the scored group that fills a
// batch (8 groups of 8 rollouts of 8,192 tokens) until the trainer has the batch's last byte: over NATS with a store on
// disk, the leader, Parquet and the feed.
func BenchmarkLatencyFromScoredGroupToTrainer(b *testing.B) {
	const groups, size = 8, 8
	p := &plant{t: b, dir: b.TempDir(), cfg: config.Defaults()}
	var err error
	p.store, err = blob.OpenDir(p.dir)
	require.NoError(b, err)
	p.port, p.feed = freeport.Take(b), fmt.Sprintf("127.0.0.1:%d", freeport.Take(b))
	p.cfg.Run, p.cfg.NATS.URL = "r", "external"
	p.cfg.Leader.Run, p.cfg.Leader.GroupSize, p.cfg.Leader.BatchGroups, p.cfg.Leader.MaxStaleness = "r", size, groups, leader.NoStaleness
	p.cfg.Leader.MaxGroups = groups
	p.startNATS()
	defer func() { p.nats.Stop() }()
	p.lead = p.start(p.run)
	defer func() { p.lead.kill() }()
	bus := p.connect()
	defer bus.Close()
	dispatches, err := jetstream.NewQueue[task.Dispatch](b.Context(), bus, jetstream.Prompts, "r")
	require.NoError(b, err)
	conn, err := grpc.NewClient(p.feed, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(b, err)
	defer conn.Close()
	stream, err := pb.NewRolloutServiceClient(conn).StreamBatches(b.Context(), &pb.StreamBatchesRequest{}, grpc.WaitForReady(true))
	require.NoError(b, err)

	var took []time.Duration
	prompts := 0
	for b.Loop() {
		b.StopTimer()
		var last trajectory.ScoredGroup
		for i := range groups {
			id := strconv.Itoa(prompts)
			prompts++
			require.NoError(b, bus.PublishOnce(b.Context(), jetstream.Backlog, "r", task.Slug(id),
				leader.BacklogItem{Prompt: &task.Prompt{ID: id, Question: "q", DataSource: "x"}}))
			m, err := dispatches.Receive(b.Context())
			require.NoError(b, err)
			last = longGroup(m.Value)
			if i < groups-1 {
				require.NoError(b, bus.PublishOnce(b.Context(), jetstream.Scored, "r", m.Value.ID, last))
			}
			require.NoError(b, m.Ack(b.Context()))
		}
		b.StartTimer()
		start := time.Now()
		require.NoError(b, bus.PublishOnce(b.Context(), jetstream.Scored, "r", last.Group.Dispatch.ID, last))
		for {
			c, err := stream.Recv()
			require.NoError(b, err)
			if c.GetLast() {
				break
			}
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[0].Milliseconds()), "ms-min")
	b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "ms-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), "ms-p99")
}

// longGroup is a scored group of rollouts of 1,024 prompt and 7,168 response tokens.
func longGroup(d task.Dispatch) trajectory.ScoredGroup {
	const prompt, response = 1024, 7168
	r := rand.New(rand.NewPCG(uint64(d.Index), 1))
	s := trajectory.ScoredGroup{Group: trajectory.Group{Dispatch: d, Model: "m"}}
	for i := range d.GroupSize {
		segment := trajectory.Segment{
			PromptIDs: make([]int32, prompt), ResponseIDs: make([]int32, response), ResponseMask: make([]int8, response),
			LogProbs: make([]float32, response), Spans: []trajectory.Span{{End: response, Kind: trajectory.SpanSampled}},
		}
		for k := range segment.ResponseIDs {
			segment.ResponseIDs[k], segment.ResponseMask[k], segment.LogProbs[k] = r.Int32N(150_000), 1, -float32(r.ExpFloat64())
		}
		s.Group.Trajectories = append(s.Group.Trajectories, trajectory.Trajectory{
			ID: task.RolloutID{Run: d.Run, Dispatch: d.ID, Sample: i}, Termination: trajectory.Submitted,
			Segments: []trajectory.Segment{segment},
		})
		s.Scores = append(s.Scores, trajectory.Score{Status: trajectory.ScoreOK, Reward: float64(i)})
	}
	return s
}
