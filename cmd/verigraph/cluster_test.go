package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/cmd/internal/tracing/tracingtest"
	"github.com/verigraph/verigraph/dataset"
	"github.com/verigraph/verigraph/internal/freeport"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/viewer"
)

// proc is a child process whose log can be waited on.
type proc struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	log  bytes.Buffer
	grew chan struct{}
}

func (p *proc) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log.Write(b)
	close(p.grew)
	p.grew = make(chan struct{})
	return len(b), nil
}

func (p *proc) text() (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String(), p.grew
}

// await returns the log once it holds text.
func (p *proc) await(t *testing.T, text string) string {
	t.Helper()
	return p.awaitAfter(t, 0, text)
}

// awaitAfter is await for what comes after the first bytes of the log.
func (p *proc) awaitAfter(t *testing.T, after int, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	for {
		log, grew := p.text()
		if strings.Contains(log[after:], text) {
			return log
		}
		select {
		case <-grew:
		case <-ctx.Done():
			t.Fatalf("%s never said %q:\n%s", p.cmd.Path, text, log)
		}
	}
}

func startProc(t *testing.T, path string, args ...string) *proc {
	t.Helper()
	p := &proc{cmd: exec.Command(path, args...), grew: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.Dir, p.cmd.WaitDelay = root, patience.Limit
	p.cmd.Env = append(os.Environ(), "OTEL_BSP_SCHEDULE_DELAY=50") // milliseconds
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		defer time.AfterFunc(patience.Limit, func() { _ = p.cmd.Process.Kill() }).Stop()
		if err := p.cmd.Wait(); err != nil && !t.Failed() {
			log, _ := p.text()
			t.Errorf("%s did not stop cleanly on SIGTERM: %v\n%s", path, err, log)
		}
	})
	return p
}

// built are the programs of the cluster, the NATS server of the module graph among them; TestMain removes them.
var built = sync.OnceValues(func() (string, error) {
	bin, err := os.MkdirTemp("", "verigraph-bin")
	if err != nil {
		return "", err
	}
	builtDir = bin
	cmd := exec.Command("go", "build", "-o", bin+"/", "./cmd/rollout-worker", "./cmd/reward-server", "github.com/nats-io/nats-server/v2")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return bin, fmt.Errorf("%w: %s", err, out)
	}
	return bin, nil
})

var builtDir string

func buildAll(t *testing.T) string {
	t.Helper()
	bin, err := built()
	require.NoError(t, err)
	return bin
}

