package scripted_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/chat"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/task"
)

func TestMain(m *testing.M) { patience.Main(m) }

const (
	codeTag = "</code_interpreter>"
	block   = "<think>\nI load the file.\n</think>\n\n<code_interpreter>\nimport pandas as pd\ndf = pd.read_csv('data.csv')\nprint(df['fare'].mean())\n</code_interpreter>"
	tail    = "\n<tool_response>\n550e8400\n</tool_response>\nSo the mean is 550e8400."
	draft   = "<think>\nDraft: <code_interpreter>\nprint(0)\n</code_interpreter>\nNo, better:\n</think>\n<code_interpreter>\nprint(1)\n</code_interpreter>\n"
)

// fixture is a running server with the real client.
type fixture struct {
	t      *testing.T
	url    string
	server *scripted.Server
	client *policy.Client
	tok    *tokenizer.Tokenizer
	chat   *chat.ChatML
}

func start(t *testing.T, turns map[string][]string, change func(*scripted.Config)) *fixture {
	t.Helper()
	var lines strings.Builder
	for id, texts := range turns {
		require.NoError(t, json.NewEncoder(&lines).Encode(map[string]any{"prompt_id": id, "turns": texts}))
	}
	script, err := scripted.ReadScript(strings.NewReader(lines.String()), "test")
	require.NoError(t, err)
	cfg := scripted.Defaults()
	if change != nil {
		change(&cfg)
	}
	server, err := scripted.New(script, cfg)
	require.NoError(t, err)
	url, stop, err := server.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(stop)
	pc := policy.Defaults()
	pc.BaseURL, pc.Model, pc.RetryBudget = url, cfg.Model, 0
	client, err := policy.NewClient(pc)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	tok, err := scripted.Tokenizer()
	require.NoError(t, err)
	ml, err := chat.New(tok)
	require.NoError(t, err)
	return &fixture{t, url, server, client, tok, ml}
}

func (f *fixture) request(promptID string, sample, turn int, prompt []int32) policy.Request {
	id := task.RolloutID{Run: "run/1", Dispatch: task.NewDispatchID(promptID, 3), Sample: sample}
	r := policy.Request{ID: id.RequestID(0, turn), Session: id.String(), Prompt: prompt, MaxTokens: 4096}
	r.Stop, r.StopTokenIDs = []string{codeTag}, []int32{f.chat.EndOfTurn()}
	return r
}

func (f *fixture) complete(r policy.Request) policy.Completion {
	f.t.Helper()
	c, err := f.client.Complete(f.t.Context(), r)
	require.NoError(f.t, err)
	return c
}

func TestATurnStopsAtTheCodeTagAndNothingAfterItsLastTokenIsSampled(t *testing.T) {
	t.Parallel()
	f := start(t, map[string][]string{"p_0": {block + tail, "no code"}}, nil)
	prompt := f.chat.Prompt("system", "question")
	c := f.complete(f.request("p_0", 0, 0, prompt))
	require.Equal(t, "stop", c.Finish)
	require.Equal(t, codeTag, c.StopString)
	require.Nil(t, c.StopToken)
	require.Equal(t, block, c.Text)
	text := string(f.tok.Decode(c.IDs))
	require.Contains(t, []string{block, block + "\n"}, text)
	require.NotContains(t, text, "550e8400")
	n, found := policy.Trim(f.tok, c.IDs, c.LogProbs, codeTag)
	require.True(t, found)
	require.Len(t, c.IDs, n)

	next := slices.Concat(prompt, c.IDs, f.chat.Delta(false, "<tool_response>\n1\n</tool_response>"))
	c = f.complete(f.request("p_0", 0, 1, next))
	require.Equal(t, "no code<|im_end|>", string(f.tok.Decode(c.IDs)))
	require.Equal(t, f.chat.EndOfTurn(), c.IDs[len(c.IDs)-1])
	require.Empty(t, c.StopString)
	require.Nil(t, c.StopToken)
}

func TestTheLastTokenRunsPastTheTagInSomeSamplesAndNotInOthers(t *testing.T) {
	t.Parallel()
	f := start(t, map[string][]string{"0": {block + "\nmore"}, "1": {block + "<x>"}}, nil)
	for promptID, over := range map[string]string{"0": "\n", "1": "<"} {
		seen := map[string]int{}
		for sample := range 40 {
			c := f.complete(f.request(promptID, sample, 0, f.chat.Prompt("s", "u")))
			seen[strings.TrimPrefix(string(f.tok.Decode(c.IDs)), block)]++
		}
		require.Len(t, seen, 2)
		require.Positive(t, seen[over])
		require.Positive(t, seen[""], "a split token ends exactly at the tag")
	}
}

