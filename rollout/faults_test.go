package rollout

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/pool"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

const twoTurns = `{"prompt_id":"p","turns":["<think>\nload it\n</think>\n<code_interpreter>\nx\n</code_interpreter>","<think>\nnow the claim\n</think>\n<code_interpreter>\nsubmit\n</code_interpreter>"]}`

func scriptedServer(t *testing.T, version int64) *scripted.Server {
	t.Helper()
	return serverOf(t, version, false)
}

func serverOf(t *testing.T, version int64, sglang bool) *scripted.Server {
	t.Helper()
	script, err := scripted.ReadScript(strings.NewReader(twoTurns), "test")
	require.NoError(t, err)
	cfg := scripted.Defaults()
	cfg.Version, cfg.SGLang = version, sglang
	s, err := scripted.New(script, cfg)
	require.NoError(t, err)
	return s
}

// wired is a rig whose policy is a pool of real clients over HTTP.
func wired(t *testing.T, urls []string, change func(*policy.Config, *pool.Config)) (*rig, *pool.Pool) {
	t.Helper()
	cfg, spread := policy.Defaults(), pool.Defaults()
	cfg.BaseURL, cfg.Model = urls[0], scripted.Defaults().Model
	cfg.CallTimeout, cfg.RetryBudget = time.Minute, time.Minute
	spread.URLs, spread.CheckEvery = urls[1:], 20*time.Millisecond
	if change != nil {
		change(&cfg, &spread)
	}
	p, err := pool.New(spread, cfg, zap.NewNop())
	require.NoError(t, err)
	p.CheckNow(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); p.Close() })
	r := newRig(t)
	r.runner.Policy, r.runner.Version = p, p.Version
	r.runner.Config.MaxAttempts = 2
	return r, p
}

func runGroup(t *testing.T, r *rig, size int) []trajectory.Trajectory {
	t.Helper()
	g := &GroupRunner{Runner: r.runner, Log: zap.NewNop()}
	if r.log != nil {
		g.Log = r.log
	}
	d := task.Dispatch{ID: "p-0", Run: "r", Prompt: task.Prompt{ID: "p", Question: "Q?"}, GroupSize: size}
	group, err := g.Run(t.Context(), d, nil)
	require.NoError(t, err)
	require.Len(t, group.Trajectories, size)
	for i, tr := range group.Trajectories {
		require.Equal(t, i, tr.ID.Sample, "every rollout is there once")
		require.NoError(t, tr.Check())
		requireTrueLogProbs(t, tr)
	}
	return group.Trajectories
}

// requireTrueLogProbs recomputes every stored log-prob from the ids before it and its version.
func requireTrueLogProbs(t *testing.T, tr trajectory.Trajectory) {
	t.Helper()
	for _, s := range tr.Segments {
		whole := slices.Concat(s.PromptIDs, s.ResponseIDs)
		for _, sp := range s.Spans {
			if sp.Kind != trajectory.SpanSampled {
				continue
			}
			for i := sp.Start; i < sp.End; i++ {
				at := len(s.PromptIDs) + i
				either := []float32{ // a mixed span was sampled under one or the other
					scripted.LogProb(whole[:at], whole[at], sp.PolicyVersion), scripted.LogProb(whole[:at], whole[at], sp.PolicyVersionEnd),
				}
				require.Contains(t, either, s.LogProbs[i])
			}
		}
	}
}

