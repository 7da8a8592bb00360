package sandbox

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// scratchPrefix begins the names of supervisors' directories below the temporary one.
const scratchPrefix = "verigraph-sessions-"

// openScratch makes the directory of this supervisor, held by a lock that ends with the process, and removes those
// that killed supervisors left.
func openScratch() (dir string, lock *os.File, err error) {
	sweepScratch()
	for range 100 {
		if dir, err = os.MkdirTemp("", scratchPrefix); err != nil {
			return "", nil, err
		}
		if lock, err = lockDir(dir); err == nil {
			if _, err = os.Stat(dir); err == nil {
				return dir, lock, nil
			}
			_ = lock.Close()
		} // another supervisor swept it away before it was locked
	}
	return "", nil, fmt.Errorf("scratch directory: %w", err)
}

// lockDir locks a directory of ours; it follows no link.
func lockDir(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), dir)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && int(st.Uid) != os.Geteuid() {
		err = unix.EPERM
	}
	if err == nil {
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// sweepScratch removes the directories whose supervisor is gone.
func sweepScratch() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*"))
	for _, dir := range left {
		if lock, err := lockDir(dir); err == nil {
			_ = os.RemoveAll(dir)
			_ = lock.Close()
		}
	}
}
