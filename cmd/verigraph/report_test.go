package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/cli"
	"github.com/verigraph/verigraph/policy/scripted"
	"github.com/verigraph/verigraph/rollout/compose"
	"github.com/verigraph/verigraph/trajectory"
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
	require.Empty(t, stderr)
	require.Equal(t, []string{"c1"}, record().Claims)
	require.True(t, *record().Grounding[0].Structural)
	require.True(t, *record().Grounding[0].Supported)
	require.False(t, record().Composed)

	stored := filepath.Join(out, "trajectories", "honest-0", "1.json")
	data, err := os.ReadFile(stored)
	require.NoError(t, err)
	var tainted trajectory.Scored
	require.NoError(t, json.Unmarshal(data, &tainted))
	tainted.Trajectory.Graph.Grounding[0].Why = "c1: a judge disagrees"
	data, err = json.Marshal(tainted)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(stored, data, 0o600))
	_, _, stderr = verigraph(t, "report", out, "local/honest-0/1")
	require.Contains(t, stderr, "c1 does not hold: c1: a judge disagrees")

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
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "submitted nothing")
}