func TestAServerThatIsNotToldToStopSamplesTheWholeTurn(t *testing.T) {
	t.Parallel()
	f := start(t, map[string][]string{"0": {block + tail}}, nil)
	r := f.request("0", 0, 0, f.chat.Prompt("s", "u"))
	r.Stop = nil
	c := f.complete(r)
	require.Equal(t, block+tail+"<|im_end|>", string(f.tok.Decode(c.IDs)))
	n, found := policy.Trim(f.tok, c.IDs, c.LogProbs, codeTag)
	require.True(t, found)
	require.NotContains(t, string(f.tok.Decode(c.IDs[:n])), "550e8400")
}

func TestEveryLogProbCanBeRecomputed(t *testing.T) {
	t.Parallel()
	f := start(t, map[string][]string{"0": {block, "done"}}, func(c *scripted.Config) { c.Version = 5 })
	prompt := f.chat.Prompt("s", "u")
	seen := map[float32]bool{}
	for turn, version := range []int64{5, 6} {
		f.server.SetVersion(version)
		got, err := f.client.WeightVersion(t.Context())
		require.NoError(t, err)
		require.Equal(t, version, got)
		c := f.complete(f.request("0", 1, turn, prompt))
		for i, id := range c.IDs {
			require.Equal(t, scripted.LogProb(prompt, id, version), c.LogProbs[i], "turn %d, token %d", turn, i)
			require.NotEqual(t, scripted.LogProb(prompt, id, version+1), c.LogProbs[i])
			require.NotEqual(t, scripted.LogProb(prompt, id+1, version), c.LogProbs[i])
			require.Negative(t, c.LogProbs[i])
			require.GreaterOrEqual(t, c.LogProbs[i], float32(-8))
			seen[c.LogProbs[i]] = true
			prompt = append(prompt, id)
		}
		prompt = append(prompt, f.chat.Delta(false, "o")...)
	}
	require.Greater(t, len(seen), 20)
}

func TestSampledIDsAreNowAndThenNotCanonicalAndAlwaysTheSame(t *testing.T) {
	t.Parallel()
	f := start(t, map[string][]string{"0": {block}}, nil)
	canonical := f.tok.Encode(block)
	odd := 0
	for sample := range 12 {
		r := f.request("0", sample, 0, f.chat.Prompt("s", "u"))
		c := f.complete(r)
		require.Equal(t, c.IDs, f.complete(r).IDs)
		r.ID = strings.Replace(r.ID, fmt.Sprintf("/%d.0.0", sample), fmt.Sprintf("/%d.4.0", sample), 1)
		require.Equal(t, c.IDs, f.complete(r).IDs, "another attempt")
		require.Equal(t, block, string(f.tok.Decode(c.IDs)))
		if !slices.Equal(c.IDs, canonical) {
			odd++
		}
	}
	require.Greater(t, odd, 6)
}

func TestATurnThatWasCutAnywhereGoesOnFromTheSameIDs(t *testing.T) {
	t.Parallel()
	f := start(t, map[string][]string{"0": {"\n" + block, "\n" + block}}, nil)
	for turn := range 2 {
		prompt := f.chat.Prompt("s", "u")
		if turn == 1 {
			prompt = slices.Concat(prompt, f.tok.Encode(block), f.chat.Delta(false, "o"))
		}
		whole := f.complete(f.request("0", 0, turn, prompt))
		require.Equal(t, "\n"+block, string(f.tok.Decode(whole.IDs)), "the header's newline is no part of the turn")
		for cut := range whole.IDs {
			c := f.complete(f.request("0", 0, turn, slices.Concat(prompt, whole.IDs[:cut])))
			if got := string(f.tok.Decode(c.IDs)); strings.Contains(got, codeTag) {
				require.Equal(t, whole.IDs[cut:], c.IDs, "cut at %d", cut)
				require.Equal(t, whole.LogProbs[cut:], c.LogProbs)
				continue
			}
			// The tag began before the cut: as in vLLM, the stop string is looked for in this call's text only.
			require.Equal(t, f.chat.EndOfTurn(), c.IDs[len(c.IDs)-1])
		}
	}
}

