package rpc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/internal/patience"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/rpc"
	"github.com/verigraph/verigraph/reward/rules"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

func TestMain(m *testing.M) { patience.Main(m) }

func scorer(t *testing.T, preset string) *reward.Scorer {
	t.Helper()
	p, err := reward.LoadPreset(preset)
	require.NoError(t, err)
	s, err := reward.New(reward.Config{Preset: p, Judge: rules.Judge{}})
	require.NoError(t, err)
	return s
}

// serve runs a real server on a port of this host and returns a client.
func serve(t *testing.T, s rpc.Scorer, change func(*rpc.Options)) (pb.RewardServiceClient, *grpc.ClientConn) {
	t.Helper()
	opts := rpc.Defaults()
	if change != nil {
		change(&opts)
	}
	server, err := rpc.New(s, opts)
	require.NoError(t, err)
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, lis) }()
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		stop()
		require.NoError(t, patience.Receive(t, done, "its end"))
	})
	return pb.NewRewardServiceClient(conn), conn
}

var prompt = &pb.Prompt{Id: "p", Question: "What is the mean?", DataSource: "dabench", Answers: []*pb.NamedAnswer{{Name: "mean", Value: "34.65"}}}

func answer(text string) *pb.Rollout { return &pb.Rollout{Form: &pb.Rollout_Answer{Answer: text}} }

// grounded is a rollout with evidence: a file, a variable, a bound claim.
func grounded(value string) trajectory.Trajectory {
	e := evidence.Export{
		Schema: evidence.Schema, SubmitTurn: 0, Submitted: []string{"c1"},
		Nodes: []evidence.Node{
			{ID: "file:t.csv", Kind: evidence.NodeSource, Name: "t.csv", Turn: -1, Statement: -1, SHA256: strings.Repeat("a", 64)},
			{ID: "df@1", Kind: evidence.NodeVariable, Name: "df", Version: 1},
			{
				ID: "c1", Kind: evidence.NodeAtomic, Template: "@mean[{m}]", Text: "@mean[" + value + "]", Fields: []evidence.Field{{Name: "m", Text: value}},
				Values: []evidence.Value{{Name: "m", Kind: evidence.KindNumber, Repr: value}},
			},
		},
		Edges: []evidence.Edge{{From: "file:t.csv", To: "df@1", Kind: evidence.EdgeCompute}, {From: "df@1", To: "c1", Kind: evidence.EdgeGround, Role: "m"}},
	}
	e.Grounding = e.ComputeGrounding()
	return trajectory.Trajectory{
		PromptID: "p", Termination: trajectory.Submitted, Graph: e,
		Turns: []trajectory.Turn{{HasCode: true, Status: trajectory.CellOK}, {HasCode: true, Status: trajectory.CellException}},
	}
}

func stored(t *testing.T, tr trajectory.Trajectory) *pb.Rollout {
	t.Helper()
	data, err := json.Marshal(tr)
	require.NoError(t, err)
	return &pb.Rollout{Form: &pb.Rollout_TrajectoryJson{TrajectoryJson: data}}
}

func TestTrajectoryIsScoredAsTheQueueScoresIt(t *testing.T) {
	t.Parallel()
	s := scorer(t, "default")
	client, _ := serve(t, s, nil)
	want := s.Score(t.Context(), grounded("34.65"), task.Prompt{ID: "p", Question: prompt.Question},
		task.Reference{PromptID: "p", DataSource: "dabench", Answers: []task.NamedAnswer{{Name: "mean", Value: "34.65"}}})
	require.Equal(t, trajectory.ScoreOK, want.Status)
	got, err := client.Score(t.Context(), &pb.ScoreRequest{Id: "x", Prompt: prompt, Rollout: stored(t, grounded("34.65"))})
	require.NoError(t, err)
	require.Equal(t, "x", got.Id)
	require.Equal(t, want.Reward, got.Score.GetReward())
	require.Equal(t, want.Total, got.Score.GetScore())
	require.Equal(t, want.TurnRewards, got.Score.TurnRewards)
	require.Len(t, got.Score.Parts, len(want.Parts))
	require.True(t, got.Score.GetCorrect())
	require.Equal(t, want.PresetHash, got.Score.PresetHash)
	require.Equal(t, "dabench fixed", got.Score.Method)
}

