package jetstream

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestServerThatIsAwayIsWaitedForAndOneThatIsNotThereIsNot(t *testing.T) {
	t.Parallel()
	api := func(code jetstream.ErrorCode, text string) error {
		return fmt.Errorf("stream: %w", &jetstream.APIError{Code: 400, ErrorCode: code, Description: text})
	}
	for _, c := range []struct {
		err             error
		refused, waited bool
	}{
		{api(10005, "no suitable peers for placement, peer offline"), false, true}, // as a server says it while the cluster starts
		{api(10005, "no suitable peers for placement, insufficient storage"), true, false},
		{api(10074, "replicas > 1 not supported in non-clustered mode"), true, false},
		{api(10008, "system temporarily unavailable"), false, true},
		{api(10118, "stream is offline"), false, true},
		{context.DeadlineExceeded, false, true},
		{nats.ErrNoResponders, false, true},
		{api(10052, "stream configuration is invalid"), false, false},
	} {
		require.Equal(t, c.refused, tooFewServers(c.err), "%v", c.err)
		require.Equal(t, c.waited, passing(c.err), "%v", c.err)
	}
}
