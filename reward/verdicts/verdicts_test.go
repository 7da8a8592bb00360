package verdicts_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/verigraph/verigraph/reward"
	"github.com/verigraph/verigraph/reward/verdicts"
	"github.com/verigraph/verigraph/reward/verdicts/storetest"
)

func TestDirectoryStoreKeepsVerdictsForAllReplicas(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) (a, b reward.Store) {
		root := filepath.Join(t.TempDir(), "verdicts")
		x, err := verdicts.OpenDir(root)
		require.NoError(t, err)
		y, err := verdicts.OpenDir(root)
		require.NoError(t, err)
		return x, y
	})
}

func TestKeysNeverLeaveTheDirectory(t *testing.T) {
	t.Parallel()
	d, err := verdicts.OpenDir(t.TempDir())
	require.NoError(t, err)
	for _, key := range []string{"", "a", "../../../etc/passwd", "a/b/c"} {
		_, err := d.Put(t.Context(), key, []byte("x"), true)
		require.ErrorContains(t, err, "is no key")
	}
}

func TestNothingHalfWrittenStaysBehind(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d, err := verdicts.OpenDir(root)
	require.NoError(t, err)
	for _, replace := range []bool{false, true, false} {
		_, err := d.Put(t.Context(), storetest.Key(7), []byte("1"), replace)
		require.NoError(t, err)
	}
	files, err := os.ReadDir(filepath.Join(root, "00"))
	require.NoError(t, err)
	require.Len(t, files, 1)
}
