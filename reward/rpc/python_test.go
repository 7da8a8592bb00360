package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/reward/rpc"
	"github.com/verigraph/verigraph/reward/scorehook"
)

// python runs the client's interpreter from the environment that make python builds.
func python(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	bin := filepath.Join(root, ".venv", "client", "bin", "python")
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("the Python client has no environment (%v): run make python", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "PYTHONPATH=" + filepath.Join(root, "clients", "python", "src"), "PYTHONDONTWRITEBYTECODE=1"}, env...)
	return cmd
}

func TestVerlsRewardFunctionGetsItsScoresFromThisServer(t *testing.T) {
	t.Parallel()
	const token = "hunter2"
	_, conn := serve(t, scorer(t, "official"), func(o *rpc.Options) { o.Token = token })
	script := `
import json
from verigraph.reward_client import compute_score
out = [compute_score("dabench", a, {"mean": 34.65}, {"id": 1, "question": "q"}) for a in ("@mean[34.65]", "@mean[1]", "no tag")]
print(json.dumps(out))
`
	cmd := python(t, []string{"VERIGRAPH_REWARD=" + conn.Target(), "VERIGRAPH_REWARD_TOKEN=" + token}, "-c", script)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	data, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var got []struct {
		Score float64 `json:"score"`
		Acc   float64 `json:"acc"`
	}
	require.NoError(t, json.Unmarshal(data, &got))
	require.Len(t, got, 3)
	require.Equal(t, []float64{1, 0, 0}, []float64{got[0].Score, got[1].Score, got[2].Score})
	require.InDelta(t, 1, got[0].Acc, 0)
}

func TestPythonScorerIsReachedOverHTTPAndGRPC(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mine.py")
	require.NoError(t, os.WriteFile(file, []byte("import verigraph.scorer\n\n@verigraph.scorer\ndef grade(item):\n    return 0.5 if item.claims[0].text == item.answer else 0\n"), 0o600))
	for _, wire := range []string{"http", "grpc"} {
		lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		address := lis.Addr().String()
		require.NoError(t, lis.Close())
		_, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		args := []string{"-m", "verigraph.scorer", file + ":grade", "--port", port, "--workers", "1"}
		if wire == "grpc" {
			args = append(args, "--grpc")
		}
		cmd := python(t, nil, args...)
		require.NoError(t, cmd.Start())
		h, err := scorehook.New("mine", scorehook.Config{URL: wire + "://" + address, Timeout: 10 * time.Second, Deadline: 50 * time.Second})
		require.NoError(t, err)
		g, err := h.Grade(t.Context(), gradeItem) // asked again until the helper is up
		require.NoError(t, err)
		require.InDelta(t, 0.5, g.Score, 0)
		require.NoError(t, h.Close())
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait()
	}
}
