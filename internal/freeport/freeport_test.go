package freeport

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryPortIsFreeAndGivenOnceAndNoneIsOneOfTheKernels(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range 200 {
		port := Take(t)
		require.False(t, seen[port])
		seen[port] = true
		require.Less(t, port, outgoing())
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}
