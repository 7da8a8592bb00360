package line

import (
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/verigraph/verigraph/blob"
	"github.com/verigraph/verigraph/cmd/internal/config"
	"github.com/verigraph/verigraph/dataset/leader"
	"github.com/verigraph/verigraph/jetstream"
	"github.com/verigraph/verigraph/task"
	"github.com/verigraph/verigraph/trajectory"
)

// What was read along is not read again: the entries are taken away from the broker before the lead is taken.
func TestAServerThatStandsByLeadsByWhatItReadAlong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, err := jetstream.StartServer(jetstream.ServerConfig{Dir: filepath.Join(dir, "nats")})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	nc, err := server.Connect()
	require.NoError(t, err)
	store, err := blob.OpenDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	cfg := config.Defaults()
	cfg.Resolve()
	bus, err := jetstream.New(t.Context(), nc, store, cfg.NATS.Config)
	require.NoError(t, err)
	t.Cleanup(bus.Close)
	ledger, _, err := jetstream.OpenLog[leader.Event](t.Context(), bus, jetstream.Ledger, cfg.Run)
	require.NoError(t, err)
	admit := func(id string) {
		body := task.Dispatch{ID: id + "-0", Run: cfg.Run, GroupSize: 2, Prompt: task.Prompt{ID: id}}
		e := leader.Event{Kind: leader.Admitted, Dispatch: body.ID, PromptID: id, Rollouts: 2, Body: &body}
		require.NoError(t, ledger.Append(t.Context(), e))
	}
	admit("a")
	admit("b")

	lead := newLead(cfg, bus, store, func(trajectory.ScoredGroup) error { return nil }, zap.NewNop())
	require.NoError(t, lead.open(t.Context()))
	lead.readAlong(t.Context())
	forget(t, nc)
	admit("c")
	cur, err := lead.fromLogs(t.Context())
	require.NoError(t, err)
	p, err := cur.Progress(t.Context())
	require.NoError(t, err)
	require.Equal(t, 6, p.Ledger.Dispatched)
	require.Nil(t, lead.along, "the next term begins with what the logs say then")
}

// forget takes all of LEDGER but its last message away.
func forget(t *testing.T, nc *nats.Conn) {
	t.Helper()
	js, err := natsjs.New(nc)
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), jetstream.Ledger)
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context(), natsjs.WithPurgeKeep(1)))
}