func TestEachFaultOfThePolicyHasItsOutcomeAndNoRolloutIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	const (
		carriesOn = "carries on"   // the same attempt submits
		full      = "context full" // the policy's own end, with what was sampled before
	)
	for fault, want := range map[scripted.Fault]string{ // anything else: the attempt is lost for this, and the next one submits
		scripted.NoFault: carriesOn, scripted.IgnoresTokenIDs: "no token_ids", scripted.NoLogprobs: "no logprobs",
		scripted.ShortLogprobs: "log-probs and", scripted.ClampedLogprob: "log-prob -9999 at", scripted.WrongEcho: "echoes prompt id",
		scripted.WrongUsage: "usage counts", scripted.WrongPromptUsage: "usage counts",
		scripted.AbortPartial: carriesOn, scripted.AbortEmpty: carriesOn, scripted.VersionFlip: carriesOn,
		scripted.ContextLimit: full, scripted.TooMany: carriesOn, scripted.TooManyWait: carriesOn,
		scripted.BadGateway: carriesOn, scripted.Unavailable: carriesOn, scripted.UnavailableWait: carriesOn,
		scripted.EngineDead: carriesOn, scripted.HTMLPage: carriesOn, scripted.ErrorUnder200: carriesOn,
		scripted.FlatErrorUnder200: carriesOn, scripted.StringError: "status 401: Unauthorized", scripted.DropBefore: carriesOn,
		scripted.DropInside: carriesOn, scripted.Trickle: carriesOn, scripted.Silence: carriesOn,
		scripted.TruncatedJSON: carriesOn, scripted.EmptyBody: carriesOn,
	} {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			faulty, asked := faultOnce(t, fault)
			server := httptest.NewServer(faulty)
			t.Cleanup(server.Close)
			calls := &callRecord{}
			r, p := wired(t, []string{server.URL}, func(c *policy.Config, _ *pool.Config) {
				c.Recorder = calls
				if fault == scripted.Silence || fault == scripted.Trickle { // only the limit ends these
					c.CallTimeout = 2 * time.Second
				}
			})
			lost, log := observer.New(zap.WarnLevel)
			r.log = zap.New(lost)
			group := runGroup(t, r, 3)
			for i, tr := range group {
				attempt, reason, turns := 0, trajectory.Submitted, 2
				if i == 1 && want != carriesOn && want != full {
					attempt = 1
				}
				if i == 1 && want == full {
					reason = trajectory.ContextFull
				}
				require.Equal(t, reason, tr.Termination, tr.Error)
				require.Equal(t, attempt, tr.Attempt)
				require.Len(t, tr.Turns, turns)
				require.Len(t, tr.Segments, 1)
			}
			if group[1].Attempt == 1 {
				fields := log.FilterMessage("rollout attempt lost").All()[0].ContextMap()
				require.Equal(t, string(trajectory.PolicyUnavailable), fields["termination_reason"])
				require.Contains(t, fields["error"], want)
			}
			switch fault {
			case scripted.AbortPartial:
				require.Len(t, sampledSpans(group[1]), 3, "the partial ids are kept as a span of their own")
			case scripted.ContextLimit:
				require.Len(t, asked(), 1, "it is not asked again")
				require.Zero(t, log.Len(), "nothing is wrong")
			case scripted.VersionFlip:
				last := sampledSpans(group[1])[1]
				require.Equal(t, [2]int64{4, 5}, [2]int64{last.PolicyVersion, last.PolicyVersionEnd}, "mixed")
			case scripted.TooManyWait, scripted.UnavailableWait:
				times := asked()
				require.Len(t, times, 2)
				require.GreaterOrEqual(t, times[1].Sub(times[0]), time.Second, "the server asked for a second")
			}
			requireNothingOpen(t, p)
			require.Positive(t, calls.started.Load())
			require.Equal(t, calls.started.Load(), calls.ended.Load(), "each call has a start and an end with a reason")
		})
	}
}

// callRecord counts completions that began, and that ended with an outcome and a duration.
type callRecord struct{ started, ended atomic.Int64 }

func (r *callRecord) CallStarted(c policy.Call) {
	if c.Kind == "completions" {
		r.started.Add(1)
	}
}

func (r *callRecord) CallEnded(c policy.Call, res policy.CallResult) {
	if c.Kind == "completions" && res.Outcome != "" && res.Duration > 0 {
		r.ended.Add(1)
	}
}

// faultOnce breaks the second turn of one member, once; asked gives the times at which that turn was asked for.
func faultOnce(t *testing.T, fault scripted.Fault) (faulty *scripted.Faulty, asked func() []time.Time) {
	t.Helper()
	var mu sync.Mutex
	var times []time.Time
	faulty = &scripted.Faulty{Server: scriptedServer(t, 4), Pick: func(_ int, id string) scripted.Fault {
		mu.Lock()
		defer mu.Unlock()
		if id != "r/p-0/1.0.1" {
			return scripted.NoFault
		}
		if times = append(times, time.Now()); len(times) > 1 {
			return scripted.NoFault
		}
		return fault
	}}
	return faulty, func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(times)
	}
}

func sampledSpans(tr trajectory.Trajectory) (out []trajectory.Span) {
	for _, sp := range tr.Segments[0].Spans {
		if sp.Kind == trajectory.SpanSampled {
			out = append(out, sp)
		}
	}
	return out
}

