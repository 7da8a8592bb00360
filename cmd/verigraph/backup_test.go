package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestARunGoesOnFromABackupOfItsStore: the run is stopped in the middle, with groups half done, its JetStream store
// is backed up, lost and restored, and every group is still delivered once. With VERIGRAPH_NATS_CLI (the program
// nats) the backup is that of a server at work, else a copy of the directory of a stopped one.
func TestARunGoesOnFromABackupOfItsStore(t *testing.T) {
	t.Parallel()
	k := startRestartable(t, 1, 1)
	k.under(t, "stop")
	k.submit(t, 8)
	stopped := append([]*restarted{k.workers[0]}, k.servers[:]...)
	for _, p := range stopped { // the worker first: its groups are handed back, their turns stay in the journal
		log, _ := p.text()
		require.NoError(t, p.end(t, syscall.SIGTERM, time.Minute), log)
	}
	nats := k.nodes[0]
	store, backup := nats.args[len(nats.args)-3], filepath.Join(t.TempDir(), "backup")
	require.DirExists(t, store)
	cli := os.Getenv("VERIGRAPH_NATS_CLI")
	ask := func(args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, cli, append([]string{"--server", k.natsURL}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
		t.Logf("nats %v: %s", args, out)
	}
	if cli != "" {
		ask("backup", "account", backup, "--consumers", "--force")
	}
	_ = nats.end(t, syscall.SIGTERM, time.Minute)
	if cli == "" {
		require.NoError(t, os.CopyFS(backup, os.DirFS(store)))
	}
	require.NoError(t, os.RemoveAll(store))
	if cli == "" {
		require.NoError(t, os.CopyFS(store, os.DirFS(backup)))
	}
	nats.start(t)
	nats.ready(t)
	if cli != "" {
		ask("backup", "restore", "account", backup)
	}
	for i := len(stopped) - 1; i >= 0; i-- {
		stopped[i].start(t)
		stopped[i].ready(t)
	}
	k.end(t, 0)
}
