package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/rollout"
	"github.com/verigraph/verigraph/task"
)

// counted is the policy's server: it counts what it produces for each turn of each rollout, and looks at
// every call whether the journal holds that turn already.
type counted struct {
	next http.Handler
	bus  *jetstream.Bus // set once the streams exist

	mu      sync.Mutex
	calls   int
	called  chan struct{} // closed and replaced at every call
	tokens  int
	answers map[string]int // by request id
	again   []string       // recorded and asked for again
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/completions" {
		c.next.ServeHTTP(w, r)
		return
	}
	request := r.Header.Get("X-Request-Id")
	id, attempt, turn, err := task.ParseRequestID(request)
	if err == nil {
		c.look(r, request, id, attempt, turn)
	}
	rec := httptest.NewRecorder()
	c.next.ServeHTTP(rec, r)
	var answer struct {
		Choices []struct {
			IDs []int32 `json:"token_ids"`
		}
	}
	if err == nil && json.Unmarshal(rec.Body.Bytes(), &answer) == nil && len(answer.Choices) == 1 {
		c.mu.Lock()
		c.tokens += len(answer.Choices[0].IDs)
		c.answers[request]++
		c.mu.Unlock()
	}
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(rec.Code)
	_, _ = bytes.NewReader(rec.Body.Bytes()).WriteTo(w) // the worker may be dead
}

func (c *counted) look(r *http.Request, request string, id task.RolloutID, attempt, turn int) {
	c.mu.Lock()
	bus := c.bus
	c.mu.Unlock()
	if bus == nil || id.Run == "" {
		return // the probe at the start
	}
	entries, err := jetstream.ReadJournal[rollout.Entry](r.Context(), bus, id.Run, id.Dispatch, id.Sample)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range entries {
		if err == nil && (e.Sampled != nil && e.Attempt == attempt && e.Turn == turn || e.Finished != nil) {
			c.again = append(c.again, request)
		}
	}
	c.calls++
	close(c.called)
	c.called = make(chan struct{})
}

// await waits until so many calls were made.
func (c *counted) await(t *testing.T, calls int) {
	t.Helper()
	ctx := patience.Context(t)
	for {
		c.mu.Lock()
		made, called := c.calls, c.called
		c.mu.Unlock()
		if made >= calls {
			return
		}
		select {
		case <-called:
		case <-ctx.Done():
			t.Fatalf("%d calls of the policy were made, want %d", made, calls)
		}
	}
}

// threeTurnTask needs what its first cells computed: a session that is not rebuilt fails.
func threeTurnTask(prompts int) (questions, script string) {
	var q, s strings.Builder
	for i := range prompts {
		fmt.Fprintf(&q, `{"id":"%d","question":"q","answer":{"n":"%d"},"data_source":"dabench"}`+"\n", i, i+2)
		turns, _ := json.Marshal([]string{
			fmt.Sprintf("<think>\nFirst.\n</think>\n<code_interpreter>\nx = %d + 1\nprint(x)\n</code_interpreter>", i),
			"<think>\nThen.\n</think>\n<code_interpreter>\ny = x + 1\nprint(y)\n</code_interpreter>",
			"<think>\nSo.\n</think>\n<code_interpreter>\nsubmit_answer(bind(\"@n[{n}]\", n=y))\n</code_interpreter>",
		})
		fmt.Fprintf(&s, `{"prompt_id":"%d","turns":%s}`+"\n", i, turns)
	}
	return q.String(), s.String()
}

