package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/eval"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/task"
)

// asProgram makes this test binary the program: a process of its own, which can be killed.
const asProgram = "VERIGRAPH_TEST_AS_PROGRAM"

// killWhen starts the program and sends SIGKILL once so many rollouts are scored.
func killWhen(t *testing.T, out string, scored int, args ...string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	var log strings.Builder
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asProgram+"=1"), &log, &log
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	bound := time.NewTimer(2 * time.Minute)
	defer bound.Stop()
	for {
		if entries, err := archive.ReadIndex(out); err == nil && len(entries) >= scored {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("it ended before %d rollouts were scored: %v\n%s", scored, err, log.String())
		case <-bound.C:
			_ = cmd.Process.Kill()
			t.Fatalf("%d rollouts were not scored in time", scored)
		case <-tick.C:
		}
	}
	require.NoError(t, cmd.Process.Kill())
	err = <-ended // a killed process ends
	require.ErrorContains(t, err, "killed", log.String())
}

// doorkeeper holds the calls of all questions but the first few, so that an evaluation can't end.
type doorkeeper struct {
	next http.Handler

	mu   sync.Mutex
	open int
	in   map[string]bool
}

func (d *doorkeeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if id, _, _, err := task.ParseRequestID(r.Header.Get("X-Request-Id")); err == nil && r.URL.Path == "/v1/completions" && !d.lets(id.Dispatch) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that the caller is gone
		<-r.Context().Done()
		return
	}
	d.next.ServeHTTP(w, r)
}

func (d *doorkeeper) lets(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.in) < d.open {
		d.in[id] = true
	}
	return d.in[id]
}

func (d *doorkeeper) opens(to int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = to
}

func TestAnEvaluationThatIsKilledTwiceGivesWhatAnUninterruptedOneGivesAndScoresNothingTwice(t *testing.T) {
	t.Parallel()
	const items = 5
	script, err := scripted.LoadScript(root + "examples/dabench/solutions.jsonl")
	require.NoError(t, err)
	engine, err := scripted.New(script, scripted.Defaults())
	require.NoError(t, err)
	door := &doorkeeper{next: engine, in: map[string]bool{}}
	server := httptest.NewServer(door)
	defer server.Close()
	args := func(out string, extra ...string) []string {
		return append([]string{
			"eval", "run", "--benchmark", "dabench", "--prompts", root + "examples/dabench/questions.jsonl",
			"--labels", root + "examples/dabench/labels.jsonl", "--data-dir", tables, "--policy", server.URL, "--model", "scripted",
			"--tokenizer", root + "policy/scripted", "--limit", strconv.Itoa(items),
			"--python", root + ".venv/sandbox/bin/python", "--replay=false", "--out", out,
		}, extra...)
	}
	out := filepath.Join(t.TempDir(), "killed")
	door.opens(1)
	killWhen(t, filepath.Join(out, "dabench"), 1, args(out)...)
	first, err := archive.ReadIndex(filepath.Join(out, "dabench"))
	require.NoError(t, err)
	door.opens(3)
	killWhen(t, filepath.Join(out, "dabench"), len(first)+1, args(out, "--resume")...)
	m, err := eval.ReadManifest(out)
	require.NoError(t, err)
	require.False(t, m.Runs[0].Complete)
	door.opens(items)
	code, _, stderr := verigraph(t, args(out, "--resume")...)
	require.Zero(t, code, stderr)

	entries, err := archive.ReadIndex(filepath.Join(out, "dabench"))
	require.NoError(t, err)
	require.Equal(t, first, entries[:len(first)], "what was scored before the first kill stays as it is")
	seen := map[string]bool{}
	for _, e := range entries {
		require.False(t, seen[e.RolloutID], "%s was scored twice", e.RolloutID)
		seen[e.RolloutID] = true
	}
	require.Len(t, seen, items)
	whole := filepath.Join(t.TempDir(), "whole")
	code, _, stderr = verigraph(t, args(whole)...)
	require.Zero(t, code, stderr)
	require.Equal(t, stable(t, whole), stable(t, out))
}