// shipped copies a shipped configuration with some values replaced; every replacement must apply.
func shipped(t *testing.T, name string, replace ...string) string {
	t.Helper()
	data, err := os.ReadFile(root + "configs/" + name)
	require.NoError(t, err)
	text := string(data)
	for i := 0; i < len(replace); i += 2 {
		require.Contains(t, text, replace[i], name)
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return write(t, name, text)
}

func freePort(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(freeport.Take(t))
}

func TestProcessesOnAnExternalNATSGiveTheSameRowsAsOneProcess(t *testing.T) {
	t.Parallel()
	const limit = "3"
	local := t.TempDir()
	code, _, stderr := verigraph(t, dabenchArgs(local, root+"examples/dabench/script.jsonl", "--limit", limit, "--run", "first")...)
	require.Zero(t, code, stderr)
	_, want := readRows(t, local)

	bin, shared := buildAll(t), t.TempDir()
	port := freePort(t)
	nats := startProc(t, filepath.Join(bin, "nats-server"), "-js", "-a", "127.0.0.1", "-p", port, "-sd", t.TempDir())
	nats.await(t, "Server is ready")
	script, err := scripted.LoadScript(root + "examples/dabench/script.jsonl")
	require.NoError(t, err)
	server, err := scripted.New(script, scripted.Defaults())
	require.NoError(t, err)
	policyURL, stop, err := server.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(stop)

	feed, admin, workerAdmin := freePort(t), freePort(t), freePort(t)
	rewardConfig := shipped(t, "reward-server.yaml", "127.0.0.1:4222", "127.0.0.1:"+port, "/var/lib/verigraph", shared,
		"127.0.0.1:50051", "127.0.0.1:"+feed, "127.0.0.1:9091", "127.0.0.1:"+admin)
	workerConfig := shipped(t, "rollout-worker.yaml", "127.0.0.1:4222", "127.0.0.1:"+port, "/var/lib/verigraph", shared,
		"http://127.0.0.1:8000", policyURL, "model: policy", "model: scripted", "/models/policy", "policy/scripted/tokenizer.json",
		"127.0.0.1:9090", "127.0.0.1:"+workerAdmin)
	traces, endpoint := tracingtest.Start(t)
	rewardConfig, workerConfig = traced(t, rewardConfig, endpoint, "1"), traced(t, workerConfig, endpoint, "1")
	reward := startProc(t, filepath.Join(bin, "reward-server"), "--config", rewardConfig)
	reward.await(t, `"ready"`)
	worker := startProc(t, filepath.Join(bin, "rollout-worker"), "--config", workerConfig)
	worker.await(t, `"ready"`)

	code, stdout, stderr := verigraph(t, "submit", "--config", rewardConfig, "--final", "--limit", limit, "--format", "dabench",
		"--prompts", root+"examples/dabench/questions.jsonl", "--labels", root+"examples/dabench/labels.jsonl", "--data-dir", tables)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "3 prompts queued")

	trainer := exec.CommandContext(patience.Context(t), root+".venv/client/bin/python", "-m", "verigraph.trainer")
	trainer.Env = append(os.Environ(), "VERIGRAPH_FEED=127.0.0.1:"+feed)
	out, err := trainer.CombinedOutput()
	require.NoError(t, err, string(out))

	_, got := readRows(t, shared)
	byKey := func(a, b dataset.Row) bool {
		return a.RolloutID < b.RolloutID || a.RolloutID == b.RolloutID && a.OutputIdx < b.OutputIdx
	}
	diff := cmp.Diff(want, got, cmpopts.SortSlices(byKey), cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(dataset.Row{}, "TGenerateS", "TToolS", "TScoreS", "TraceID"))
	require.Empty(t, diff)
	require.Nil(t, want[0].TraceID, "off unless asked for")
	checkTraces(t, traces, got)

	code, stdout, stderr = verigraph(t, "status", "--feed", "127.0.0.1:"+feed)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, `"complete": true`)
	require.Contains(t, stdout, `"batches_acknowledged": 1`)

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	status, page := fetch(t, client, "http://127.0.0.1:"+admin+"/view/")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, "app.js")
	_, data := fetch(t, client, "http://127.0.0.1:"+admin+"/view/api/run")
	var seen viewer.Two
	require.NoError(t, json.Unmarshal([]byte(data), &seen))
	require.Empty(t, seen.Problems)
	require.Equal(t, 12, seen.Stats.Rollouts)
	require.True(t, seen.Status.Complete, "from the leader: a cluster writes no status file")
	require.Equal(t, int64(12), seen.Status.Ledger.Delivered)

	_, ofServer := fetch(t, client, "http://127.0.0.1:"+admin+"/metrics")
	_, ofWorker := fetch(t, client, "http://127.0.0.1:"+workerAdmin+"/metrics")
	checkMetrics(t, ofServer, ofWorker)
	checkProfiles(t, client, admin, feed)
	checkProfiles(t, client, workerAdmin, "")
	checkLog(t, reward, "reward-server", "Calculate the mean fare")
	checkLog(t, worker, "rollout-worker", "Calculate the mean fare")
}

func TestProcessesNameWhatIsMissingAndExitWith2(t *testing.T) {
	t.Parallel()
	bin := buildAll(t)
	for name, want := range map[string]string{"rollout-worker": "policy: base_url", "reward-server": "nats.url"} {
		cmd := exec.Command(filepath.Join(bin, name))
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, name)
		require.Equal(t, cli.ExitUsage, exit.ExitCode(), string(out))
		require.Contains(t, string(out), want, name)
	}
}
