package jetstream_test

import (
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/jetstream"
)

// TestWorkerThatJustTookAGroupWaitsForAStreamWithoutALeader: nobody answers for the stream, as while a cluster elects.
func TestWorkerThatJustTookAGroupWaitsForAStreamWithoutALeader(t *testing.T) {
	t.Parallel()
	s, err := jetstream.StartServer(jetstream.ServerConfig{Dir: t.TempDir()})
	require.NoError(t, err)
	defer s.Stop()
	open := func() *jetstream.Bus {
		nc, err := s.Connect()
		require.NoError(t, err)
		bus, err := jetstream.New(t.Context(), nc, nil, jetstream.Defaults())
		require.NoError(t, err)
		t.Cleanup(bus.Close)
		return bus
	}
	bus := open()
	nc, err := s.Connect()
	require.NoError(t, err)
	defer nc.Close()
	js, err := natsjs.New(nc)
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), jetstream.Prompts))
	asked := make(chan error, 1)
	go func() {
		_, err := bus.Holds(patience.Context(t), jetstream.Prompts, "r1", "d-0")
		asked <- err
	}()
	select {
	case err := <-asked:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(time.Second): // long enough for a refusal
	}
	open() // makes the stream
	require.NoError(t, patience.Receive(t, asked, "whether the queue holds it"))
}
