package chaos

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// disk is a directory on a small file system of its own, where one can be mounted.
type disk struct {
	dir   string
	small bool
}

func newDisk(t testing.TB, dir, size string) disk {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=755,size="+size); err != nil {
		t.Logf("%s is no file system of its own and is never filled: %v", dir, err)
		return disk{dir: dir}
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return disk{dir: dir, small: true}
}

func (d disk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill writes until nothing more can be written.
func (d disk) fill() error {
	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for piece := make([]byte, 1<<20); len(piece) > 0; {
		if _, err := f.Write(piece); errors.Is(err, syscall.ENOSPC) {
			piece = piece[:len(piece)/2]
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (d disk) free() error { return os.Remove(d.ballast()) }
