package sandbox

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The lines are those of proc(5), with a mount point that holds every character that the kernel writes in octal.
func TestMountPointsAreReadWithTheirOctalCharacters(t *testing.T) {
	t.Parallel()
	table := "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n" +
		`40 36 0:42 / /tmp/a\040b\011c\012d\134e rw,nosuid - tmpfs tmpfs rw` + "\nshort line\n"
	require.Equal(t, []string{"/mnt2", "/tmp/a b\tc\nd\\e"}, mountPoints(table))
}

// TestALateSourceIsBoundReadOnlyWithAllBelowIt runs as it would in gVisor, on this kernel.
func TestALateSourceIsBoundReadOnlyWithAllBelowIt(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	// In a mount namespace of this thread, which ends with the test: others count the mounts of theirs.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		t.Skip(err)
	}
	require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	dir := t.TempDir()
	from, inner, at := filepath.Join(dir, "from"), filepath.Join(dir, "from", "in ner"), filepath.Join(dir, "at")
	for _, d := range []string{inner, at} {
		require.NoError(t, os.MkdirAll(d, 0o755))
	}
	require.NoError(t, unix.Mount("tmpfs", inner, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() {
		_ = unix.Unmount(at, unix.MNT_DETACH)
		_ = unix.Unmount(inner, unix.MNT_DETACH)
	})
	src, err := openLate(from, from, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID, false)
	require.NoError(t, err)
	defer unix.Close(src.fd)
	require.True(t, src.dir)
	require.NoError(t, src.mount(at))
	for _, d := range []string{at, filepath.Join(at, "in ner")} {
		require.ErrorIs(t, os.WriteFile(filepath.Join(d, "x"), nil, 0o644), unix.EROFS, d)
	}
	require.NoError(t, os.WriteFile(filepath.Join(inner, "x"), nil, 0o644), "the source stays as it was")
	require.ErrorContains(t, restrictBelow(filepath.Join(dir, "from", "no mount"), unix.MOUNT_ATTR_RDONLY), "it is no mount")
}