func TestAGroupIsTheSameOnSGLangsWire(t *testing.T) {
	t.Parallel()
	var once sync.Once
	inner := serverOf(t, 4, true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Request-Id") == "r/p-0/1.0.1" {
			once.Do(func() { inner.SetVersion(5) })
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	r, p := wired(t, []string{server.URL}, nil)
	for _, tr := range runGroup(t, r, 3) {
		require.Equal(t, trajectory.Submitted, tr.Termination, tr.Error)
		require.Zero(t, tr.Attempt)
		require.NotEmpty(t, sampledSpans(tr))
	}
	require.Equal(t, int64(5), p.Version())
}

func TestSGLangsContextLimitIsThePolicysOwnEnd(t *testing.T) {
	t.Parallel()
	script, err := scripted.ReadScript(strings.NewReader(twoTurns), "test")
	require.NoError(t, err)
	cfg := scripted.Defaults()
	cfg.SGLang = true
	r := newRig(t)
	cfg.MaxModelLen = promptLen(r) + 40
	s, err := scripted.New(script, cfg)
	require.NoError(t, err)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	r, _ = wired(t, []string{server.URL}, nil)
	r.runner.Config.MaxTurnTokens = 39
	tr := runGroup(t, r, 1)[0]
	require.Equal(t, trajectory.ContextFull, tr.Termination, tr.Error)
	require.Len(t, tr.Segments, 1, "what was sampled before is a row")
}

func TestAFaultThatStaysEndsAsOursWithItsCause(t *testing.T) {
	t.Parallel()
	for fault, want := range map[scripted.Fault]string{
		scripted.IgnoresTokenIDs: "return_token_ids", scripted.StringError: "status 401: Unauthorized", scripted.NoLogprobs: "no logprobs",
	} {
		faulty := &scripted.Faulty{Server: scriptedServer(t, 0), Pick: func(int, string) scripted.Fault { return fault }}
		server := httptest.NewServer(faulty)
		t.Cleanup(server.Close)
		r, _ := wired(t, []string{server.URL}, nil)
		for _, tr := range runGroup(t, r, 1) {
			require.Equal(t, trajectory.PolicyUnavailable, tr.Termination)
			require.Contains(t, tr.Error, want)
			require.Empty(t, tr.Segments)
		}
		require.Equal(t, 2, faulty.Calls(), "a refusal is not repeated within an attempt")
	}
}

// stoppable is a server that can be cut off and come back at the same address.
type stoppable struct {
	http.Handler
	mu   sync.Mutex
	down bool
}

func (s *stoppable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	down := s.down
	s.mu.Unlock()
	if down {
		panic(http.ErrAbortHandler)
	}
	s.Handler.ServeHTTP(w, r)
}

func (s *stoppable) set(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// dies only in its completions: health checks keep passing, and only the failures of calls tell.
func TestAnEndpointWhoseCompletionsDieLosesNoRollout(t *testing.T) {
	t.Parallel()
	alive := httptest.NewServer(scriptedServer(t, 0))
	t.Cleanup(alive.Close)
	dying := &scripted.Faulty{Server: scriptedServer(t, 0), Pick: func(call int, _ string) scripted.Fault {
		if call == 0 {
			return scripted.NoFault
		}
		return scripted.DropBefore
	}}
	server := httptest.NewServer(dying)
	t.Cleanup(server.Close)
	r, _ := wired(t, []string{server.URL, alive.URL}, nil)
	for _, tr := range runGroup(t, r, 8) {
		require.Equal(t, trajectory.Submitted, tr.Termination, tr.Error)
		require.Zero(t, tr.Attempt)
	}
	require.Greater(t, dying.Calls(), 1)
}

func TestAnEndpointThatDiesInTheMiddleLosesNoRollout(t *testing.T) {
	t.Parallel()
	alive := httptest.NewServer(scriptedServer(t, 0))
	t.Cleanup(alive.Close)
	dying := &stoppable{}
	server := httptest.NewServer(dying)
	t.Cleanup(server.Close)
	dying.Handler = &scripted.Faulty{Server: scriptedServer(t, 0), Pick: func(int, string) scripted.Fault {
		dying.set(true) // its first completion is its last answer
		return scripted.NoFault
	}}
	r, p := wired(t, []string{server.URL, alive.URL}, nil)
	for _, tr := range runGroup(t, r, 8) {
		require.Equal(t, trajectory.Submitted, tr.Termination, tr.Error)
		require.Zero(t, tr.Attempt)
	}
	for _, s := range p.Status() {
		require.Equal(t, s.Endpoint == alive.URL, s.Usable)
		require.Zero(t, s.InFlight)
	}
}

// With VERIGRAPH_SLOW set the outage lasts 30 s.
func TestAllEndpointsDownForAWhileOnlyDelaysTheGroup(t *testing.T) {
	t.Parallel()
	outage, budget := 1500*time.Millisecond, time.Minute
	if os.Getenv("VERIGRAPH_SLOW") != "" {
		outage, budget = 30*time.Second, 2*time.Minute
	}
	for name, fromTheStart := range map[string]bool{"before the first call": true, "while calls are made": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var servers []*stoppable
			var urls []string
			all := func(down bool) {
				for _, s := range servers {
					s.set(down)
				}
			}
			var once sync.Once
			for range 2 {
				s := &stoppable{down: fromTheStart}
				s.Handler = &scripted.Faulty{Server: scriptedServer(t, 0), Pick: func(int, string) (f scripted.Fault) {
					once.Do(func() {
						if f = scripted.NoFault; !fromTheStart {
							all(true)
							time.AfterFunc(outage, func() { all(false) })
							f = scripted.DropBefore
						}
					})
					return f
				}}
				server := httptest.NewServer(s)
				t.Cleanup(server.Close)
				servers, urls = append(servers, s), append(urls, server.URL)
			}
			r, _ := wired(t, urls, func(c *policy.Config, _ *pool.Config) { c.RetryBudget = budget })
			begin := time.Now()
			if fromTheStart {
				defer time.AfterFunc(outage, func() { all(false) }).Stop()
			}
			for _, tr := range runGroup(t, r, 4) {
				require.Equal(t, trajectory.Submitted, tr.Termination, tr.Error)
				require.Zero(t, tr.Attempt, "an outage within the budget costs no attempt")
			}
			require.GreaterOrEqual(t, time.Since(begin), outage)
		})
	}
}

