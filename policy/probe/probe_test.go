package probe_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/probe"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/policy/tokenizer"
	"github.com/verigraph/verigraph/trajectory"
)

func TestMain(m *testing.M) { patience.Main(m) }

var exact = trajectory.Sampling{Temperature: 1, TopP: 1, TopK: -1, RepetitionPenalty: 1}

func server(t *testing.T, sglang bool) *scripted.Server {
	t.Helper()
	script, err := scripted.ReadScript(strings.NewReader(`{"prompt_id":"p","turns":["x"]}`), "test")
	require.NoError(t, err)
	cfg := scripted.Defaults()
	cfg.SGLang, cfg.Version = sglang, 3
	s, err := scripted.New(script, cfg)
	require.NoError(t, err)
	return s
}

// run probes a handler.
func run(t *testing.T, h http.Handler, change func(*probe.Options)) probe.Report {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	cfg := policy.Defaults()
	cfg.BaseURL, cfg.Model, cfg.RetryBudget, cfg.CallTimeout = s.URL, "scripted", 0, 10*time.Second
	c, err := policy.NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	tok, err := scripted.Tokenizer()
	require.NoError(t, err)
	opt := probe.Options{Endpoint: s.URL, Model: "scripted", Tokenizer: tok, Sampling: exact}
	if change != nil {
		change(&opt)
	}
	return probe.Run(t.Context(), c, opt)
}

func find(t *testing.T, r probe.Report, name string) probe.Check {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	require.Fail(t, "no such check", name)
	return probe.Check{}
}

func TestAServerThatGivesEverythingPassesEveryCheckOnBothWires(t *testing.T) {
	t.Parallel()
	for _, sglang := range []bool{false, true} {
		r := run(t, server(t, sglang), nil)
		require.True(t, r.Fit())
		require.Len(t, r.Checks, 11)
		for _, c := range r.Checks {
			require.Equal(t, probe.OK, c.State, "%s: %s", c.Name, c.Found)
			require.Empty(t, c.Fix)
		}
		require.Contains(t, find(t, r, "log-prob mode").Found, "raw")
	}
}

// edited changes the JSON of one route's answers.
func edited(inner http.Handler, path string, change func(req, answer map[string]any)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			inner.ServeHTTP(w, r)
			return
		}
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		r.Body = http.NoBody
		r2 := r.Clone(r.Context())
		r2.Body = readCloser{bytes.NewReader(body.Bytes())}
		rec := httptest.NewRecorder()
		inner.ServeHTTP(rec, r2)
		var req, answer map[string]any
		_ = json.Unmarshal(body.Bytes(), &req)
		_ = json.Unmarshal(rec.Body.Bytes(), &answer)
		change(req, answer)
		w.WriteHeader(rec.Code)
		_ = json.NewEncoder(w).Encode(answer)
	})
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

func choice(a map[string]any) map[string]any { return a["choices"].([]any)[0].(map[string]any) }

func refuse(path string, status int) func(http.Handler) http.Handler {
	return func(inner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, path) {
				w.WriteHeader(status)
				return
			}
			inner.ServeHTTP(w, r)
		})
	}
}

func completions(change func(req, answer map[string]any)) func(http.Handler) http.Handler {
	return func(inner http.Handler) http.Handler { return edited(inner, "/v1/completions", change) }
}

