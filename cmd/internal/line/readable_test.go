package line

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheDirectoryOfDataFilesIsChangedOnlyWhereSessionsCannotReadIt(t *testing.T) {
	t.Parallel()
	for had, want := range map[fs.FileMode]fs.FileMode{0o777: 0o777, 0o755: 0o755, 0o700: 0o755} {
		dir := filepath.Join(t.TempDir(), "cache")
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.Chmod(dir, had))
		require.NoError(t, readable(dir))
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Perm(), "of %o", had)
	}
	require.NoError(t, readable(filepath.Join(t.TempDir(), "a", "b")))
}
