package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/policy/probe"
	"github.com/verigraph/verigraph/policy/scripted"
)

// probeCommand runs verigraph probe against a handler and gives its output.
func probeCommand(t *testing.T, h http.Handler, args ...string) (string, error) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "tokenizer.json")
	require.NoError(t, os.WriteFile(file, scripted.TokenizerJSON(), 0o600))
	var out strings.Builder
	cmd := newRoot()
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"probe", "--policy", server.URL, "--model", "scripted", "--tokenizer", file}, args...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func probed(t *testing.T) *scripted.Server {
	t.Helper()
	script, err := scripted.ReadScript(strings.NewReader(`{"prompt_id":"p","turns":["x"]}`), "test")
	require.NoError(t, err)
	s, err := scripted.New(script, scripted.Defaults())
	require.NoError(t, err)
	return s
}

func TestProbePrintsOneLineForEachCheck(t *testing.T) {
	t.Parallel()
	out, err := probeCommand(t, probed(t))
	require.NoError(t, err)
	for _, name := range []string{"CHECK", "token ids", "log-prob mode", "stop tag", "tokenizer", "context length", "weight version"} {
		require.Contains(t, out, name)
	}
	require.NotContains(t, out, "missing")
}

func TestProbeFailsAndNamesTheOptionWhereSomethingIsMissing(t *testing.T) {
	t.Parallel()
	faulty := &scripted.Faulty{Server: probed(t), Pick: func(int, string) scripted.Fault { return scripted.IgnoresTokenIDs }}
	out, err := probeCommand(t, faulty, "--output", "json")
	require.ErrorContains(t, err, "cannot serve exact rollouts")
	var r probe.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.False(t, r.Fit())
	require.Contains(t, out, "return_token_ids")
	_, err = probeCommand(t, faulty, "--output", "xml")
	require.Equal(t, cli.ExitUsage, cli.ExitCode("verigraph", err, io.Discard))
}