func TestEachMissingThingIsNamedWithTheOptionThatGivesIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		wrap   func(http.Handler) http.Handler
		change func(*probe.Options)
		check  string
		state  probe.State
		fix    string
	}{
		"unreachable":       {wrap: refuse("/", 503), check: "endpoint", state: probe.Missing, fix: "--port"},
		"no key":            {wrap: refuse("/v1", 401), check: "endpoint", state: probe.Missing, fix: "api_key"},
		"another model":     {change: func(o *probe.Options) { o.Model = "other" }, check: "model", state: probe.Missing, fix: "--served-model-name"},
		"too short context": {change: func(o *probe.Options) { o.NeedContext = 1 << 20 }, check: "context length", state: probe.Missing, fix: "--max-model-len"},
		"context not stated": {wrap: func(h http.Handler) http.Handler {
			return edited(h, "/v1/models", func(_, a map[string]any) { delete(a["data"].([]any)[0].(map[string]any), "max_model_len") })
		}, check: "context length", state: probe.Warning, fix: "rollout.max_context"},
		"no ids":       {wrap: completions(func(_, a map[string]any) { delete(choice(a), "token_ids") }), check: "token ids", state: probe.Missing, fix: "return_token_ids"},
		"no log-probs": {wrap: completions(func(_, a map[string]any) { choice(a)["logprobs"] = nil }), check: "log-probs", state: probe.Missing, fix: "--max-logprobs"},
		"stop ignored": {
			wrap:  completions(func(_, a map[string]any) { choice(a)["stop_reason"], choice(a)["finish_reason"] = nil, "length" }),
			check: "stop tag", state: probe.Missing, fix: "end_of_turn",
		},
		"stop left out": {wrap: completions(func(req, a map[string]any) {
			if s, _ := req["stop"].([]any); len(s) > 0 {
				choice(a)["text"] = strings.TrimSuffix(choice(a)["text"].(string), s[0].(string))
			}
		}), check: "stop tag", state: probe.Warning},
		"a trial that ends at once": {wrap: completions(endsAtOnce), check: "stop tag", state: probe.Skipped},
		"processed log-probs":       {wrap: completions(processed), check: "log-prob mode", state: probe.OK},
		"raw log-probs under a changed distribution": {
			change: func(o *probe.Options) { o.Sampling.TopP = 0.9 },
			check:  "log-prob mode", state: probe.Warning, fix: "--logprobs-mode processed_logprobs",
		},
		"another tokenizer": {wrap: func(h http.Handler) http.Handler {
			return edited(h, "/tokenize", func(_, a map[string]any) { a["tokens"] = append(a["tokens"].([]any), 1) })
		}, check: "tokenizer", state: probe.Missing, fix: "policy.tokenizer"},
		"no local tokenizer": {change: func(o *probe.Options) { o.Tokenizer = (*tokenizer.Tokenizer)(nil) }, check: "tokenizer", state: probe.Skipped, fix: "--tokenizer"},
		"no tokenize route":  {wrap: refuse("/tokenize", 404), check: "tokenizer", state: probe.Warning},
		"no version":         {wrap: refuse("/weight_info", 404), check: "weight version", state: probe.Warning, fix: "VLLM_SERVER_DEV_MODE"},
		"no metrics":         {wrap: refuse("/metrics", 404), check: "load metrics", state: probe.Warning, fix: "--enable-metrics"},
		"sampling":           {change: func(o *probe.Options) { o.Sampling.TopK = 20 }, check: "sampling", state: probe.Warning, fix: "rollout.sampling"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h http.Handler = server(t, false)
			if tc.wrap != nil {
				h = tc.wrap(h)
			}
			r := run(t, h, tc.change)
			c := find(t, r, tc.check)
			require.Equal(t, tc.state, c.State, c.Found)
			require.Contains(t, c.Fix, tc.fix)
			require.Equal(t, tc.state != probe.Missing, r.Fit())
		})
	}
}

// endsAtOnce is a model that samples the end of the turn first, whose text no stop string is looked for in.
func endsAtOnce(_, a map[string]any) {
	c := choice(a)
	logs := c["logprobs"].(map[string]any)
	c["token_ids"], c["text"], c["finish_reason"], c["stop_reason"] = []any{3752}, "<|im_end|>", "stop", nil
	logs["tokens"], logs["token_logprobs"] = []any{"token_id:3752"}, []any{-1}
	a["usage"].(map[string]any)["completion_tokens"] = 1
}

// processed is a server that states log-probs of the distribution it samples from.
func processed(req, a map[string]any) {
	if req["top_k"] == 1.0 {
		choice(a)["logprobs"].(map[string]any)["token_logprobs"] = []any{0}
	}
}
