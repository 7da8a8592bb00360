package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// AnyIDRange lets the supervisor take the first range of ids that no other on this host holds.
const AnyIDRange = -1

// idRanges is how many supervisors of one host can have ids of their own.
const idRanges = 256

// rangeDirs are where supervisors of one host meet, the first that is there; not TMPDIR, which each may have its own.
var rangeDirs = []string{"/run/lock", "/tmp"}

// hostIDs are the host ids of this process. Its invariant: a host id belongs to one live session of one supervisor, since
// what the kernel counts or allows by user (processes, signals, files) would join two. The lock on a range ends
// with the process.
var hostIDs struct {
	mu    sync.Mutex
	lock  *os.File
	index int
}

// pool hands out the ids of all sandboxes of this process, forked or fresh.
var pool = newIDPool(zygoteIDs)

// reserveIDs takes a range for this process, once: want is its number or AnyIDRange.
func reserveIDs(want int) error {
	hostIDs.mu.Lock()
	defer hostIDs.mu.Unlock()
	if hostIDs.lock != nil {
		if want != AnyIDRange && want != hostIDs.index {
			return fmt.Errorf("sandbox: id_range %d: this process has range %d already", want, hostIDs.index)
		}
		return nil
	}
	first, last := want, want
	if want == AnyIDRange {
		first, last = 0, idRanges-1
	}
	for i := first; i <= last; i++ {
		lock, err := lockRange(i)
		switch {
		case err == nil:
			hostIDs.lock, hostIDs.index = lock, i
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("sandbox: id_range %d: %w", i, err)
		}
	}
	if want != AnyIDRange {
		return fmt.Errorf("sandbox: id_range %d: another supervisor on this host holds it", want)
	}
	return fmt.Errorf("sandbox: id_range: all %d ranges are held by other supervisors", idRanges)
}

// lockRange fails with EWOULDBLOCK where another process holds the range.
func lockRange(i int) (*os.File, error) {
	dir := ""
	for _, d := range rangeDirs {
		if info, err := os.Stat(d); err == nil && info.IsDir() {
			dir = d
			break
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("verigraph-ids-%d.lock", i)), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// firstHostID starts this process's range.
func firstHostID() int { return firstOuterID + hostIDs.index*zygoteIDs }
