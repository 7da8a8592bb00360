package sandbox

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	// nobody is an unprivileged user.
	nobody = 65534
	// nobodyEnv makes the test binary give up its privileges, and lists the directories that it must be
	// able to read then.
	nobodyEnv = "SANDBOX_TEST_NOBODY"
)

func init() {
	if dirs := os.Getenv(nobodyEnv); dirs != "" {
		fmt.Fprintln(os.Stderr, becomeNobody(strings.Split(dirs, ":")))
		os.Exit(1)
	}
}

// becomeNobody runs this program again as nobody, in a mount namespace (made by the parent) in which
// the directories can be reached: an interpreter may lie in a home directory.
func becomeNobody(dirs []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := open(dir); err != nil {
			return fmt.Errorf("open %s: %w", dir, err)
		}
	}
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setgid(nobody); err != nil {
		return err
	}
	if err := syscall.Setuid(nobody); err != nil {
		return err
	}
	if err := os.Unsetenv(nobodyEnv); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

// open covers the first ancestor of dir that others can't enter by one that they can, with dir in it.
func open(dir string) error {
	for up := filepath.Dir(dir); up != "/"; up = filepath.Dir(up) {
		info, err := os.Stat(up)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 != 0 {
			continue
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.Mount("tmpfs", up, "tmpfs", 0, "mode=0755"); err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		return unix.MoveMount(fd, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	return nil
}

// TestHostileCellsOfAnUnprivilegedUser runs the tables again as a user without any privilege, whose
// sessions all have that one user's number on the host.
func TestHostileCellsOfAnUnprivilegedUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the whole run is that of an unprivileged user")
	}
	if engine != EngineZygote && os.Getenv("SANDBOX_TEST_ALL") == "" {
		t.Skip("make hostile runs this on every engine")
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "unprivileged-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	tmp := filepath.Join(dir, "tmp")
	require.NoError(t, os.Mkdir(tmp, 0o700))
	require.NoError(t, os.Chown(tmp, nobody, nobody))
	require.NoError(t, os.Chmod(dir, 0o755))
	binary := filepath.Join(dir, "sandbox.test")
	copyFile(t, exe, binary)
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^TestHostileCells$|^TestTheEngineThatWasAskedForIsUsed$|^TestHostileCellsOfTheConfined|^TestAConfinedSession", "-test.timeout", "30m", "-test.parallel", "2")
	cmd.Env = []string{
		nobodyEnv + "=" + strings.Join(inspected(t).Prefixes, ":"), engineEnv + "=" + string(engine),
		"HOME=" + tmp, "TMPDIR=" + tmp, "SANDBOX_TEST_ALL=" + os.Getenv("SANDBOX_TEST_ALL"), "PATH=" + os.Getenv("PATH"),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "PASS")
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	src, err := os.Open(from)
	require.NoError(t, err)
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(dst, src)
	require.NoError(t, err)
	require.NoError(t, dst.Close())
}