func TestGenerationGoesOnAfterAStopInsideOpenReasoning(t *testing.T) {
	t.Parallel()
	f := start(t, map[string][]string{"0": {draft}}, nil)
	prompt := f.chat.Prompt("s", "u")
	first := f.complete(f.request("0", 0, 0, prompt))
	require.Equal(t, codeTag, first.StopString)
	scan := policy.ScanTurn(f.tok, first.IDs, codeTag)
	require.True(t, scan.ThinkOpen && !scan.Found)
	second := f.complete(f.request("0", 0, 0, slices.Concat(prompt, first.IDs)))
	ids := slices.Concat(first.IDs, second.IDs)
	n, found := policy.Trim(f.tok, ids, slices.Concat(first.LogProbs, second.LogProbs), codeTag)
	require.True(t, found)
	require.Len(t, ids, n)
	require.Equal(t, strings.TrimSpace(draft), strings.TrimSpace(string(f.tok.Decode(ids))))
}

// A prompt without the assistant header, of another template, is matched by its ending.
func TestAPromptOfAnotherTemplateIsContinuedByItsEnding(t *testing.T) {
	t.Parallel()
	f := start(t, map[string][]string{"0": {block}}, nil)
	prompt := f.tok.Encode("USER: u\nPOLICY: ")
	whole := f.complete(f.request("0", 0, 0, prompt))
	c := f.complete(f.request("0", 0, 0, slices.Concat(prompt, whole.IDs[:9])))
	require.Equal(t, whole.IDs[9:], c.IDs)
}

func TestMaxTokensEndsAGenerationWithLength(t *testing.T) {
	t.Parallel()
	f := start(t, map[string][]string{"0": {block}}, nil)
	r := f.request("0", 0, 0, f.chat.Prompt("s", "u"))
	r.MaxTokens = 5
	c := f.complete(r)
	require.Len(t, c.IDs, 5)
	require.Equal(t, "length", c.Finish)
	require.True(t, strings.HasPrefix(block, c.Text))
}

func TestAStopIDEndsAGeneration(t *testing.T) {
	t.Parallel()
	f := start(t, map[string][]string{"0": {"a\nb"}}, nil)
	newline, ok := f.tok.TokenID([]byte("\n"))
	require.True(t, ok)
	r := f.request("0", 0, 0, f.chat.Prompt("s", "u"))
	r.StopTokenIDs = []int32{newline}
	c := f.complete(r)
	require.Equal(t, newline, *c.StopToken)
	require.Equal(t, "a\n", string(f.tok.Decode(c.IDs)))
}

func TestAScriptThatHasRunOutSamplesOnlyTheEndOfTheTurn(t *testing.T) {
	t.Parallel()
	f := start(t, map[string][]string{"0": {"x", ""}}, nil)
	for turn := 1; turn < 4; turn++ {
		c := f.complete(f.request("0", 0, turn, f.chat.Prompt("s", "u")))
		require.Equal(t, []int32{f.chat.EndOfTurn()}, c.IDs)
	}
}

func requireOutcome(t *testing.T, err error, outcome policy.Outcome, status int, text string) {
	t.Helper()
	var failed *policy.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, outcome, failed.Outcome)
	require.Equal(t, status, failed.Status)
	require.ErrorContains(t, err, text)
}

func TestTheServerRefusesWhatVLLMRefuses(t *testing.T) {
	t.Parallel()
	f := start(t, map[string][]string{"0": {block}}, func(c *scripted.Config) { c.MaxModelLen = 100 })
	prompt := f.chat.Prompt("s", "u")
	for name, tc := range map[string]struct {
		change  func(*policy.Request)
		outcome policy.Outcome
		status  int
		text    string
	}{
		"context": {func(r *policy.Request) { r.MaxTokens = 101 - len(prompt) }, policy.ContextFull, 400, "maximum context length is 100 tokens"},
		"prompt":  {func(r *policy.Request) { r.ID = strings.Replace(r.ID, "/0-3/", "/7-3/", 1) }, policy.Rejected, 404, "7-3"},
		"id":      {func(r *policy.Request) { r.ID = "cmpl-1" }, policy.Rejected, 400, "X-Request-Id"},
		"vocab":   {func(r *policy.Request) { r.Prompt = []int32{99999} }, policy.Rejected, 400, "99999 is out of vocabulary"},
		"stops":   {func(r *policy.Request) { r.Stop = []string{"a", "b", "c", "d", "e"} }, policy.Rejected, 400, "At most 4"},
	} {
		t.Run(name, func(t *testing.T) {
			r := f.request("0", 0, 0, prompt)
			r.MaxTokens = 4
			tc.change(&r)
			_, err := f.client.Complete(t.Context(), r)
			requireOutcome(t, err, tc.outcome, tc.status, tc.text)
		})
	}
	r := f.request("0", 0, 0, prompt)
	r.MaxTokens = 100 - len(prompt)
	f.complete(r)
}

