package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDirectoriesOfKilledSupervisorsAreRemovedByTheNextOne(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	killed, lock, err := openScratch()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(killed, "3-1", "scratch"), 0o700))
	require.NoError(t, lock.Close(), "as at the end of a process")
	alive, held, err := openScratch()
	require.NoError(t, err)
	defer held.Close()
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "kept"), nil, 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(tmp, scratchPrefix+"link")))

	mine, ours, err := openScratch()
	require.NoError(t, err)
	defer ours.Close()
	require.NoDirExists(t, killed)
	require.DirExists(t, alive, "its supervisor holds it")
	require.DirExists(t, mine)
	require.FileExists(t, filepath.Join(outside, "kept"), "links are not followed")
}