func TestGroundingThatACallerClaimsCountsForNothing(t *testing.T) {
	t.Parallel()
	yes := true
	forged := grounded("34.65")
	forged.Graph.Edges = forged.Graph.Edges[1:] // nothing reaches the file
	forged.Graph.Grounding = []evidence.ClaimGrounding{{Claim: "c1", Structural: &yes, Lexical: &yes}}
	client, _ := serve(t, scorer(t, "default"), nil)
	got, err := client.Score(t.Context(), &pb.ScoreRequest{Prompt: prompt, Rollout: stored(t, forged)})
	require.NoError(t, err)
	require.Zero(t, got.Score.GetOutcome())
	require.Negative(t, got.Score.GetPenalty())
}

func TestGroupIsScoredInTheOrderGiven(t *testing.T) {
	t.Parallel()
	client, _ := serve(t, scorer(t, "official"), nil)
	resp, err := client.ScoreGroup(t.Context(), &pb.ScoreGroupRequest{
		Id: "g", Prompt: prompt, Rollouts: []*pb.Rollout{answer("@mean[34.65]"), answer("@mean[1]"), answer("  "), answer("@mean[34.650]")},
	})
	require.NoError(t, err)
	var rewards []float64
	for _, s := range resp.Scores {
		require.Equal(t, "ok", s.Status)
		rewards = append(rewards, s.GetReward())
	}
	require.Equal(t, []float64{1, 0, 0, 1}, rewards)
}

func TestStreamsAnswerEveryRequestOnce(t *testing.T) {
	t.Parallel()
	client, _ := serve(t, scorer(t, "official"), func(o *rpc.Options) { o.MaxRollouts = 4 })
	stream, err := client.ScoreStream(t.Context())
	require.NoError(t, err)
	groups, err := client.ScoreGroupStream(t.Context())
	require.NoError(t, err)
	const n = 60
	sent := make(chan error, 2)
	go func() {
		for i := range n {
			if err := stream.Send(&pb.ScoreRequest{Id: fmt.Sprint(i), Prompt: prompt, Rollout: answer(fmt.Sprintf("@mean[%d]", i))}); err != nil {
				sent <- err
				return
			}
		}
		sent <- stream.CloseSend()
	}()
	go func() {
		for i := range n {
			if err := groups.Send(&pb.ScoreGroupRequest{Id: fmt.Sprint(i), Prompt: prompt, Rollouts: []*pb.Rollout{answer("@mean[34.65]"), answer(""), answer("x")}}); err != nil {
				sent <- err
				return
			}
		}
		sent <- groups.CloseSend()
	}()
	seen, seenGroups := map[string]bool{}, map[string]bool{}
	for {
		resp, err := stream.Recv()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		seen[resp.Id] = true
	}
	for {
		resp, err := groups.Recv()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.Len(t, resp.Scores, 3)
		seenGroups[resp.Id] = true
	}
	require.NoError(t, patience.Receive(t, sent, "the answer"))
	require.NoError(t, patience.Receive(t, sent, "the answer"))
	require.Len(t, seen, n)
	require.Len(t, seenGroups, n)
}

func TestBadRequestEndsAStreamAndNamesItself(t *testing.T) {
	t.Parallel()
	client, _ := serve(t, scorer(t, "official"), nil)
	stream, err := client.ScoreStream(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&pb.ScoreRequest{Id: "bad", Prompt: prompt}))
	_, err = stream.Recv() // the caller has not closed its side
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, `"bad"`)
}