func TestProbeAcceptsTheServerAndNamesItsModels(t *testing.T) {
	t.Parallel()
	f := start(t, map[string][]string{"0": {"x"}}, func(c *scripted.Config) { c.Model = "tiny" })
	m, err := f.client.Probe(t.Context())
	require.NoError(t, err)
	require.Equal(t, policy.Model{Name: "tiny", MaxModelLen: 32768}, m)

	cfg := policy.Defaults()
	cfg.BaseURL, cfg.Model = f.url, "big"
	other, err := policy.NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(other.Close)
	_, err = other.Probe(t.Context())
	require.ErrorContains(t, err, `no model "big"; it serves: tiny`)
	_, err = other.Complete(t.Context(), f.request("0", 0, 0, []int32{1}))
	requireOutcome(t, err, policy.Rejected, 404, "`big` does not exist")
}

func TestTheServersTokenizerIsTheEmbeddedOne(t *testing.T) {
	t.Parallel()
	f := start(t, map[string][]string{"0": {"x"}}, nil)
	text := "print(df)\n<|im_end|>"
	ids, err := f.client.Tokenize(t.Context(), text)
	require.NoError(t, err)
	require.Equal(t, f.tok.EncodeSpecial(text), ids)
	body, err := json.Marshal(map[string]any{"tokens": ids})
	require.NoError(t, err)
	require.JSONEq(t, `{"prompt":"print(df)\n<|im_end|>"}`, f.do(http.MethodPost, "/detokenize", string(body), 200))

	own, err := tokenizer.Parse(scripted.TokenizerJSON())
	require.NoError(t, err)
	require.Equal(t, f.tok.SHA256(), own.SHA256())
}

func TestTheTokenizerHasTokensThatRunPastAClosingTag(t *testing.T) {
	t.Parallel()
	tok, err := scripted.Tokenizer()
	require.NoError(t, err)
	for text, last := range map[string]string{codeTag + "\n": ">\n", codeTag + "<tool_response>": "><", codeTag: ">"} {
		ids := tok.Encode(text)
		id, ok := tok.TokenID([]byte(last))
		require.True(t, ok, last)
		require.Contains(t, ids, id)
		n, found := policy.Trim(tok, ids, make([]float32, len(ids)), codeTag)
		require.True(t, found)
		require.Equal(t, id, ids[n-1])
	}
	for _, text := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"} {
		_, ok := tok.Special(text)
		require.True(t, ok, text)
	}
	require.Greater(t, tok.Size(), 2000)
}

// do is a raw call.
func (f *fixture) do(method, path, body string, status int) string {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, strings.NewReader(body))
	require.NoError(f.t, err)
	req.Header.Set("X-Request-Id", "r/0-0/0.0.0")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	require.NoError(f.t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(f.t, err)
	require.Equal(f.t, status, resp.StatusCode, string(data))
	return string(data)
}

// A client that leaves fields out falls into vLLM's traps: 16 tokens, no ids, no log-probs.
func TestOmittedFieldsTakeVLLMsDefaults(t *testing.T) {
	t.Parallel()
	f := start(t, map[string][]string{"0": {block}}, nil)
	var got struct {
		Choices []struct {
			FinishReason string `json:"finish_reason"`
			TokenIDs     []int  `json:"token_ids"`
			Logprobs     any    `json:"logprobs"`
		} `json:"choices"`
		Usage struct {
			CompletionTokens int `json:"completion_tokens"`
		} `json:"usage"`
	}
	require.NoError(t, json.Unmarshal([]byte(f.do(http.MethodPost, "/v1/completions", `{"prompt":"x"}`, 200)), &got))
	require.Equal(t, 16, got.Usage.CompletionTokens)
	require.Equal(t, "length", got.Choices[0].FinishReason)
	require.Nil(t, got.Choices[0].TokenIDs)
	require.Nil(t, got.Choices[0].Logprobs)

	require.Contains(t, f.do(http.MethodPost, "/v1/completions", `{"prompt":"x","logprobs":0,"max_tokens":1}`, 200), `"tokens":["<think"]`)
	require.Contains(t, f.do(http.MethodPost, "/v1/completions", `{"prompt":"x","stop":"<code","max_tokens":99}`, 200), `</think>\n\n","logprobs"`)
	for body, want := range map[string]string{
		`{`: "unexpected", `{"prompt":"x","n":2}`: "one choice", `{"prompt":"x","stream":true}`: "streaming", `{"prompt":"x","stop":""}`: "empty string",
		`{"prompt":[]}`: "empty", `{"prompt":{}}`: "must be a list", `{"prompt":"x","max_tokens":0}`: "max_tokens", `{"prompt":"x","stop":3}`: "stop must be",
	} {
		require.Contains(t, f.do(http.MethodPost, "/v1/completions", body, 400), want)
	}
	require.Contains(t, f.do(http.MethodPost, "/tokenize", `{}`, 400), `"param":"prompt"`)
	require.Contains(t, f.do(http.MethodPost, "/detokenize", `{"tokens":"x"}`, 400), "BadRequestError")
}

