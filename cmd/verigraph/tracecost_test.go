package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/tracing/tracingtest"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/policy/scripted"
)

// TestWhatTracesCost prints the CPU time of a reward server and a worker, without that of sessions, per rollout.
func TestWhatTracesCost(t *testing.T) {
	if os.Getenv("VERIGRAPH_TRACE_COST") == "" {
		t.Skip("make trace-cost")
	}
	const repeats = 3
	settings := []string{"off", "0.1", "1"}
	cpu := map[string][]float64{}
	for range repeats {
		for _, ratio := range settings { // in turn, so that a busy machine burdens all alike
			cpu[ratio] = append(cpu[ratio], cpuOfARun(t, ratio))
		}
	}
	median := func(ratio string) float64 { return slices.Sorted(slices.Values(cpu[ratio]))[repeats/2] }
	for _, ratio := range settings {
		t.Logf("sample_ratio %-4s %.2f ms of CPU per rollout, %.2f times as much as without; all: %.2f", ratio, median(ratio), median(ratio)/median("off"), cpu[ratio])
	}
}

var cpuSeconds = regexp.MustCompile(`(?m)^process_cpu_seconds_total (\S+)$`)

// cpuOfARun runs the questions of the examples, four rollouts each, and returns milliseconds per rollout.
func cpuOfARun(t *testing.T, ratio string) (ms float64) {
	t.Helper()
	const rollouts = 88
	t.Run("ratio="+ratio, func(t *testing.T) {
		bin, shared, port := buildAll(t), t.TempDir(), freePort(t)
		startProc(t, filepath.Join(bin, "nats-server"), "-js", "-a", "127.0.0.1", "-p", port, "-sd", t.TempDir()).await(t, "Server is ready")
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
		if ratio != "off" {
			_, endpoint := tracingtest.Start(t)
			rewardConfig, workerConfig = traced(t, rewardConfig, endpoint, ratio), traced(t, workerConfig, endpoint, ratio)
		}
		startProc(t, filepath.Join(bin, "reward-server"), "--config", rewardConfig).await(t, `"ready"`)
		startProc(t, filepath.Join(bin, "rollout-worker"), "--config", workerConfig).await(t, `"ready"`)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		before := cpuOfProcess(t, client, admin) + cpuOfProcess(t, client, workerAdmin)
		code, _, stderr := verigraph(t, "submit", "--config", rewardConfig, "--final", "--format", "dabench",
			"--prompts", root+"examples/dabench/questions.jsonl", "--labels", root+"examples/dabench/labels.jsonl", "--data-dir", tables)
		require.Zero(t, code, stderr)
		trainer := exec.CommandContext(patience.Context(t), root+".venv/client/bin/python", "-m", "verigraph.trainer")
		trainer.Env = append(os.Environ(), "VERIGRAPH_FEED=127.0.0.1:"+feed)
		out, err := trainer.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), fmt.Sprintf("%d rollouts, ", rollouts))
		ms = (cpuOfProcess(t, client, admin) + cpuOfProcess(t, client, workerAdmin) - before) * 1000 / rollouts
	})
	return ms
}

func cpuOfProcess(t *testing.T, client *http.Client, admin string) float64 {
	t.Helper()
	_, text := fetch(t, client, "http://127.0.0.1:"+admin+"/metrics")
	m := cpuSeconds.FindStringSubmatch(text)
	require.NotNil(t, m)
	v, err := strconv.ParseFloat(m[1], 64)
	require.NoError(t, err)
	return v
}
