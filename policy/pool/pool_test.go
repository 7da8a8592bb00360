package pool

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/policy"
)

// engine is a policy server of one token that can hold its answers back.
type engine struct {
	*httptest.Server
	mu       sync.Mutex
	sessions map[string]int
	order    []string
	silent   bool // /weight_info fails
	now, top int
	version  string
	hold     chan struct{} // non-nil: every completion takes one from it before it answers
	arrived  chan struct{}
}

func newEngine(t *testing.T, hold bool) *engine {
	t.Helper()
	e := &engine{sessions: map[string]int{}, arrived: make(chan struct{}, 1000), version: "0"}
	if hold {
		e.hold = make(chan struct{})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /weight_info", func(w http.ResponseWriter, _ *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.silent {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprintf(w, `{"weight_version":%q}`, e.version)
	})
	mux.HandleFunc("POST /v1/completions", e.complete)
	e.Server = httptest.NewServer(mux)
	t.Cleanup(e.Close)
	return e
}

func (e *engine) complete(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.sessions[r.Header.Get("X-Session-ID")]++
	e.order = append(e.order, r.Header.Get("X-Session-ID"))
	e.now++
	e.top = max(e.top, e.now)
	e.mu.Unlock()
	e.arrived <- struct{}{}
	if e.hold != nil {
		_, _ = io.Copy(io.Discard, r.Body) // or the server doesn't see that the client left
		select {
		case <-e.hold:
		case <-r.Context().Done():
		}
	}
	e.mu.Lock()
	e.now--
	e.mu.Unlock()
	_, _ = w.Write([]byte(`{"choices":[{"index":0,"finish_reason":"stop","token_ids":[7],"prompt_token_ids":[1],
		"logprobs":{"tokens":["token_id:7"],"token_logprobs":[-1]}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`))
}

func newPool(t *testing.T, change func(*Config, *policy.Config), urls ...string) *Pool {
	t.Helper()
	cfg, p := Defaults(), policy.Defaults()
	p.BaseURL, p.Model = urls[0], "m"
	cfg.URLs, cfg.Adaptive, cfg.CheckEvery = urls[1:], false, 10*time.Millisecond
	if change != nil {
		change(&cfg, &p)
	}
	pl, err := New(cfg, p, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(pl.Close)
	return pl
}

func ask(session string) policy.Request {
	return policy.Request{ID: session + ".0.0", Session: session, Prompt: []int32{1}, MaxTokens: 1}
}

func TestEachTrajectoryOfAPoolStaysOnOneEndpoint(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t, false), newEngine(t, false)
	p := newPool(t, nil, a.URL, b.URL)
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			for range 5 {
				_, err := p.Complete(t.Context(), ask(fmt.Sprint("s", i)))
				require.NoError(t, err)
			}
		})
	}
	calls.Wait()
	for session, n := range a.sessions {
		require.Equal(t, 5, n, session)
		require.NotContains(t, b.sessions, session)
	}
	require.Len(t, a.sessions, 20-len(b.sessions))
}

func TestCallsOverTheLimitWaitInTheOrderInWhichTheyCame(t *testing.T) {
	t.Parallel()
	e := newEngine(t, true)
	p := newPool(t, func(c *Config, _ *policy.Config) { c.MaxInFlight = 2 }, e.URL)
	var calls sync.WaitGroup
	var want []string
	for i := range 10 {
		session := fmt.Sprint("s", i)
		want = append(want, session)
		calls.Go(func() {
			_, err := p.Complete(t.Context(), ask(session))
			require.NoError(t, err)
		})
		if i < 2 {
			patience.Receive(t, e.arrived, "a call")
			continue
		}
		patience.Until(t, session+" waits", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.waiting) == i-1
		})
	}
	for range 8 {
		e.hold <- struct{}{}
		patience.Receive(t, e.arrived, "a call")
	}
	e.hold <- struct{}{}
	e.hold <- struct{}{}
	calls.Wait()
	require.Equal(t, 2, e.top)
	require.Equal(t, want, e.order)
	require.Empty(t, p.waiting)
}

