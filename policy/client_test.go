package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/trajectory"
)

// answer is a good vLLM answer to request(), as a map that tests break.
func answer() map[string]any {
	return map[string]any{
		"id": "cmpl-x", "model": "m",
		"choices": []any{map[string]any{
			"index": 0, "text": "hi", "finish_reason": "stop", "stop_reason": "</s>",
			"token_ids": []any{7, 8}, "prompt_token_ids": []any{1, 2, 3},
			"logprobs": map[string]any{"tokens": []any{"token_id:7", "token_id:8"}, "token_logprobs": []any{-0.5, -1.25}},
		}},
		"usage": map[string]any{"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
	}
}

func firstChoice(a map[string]any) map[string]any { return a["choices"].([]any)[0].(map[string]any) }

func logprobsOf(a map[string]any) map[string]any { return firstChoice(a)["logprobs"].(map[string]any) }

func request() policy.Request {
	return policy.Request{ID: "r/0-0/1.0.2", Session: "r/0-0/1", Prompt: []int32{1, 2, 3}, MaxTokens: 4, Stop: []string{"</s>"}}
}

func newClient(t *testing.T, h http.HandlerFunc, change func(*policy.Config)) *policy.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	cfg := policy.Defaults()
	cfg.BaseURL, cfg.Model, cfg.RetryBudget = server.URL, "m", 0
	if change != nil {
		change(&cfg)
	}
	c, err := policy.NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func reply(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) }
}

func TestClientSendsEverySamplingFieldZerosIncluded(t *testing.T) {
	t.Parallel()
	var got map[string]any
	var header http.Header
	var path string
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		header, path = r.Header, r.Method+" "+r.URL.Path
		_ = json.NewDecoder(r.Body).Decode(&got)
		reply(answer())(w, r)
	}, func(cfg *policy.Config) {
		cfg.BaseURL += "/v1/"
		cfg.APIKey = policy.NewSecret("sk-secret")
		cfg.Headers = map[string]policy.Secret{"X-Tenant": policy.NewSecret("t1")}
	})
	_, err := c.Complete(t.Context(), request())
	require.NoError(t, err)
	require.Equal(t, "POST /v1/completions", path)
	require.Equal(t, "Bearer sk-secret", header.Get("Authorization"))
	require.Equal(t, "r/0-0/1.0.2", header.Get("X-Request-Id"))
	require.Equal(t, "r/0-0/1", header.Get("X-Session-ID"))
	require.Equal(t, "t1", header.Get("X-Tenant"))
	want := map[string]any{
		"model": "m", "prompt": []any{1.0, 2.0, 3.0}, "n": 1.0, "max_tokens": 4.0,
		"temperature": 0.0, "top_p": 0.0, "top_k": -1.0, "min_p": 0.0, "repetition_penalty": 0.0, "seed": 0.0,
		"logprobs": 0.0, "return_token_ids": true, "return_tokens_as_token_ids": true,
		"stop": []any{"</s>"}, "include_stop_str_in_output": true, "stop_token_ids": []any{},
		"skip_special_tokens": false, "spaces_between_special_tokens": false, "stream": false,
	}
	require.Empty(t, cmp.Diff(want, got))

	full := request()
	full.Sampling = trajectory.Sampling{Temperature: 0.7, TopP: 0.9, TopK: 20, MinP: 0.1, RepetitionPenalty: 1.1}
	full.Seed, full.StopTokenIDs, full.CacheSalt = 5, []int32{9}, "2.7"
	_, err = c.Complete(t.Context(), full)
	require.NoError(t, err)
	for key, value := range map[string]any{
		"temperature": 0.7, "top_p": 0.9, "top_k": 20.0, "min_p": 0.1,
		"repetition_penalty": 1.1, "seed": 5.0, "stop_token_ids": []any{9.0}, "cache_salt": "2.7",
	} {
		want[key] = value
	}
	require.Empty(t, cmp.Diff(want, got))
}

func TestClientAcceptsAWholeAnswer(t *testing.T) {
	t.Parallel()
	c := newClient(t, reply(answer()), nil)
	got, err := c.Complete(t.Context(), request())
	require.NoError(t, err)
	require.Positive(t, got.Duration)
	got.Duration = 0
	require.Empty(t, cmp.Diff(policy.Completion{
		IDs: []int32{7, 8}, LogProbs: []float32{-0.5, -1.25}, Finish: "stop", StopString: "</s>", Text: "hi", WeightVersion: -1,
	}, got))
}

