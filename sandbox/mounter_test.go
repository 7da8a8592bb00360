package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/internal/patience"
	"golang.org/x/sys/unix"
)

func TestAMounterCopiesFilesReadOnlyNamesWhatItCanNotAndIsReplacedWhenItDies(t *testing.T) {
	t.Parallel()
	spawn := newSpawner()
	defer spawn.close()
	m, err := startMounter(t.Context(), spawn)
	require.NoError(t, err)
	defer m.close()
	file := filepath.Join(t.TempDir(), "a.csv")
	require.NoError(t, os.WriteFile(file, []byte("x\n"), 0o644))
	readOnly := func() {
		t.Helper()
		fd, err := m.copy(file)
		require.NoError(t, err)
		defer unix.Close(fd)
		var st unix.Statfs_t
		require.NoError(t, unix.Fstatfs(fd, &st))
		const want = unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC
		require.Equal(t, int64(want), st.Flags&want)
	}
	readOnly()
	first := m.proc
	_, err = m.copy(file + ".gone")
	require.ErrorContains(t, err, "a.csv.gone: no such file or directory")
	require.Same(t, first, m.proc)
	first.kill()
	patience.Receive(t, first.exited, "the end of the mounter")
	readOnly()
	require.NotSame(t, first, m.proc)
}

func TestForkedSessionsGetTheirDataFromAMounterToo(t *testing.T) {
	t.Parallel()
	forked(t)
	s := own(t, func(*Config) {})
	if s.mounter == nil { // we may make mounts ourselves
		var err error
		s.mounter, err = startMounter(t.Context(), s.spawn)
		require.NoError(t, err)
	}
	sess := start(t, s, map[string]string{"a.csv": "x\n1\n", "dir/b.csv": "y\n"})
	res := run(t, sess, "print(open('a.csv').read() + open('/data/dir/b.csv').read())\nopen('a.csv', 'a')")
	require.Equal(t, "x\n1\ny\n\n", res.Output)
	require.Contains(t, []string{"OSError", "PermissionError"}, res.Exception)
}
