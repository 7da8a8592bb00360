package jetstream_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/jetstream"
)

// TestFullDiskOfNATSRefusesAndLosesNothingOnceItHasRoom: the store is a small file system that is really full.
func TestFullDiskOfNATSRefusesAndLosesNothingOnceItHasRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := filepath.Join(dir, "nats")
	require.NoError(t, os.Mkdir(store, 0o755))
	if err := syscall.Mount("tmpfs", store, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("%s cannot be mounted: %v", store, err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(store, syscall.MNT_DETACH)) })
	f, stop := start(t, dir, jetstream.Defaults())
	q := queue(t, f, jetstream.Prompts)
	text := random(t, 100_000)
	publish := func(n int) error {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		return q.Publish(ctx, "r1", fmt.Sprintf("d-%d", n), item{N: n, Text: text})
	}
	require.NoError(t, publish(0))
	ballast, err := os.Create(filepath.Join(store, "ballast"))
	require.NoError(t, err)
	for piece := make([]byte, 64<<10); len(piece) > 0; {
		if _, err := ballast.Write(piece); err != nil {
			piece = piece[:len(piece)/2]
		}
	}
	require.NoError(t, ballast.Close())
	stored := 1 // what was there when the disk was filled may take a few more
	for refused := error(nil); refused == nil; stored++ {
		require.Less(t, stored, 200, "the disk is full and nothing is refused")
		if refused = publish(stored); refused != nil {
			require.ErrorContains(t, refused, "the disk of NATS may be full")
			break
		}
	}
	stop()
	require.NoError(t, os.Remove(ballast.Name()))

	f, stop = start(t, dir, jetstream.Defaults())
	t.Cleanup(stop)
	q = queue(t, f, jetstream.Prompts)
	require.NoError(t, publish(stored), "with room and a new start it goes on")
	seen := map[int]bool{}
	for range stored + 1 {
		m := receive(t, q)
		require.False(t, seen[m.Value.N], "message %d twice", m.Value.N)
		seen[m.Value.N] = true
		require.NoError(t, m.Ack(t.Context()))
	}
}

func TestStoreOverItsBoundSaysSo(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 1 << 20, MaxPayload: 8 << 20, NoSigs: true, NoLog: true,
	})
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(10*time.Second))
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	nc, err := jetstream.Dial(s.ClientURL(), "", "r1")
	require.NoError(t, err)
	bus, err := jetstream.New(t.Context(), nc, nil, jetstream.Defaults())
	require.NoError(t, err)
	t.Cleanup(bus.Close)
	for n := 0; err == nil && n < 50; n++ {
		err = bus.PublishOnce(t.Context(), jetstream.Prompts, "r1", fmt.Sprintf("d-%d", n), item{Text: random(t, 100_000)})
	}
	require.ErrorContains(t, err, "the store of NATS is full")
}
