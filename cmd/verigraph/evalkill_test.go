package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/dataset/archive"
	"github.com/verigraph/verigraph/eval"
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

func TestAnEvaluationThatIsKilledTwiceGivesWhatAnUninterruptedOneGivesAndScoresNothingTwice(t *testing.T) {
	t.Parallel()
	args := func(out string, extra ...string) []string {
		return evalArgs(out, root+"examples/dabench/solutions.jsonl", append([]string{"--limit", "12"}, extra...)...)
	}
	whole, broken := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	code, _, stderr := verigraph(t, args(whole)...)
	require.Zero(t, code, stderr)

	killWhen(t, filepath.Join(broken, "dabench"), 1, args(broken)...)
	first, err := archive.ReadIndex(filepath.Join(broken, "dabench"))
	require.NoError(t, err)
	killWhen(t, filepath.Join(broken, "dabench"), len(first)+1, args(broken, "--resume")...)
	m, err := eval.ReadManifest(broken)
	require.NoError(t, err)
	require.False(t, m.Runs[0].Complete)
	code, _, stderr = verigraph(t, args(broken, "--resume")...)
	require.Zero(t, code, stderr)

	require.Equal(t, stable(t, whole), stable(t, broken))
	entries, err := archive.ReadIndex(filepath.Join(broken, "dabench"))
	require.NoError(t, err)
	require.Equal(t, first, entries[:len(first)], "what was scored before the first kill stays as it is")
	seen := map[string]bool{}
	for _, e := range entries {
		require.False(t, seen[e.RolloutID], "%s was scored twice", e.RolloutID)
		seen[e.RolloutID] = true
	}
	require.Len(t, seen, 12)
}