func TestAnOutageOverTheBudgetEndsAsPolicyUnavailable(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&stoppable{Handler: scriptedServer(t, 0), down: true})
	t.Cleanup(server.Close)
	r, p := wired(t, []string{server.URL}, func(c *policy.Config, _ *pool.Config) { c.RetryBudget = 300 * time.Millisecond })
	for _, tr := range runGroup(t, r, 2) {
		require.Equal(t, trajectory.PolicyUnavailable, tr.Termination)
		require.Contains(t, tr.Error, "unreachable")
	}
	requireNothingOpen(t, p)
}

// requireNothingOpen: no completion is in the ledger of open calls; health checks may be.
func requireNothingOpen(t *testing.T, p *pool.Pool) {
	t.Helper()
	for _, c := range p.Open().Over(0, time.Now()) {
		require.NotEqual(t, "completions", c.Kind)
	}
}

// served counts the calls of one connection.
type served struct{}

func TestIdleConnectionsThatTheServerClosesFailNoRollout(t *testing.T) {
	t.Parallel()
	var dropped sync.Map
	inner := scriptedServer(t, 0)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Closed at the very moment in which it is used again, once per call: no limit on the client's side avoids that.
		used := r.Context().Value(served{}).(*atomic.Int64).Add(1) > 1
		if used && r.URL.Path == "/v1/completions" {
			if _, again := dropped.LoadOrStore(r.Header.Get("X-Request-Id"), true); !again {
				panic(http.ErrAbortHandler)
			}
		}
		inner.ServeHTTP(w, r)
	}))
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, served{}, &atomic.Int64{})
	}
	server.Start()
	t.Cleanup(server.Close)
	r, _ := wired(t, []string{server.URL}, func(c *policy.Config, spread *pool.Config) {
		c.RetryBudget, spread.EjectAfter = time.Minute, 100 // many at once are no reason to eject here
	})
	r.runner.Config.MaxAttempts = 1
	for _, tr := range runGroup(t, r, 8) {
		require.Equal(t, trajectory.Submitted, tr.Termination, tr.Error)
	}
	calls := 0
	dropped.Range(func(any, any) bool { calls++; return true })
	require.Positive(t, calls)
}

func TestCancelingARolloutClosesItsConnectionAtOnce(t *testing.T) {
	t.Parallel()
	arrived, left := make(chan struct{}, 1), make(chan struct{}, 1)
	faulty := &scripted.Faulty{Server: scriptedServer(t, 0), Pick: func(int, string) scripted.Fault { return scripted.NoFault }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/completions" {
			faulty.ServeHTTP(w, r)
			return
		}
		buf := make([]byte, 1<<16)
		for {
			if _, err := r.Body.Read(buf); err != nil {
				break
			}
		}
		arrived <- struct{}{}
		<-r.Context().Done()
		left <- struct{}{}
	}))
	t.Cleanup(server.Close)
	r, _ := wired(t, []string{server.URL}, func(c *policy.Config, _ *pool.Config) { c.CallTimeout = time.Hour })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan trajectory.Trajectory, 1)
	go func() {
		d := task.Dispatch{ID: "p-0", Run: "r", Prompt: task.Prompt{ID: "p", Question: "Q?"}, GroupSize: 1}
		done <- r.runner.Run(ctx, d, 0, 0, nil)
	}()
	patience.Receive(t, arrived, "the call")
	cancel()
	patience.Receive(t, left, "the end of the call")
	require.Equal(t, trajectory.Canceled, patience.Receive(t, done, "its end").Termination)
}
