package scorehook_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/verigraph/verigraph/internal/patience"
	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/scorehook"
	"github.com/verigraph/verigraph/task"
)

func TestMain(m *testing.M) { patience.Main(m) }

var item = reward.HookItem{
	Prompt: task.Prompt{ID: "p", Question: "q"}, Reference: task.Reference{PromptID: "p", Answers: []task.NamedAnswer{{Name: "n", Value: "1"}}},
	Answer: "a", Claims: []reward.HookClaim{{ID: "c1", Kind: "atomic", Text: "a", Structural: true}}, Ending: "submitted",
}

func hook(t *testing.T, cfg scorehook.Config) *scorehook.Hook {
	t.Helper()
	if cfg.Deadline == 0 {
		cfg.Deadline = 30 * time.Second
	}
	h, err := scorehook.New("mine", cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h
}

func TestHTTPScorersGradeCountsOnlyIfItIsStatedAndInRange(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]float64{
		`{"score": 0.5}`: 0.5, `{"score": 0, "reason": "no"}`: 0, `{"axes": {"a": 1, "b": 0}}`: 0,
		`{}`: -1, `{"score": null}`: -1, `{"score": "0.5"}`: -1, `{"score": true}`: -1, `{"score": 1.5}`: -1, `{"score": -0.1}`: -1,
		`{"score": 1e999}`: -1, `{"score": NaN}`: -1, `{"axes": {"a": null}}`: -1, `{"axes": {"a": 2}}`: -1, `not JSON`: -1, ``: -1, `[0.5]`: -1,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var req scorehook.Request
			if json.NewDecoder(r.Body).Decode(&req) != nil || req.Version != 1 || req.Answer != "a" || req.Reference.Answers[0].Value != "1" || !req.Claims[0].Structural {
				http.Error(w, "bad request", http.StatusBadRequest)
				return
			}
			_, _ = w.Write([]byte(body))
		}))
		g, err := hook(t, scorehook.Config{URL: srv.URL}).Grade(t.Context(), item)
		srv.Close()
		if want < 0 {
			require.ErrorIs(t, err, reward.ErrNoVerdict, body)
			require.ErrorIs(t, err, reward.ErrText, body)
			continue
		}
		require.NoError(t, err, body)
		require.InDelta(t, want, g.Score, 0)
	}
}

func TestScorersOutageIsRetriedAndThenNoVerdict(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(`{"score": 1, "correct": true}`))
	}))
	defer srv.Close()
	g, err := hook(t, scorehook.Config{URL: srv.URL, Deadline: 20 * time.Second}).Grade(t.Context(), item)
	require.NoError(t, err)
	require.InDelta(t, 1, g.Score, 0)
	require.True(t, *g.Correct)

	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "x", http.StatusInternalServerError) }))
	defer down.Close()
	_, err = hook(t, scorehook.Config{URL: down.URL, Deadline: 400 * time.Millisecond}).Grade(t.Context(), item)
	require.ErrorIs(t, err, reward.ErrNoVerdict)
	require.NotErrorIs(t, err, reward.ErrText, "an outage is not the text's fault")

	calls.Store(0)
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		http.Error(w, `{"error": "no table"}`, http.StatusUnprocessableEntity)
	}))
	defer refuses.Close()
	_, err = hook(t, scorehook.Config{URL: refuses.URL}).Grade(t.Context(), item)
	require.ErrorIs(t, err, reward.ErrText)
	require.EqualValues(t, 1, calls.Load(), "a refusal is not asked again")
}

func TestCallersCancellationIsReturnedAsSuch(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(entered); <-release }))
	defer srv.Close()
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	_, err := hook(t, scorehook.Config{URL: srv.URL}).Grade(ctx, item)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, reward.ErrNoVerdict)
}

type grader struct {
	pb.UnimplementedOutcomeScorerServer
	resp *pb.GradeResponse
	err  error
}

func (g grader) Grade(_ context.Context, req *pb.GradeRequest) (*pb.GradeResponse, error) {
	if req.GetPrompt().GetAnswers()[0].GetValue() != "1" || req.GetClaims()[0].GetId() != "c1" {
		return nil, status.Error(codes.InvalidArgument, "bad request")
	}
	return g.resp, g.err
}

func TestGRPCScorerHasTheSameFailureRules(t *testing.T) {
	t.Parallel()
	half, two := 0.5, 2.0
	for name, c := range map[string]struct {
		grader grader
		want   float64 // -1: the text's fault, -2: an outage
	}{
		"a score":      {grader{resp: &pb.GradeResponse{Score: &half}}, 0.5},
		"absent":       {grader{resp: &pb.GradeResponse{}}, -1},
		"out of range": {grader{resp: &pb.GradeResponse{Score: &two}}, -1},
		"empty axis":   {grader{resp: &pb.GradeResponse{Axes: []*pb.GradeAxis{{Name: "a"}}}}, -1},
		"refused":      {grader{err: status.Error(codes.FailedPrecondition, "no table")}, -1},
		"down":         {grader{err: status.Error(codes.Unavailable, "x")}, -2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			srv := grpc.NewServer()
			pb.RegisterOutcomeScorerServer(srv, c.grader)
			done := make(chan error, 1)
			go func() { done <- srv.Serve(lis) }()
			t.Cleanup(func() { srv.Stop(); require.NoError(t, patience.Receive(t, done, "its end")) })
			deadline := 30 * time.Second
			if c.want == -2 {
				deadline = 400 * time.Millisecond
			}
			g, err := hook(t, scorehook.Config{URL: "grpc://" + lis.Addr().String(), Deadline: deadline}).Grade(t.Context(), item)
			if c.want >= 0 {
				require.NoError(t, err)
				require.InDelta(t, c.want, g.Score, 0)
				return
			}
			require.ErrorIs(t, err, reward.ErrNoVerdict)
			require.Equal(t, c.want == -1, errorIs(err, reward.ErrText))
		})
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{"": "url", "ftp://x": "url", "http://": "url", "http://u:hunter2@x/": "credentials"} {
		_, err := scorehook.New("mine", scorehook.Config{URL: url})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "mine")
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := scorehook.New("mine", scorehook.Config{URL: "http://x", Timeout: -1})
	require.ErrorContains(t, err, "negative")
}

func errorIs(err, target error) bool { return errors.Is(err, target) }