func TestClientAcceptsWhatSGLangAnswersDifferently(t *testing.T) {
	t.Parallel()
	a := answer()
	delete(firstChoice(a), "stop_reason")
	firstChoice(a)["matched_stop"] = 8
	logprobsOf(a)["tokens"] = []any{"h", "i"}
	a["metadata"] = map[string]any{"weight_version": "7"}
	got, err := newClient(t, reply(a), nil).Complete(t.Context(), request())
	require.NoError(t, err)
	require.Equal(t, int64(7), got.WeightVersion)
	require.Equal(t, int32(8), *got.StopToken)
	require.Empty(t, got.StopString)

	a["metadata"] = map[string]any{"weight_version": "default"}
	got, err = newClient(t, reply(a), nil).Complete(t.Context(), request())
	require.NoError(t, err)
	require.Equal(t, int64(-1), got.WeightVersion)
}

func TestClientKeepsTheEmptyPartialOfAnAbort(t *testing.T) {
	t.Parallel()
	a := answer()
	firstChoice(a)["finish_reason"], firstChoice(a)["token_ids"], firstChoice(a)["stop_reason"] = "abort", []any{}, nil
	firstChoice(a)["logprobs"] = map[string]any{"tokens": []any{}, "token_logprobs": []any{}}
	a["usage"].(map[string]any)["completion_tokens"] = 0
	got, err := newClient(t, reply(a), nil).Complete(t.Context(), request())
	require.NoError(t, err)
	require.Equal(t, "abort", got.Finish)
	require.Empty(t, got.IDs)
}