func TestACallThatStopsWaitingLeavesTheQueueAndTakesNoPlace(t *testing.T) {
	t.Parallel()
	e := newEngine(t, true)
	p := newPool(t, func(c *Config, _ *policy.Config) { c.MaxInFlight = 1 }, e.URL)
	first := make(chan error, 1)
	go func() { _, err := p.Complete(t.Context(), ask("first")); first <- err }()
	patience.Receive(t, e.arrived, "a call")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := p.Complete(ctx, ask("second"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	e.hold <- struct{}{}
	require.NoError(t, patience.Receive(t, first, "its answer"))
	require.Zero(t, p.Status()[0].InFlight)
	require.Empty(t, p.waiting)
}

func TestTrainersEndpointsMustBeOnTheAllowList(t *testing.T) {
	t.Parallel()
	p := newPool(t, func(c *Config, _ *policy.Config) {
		c.Allow = []string{"10.1.0.0/16", "*.rollout.svc:8000", "exact:9000"}
	}, "http://base:1")
	for _, good := range []string{"http://10.1.2.3:8000", "https://a.rollout.svc:8000", "http://EXACT:9000/v1/"} {
		require.NoError(t, p.SetEndpoints([]string{good}), good)
		require.Len(t, p.Status(), 1)
	}
	before := p.Status()
	for bad, want := range map[string]string{
		"http://10.2.2.3:8000":             "not on policy.endpoints.allow",
		"http://169.254.169.254":           "not on policy.endpoints.allow",
		"http://exact:9001":                "not on policy.endpoints.allow",
		"http://a.b.rollout.svc.evil:8000": "not on policy.endpoints.allow",
		"file:///etc/passwd":               "want http",
		"http://u:p@exact:9000":            "user info",
		"http://exact:9000/admin?x=1":      "query",
		"http://exact:9000/admin":          "path",
	} {
		require.ErrorContains(t, p.SetEndpoints([]string{"http://exact:9000", bad}), want, bad)
		require.Equal(t, before, p.Status(), "nothing changes")
	}
	require.ErrorContains(t, p.SetEndpoints(nil), "no endpoint")
}

func TestNoEndpointOfATrainerIsTakenWithoutAnAllowList(t *testing.T) {
	t.Parallel()
	p := newPool(t, nil, "http://base:1")
	require.ErrorContains(t, p.SetEndpoints([]string{"http://base:1"}), "not on policy.endpoints.allow")
}

func TestEveryAddressOfANameIsAnEndpointAndAFailedLookupChangesNothing(t *testing.T) {
	t.Parallel()
	p := newPool(t, func(c *Config, _ *policy.Config) { c.DNS = true }, "http://policy.svc:8000", "http://extra:1")
	addrs, fail := []string{"10.0.0.2", "10.0.0.1", "fd00::1"}, error(nil)
	p.lookup = func(_ context.Context, host string) ([]string, error) {
		require.Equal(t, "policy.svc", host)
		return addrs, fail
	}
	names := func() (out []string) {
		for _, s := range p.Status() {
			out = append(out, s.Endpoint)
		}
		return out
	}
	p.Resolve(t.Context())
	want := []string{"http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://[fd00::1]:8000", "http://extra:1"}
	require.Equal(t, want, names())
	fail = context.DeadlineExceeded
	p.Resolve(t.Context())
	require.Equal(t, want, names())
	addrs, fail = nil, nil
	p.Resolve(t.Context())
	require.Equal(t, want, names())
	addrs = []string{"10.0.0.1"}
	p.Resolve(t.Context())
	require.Equal(t, []string{"http://10.0.0.1:8000", "http://extra:1"}, names())
}

func TestVersionsAreTheEndpointsOwnAndAnUpdateInsideACallIsSeen(t *testing.T) {
	t.Parallel()
	e := newEngine(t, true)
	e.version = "7"
	p := newPool(t, nil, e.URL)
	done := make(chan policy.Completion, 1)
	call := func() { c, _ := p.Complete(t.Context(), ask("s")); done <- c }
	go call()
	patience.Receive(t, e.arrived, "a call")
	e.hold <- struct{}{}
	require.Equal(t, policy.Versions{Known: true, Start: 7, End: 7}, patience.Receive(t, done, "the answer").Versions)
	go call()
	patience.Receive(t, e.arrived, "a call")
	e.mu.Lock()
	e.version = "8"
	e.mu.Unlock()
	e.hold <- struct{}{}
	require.Equal(t, policy.Versions{Known: true, Start: 7, End: 8}, patience.Receive(t, done, "the answer").Versions)
	require.Equal(t, int64(8), p.Version())
	go call()
	patience.Receive(t, e.arrived, "a call")
	e.mu.Lock()
	e.silent = true
	e.mu.Unlock()
	e.hold <- struct{}{}
	got := patience.Receive(t, done, "the answer").Versions
	require.Equal(t, int64(8), got.Start)
	require.Greater(t, got.End, got.Start, "what cannot be confirmed counts as mixed")
}

func TestPoolConfigNamesEveryWrongKey(t *testing.T) {
	t.Parallel()
	require.NoError(t, Defaults().Validate())
	bad := Config{URLs: []string{"ftp://x"}, Allow: []string{"["}, Adaptive: true}
	err := bad.Validate()
	for _, key := range []string{"urls", "allow", "eject_after", "max_in_flight", "start_in_flight", "refresh"} {
		require.ErrorContains(t, err, "policy.endpoints."+key)
	}
	require.NotContains(t, (Config{URLs: []string{"http://user:secret@x"}}).Validate().Error(), "secret")
	require.True(t, strings.Contains(err.Error(), "\n"), "all at once")
}
