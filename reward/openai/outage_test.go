package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/account"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// endpoint is a judge endpoint inside a bubble: fault says how the n-th call ends.
type endpoint struct {
	start time.Time
	mu    sync.Mutex
	calls int
	fault func(n int, since time.Duration) string
}

func (e *endpoint) RoundTrip(req *http.Request) (*http.Response, error) {
	e.mu.Lock()
	n := e.calls
	e.calls++
	e.mu.Unlock()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	answer := func(status int, text string, header ...string) (*http.Response, error) {
		h := http.Header{"Content-Type": {"application/json"}}
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(text)), Request: req}, nil
	}
	switch e.fault(n, time.Since(e.start)) {
	case "503":
		return answer(http.StatusServiceUnavailable, `{"error": {"message": "overloaded"}}`)
	case "429":
		return answer(http.StatusTooManyRequests, `{"error": {"message": "slow down"}}`, "Retry-After", "3")
	case "reset":
		return nil, errors.New("read: connection reset by peer")
	case "hang":
		<-req.Context().Done()
		return nil, req.Context().Err()
	case "prose":
		return answer(http.StatusOK, `{"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "no JSON"}}], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}`)
	case "half":
		return answer(http.StatusOK, `{"choices": [{"index": 0, "mess`)
	}
	verdict := "entailed"
	if bytes.Contains(body, []byte("leap")) {
		verdict = "not_entailed"
	}
	content, _ := json.Marshal(`{"reasoning": "r", "verdict": "` + verdict + `"}`)
	return answer(http.StatusOK, `{"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": `+string(content)+`}}], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}`)
}

// derivations builds rollouts with 0 to 12 derived claims, every third of which is a leap.
func derivations() []trajectory.Trajectory {
	yes := true
	var out []trajectory.Trajectory
	for k := range 13 {
		e := evidence.Export{Schema: 1, SubmitTurn: 0, Nodes: []evidence.Node{
			{ID: "file:t", Kind: evidence.NodeSource, Name: "t", Turn: -1},
			{ID: "df@1", Kind: evidence.NodeVariable, Name: "df", Version: 1},
			{ID: "c0", Kind: evidence.NodeAtomic, Text: "@mean[34.65]", Fields: []evidence.Field{{Name: "m", Text: "34.65"}}},
		}, Edges: []evidence.Edge{{From: "file:t", To: "df@1", Kind: evidence.EdgeCompute}, {From: "df@1", To: "c0", Kind: evidence.EdgeGround, Role: "m"}}}
		e.Submitted = []string{"c0"}
		for i := 1; i <= k; i++ {
			id, text := fmt.Sprintf("c%d", i), fmt.Sprintf("step %d of %d", i, k)
			if i%3 == 0 {
				text += ", a leap"
			}
			e.Nodes = append(e.Nodes, evidence.Node{ID: id, Kind: evidence.NodeDerived, Text: text, Reasoning: "from c0"})
			e.Edges = append(e.Edges, evidence.Edge{From: "c0", To: id, Kind: evidence.EdgeDerive})
			e.Submitted = append(e.Submitted, id)
		}
		for _, id := range e.Submitted {
			e.Grounding = append(e.Grounding, evidence.ClaimGrounding{Claim: id, Structural: &yes, Lexical: &yes})
		}
		out = append(out, trajectory.Trajectory{
			ID: task.RolloutID{Run: "r", Dispatch: "d", Sample: k}, PromptID: "p", Termination: trajectory.Submitted, Graph: e,
			Turns: []trajectory.Turn{{HasCode: true, Status: trajectory.CellOK}, {HasCode: true, Status: trajectory.CellException}},
		})
	}
	return out
}

type scoring struct {
	rewards []uint64
	book    account.Snapshot
	scores  []trajectory.Score
	took    time.Duration
}