func TestHealthAndMetricsAnswer(t *testing.T) {
	t.Parallel()
	f := start(t, map[string][]string{"0": {"x"}}, nil)
	f.do(http.MethodGet, "/health", "", 200)
	f.complete(f.request("0", 0, 0, f.chat.Prompt("s", "u")))
	text := f.do(http.MethodGet, "/metrics", "", 200)
	require.Contains(t, text, `vllm:num_requests_running{engine="0",model_name="scripted"} 0`)
	require.Contains(t, text, `vllm:request_success_total{engine="0",model_name="scripted",finished_reason="stop"} 1`)
}

func TestACanceledCallEndsItsLatency(t *testing.T) {
	t.Parallel()
	asked := make(chan scripted.CallInfo, 1)
	f := start(t, map[string][]string{"0": {"x"}}, func(c *scripted.Config) {
		c.Latency = func(info scripted.CallInfo) time.Duration {
			asked <- info
			return time.Hour
		}
	})
	ctx, cancel := context.WithCancel(patience.Context(t))
	var info scripted.CallInfo
	go func() {
		info = <-asked
		cancel()
	}()
	_, err := f.client.Complete(ctx, f.request("0", 2, 0, []int32{1}))
	require.Equal(t, context.Canceled, err)
	require.Equal(t, 2, info.ID.Sample)
	require.Equal(t, 1, info.PromptTokens)
}

// An empty answer of status 200 would look like a broken server instead of one that is gone.
func TestACallThatIsCutOffGetsNoAnswer(t *testing.T) {
	t.Parallel()
	script, err := scripted.ReadScript(strings.NewReader(`{"prompt_id":"0","turns":["x"]}`), "s")
	require.NoError(t, err)
	cfg := scripted.Defaults()
	cfg.Latency = func(scripted.CallInfo) time.Duration { return time.Hour }
	server, err := scripted.New(script, cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/completions", strings.NewReader(`{"prompt":[1]}`))
	r.Header.Set("X-Request-Id", "r/0-0/0.0.0")
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { server.ServeHTTP(httptest.NewRecorder(), r) })
}

func TestStopEndsRunningCallsAndMayBeRepeated(t *testing.T) {
	t.Parallel()
	script, err := scripted.ReadScript(strings.NewReader(`{"prompt_id":"0","turns":["x"]}`), "s")
	require.NoError(t, err)
	asked := make(chan struct{})
	cfg := scripted.Defaults()
	cfg.Latency = func(scripted.CallInfo) time.Duration { close(asked); return time.Hour }
	server, err := scripted.New(script, cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	url, stop, err := server.Start(ctx)
	require.NoError(t, err)
	pc := policy.Defaults()
	pc.BaseURL, pc.Model, pc.RetryBudget = url, cfg.Model, 0
	client, err := policy.NewClient(pc)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	go func() {
		<-asked
		cancel() // the end of the context is enough
	}()
	r := policy.Request{ID: "r/0-0/0.0.0", Prompt: []int32{1}, MaxTokens: 1}
	_, err = client.Complete(patience.Context(t), r)
	requireOutcome(t, err, policy.Unreachable, 0, "")
	stop()
	stop()
	_, err = client.Complete(t.Context(), r)
	requireOutcome(t, err, policy.Unreachable, 0, "refused")
}

func TestNewRefusesABadConfiguration(t *testing.T) {
	t.Parallel()
	script, err := scripted.ReadScript(strings.NewReader(`{"prompt_id":"0","turns":["x"]}`), "s")
	require.NoError(t, err)
	for _, cfg := range []scripted.Config{{}, {Model: "m"}, {Model: "m", MaxModelLen: 9, Version: -1}} {
		_, err := scripted.New(script, cfg)
		require.Error(t, err)
	}
	_, err = scripted.New(nil, scripted.Defaults())
	require.Error(t, err)
}
