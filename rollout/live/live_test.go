// Package live checks a real policy server. It runs only with VERIGRAPH_LIVE_POLICY_URL set, and
// then takes the model's name from VERIGRAPH_LIVE_POLICY_MODEL and the directory of its
// tokenizer.json from VERIGRAPH_LIVE_POLICY_TOKENIZER. See docs/policy.md and make test-live.
package live

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/chat"
	"github.com/verigraph/verigraph/policy/pool"
	"github.com/verigraph/verigraph/policy/probe"
	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/trajectory"
)

type server struct {
	url, model string
	tok        *tokenizer.Tokenizer
	chat       *chat.ChatML
	client     *policy.Client
	pool       *pool.Pool
	maxLen     int
}

func connect(t *testing.T) *server {
	t.Helper()
	url := os.Getenv("VERIGRAPH_LIVE_POLICY_URL")
	if url == "" {
		t.Skip("VERIGRAPH_LIVE_POLICY_URL is not set")
	}
	s := &server{url: url, model: os.Getenv("VERIGRAPH_LIVE_POLICY_MODEL")}
	var err error
	s.tok, err = tokenizer.Load(os.Getenv("VERIGRAPH_LIVE_POLICY_TOKENIZER"))
	require.NoError(t, err)
	s.chat, err = chat.New(s.tok)
	require.NoError(t, err)
	cfg := policy.Defaults()
	cfg.BaseURL, cfg.Model, cfg.RetryBudget = url, s.model, 10*time.Second
	s.client, err = policy.NewClient(cfg)
	require.NoError(t, err)
	s.pool, err = pool.New(pool.Defaults(), cfg, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { s.client.Close(); s.pool.Close() })
	m, err := s.client.Probe(t.Context())
	require.NoError(t, err)
	s.maxLen = m.MaxModelLen
	return s
}

var sampling = trajectory.Sampling{Temperature: 1, TopP: 1, TopK: -1, RepetitionPenalty: 1}

func TestLiveProbeFindsNothingMissing(t *testing.T) {
	s := connect(t)
	r := probe.Run(t.Context(), s.client, probe.Options{Endpoint: s.url, Model: s.model, Tokenizer: s.tok, Sampling: sampling})
	for _, c := range r.Checks {
		t.Logf("%-15s %-8s %s", c.Name, c.State, c.Found)
	}
	require.True(t, r.Fit())
}

// turn drives one machine against the server and answers every cell with a short observation.
func (s *server) play(t *testing.T, session string, turns int) (*rollout.Machine, rollout.End) {
	cfg := rollout.Defaults()
	cfg.MaxTurns, cfg.MaxTurnTokens, cfg.MaxContext, cfg.MaxPromptTokens = turns, 96, s.maxLen, 1024
	m := rollout.NewMachine(cfg, s.tok, s.chat, s.chat.Prompt("Write Python in <code_interpreter> tags.", "What is 6 * 7? "+session))
	for {
		switch step := m.Next().(type) {
		case rollout.End:
			return m, step
		case rollout.RunCell:
			m.Observed("<tool_response>\nstatus: ok\n</tool_response>", false)
		case rollout.Generate:
			c, err := s.pool.Complete(t.Context(), policy.Request{
				ID: fmt.Sprintf("live/%s.0.%d", session, step.Turn), Session: session, Prompt: step.Prompt, MaxTokens: step.MaxTokens,
				Sampling: sampling, Seed: int64(step.Turn*1000 + step.Sampled), Stop: []string{"</code_interpreter>"},
				StopTokenIDs: []int32{s.chat.EndOfTurn()},
			})
			if err != nil {
				m.Failed(err)
				continue
			}
			m.Sampled(c, c.Versions.Start, c.Versions.End)
		}
	}
}