// scoreUnder scores all rollouts at once, as the server does, against an endpoint with faults.
func scoreUnder(t *testing.T, fault func(int, time.Duration) string) scoring {
	t.Helper()
	var out scoring
	synctest.Test(t, func(t *testing.T) {
		cfg := Defaults()
		cfg.BaseURL, cfg.Model = "http://judge.invalid/v1", "m"
		j, err := New(cfg)
		require.NoError(t, err)
		j.transport(&endpoint{start: time.Now(), fault: fault})
		preset, err := reward.LoadPreset("default")
		require.NoError(t, err)
		preset.Infer.AnswerNeeds = reward.NeedsNothing // the leaps shall not hide the answer's worth
		s, err := reward.New(reward.Config{Preset: preset, Judge: j, Outcome: j})
		require.NoError(t, err)
		rollouts := derivations()
		out.scores = make([]trajectory.Score, len(rollouts))
		start := time.Now()
		var wg sync.WaitGroup
		for i := range rollouts {
			wg.Go(func() {
				out.scores[i] = s.Score(t.Context(), rollouts[i], task.Prompt{ID: "p", Question: "q"},
					task.Reference{PromptID: "p", Answers: []task.NamedAnswer{{Name: "mean", Value: "34.65"}}})
			})
		}
		wg.Wait()
		out.took = time.Since(start)
		var book account.Book
		for _, score := range out.scores {
			book.Add(score)
			out.rewards = append(out.rewards, math.Float64bits(score.Reward))
		}
		out.book = book.Snapshot()
	})
	return out
}

func healthy(int, time.Duration) string { return "" }

func TestOutagesThatHealBeforeTheDeadlineLeaveEveryRewardBitEqual(t *testing.T) {
	t.Parallel()
	want := scoreUnder(t, healthy)
	require.Equal(t, len(want.scores), want.book.Status[trajectory.ScoreOK])
	faults := []string{"503", "429", "reset", "hang", "half"}
	mixed := func(n int, _ time.Duration) string {
		if n*7%10 < 3 { // 30 % of the calls
			return faults[n%len(faults)]
		}
		return ""
	}
	cases := map[string]func(int, time.Duration) string{"30 % of the calls fail in five ways": mixed}
	for _, f := range faults {
		cases["down for 60 s: "+f] = func(_ int, since time.Duration) string {
			if since < time.Minute {
				return f
			}
			return ""
		}
	}
	for name, fault := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := scoreUnder(t, fault)
			require.Equal(t, len(want.scores), got.book.Status[trajectory.ScoreOK], "every rollout is scored")
			require.Equal(t, want.rewards, got.rewards, "bit by bit")
			require.Greater(t, got.took, want.took)
			t.Logf("%-38s %d rollouts scored, rewards bit-equal, %s (healthy: %s)", name, len(got.rewards), got.took, want.took)
		})
	}
}

func TestJudgeThatStaysBrokenChangesNoRewardAndEveryAffectedRolloutIsCounted(t *testing.T) {
	t.Parallel()
	want := scoreUnder(t, healthy)
	for _, f := range []string{"503", "429", "reset", "hang", "half"} {
		t.Run(f, func(t *testing.T) {
			t.Parallel()
			got := scoreUnder(t, func(int, time.Duration) string { return f })
			affected := 0
			for i, s := range got.scores {
				if s.Edges == 0 { // nothing to ask
					require.Equal(t, want.rewards[i], got.rewards[i])
					continue
				}
				affected++
				require.Equal(t, trajectory.ScoreUnscored, s.Status)
				require.Zero(t, s.Reward)
				require.Nil(t, s.Parts, "no number stands in for a verdict")
			}
			require.Equal(t, 12, affected)
			require.Equal(t, affected, got.book.Status[trajectory.ScoreUnscored])
			require.Equal(t, len(got.scores)-affected, got.book.Status[trajectory.ScoreOK])
			for _, class := range got.book.Edges {
				if class.UpTo != 0 {
					require.Equal(t, class.Rollouts, class.Unscored)
				}
			}
			require.InDelta(t, 12.0/13, got.book.UnscoredShare(), 1e-12)
		})
	}
}

func TestPartialBrokennessNeverMovesTheRewardsThatAreGiven(t *testing.T) {
	t.Parallel()
	want := scoreUnder(t, healthy)
	got := scoreUnder(t, func(n int, since time.Duration) string { // works for a while, then never again
		if n > 25 {
			return "503"
		}
		return ""
	})
	scored := 0
	for i, s := range got.scores {
		if s.Status == trajectory.ScoreOK {
			require.Equal(t, want.rewards[i], got.rewards[i])
			scored++
		}
	}
	require.Positive(t, scored)
	require.Less(t, scored, len(got.scores))
}

func promptOf() task.Prompt { return task.Prompt{ID: "p", Question: "q"} }

func referenceOf() task.Reference {
	return task.Reference{PromptID: "p", Answers: []task.NamedAnswer{{Name: "mean", Value: "34.65"}}}
}

func errorsIs(err, target error) bool { return errors.Is(err, target) }