func TestRequestsThatCantBeScoredAreRefused(t *testing.T) {
	t.Parallel()
	client, _ := serve(t, scorer(t, "default"), func(o *rpc.Options) { o.MaxMessage, o.MaxRollouts = 64<<10, 2 })
	other := grounded("1")
	other.PromptID = "q"
	damaged := grounded("1")
	damaged.Graph.Edges[0].From = "file:nowhere"
	ended := grounded("1")
	ended.Termination = "made_up"
	for name, c := range map[string]struct {
		req  *pb.ScoreRequest
		code codes.Code
		text string
	}{
		"no prompt":           {&pb.ScoreRequest{Rollout: answer("x")}, codes.InvalidArgument, "prompt.id"},
		"no reference":        {&pb.ScoreRequest{Prompt: &pb.Prompt{Id: "p"}, Rollout: answer("x")}, codes.InvalidArgument, "no reference answer"},
		"no judge for it":     {&pb.ScoreRequest{Prompt: &pb.Prompt{Id: "p", AnswerText: "free"}, Rollout: answer("x")}, codes.InvalidArgument, "LLM judge"},
		"bad meta":            {&pb.ScoreRequest{Prompt: prompt, ReferenceMetaJson: []byte("{"), Rollout: answer("x")}, codes.InvalidArgument, "meta"},
		"no rollout":          {&pb.ScoreRequest{Prompt: prompt}, codes.InvalidArgument, "neither"},
		"not JSON":            {&pb.ScoreRequest{Prompt: prompt, Rollout: &pb.Rollout{Form: &pb.Rollout_TrajectoryJson{TrajectoryJson: []byte("x")}}}, codes.InvalidArgument, "trajectory_json"},
		"of another prompt":   {&pb.ScoreRequest{Prompt: prompt, Rollout: stored(t, other)}, codes.InvalidArgument, `"q"`},
		"damaged graph":       {&pb.ScoreRequest{Prompt: prompt, Rollout: stored(t, damaged)}, codes.InvalidArgument, "graph"},
		"unknown ending":      {&pb.ScoreRequest{Prompt: prompt, Rollout: stored(t, ended)}, codes.InvalidArgument, "made_up"},
		"answer, no evidence": {&pb.ScoreRequest{Prompt: prompt, Rollout: answer("@mean[34.65]")}, codes.FailedPrecondition, "evidence"},
		"too large":           {&pb.ScoreRequest{Prompt: prompt, Rollout: answer(strings.Repeat("x", 70<<10))}, codes.ResourceExhausted, "larger than max"},
	} {
		_, err := client.Score(t.Context(), c.req)
		require.Equal(t, c.code, status.Code(err), "%s: %v", name, err)
		require.ErrorContains(t, err, c.text, name)
	}
	_, err := client.ScoreGroup(t.Context(), &pb.ScoreGroupRequest{Prompt: prompt, Rollouts: []*pb.Rollout{{}, {}, {}}})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, "3 rollouts")
}

func TestCallsNeedTheTokenAndHealthAndReflectionAnswer(t *testing.T) {
	t.Parallel()
	const token = "hunter2"
	client, conn := serve(t, scorer(t, "official"), func(o *rpc.Options) { o.Token = token })
	req := &pb.ScoreRequest{Prompt: prompt, Rollout: answer("@mean[34.65]")}
	for _, given := range []string{"", "Bearer wrong", "Basic hunter2", "hunter2"} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", given)
		_, err := client.Score(ctx, req)
		require.Equal(t, codes.Unauthenticated, status.Code(err), given)
		require.NotContains(t, err.Error(), token)
		stream, err := client.ScoreStream(ctx)
		require.NoError(t, err)
		_, err = stream.Recv()
		require.Equal(t, codes.Unauthenticated, status.Code(err))
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	_, err := client.Score(ctx, req)
	require.NoError(t, err)
	health, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: "verigraph.v1.RewardService"})
	require.NoError(t, err)
	require.Equal(t, healthpb.HealthCheckResponse_SERVING, health.Status)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reflection, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	require.NoError(t, err)
	require.NoError(t, reflection.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}))
	list, err := reflection.Recv()
	require.NoError(t, err)
	require.Contains(t, list.String(), "verigraph.v1.RewardService")
	require.Equal(t, "[redacted] [redacted]", fmt.Sprintf("%v %s", rpc.Token(token), rpc.Token(token)))
}

