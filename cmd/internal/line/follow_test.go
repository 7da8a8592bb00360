package line

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/policy"
	"github.com/verigraph/verigraph/policy/pool"
	"github.com/verigraph/verigraph/policy/probe"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/task"
)

// followed is a worker's pool over two policy servers, with the broker that the trainer's word comes from.
type followed struct {
	bus  *jetstream.Bus
	cfg  config.Config
	pool *pool.Pool
	f    *follower

	prober *prober
	logs   *observer.ObservedLogs
	own    string // HOST:PORT of the configured server
	next   string // of one that the trainer may name
}

func newFollowed(t *testing.T) *followed {
	t.Helper()
	dir := t.TempDir()
	blobs, err := blob.OpenDir(dir)
	require.NoError(t, err)
	server, err := jetstream.StartServer(jetstream.ServerConfig{Dir: filepath.Join(dir, "nats")})
	require.NoError(t, err)
	nc, err := server.Connect()
	require.NoError(t, err)
	w := &followed{cfg: config.Defaults()}
	w.cfg.Run = "r"
	w.bus, err = jetstream.New(t.Context(), nc, blobs, w.cfg.NATS.Config)
	require.NoError(t, err)
	t.Cleanup(func() {
		w.bus.Close()
		server.Stop()
		_ = blobs.Close()
	})
	w.own, w.next = policyServer(t), policyServer(t)
	w.cfg.Policy.BaseURL, w.cfg.Policy.Model = "http://"+w.own, "scripted"
	w.cfg.Policy.Endpoints.Allow = []string{w.next}
	w.connect(t)
	return w
}

// connect begins to follow with a pool of the configuration as it is.
func (w *followed) connect(t *testing.T) {
	t.Helper()
	w.build(t)
	require.NoError(t, w.f.begin(t.Context()))
}

func (w *followed) build(t *testing.T) {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	w.logs = logs
	var err error
	w.pool, err = pool.New(w.cfg.Policy.Endpoints, w.cfg.Policy.Config, zap.New(core))
	require.NoError(t, err)
	t.Cleanup(w.pool.Close)
	tok, err := scripted.Tokenizer()
	require.NoError(t, err)
	w.prober = &prober{pool: w.pool, log: zap.New(core), opt: probe.Options{Model: "scripted", Tokenizer: tok, Sampling: w.cfg.Rollout.Sampling}}
	w.f = follow(w.bus, w.cfg, w.pool, w.prober.run, zap.New(core))
}

func policyServer(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(scriptedServer(t))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func scriptedServer(t *testing.T) http.Handler {
	t.Helper()
	script, err := scripted.ReadScript(strings.NewReader(`{"prompt_id":"p","turns":["x","y"]}`), "test")
	require.NoError(t, err)
	s, err := scripted.New(script, scripted.Defaults())
	require.NoError(t, err)
	return s
}

func (w *followed) say(t *testing.T, p leader.Policy) {
	t.Helper()
	require.NoError(t, w.bus.PutState(t.Context(), PolicyKey("r"), p))
}

func (w *followed) endpoints() (out []string) {
	for _, s := range w.pool.Status() {
		out = append(out, strings.TrimPrefix(s.Endpoint, "http://"))
	}
	return out
}

func (w *followed) ask(ctx context.Context) (policy.Completion, error) {
	id := task.RolloutID{Run: "r", Dispatch: task.NewDispatchID("p", 0)}
	return w.pool.Complete(ctx, policy.Request{ID: id.RequestID(0, 0), Session: id.String(), Prompt: []int32{1}, MaxTokens: 100})
}

func TestAWorkerFollowsTheVersionAndTheEndpointsOfTheTrainer(t *testing.T) {
	t.Parallel()
	w := newFollowed(t)
	require.NoError(t, w.f.look(t.Context()))
	require.Equal(t, []string{w.own}, w.endpoints(), "the trainer said nothing")
	w.say(t, leader.Policy{Version: 5, Incarnation: 1, Endpoints: []string{w.next}})
	require.NoError(t, w.f.look(t.Context()))
	require.Equal(t, []string{w.next}, w.endpoints())
	require.Equal(t, int64(5), w.pool.Version())
	c, err := w.ask(t.Context())
	require.NoError(t, err)
	require.Equal(t, policy.Versions{Known: true, Start: 5, End: 5}, c.Versions)
	w.say(t, leader.Policy{Version: 4, Incarnation: 2})
	require.NoError(t, w.f.look(t.Context()))
	require.Equal(t, int64(4), w.pool.Version(), "a restore goes back")
	require.Equal(t, []string{w.own}, w.endpoints(), "it named none")
}

func TestAnAddressThatIsNotAllowedIsNamedAndNothingIsSampledUntilTheTrainerNamesAnother(t *testing.T) {
	t.Parallel()
	w := newFollowed(t)
	w.say(t, leader.Policy{Version: 1, Endpoints: []string{w.next, "169.254.169.254:80"}})
	require.NoError(t, w.f.look(t.Context()))
	require.NoError(t, w.f.look(t.Context()))
	require.Equal(t, []string{w.own}, w.endpoints(), "nothing changed")
	refusals := w.logs.FilterLevelExact(zapcore.ErrorLevel).All()
	require.Len(t, refusals, 1, "said once")
	require.Contains(t, refusals[0].ContextMap()["error"], "169.254.169.254:80 is not on policy.endpoints.allow")
	gone, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer leave()
	_, err := w.ask(gone)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	w.say(t, leader.Policy{Version: 1, Endpoints: []string{w.next}})
	require.NoError(t, w.f.look(t.Context()))
	_, err = w.ask(t.Context())
	require.NoError(t, err)
}

// broken is a policy server that gives no token ids until it is mended.
type broken struct {
	inner  http.Handler
	mended atomic.Bool
}

func (b *broken) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/completions" && !b.mended.Load() {
		_, _ = w.Write([]byte(`{"choices":[{"index":0,"text":"x","finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`))
		return
	}
	b.inner.ServeHTTP(w, r)
}

