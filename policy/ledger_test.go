package policy_test

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/policy"
)

// records keeps what a Recorder sees.
type records struct {
	mu      sync.Mutex
	started []policy.Call
	ended   []policy.CallResult
}

func (r *records) CallStarted(c policy.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = append(r.started, c)
}

func (r *records) CallEnded(_ policy.Call, res policy.CallResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, res)
}

func TestCallsOpenLongerThanTheLimitAreListedAndEnded(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 4)
	seen, ledger := &records{}, &policy.Ledger{}
	c := newClient(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server doesn't see that the client left
		arrived <- struct{}{}
		<-r.Context().Done()
	}, func(cfg *policy.Config) { cfg.Recorder, cfg.Ledger = seen, ledger })
	done := make(chan error, 1)
	go func() {
		_, err := c.Complete(t.Context(), request())
		done <- err
	}()
	patience.Receive(t, arrived, "the call")
	later := time.Now().Add(time.Minute)
	require.Empty(t, ledger.Over(time.Hour, later), "younger than the limit")
	over := ledger.Over(30*time.Second, later)
	require.Len(t, over, 1)
	require.Equal(t, request().ID, over[0].RequestID)
	require.Len(t, ledger.EndOver(30*time.Second, later), 1)
	err := patience.Receive(t, done, "its end")
	var failed *policy.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, policy.Unreachable, failed.Outcome, "it may be tried again")
	require.ErrorContains(t, err, "the call was open for")
	require.Empty(t, ledger.Over(0, later), "what ended is not open")
	require.Len(t, seen.started, 1)
	require.Len(t, seen.ended, 1)
	require.Equal(t, "unreachable", seen.ended[0].Outcome)
	require.ErrorContains(t, seen.ended[0].Err, "the limit is 30s")
}

func TestEveryCallLeavesAStartAndAnEndRecord(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		cancel  bool
		want    string
	}{
		"answered":    {handler: reply(answer()), want: "ok"},
		"rejected":    {handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, want: "rejected"},
		"overloaded":  {handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, want: "overloaded"},
		"unreachable": {handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, want: "unreachable"},
		"canceled":    {handler: reply(answer()), cancel: true, want: "canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := &records{}
			c := newClient(t, tc.handler, func(cfg *policy.Config) { cfg.Recorder = seen })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.cancel {
				cancel()
			}
			_, _ = c.Complete(ctx, request())
			require.Len(t, seen.started, 1)
			require.Len(t, seen.ended, 1)
			require.Equal(t, tc.want, seen.ended[0].Outcome)
			require.Equal(t, tc.want == "ok", seen.ended[0].Err == nil)
			require.Positive(t, seen.ended[0].Duration)
			require.Empty(t, c.Open().Over(0, time.Now()))
		})
	}
}

func TestTLSEndpointIsVerifiedAgainstTheGivenAuthority(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(reply(answer()))
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	for name, tc := range map[string]struct {
		tls policy.TLS
		ok  bool
	}{
		"known authority":   {policy.TLS{CAFile: ca}, true},
		"system's only":     {policy.TLS{}, false},
		"another host name": {policy.TLS{CAFile: ca, ServerName: "elsewhere.test"}, false},
	} {
		cfg := policy.Defaults()
		cfg.BaseURL, cfg.Model, cfg.RetryBudget, cfg.TLS = server.URL, "m", 0, tc.tls
		c, err := policy.NewClient(cfg)
		require.NoError(t, err)
		_, err = c.Complete(t.Context(), request())
		c.Close()
		if tc.ok {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, "certificate", name)
	}
}

func TestTLSFilesThatCannotBeUsedAreNamed(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for want, tc := range map[string]policy.TLS{
		"tls.ca_file: " + empty + " holds no certificate": {CAFile: empty},
		"tls.ca_file: open": {CAFile: "no/such/file"},
		"give both":         {CertFile: empty},
		"tls.cert_file: ":   {CertFile: empty, KeyFile: empty},
	} {
		cfg := policy.Defaults()
		cfg.BaseURL, cfg.Model, cfg.TLS = "https://x", "m", tc
		require.ErrorContains(t, cfg.Validate(), want)
	}
}

func TestLoadIsReadFromTheMetricsOfBothServers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body string
		want policy.Load
		err  string
	}{
		"vLLM, two ranks": {body: `# HELP vllm:num_requests_running n
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a b"} 3.0
vllm:num_requests_running{engine="1",model_name="a b"} 4.0
vllm:num_requests_waiting{engine="0",model_name="a b"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="a b"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="a b"} 0.5
vllm:num_preemptions_total{engine="0",model_name="a b"} 7
vllm:time_to_first_token_seconds_bucket{le="0.1"} 9
`, want: policy.Load{Running: 7, Waiting: 2, KVUsage: 0.5, Preemptions: 7}},
		"SGLang": {
			body: "sglang:num_running_reqs{model_name=\"m\"} 5\nsglang:num_queue_reqs 1\nsglang:token_usage{x=\"}\"} 0.9\n",
			want: policy.Load{Running: 5, Waiting: 1, KVUsage: 0.9},
		},
		"another program's": {body: "go_goroutines 7\n", err: "neither vLLM's nor SGLang's"},
		"broken numbers":    {body: "vllm:num_requests_running{a=\"b\"} many\n", err: "neither"},
	} {
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(tc.body)) }, nil)
		got, err := c.Load(t.Context())
		if tc.err != "" {
			require.ErrorContains(t, err, tc.err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, tc.want, got, name)
	}
}

func TestWeightVersionIsReadFromVLLMAndFromSGLang(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]int64{"/weight_info": 7, "/model_info": 7, "/elsewhere": -1} {
		asked := 0
		c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
			asked++
			if r.URL.Path != path {
				w.WriteHeader(404)
				return
			}
			_, _ = w.Write([]byte(`{"weight_version":"7"}`))
		}, nil)
		for range 2 {
			got, err := c.WeightVersion(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, got, path)
		}
		require.Equal(t, map[string]int{"/weight_info": 2, "/model_info": 3, "/elsewhere": 4}[path], asked, "%s is remembered", path)
	}
}
