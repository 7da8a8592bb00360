package sandbox

import (
	"slices"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/stretchr/testify/require"
)

// TestEveryDeniedCallIsKnownToTheFilter: a name that the tables don't hold would be left out in silence.
func TestEveryDeniedCallIsKnownToTheFilter(t *testing.T) {
	t.Parallel()
	tables := []*arch.Info{arch.X86_64, arch.AARCH64}
	for _, name := range slices.Concat(denied, absent, sameUser) {
		found := false
		for _, info := range tables {
			_, ok := info.SyscallNames[name]
			found = found || ok
		}
		require.True(t, found, name)
	}
	for _, info := range tables {
		for _, l := range lowWord {
			require.Contains(t, info.SyscallNames, l.name)
		}
	}
}