func TestClientRefusesAnAnswerThatDoesNotAgreeWithItself(t *testing.T) {
	t.Parallel()
	choice := func(key string, value any) func(map[string]any) {
		return func(a map[string]any) { firstChoice(a)[key] = value }
	}
	lp := func(key string, value any) func(map[string]any) {
		return func(a map[string]any) { logprobsOf(a)[key] = value }
	}
	for name, tc := range map[string]struct {
		change func(map[string]any)
		want   string
	}{
		"without token ids":       {choice("token_ids", nil), "return_token_ids"},
		"without prompt ids":      {choice("prompt_token_ids", nil), "return_token_ids"},
		"echo too short":          {choice("prompt_token_ids", []any{1, 2}), "echoes 2 prompt ids, 3 were sent"},
		"echo differs":            {choice("prompt_token_ids", []any{1, 9, 3}), "prompt id 9 at position 1, 2 was sent"},
		"more ids than log-probs": {choice("token_ids", []any{7, 8, 9}), "usage counts"},
		"log-probs null":          {choice("logprobs", nil), "no logprobs"},
		"a log-prob short":        {lp("token_logprobs", []any{-0.5}), "1 log-probs and 2 token ids"},
		"a log-prob null":         {lp("token_logprobs", []any{-0.5, nil}), "position 1 is null"},
		"the clamp":               {lp("token_logprobs", []any{-9999.0, -1}), "log-prob -9999 at position 0"},
		"positive":                {lp("token_logprobs", []any{0.5, -1}), "log-prob 0.5"},
		"beyond float32":          {lp("token_logprobs", []any{-1e300, -1}), "log-prob -1e+300"},
		"token string differs":    {lp("tokens", []any{"token_id:7", "token_id:9"}), `"token_id:9" at position 1, the id is 8`},
		"token strings mixed":     {lp("tokens", []any{"token_id:7", "i"}), "only some state their id"},
		"token strings short":     {lp("tokens", []any{"token_id:7"}), "1 token strings"},
		"finish unknown":          {choice("finish_reason", "eos"), `finish_reason "eos" is unknown`},
		"finish missing":          {choice("finish_reason", nil), "is unknown"},
		"stop reason of no kind":  {choice("stop_reason", map[string]any{}), "stop_reason"},
		"no token":                {choice("token_ids", []any{}), "holds no token"},
		"negative id":             {choice("token_ids", []any{7, -8}), "token id -8"},
		"id beyond int32":         {choice("token_ids", []any{7, 1 << 40}), "no completion"},
		"more than max_tokens":    {choice("token_ids", []any{7, 8, 9, 10, 11}), "max_tokens was 4"},
		"usage missing":           {func(a map[string]any) { delete(a, "usage") }, "no usage"},
		"usage differs":           {func(a map[string]any) { a["usage"].(map[string]any)["completion_tokens"] = 3 }, "usage counts"},
		"prompt usage differs":    {func(a map[string]any) { a["usage"].(map[string]any)["prompt_tokens"] = 4 }, "usage counts"},
		"no choice":               {func(a map[string]any) { a["choices"] = []any{} }, "0 choices"},
		"two choices":             {func(a map[string]any) { a["choices"] = append(a["choices"].([]any), firstChoice(a)) }, "2 choices"},
		"version not a number":    {func(a map[string]any) { a["metadata"] = map[string]any{"weight_version": "v7"} }, "not a version number"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := answer()
			tc.change(a)
			_, err := newClient(t, reply(a), nil).Complete(t.Context(), request())
			var failed *policy.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, policy.Rejected, failed.Outcome)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestClientRefusesRequestsThatNoServerCouldAnswer(t *testing.T) {
	t.Parallel()
	c := newClient(t, func(http.ResponseWriter, *http.Request) { t.Error("a call was made") }, nil)
	for want, change := range map[string]func(*policy.Request){
		"no prompt ids":     func(r *policy.Request) { r.Prompt = nil },
		"max_tokens is 0":   func(r *policy.Request) { r.MaxTokens = 0 },
		"empty stop string": func(r *policy.Request) { r.Stop = []string{""} },
		"no header can":     func(r *policy.Request) { r.ID = "a\r\nb" },
	} {
		r := request()
		change(&r)
		_, err := c.Complete(t.Context(), r)
		require.ErrorContains(t, err, want)
	}
}

func TestClientClassifiesEveryErrorBody(t *testing.T) {
	t.Parallel()
	vllm := func(message string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":"BadRequestError","param":null,"code":400}}`, message)
	}
	const full = "This model's maximum context length is 8 tokens. However, you requested 4 output tokens and your prompt contains at least 5 input tokens"
	for name, tc := range map[string]struct {
		status  int
		body    string
		outcome policy.Outcome
		want    string
	}{
		"vLLM":                           {400, vllm("bad stop"), policy.Rejected, "status 400: bad stop"},
		"vLLM context":                   {400, vllm(full), policy.ContextFull, "maximum context length is 8"},
		"engine context":                 {400, vllm("The decoder prompt (length 9) is longer than the maximum model length of 8"), policy.ContextFull, "decoder prompt"},
		"SGLang context":                 {400, `{"object":"error","message":"The input (9 tokens) is longer than the model's context length (8 tokens).","code":400}`, policy.ContextFull, "9 tokens"},
		"SGLang flat":                    {400, `{"object":"error","message":"no such field","type":"BadRequest","param":null,"code":400}`, policy.Rejected, "no such field"},
		"string 401":                     {401, `{"error":"Unauthorized"}`, policy.Rejected, "status 401: Unauthorized"},
		"detail 404":                     {404, `{"detail":"Not Found"}`, policy.Rejected, "Not Found"},
		"context words, 500":             {500, vllm(full), policy.Unreachable, "status 500"},
		"HTML 502":                       {502, "<html>\n<body>Bad\n gateway</body></html>", policy.Unreachable, "status 502: <html> <body>Bad gateway</body></html>"},
		"HTML 200":                       {200, "<html>login</html>", policy.Unreachable, "<html>login</html>"},
		"truncated JSON":                 {200, `{"choices":[{"token_ids":[1,`, policy.Unreachable, "no completion"},
		"an answer of another kind":      {200, `{"choices":[]}`, policy.Rejected, "0 choices"},
		"error under 200":                {200, `{"error":{"message":"engine died","code":500}}`, policy.Unreachable, "engine died"},
		"error under 200, overloaded":    {200, `{"error":{"message":"queue full","code":503}}`, policy.Overloaded, "queue full"},
		"error under 200, refused":       {200, `{"error":{"message":"bad stop","code":400}}`, policy.Rejected, "bad stop"},
		"error under 200, context":       {200, vllm(full), policy.ContextFull, "maximum context length is 8"},
		"error under 200, flat":          {200, `{"object":"error","message":"queue full","code":503}`, policy.Overloaded, "queue full"},
		"error under 200, only a string": {200, `{"error":"engine"}`, policy.Unreachable, "engine"},
		"empty 504":                      {504, "", policy.Unreachable, "no body"},
		"408":                            {408, "", policy.Unreachable, "no body"},
		"429":                            {429, `{"error":{"message":"slow down"}}`, policy.Overloaded, "slow down"},
		"503":                            {503, `{"error":"queue full"}`, policy.Overloaded, "queue full"},
		"422":                            {422, `[1]`, policy.Rejected, "[1]"},
		"long body":                      {500, strings.Repeat("é", 5000), policy.Unreachable, "é…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			}, nil)
			_, err := c.Complete(t.Context(), request())
			var failed *policy.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, tc.outcome, failed.Outcome)
			require.Equal(t, tc.status, failed.Status)
			require.ErrorContains(t, err, tc.want)
			require.Less(t, len(err.Error()), 600)
		})
	}
}

func TestClientFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			t.Error("followed")
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}, nil)
	_, err := c.Complete(t.Context(), request())
	var failed *policy.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, policy.Rejected, failed.Outcome)
}

func TestClientBoundsTheSizeOfAnAnswer(t *testing.T) {
	t.Parallel()
	c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(" ", 5000))
	}, func(cfg *policy.Config) { cfg.MaxResponseBytes = 1000 })
	_, err := c.Complete(t.Context(), request())
	require.ErrorContains(t, err, "max_response_bytes")
	require.ErrorContains(t, err, string(policy.Rejected))
}

// record keeps what a Recorder saw.
type record struct {
	mu      sync.Mutex
	started []policy.Call
	ended   []policy.CallResult
}

func (r *record) CallStarted(c policy.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = append(r.started, c)
}

func (r *record) CallEnded(_ policy.Call, res policy.CallResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, res)
}

func (r *record) outcomes() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.ended {
		out = append(out, e.Outcome)
	}
	return out
}

func TestEveryExchangeLeavesAStartAndAnEndRecord(t *testing.T) {
	t.Parallel()
	rec := &record{}
	calls := 0
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		if calls == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		reply(answer())(w, r)
	}, func(cfg *policy.Config) { cfg.Recorder, cfg.RetryBudget = rec, time.Minute })
	_, err := c.Complete(t.Context(), request())
	require.NoError(t, err)
	require.Equal(t, []string{"overloaded", "ok"}, rec.outcomes())
	require.Len(t, rec.started, 2)
	require.Equal(t, 1, rec.started[1].Try)
	require.Equal(t, "r/0-0/1.0.2", rec.started[1].RequestID)
	require.Equal(t, 3, rec.started[1].PromptTokens)
	require.Equal(t, "stop", rec.ended[1].Finish)
	require.Equal(t, 2, rec.ended[1].SampledTokens)
	require.Equal(t, 503, rec.ended[0].Status)
	require.Error(t, rec.ended[0].Err)
	require.Positive(t, rec.ended[1].Duration)
}

func TestCancelingACallClosesItsConnectionAndReturnsTheContextsError(t *testing.T) {
	t.Parallel()
	arrived, closed := make(chan struct{}), make(chan struct{})
	rec := &record{}
	c := newClient(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server watches the connection only after the body
		close(arrived)
		<-r.Context().Done()
		close(closed)
	}, func(cfg *policy.Config) { cfg.Recorder, cfg.RetryBudget = rec, time.Minute })
	ctx, cancel := context.WithCancel(patience.Context(t))
	go func() {
		<-arrived
		cancel()
	}()
	_, err := c.Complete(ctx, request())
	require.Equal(t, context.Canceled, err)
	patience.Receive(t, closed, "the closed connection")
	require.Equal(t, []string{"canceled"}, rec.outcomes())
}

func TestAServerThatTricklesBytesIsEndedByTheCallsWallClockLimit(t *testing.T) {
	t.Parallel()
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
				_, _ = io.WriteString(w, " ")
				w.(http.Flusher).Flush()
			}
		}
	}, func(cfg *policy.Config) { cfg.CallTimeout = 60 * time.Millisecond })
	_, err := c.Complete(t.Context(), request())
	var failed *policy.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, policy.Unreachable, failed.Outcome)
	require.ErrorContains(t, err, "no complete answer within 60ms")
}

func TestACallOnAConnectionThatTheServerHasClosedIsRepeated(t *testing.T) {
	t.Parallel()
	calls := 0
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls%2 == 0 { // the reused connection dies without an answer
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		reply(answer())(w, r)
	}, func(cfg *policy.Config) { cfg.RetryBudget = time.Minute })
	for range 4 {
		_, err := c.Complete(t.Context(), request())
		require.NoError(t, err)
	}
	require.Equal(t, 7, calls)
}

func TestAnAnswerCutOffInTheMiddleIsUnreachable(t *testing.T) {
	t.Parallel()
	c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"choices":[`)
	}, nil)
	_, err := c.Complete(t.Context(), request())
	var failed *policy.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, policy.Unreachable, failed.Outcome)
}

func TestAnIdleConnectionIsGivenUpBeforeTheServerDoes(t *testing.T) {
	t.Parallel()
	transport, err := policy.Defaults().RoundTripper()
	require.NoError(t, err)
	const uvicorn = 5 * time.Second // what vLLM and SGLang keep an idle connection for
	idle := transport.(*http.Transport).IdleConnTimeout
	require.Positive(t, idle)
	require.Less(t, idle, uvicorn)
}