// TestNoRecordedTokenIsSampledAgainWhenAWorkerIsKilled: the worker gets SIGKILL again and again while its
// groups are half done. VERIGRAPH_WORKER_KILLS is how often, VERIGRAPH_WORKER_GROUPS the number of groups: once
// and few here, ten and 50 by make kill-worker.
func TestNoRecordedTokenIsSampledAgainWhenAWorkerIsKilled(t *testing.T) {
	t.Parallel()
	kills, groups := envNumber(t, "VERIGRAPH_WORKER_KILLS", 1), envNumber(t, "VERIGRAPH_WORKER_GROUPS", 6)
	questions, turns := threeTurnTask(groups)
	prompts := write(t, killedPrompts, questions)
	local := t.TempDir()
	code, _, stderr := verigraph(t, "run", "--prompts", prompts, "--policy", "script:"+write(t, "script.jsonl", turns), "--judge", "rules",
		"--python", root+".venv/sandbox/bin/python", "--group-size", "2", "--run", "first", "--out", local)
	require.Zero(t, code, stderr)
	_, want := readRows(t, local)

	script, err := scripted.ReadScript(strings.NewReader(turns), "script")
	require.NoError(t, err)
	cfg := scripted.Defaults()
	cfg.Latency = func(c scripted.CallInfo) time.Duration { // rollouts are at different turns when the worker dies
		return time.Duration(60+70*((c.ID.Sample+2*c.Turn)%3)) * time.Millisecond
	}
	engine, err := scripted.New(script, cfg)
	require.NoError(t, err)
	policy := &counted{next: engine, called: make(chan struct{}), answers: map[string]int{}}
	server := httptest.NewServer(policy)
	t.Cleanup(server.Close)

	bin, shared := buildAll(t), t.TempDir()
	port, feed := freePort(t), freePort(t)
	startProc(t, filepath.Join(bin, "nats-server"), "-js", "-a", "127.0.0.1", "-p", port, "-sd", t.TempDir()).await(t, "Server is ready")
	serverConfig := shipped(t, "reward-server.yaml", "nats://127.0.0.1:4222", "nats://127.0.0.1:"+port+"\n  ack_wait: 1s\n  max_deliver: 1000",
		"/var/lib/verigraph", shared, "127.0.0.1:50051", "127.0.0.1:"+feed, "127.0.0.1:9091", "127.0.0.1:"+freePort(t),
		"group_size: 4\n  batch_groups: 8\n  max_groups: 64", "group_size: 2\n  batch_groups: 4")
	startProc(t, filepath.Join(bin, "reward-server"), "--config", serverConfig).await(t, `"ready"`)
	policy.mu.Lock()
	policy.bus = connect(t, serverConfig, shared)
	policy.mu.Unlock()
	worker := supervise(t, filepath.Join(bin, "rollout-worker"), "--config", shipped(t, "rollout-worker.yaml",
		"127.0.0.1:4222", "127.0.0.1:"+port, "ack_wait: 5s", "ack_wait: 1s", "max_deliver: 6", "max_deliver: 1000", "/var/lib/verigraph", shared,
		"http://127.0.0.1:8000", server.URL, "model: policy", "model: scripted", "/models/policy", "policy/scripted/tokenizer.json",
		"127.0.0.1:9090", "127.0.0.1:"+freePort(t)))
	worker.await(t, `"ready"`)
	code, _, stderr = verigraph(t, "submit", "--config", serverConfig, "--final", "--prompts", prompts)
	require.Zero(t, code, stderr)

	turnsInAll := 3 * 2 * groups
	for n := 1; n <= kills; n++ { // spread over the run
		policy.await(t, n*turnsInAll/(kills+1)+4)
		worker.kill(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // ten kills are more than one wait
	defer cancel()
	trainer := exec.CommandContext(ctx, root+".venv/client/bin/python", "-m", "verigraph.trainer")
	trainer.Env = append(os.Environ(), "VERIGRAPH_FEED=127.0.0.1:"+feed)
	out, err := trainer.CombinedOutput()
	require.NoError(t, err, string(out))

	_, got := readRows(t, shared)
	byKey := func(a, b dataset.Row) bool { return a.RolloutID < b.RolloutID }
	require.Empty(t, cmp.Diff(want, got, cmpopts.SortSlices(byKey), cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(dataset.Row{}, "RowIdx", "TGenerateS", "TToolS", "TScoreS")), "every group once, and the same rows as without a crash")
	policy.mu.Lock()
	defer policy.mu.Unlock()
	require.Empty(t, policy.again, "recorded turns that were sampled again")
	sampled, repeated := 0, 0
	for _, r := range got {
		for _, m := range r.ResponseMask {
			sampled += int(m)
		}
	}
	for _, n := range policy.answers {
		repeated += n - 1
	}
	worker.mu.Lock()
	defer worker.mu.Unlock()
	require.Equal(t, kills, worker.deaths)
	t.Logf("%d kills, %d groups: %d turns answered %d times; %d tokens delivered; %d tokens produced for answers that their worker did not live to record",
		worker.deaths, groups, len(policy.answers), len(policy.answers)+repeated, sampled, policy.tokens-sampled)
	log, _ := worker.text()
	require.NotContains(t, log, "is not reproduced")
	require.Contains(t, log, "rollout goes on from its journal")
}

// connect opens the streams of a configuration.
func connect(t *testing.T, path, dir string) *jetstream.Bus {
	t.Helper()
	cfg, err := config.Load(path)
	require.NoError(t, err)
	blobs, err := blob.OpenDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = blobs.Close() })
	nc, err := jetstream.Dial(cfg.NATS.URL, "", cfg.Run)
	require.NoError(t, err)
	bus, err := jetstream.New(t.Context(), nc, blobs, cfg.NATS.Config)
	require.NoError(t, err)
	t.Cleanup(bus.Close)
	return bus
}
