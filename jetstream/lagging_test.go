package jetstream_test

import (
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/jetstream"
)

func TestCurrentStateIsNotThatOfAReplicaWhichLagsBehind(t *testing.T) {
	t.Parallel()
	s, err := jetstream.StartServer(jetstream.ServerConfig{Dir: t.TempDir()})
	require.NoError(t, err)
	defer s.Stop()
	nc, err := s.Connect()
	require.NoError(t, err)
	bus, err := jetstream.New(t.Context(), nc, nil, jetstream.Defaults())
	require.NoError(t, err)
	defer bus.Close()
	require.NoError(t, bus.PutState(t.Context(), "cursor.r1.trainer", 6))

	// The replica answers beside the server that holds the newest value, with what it last heard of.
	replica, err := s.Connect()
	require.NoError(t, err)
	defer replica.Close()
	const read = "$JS.API.DIRECT.GET.KV_verigraph_state.$KV.verigraph_state.cursor.r1.trainer"
	old, err := replica.RequestWithContext(patience.Context(t), read, nil)
	require.NoError(t, err)
	var answers, lagged atomic.Int64
	_, err = replica.Subscribe(read, func(m *nats.Msg) {
		if answers.Add(1) > 40 { // it has caught up
			return
		}
		late := nats.NewMsg(m.Reply)
		late.Header, late.Data = old.Header, old.Data
		_ = replica.PublishMsg(late)
	})
	require.NoError(t, err)
	require.NoError(t, replica.Flush())
	require.NoError(t, bus.PutState(t.Context(), "cursor.r1.trainer", 7))
	for range 20 {
		var seen int
		if _, err := bus.GetState(t.Context(), "cursor.r1.trainer", &seen); err == nil && seen == 6 {
			lagged.Add(1)
		}
		now, err := jetstream.CurrentState[int](patience.Context(t), bus, "cursor.r1.trainer")
		require.NoError(t, err)
		require.Equal(t, 7, now)
	}
	t.Logf("%d plain reads gave the earlier value", lagged.Load())
}