func TestNothingIsSampledFromServersThatTheTrainerNamedUntilTheyPassTheProbe(t *testing.T) {
	t.Parallel()
	w := newFollowed(t)
	b := &broken{inner: scriptedServer(t)}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	w.cfg.Policy.Endpoints.Allow = []string{"127.0.0.0/8"}
	w.connect(t)
	w.say(t, leader.Policy{Version: 1, Endpoints: []string{strings.TrimPrefix(server.URL, "http://")}})
	require.NoError(t, w.f.look(t.Context()))
	require.NoError(t, w.f.look(t.Context()))
	said := w.logs.FilterMessageSnippet("lack something").All()
	require.Len(t, said, 1, "said once")
	require.Contains(t, said[0].ContextMap()["error"], "token ids: ")
	require.Contains(t, said[0].ContextMap()["error"], "-> return_token_ids: vLLM 0.10.2 or newer")
	gone, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer leave()
	_, err := w.ask(gone)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	b.mended.Store(true)
	require.NoError(t, w.f.look(t.Context()))
	_, err = w.ask(t.Context())
	require.NoError(t, err)
	require.Equal(t, 32768, w.prober.contextLimit())
}

func TestAWorkerWithoutAnAddressWaitsForTheTrainersAndProbesThemThen(t *testing.T) {
	t.Parallel()
	w := newFollowed(t)
	w.cfg.Policy.BaseURL = ""
	w.connect(t)
	require.Empty(t, w.endpoints())
	require.Zero(t, w.prober.contextLimit())
	gone, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer leave()
	_, err := w.ask(gone)
	require.ErrorIs(t, err, context.DeadlineExceeded, "the wait is not a failure of the policy")
	w.say(t, leader.Policy{Version: 3})
	require.NoError(t, w.f.look(t.Context()))
	require.Contains(t, w.logs.FilterLevelExact(zapcore.ErrorLevel).All()[0].ContextMap()["error"], "names no endpoint")
	w.say(t, leader.Policy{Version: 3, Endpoints: []string{w.next}, Paused: true})
	require.NoError(t, w.f.look(t.Context()))
	require.Zero(t, w.prober.contextLimit(), "a paused server is not asked")
	w.say(t, leader.Policy{Version: 3, Endpoints: []string{w.next}})
	require.NoError(t, w.f.look(t.Context()))
	c, err := w.ask(t.Context())
	require.NoError(t, err)
	require.Equal(t, policy.Versions{Known: true, Start: 3, End: 3}, c.Versions)
	require.Equal(t, 32768, w.prober.contextLimit())
}

func TestAWorkerDoesNotStartOnAServerThatLacksSomethingAndNamesEachOption(t *testing.T) {
	t.Parallel()
	w := newFollowed(t)
	server := httptest.NewServer(&broken{inner: scriptedServer(t)})
	t.Cleanup(server.Close)
	w.cfg.Policy.BaseURL = server.URL
	w.build(t)
	err := w.f.begin(t.Context())
	require.ErrorContains(t, err, "token ids: ")
	require.ErrorContains(t, err, "-> return_token_ids")
}

func TestAPausedWorkerGoesOnByItselfOnceTheTrainerSaysSo(t *testing.T) {
	t.Parallel()
	w := newFollowed(t)
	w.say(t, leader.Policy{Version: 1, Paused: true})
	require.NoError(t, w.f.look(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.f.Run(ctx) }()
	answered := make(chan policy.Completion, 1)
	go func() {
		c, err := w.ask(t.Context())
		if err != nil {
			t.Error(err)
		}
		answered <- c
	}()
	select {
	case <-answered:
		t.Fatal("sampled during the pause")
	case <-time.After(50 * time.Millisecond):
	}
	w.say(t, leader.Policy{Version: 2})
	require.Equal(t, policy.Versions{Known: true, Start: 2, End: 2}, patience.Receive(t, answered, "the answer").Versions)
	stop()
	require.NoError(t, patience.Receive(t, ended, "its end"))
}

func TestAGroupIsTakenWithWhatTheTrainerSaidBeforeItsDispatch(t *testing.T) {
	t.Parallel()
	w := newFollowed(t)
	stage, err := newStage(t.Context(), w.bus, "r", jetstream.Prompts, jetstream.Trajectories, ofDispatch, ofGroup)
	require.NoError(t, err)
	w.say(t, leader.Policy{Version: 9})
	d := task.Dispatch{Run: "r", ID: task.NewDispatchID("p", 0), GroupSize: 1}
	require.NoError(t, w.bus.PublishOnce(t.Context(), jetstream.Prompts, "r", d.ID, d))
	held, err := informed{stage, w.f}.Receive(t.Context())
	require.NoError(t, err)
	require.Equal(t, d.ID, held.Value().ID)
	require.Equal(t, int64(9), w.pool.Version())
	require.NoError(t, held.Retry(0))
}