func TestLiveGroupGivesRowsThatPassEveryCheck(t *testing.T) {
	s := connect(t)
	const size = 8
	var members sync.WaitGroup
	for i := range size {
		members.Go(func() {
			m, end := s.play(t, fmt.Sprint("g", i), 3)
			segments := m.Segments()
			if !end.Reason.Rewarded() || len(segments) != 1 || m.Check(segments) != nil {
				t.Errorf("member %d: %s %v, %d segments, %v", i, end.Reason, end.Err, len(segments), m.Check(segments))
			}
			t.Logf("member %d: %s, %d response ids, %d turns drifted", i, end.Reason, len(segments[0].ResponseIDs), m.Drift())
		})
	}
	members.Wait()
}

func TestLiveLogProbsAreThoseThatTheServerGivesTheSameIDsAsAPrompt(t *testing.T) {
	s := connect(t)
	m, _ := s.play(t, "recompute", 1)
	seg := m.Segments()[0]
	whole := slices.Concat(seg.PromptIDs, seg.ResponseIDs)
	again := s.prompted(t, whole)
	sum, shifted, worst := 0.0, 0.0, 0.0
	n := len(seg.ResponseIDs)
	for i := range n {
		require.Equal(t, int8(1), seg.ResponseMask[i])
		d := math.Abs(float64(seg.LogProbs[i]) - again[len(seg.PromptIDs)+i])
		sum, worst = sum+d, math.Max(worst, d)
		if i > 0 {
			shifted += math.Abs(float64(seg.LogProbs[i-1]) - again[len(seg.PromptIDs)+i])
		}
	}
	t.Logf("%d ids: mean |difference| %.5f, worst %.5f; shifted by one it would be %.5f", n, sum/float64(n), worst, shifted/float64(n-1))
	require.Less(t, sum/float64(n), 0.05)
	require.Greater(t, shifted/float64(n-1), 4*sum/float64(n), "a shift by one would be seen")
}

func (s *server) post(t *testing.T, path string) int {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestLivePauseAbortsWithPartialIDsAndTheTurnGoesOnAfterResume(t *testing.T) {
	s := connect(t)
	if code := s.post(t, "/resume"); code != 200 {
		t.Skipf("POST /resume gives %d: vLLM has it with VLLM_SERVER_DEV_MODE=1", code)
	}
	const budget = 1500
	prompt := s.chat.Prompt("s", "count")
	ask := func(ctx context.Context, ids []int32, n int) (policy.Completion, error) {
		return s.client.Complete(ctx, policy.Request{ID: "live/abort.0.0", Prompt: ids, MaxTokens: n, Sampling: sampling, Seed: 7})
	}
	type answer struct {
		c   policy.Completion
		err error
	}
	var first answer
	for try := 0; try < 20 && first.c.Finish != "abort"; try++ { // a short generation may end by itself
		done := make(chan answer, 1)
		go func() { c, err := ask(t.Context(), prompt, budget); done <- answer{c, err} }()
		s.untilRunning(t, func() bool { return len(done) > 0 })
		require.Equal(t, 200, s.post(t, "/pause?mode=abort"))
		select {
		case first = <-done:
		case <-time.After(30 * time.Second):
			require.Fail(t, "a paused server kept the call")
		}
		require.NoError(t, first.err)
		if first.c.Finish != "abort" {
			require.Equal(t, 200, s.post(t, "/resume"))
		}
	}
	require.Equal(t, "abort", first.c.Finish)
	require.Len(t, first.c.LogProbs, len(first.c.IDs))
	require.Less(t, len(first.c.IDs), budget)
	require.Equal(t, 200, s.post(t, "/resume"))
	second, err := ask(t.Context(), slices.Concat(prompt, first.c.IDs), 16)
	require.NoError(t, err)
	require.NotEqual(t, "abort", second.Finish)
	t.Logf("aborted after %d ids, went on with %d", len(first.c.IDs), len(second.IDs))
}

// untilRunning returns once the engine says that it runs something, or over does.
func (s *server) untilRunning(t *testing.T, over func() bool) {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end) && !over(); {
		if l, err := s.client.Load(t.Context()); err == nil && l.Running > 0 {
			return
		}
	}
}
