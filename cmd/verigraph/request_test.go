package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/tracing/tracingtest"
	"github.com/verigraph/verigraph/policy/scripted"
)

// requestScript answers the run's prompt 0, and that prompt as groups of a request.
func requestScript(t *testing.T, groups ...string) *scripted.Script {
	t.Helper()
	data, err := os.ReadFile(root + "examples/dabench/solutions.jsonl")
	require.NoError(t, err)
	var own scriptLine
	for line := range strings.Lines(string(data)) {
		var l scriptLine
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		if l.PromptID == "0" {
			own = l
		}
	}
	require.NotEmpty(t, own.Turns)
	lines := []any{own}
	for _, g := range groups {
		lines = append(lines, scriptLine{"request/" + g, own.Turns})
	}
	script, err := scripted.LoadScript(writeScript(t, lines...))
	require.NoError(t, err)
	return script
}

// sampled is what a policy call says about sampling; call is one call.
type sampled struct {
	Temperature float64 `json:"temperature"`
	TopP        float64 `json:"top_p"`
	TopK        int     `json:"top_k"`
}

type policyCall struct {
	sampled
	MaxTokens int `json:"max_tokens"`
	id        string
}

// recorder is a policy server in front of another one that keeps the completions that it was asked for.
func recorder(t *testing.T, behind string) (at string, calls func() []policyCall) {
	t.Helper()
	target, err := url.Parse(behind)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	var mu sync.Mutex
	var got []policyCall
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && strings.HasSuffix(r.URL.Path, "/completions") {
			call := policyCall{id: r.Header.Get("X-Request-Id"), sampled: sampled{-1, -1, -99}}
			if strings.Contains(call.id, "request~2F") && json.Unmarshal(body, &call) == nil {
				mu.Lock()
				got = append(got, call)
				mu.Unlock()
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []policyCall {
		mu.Lock()
		defer mu.Unlock()
		return got
	}
}

func TestATrainerRequestsGroupsInPythonAndGetsTheirRowsFromTheServersThatItNamed(t *testing.T) {
	t.Parallel()
	var urls []string // the worker's own server, which cannot answer requests, and the trainer's
	for _, groups := range [][]string{nil, {"g1", "g2", "val"}} {
		server, err := scripted.New(requestScript(t, groups...), scripted.Defaults())
		require.NoError(t, err)
		url, stop, err := server.Start(t.Context())
		require.NoError(t, err)
		t.Cleanup(stop)
		urls = append(urls, url)
	}
	recorded, asked := recorder(t, urls[1])
	trainers := strings.TrimPrefix(recorded, "http://")
	dir, out := t.TempDir(), t.TempDir()
	tok := filepath.Join(dir, "tokenizer.json")
	require.NoError(t, os.WriteFile(tok, scripted.TokenizerJSON(), 0o600))
	conf := filepath.Join(dir, "c.yaml")
	collector, endpoint := tracingtest.Start(t)
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, "telemetry: {traces: {endpoint: %q}}\npolicy: {model: scripted, tokenizer: %s, endpoints: {allow: [%q]}}\nleader: {allow_endpoints: [%q]}\n",
		endpoint, tok, trainers, trainers), 0o600))
	table, err := os.ReadFile(tables + "/test_ave.csv")
	require.NoError(t, err)
	sum := sha256.Sum256(table)
	file, err := json.Marshal(map[string]any{"name": "test_ave.csv", "sha256": hex.EncodeToString(sum[:]), "size": len(table)})
	require.NoError(t, err)
	question, err := json.Marshal(map[string]any{
		"id": "0", "question": "Calculate the mean fare paid by the passengers as @mean_fare[VALUE].",
		"answers": [][]string{{"mean_fare", "34.65"}},
	})
	require.NoError(t, err)
	script, err := filepath.Abs("testdata/request.py")
	require.NoError(t, err)
	python, err := filepath.Abs(root + ".venv/client/bin/python")
	require.NoError(t, err)
	command := fmt.Sprintf("%s %s %s '%s' '%s'", python, script, trainers, file, question)
	args := dabenchArgs(out, "", "--limit", "1", "--group-size", "2", "--config", conf, "--trainer", command)
	for i, a := range args {
		if a == "script:" {
			args[i] = urls[0]
		}
	}
	code, stdout, stderr := verigraph(t, args...)
	log, err := os.ReadFile(filepath.Join(out, "trainer.log"))
	require.NoError(t, err, stderr)
	require.Zero(t, code, stderr+stdout+string(log))

	type row struct {
		UID      string  `json:"uid"`
		Session  int     `json:"session_id"`
		Status   string  `json:"reward_status"`
		Accuracy float64 `json:"acc"`
		Min      int64   `json:"policy_version_min"`
		Max      int64   `json:"policy_version_max"`
	}
	var got struct {
		Rows    [][]row             `json:"rows"`
		Sampled map[string][]string `json:"sampled"`
	}
	said := strings.Split(strings.TrimSpace(string(log)), "\n") // a group may be asked for again, which it says
	require.NoError(t, json.Unmarshal([]byte(said[len(said)-1]), &got), string(log))
	for i, version := range []int64{7, 8} {
		require.Equal(t, []row{
			{"g2", 0, "ok", 1, version, version},
			{"g1", 0, "ok", 1, version, version},
			{"val", 0, "ok", 1, version, version},
			{"g2", 1, "ok", 1, version, version},
			{"g1", 1, "ok", 1, version, version},
			{"g2", 2, "ok", 1, version, version},
		}, got.Rows[i])
	}
	require.Equal(t, map[string][]string{
		"g1": {"1", "1", "-1", "4096"}, "g2": {"0.5", "0.9", "7", "2000"}, "val": {"0", "1", "-1", "4096"},
	}, got.Sampled, "the rows record it")
	seen := map[string]int{}
	for _, call := range asked() {
		uid := strings.Split(strings.Split(call.id, "request~2F")[1], "-")[0]
		want := map[string]sampled{"g1": {1, 1, -1}, "g2": {0.5, 0.9, 7}, "val": {0, 1, -1}}[uid]
		require.Equal(t, want, call.sampled, "on the wire: %s", call.id)
		require.LessOrEqual(t, call.MaxTokens, map[string]int{"g1": 4096, "g2": 2000, "val": 4096}[uid])
		seen[uid]++
	}
	require.Len(t, seen, 3)
	require.True(t, readSummary(t, out).Ledger.Balanced())
	checkRequestTraces(t, collector, 6)
}
