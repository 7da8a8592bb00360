package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/task"
)

// ask is one call of the policy for a turn of a rollout, answered or not.
type ask struct {
	worker   int
	at       time.Time
	tokens   int // of the answer; 0 where none was made
	recorded bool
	// unknown: the journal could not be read, so that nobody can say whether it was recorded.
	unknown bool
}

// turnKey is one turn of one attempt of a rollout.
type turnKey struct {
	id            task.RolloutID
	attempt, turn int
}

// policyServer answers by a script, a while after it was asked, at two addresses, and counts what it produces for
// each turn. A turn that is asked for again is looked up in the journal first.
type policyServer struct {
	engine http.Handler
	bus    *jetstream.Bus // set once there are streams

	mu      sync.Mutex
	workers map[string]int // by the address that a link speaks from
	asks    map[turnKey][]ask
	lost    map[task.RolloutID]map[int]string // why an attempt was given up, by its number
}

func newPolicy(t testing.TB, n int, latency time.Duration) *policyServer {
	t.Helper()
	cfg := scripted.Defaults()
	cfg.Latency = func(c scripted.CallInfo) time.Duration { // rollouts are at different turns when something breaks
		return latency/2 + latency*time.Duration((c.ID.Sample+3*c.Turn+len(c.ID.Dispatch))%5)/4
	}
	engine, err := scripted.New(script(t, n), cfg)
	require.NoError(t, err)
	return &policyServer{engine: engine, workers: map[string]int{}, asks: map[turnKey][]ask{}, lost: map[task.RolloutID]map[int]string{}}
}

// speaks notes which worker a link's connection belongs to.
func (p *policyServer) speaks(worker int) func(string) {
	return func(addr string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.workers[addr] = worker
	}
}

func (p *policyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, attempt, turn, err := task.ParseRequestID(r.Header.Get("X-Request-Id"))
	if r.URL.Path != "/v1/completions" || err != nil || id.Run == "" {
		p.engine.ServeHTTP(w, r)
		return
	}
	key := turnKey{id, attempt, turn}
	a := ask{at: time.Now()}
	p.mu.Lock()
	a.worker = p.workers[r.RemoteAddr]
	again := len(p.asks[key]) > 0 || attempt > 0 && turn == 0
	p.mu.Unlock()
	if again {
		a.recorded, a.unknown = p.look(r.Context(), key)
	}
	rec := httptest.NewRecorder()
	defer func() { // also of a call that was cut off while it was answered
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asks[key] = append(p.asks[key], a)
	}()
	p.engine.ServeHTTP(rec, r)
	var answer struct {
		Choices []struct {
			IDs []int32 `json:"token_ids"`
		}
	}
	if json.Unmarshal(rec.Body.Bytes(), &answer) == nil && len(answer.Choices) == 1 {
		a.tokens = len(answer.Choices[0].IDs)
	}
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(rec.Code)
	_, _ = bytes.NewReader(rec.Body.Bytes()).WriteTo(w) // the worker may be dead
}

// look reads what the journal holds of a rollout at this moment.
func (p *policyServer) look(ctx context.Context, key turnKey) (recorded, unknown bool) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	entries, err := jetstream.ReadJournal[rollout.Entry](ctx, p.bus, key.id.Run, key.id.Dispatch, key.id.Sample)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range entries {
		recorded = recorded || e.Finished != nil || e.Sampled != nil && e.Attempt == key.attempt && e.Turn == key.turn
		if e.Lost != "" {
			if p.lost[key.id] == nil {
				p.lost[key.id] = map[int]string{}
			}
			p.lost[key.id][e.Attempt] = e.Lost
		}
	}
	return recorded, err != nil
}

// endpoint is an HTTP server at one address that can die and come back.
type endpoint struct {
	addr    string
	handler http.Handler

	mu     sync.Mutex
	server *http.Server
	done   chan struct{}
}

func newEndpoint(t testing.TB, h http.Handler) *endpoint {
	t.Helper()
	e := &endpoint{addr: "127.0.0.1:0", handler: h}
	require.NoError(t, e.begin())
	t.Cleanup(e.die)
	return e
}

func (e *endpoint) begin() error {
	l, err := net.Listen("tcp", e.addr)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.addr = l.Addr().String()
	server, done := &http.Server{Handler: e.handler, ReadHeaderTimeout: time.Minute}, make(chan struct{})
	e.server, e.done = server, done
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	return nil
}

// die resets every connection, as the end of a process does.
func (e *endpoint) die() {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.server.Close()
	<-e.done
}
