package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/cmd/internal/cli"
)

func TestPermissionsOfARoleArePrintedForTheServersConfiguration(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := verigraph(t, "permissions", "--run", "first", "--role", "worker")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, `"verigraph.first.journal.>"`)
	require.NotContains(t, stdout, "references")
	code, _, stderr = verigraph(t, "permissions", "--run", "first", "--role", "boss")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, `--role: "boss", want one of [worker server submit]`)
}