// held is a scorer that waits for its context, or gives a fixed score.
type held struct {
	*reward.Scorer
	entered chan struct{}
	fixed   *trajectory.Score
}

func (h held) Score(ctx context.Context, _ trajectory.Trajectory, _ task.Prompt, _ task.Reference) trajectory.Score {
	if h.fixed != nil {
		return *h.fixed
	}
	h.entered <- struct{}{}
	<-ctx.Done()
	return trajectory.Score{Status: trajectory.ScoreUnscored}
}

func TestCallersDeadlineIsAnErrorAndNoScore(t *testing.T) {
	t.Parallel()
	h := held{Scorer: scorer(t, "official"), entered: make(chan struct{}, 8)}
	client, _ := serve(t, h, func(o *rpc.Options) { o.Deadline = 30 * time.Millisecond })
	_, err := client.Score(t.Context(), &pb.ScoreRequest{Prompt: prompt, Rollout: answer("x")})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err), "the server's own deadline")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = client.Score(ctx, &pb.ScoreRequest{Prompt: prompt, Rollout: answer("x")})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
}

func TestFullServerRefusesSingleCalls(t *testing.T) {
	t.Parallel()
	h := held{Scorer: scorer(t, "official"), entered: make(chan struct{}, 8)}
	client, _ := serve(t, h, func(o *rpc.Options) { o.MaxRollouts = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := client.Score(ctx, &pb.ScoreRequest{Prompt: prompt, Rollout: answer("x")})
		first <- err
	}()
	patience.Receive(t, h.entered, "the call")
	_, err := client.Score(t.Context(), &pb.ScoreRequest{Prompt: prompt, Rollout: answer("x")})
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	cancel()
	require.Equal(t, codes.Canceled, status.Code(patience.Receive(t, first, "its answer")))
}

func TestRolloutWithoutARewardCarriesNoNumber(t *testing.T) {
	t.Parallel()
	for _, st := range []trajectory.ScoreStatus{trajectory.ScoreUnscored, trajectory.ScoreUnjudgeable, trajectory.ScoreLost} {
		h := held{Scorer: scorer(t, "official"), fixed: &trajectory.Score{Status: st, Reason: "judge \xff", Reward: 7, Edges: 3}}
		client, _ := serve(t, h, nil)
		got, err := client.Score(t.Context(), &pb.ScoreRequest{Prompt: prompt, Rollout: answer("x")})
		require.NoError(t, err)
		require.Equal(t, string(st), got.Score.Status)
		require.Nil(t, got.Score.Reward)
		require.Nil(t, got.Score.Outcome)
		require.Nil(t, got.Score.Acc)
		require.EqualValues(t, 3, got.Score.Edges)
	}
}

func TestPausedScoringRefusesCallsAndSaysSo(t *testing.T) {
	t.Parallel()
	client, conn := serve(t, scorer(t, "official"), func(o *rpc.Options) {
		o.Paused = func() (bool, string) { return true, "canary sum: no verdict" }
	})
	_, err := client.Score(t.Context(), &pb.ScoreRequest{Prompt: prompt, Rollout: answer("x")})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "canary sum")
	patience.Until(t, "the health service says so", func() bool {
		h, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: "verigraph.v1.RewardService"})
		return err == nil && h.Status == healthpb.HealthCheckResponse_NOT_SERVING
	})
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	_, err := rpc.New(scorer(t, "official"), rpc.Options{})
	require.ErrorContains(t, err, "must be positive")
}

var gradeItem = reward.HookItem{Answer: "35", Claims: []reward.HookClaim{{ID: "c1", Kind: "atomic", Text: "35"}}}
