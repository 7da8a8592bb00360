package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/rollout/compose"
)

func reportList(t *testing.T, out string) {
	const list = "# Findings\n\n- @mean_fare[34.65] [c1]\n"
	code, stdout, stderr := verigraph(t, "report", out, "local/honest-0/0")
	require.Zero(t, code, stderr)
	require.Equal(t, list, stdout)
	record := func() (r compose.Record) {
		data, err := os.ReadFile(filepath.Join(out, "reports", "honest-0", "0.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &r))
		return r
	}
	require.Equal(t, []string{"c1"}, record().Claims)
	require.False(t, record().Composed)

	// A server that knows nothing of this rollout refuses the call.
	script := writeScript(t, scriptLine{"other", []string{"x"}})
	s, err := scripted.LoadScript(script)
	require.NoError(t, err)
	server, err := scripted.New(s, scripted.Defaults())
	require.NoError(t, err)
	url, stop, err := server.Start(t.Context())
	require.NoError(t, err)
	defer stop()
	code, stdout, stderr = verigraph(t, "report", out, "local/honest-0/0", "--policy", url, "--model", scripted.Defaults().Model,
		"--tokenizer", filepath.Join(out, "tokenizer.json"))
	require.Zero(t, code, stderr)
	require.Equal(t, list, stdout)
	require.Contains(t, stderr, "the list of claims stands in for the report")
	require.Contains(t, record().Problem, "could not be asked")
	require.Equal(t, scripted.Defaults().Model, record().Model)

	code, _, stderr = verigraph(t, "report", out, "local/silent-0/0")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "submitted nothing")
}
