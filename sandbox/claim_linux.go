package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Kinds of messages of a claim, as helper/session.c names them.
const (
	claimFile = iota + 1
	claimGo
)

// claim hands a forked session its data: for every file a detached read-only mount, so that the
// session never sees a path of the host.
func claim(control *os.File, files []bindFile) error {
	for _, f := range files {
		if err := handOver(control, f); err != nil {
			return fmt.Errorf("data file %s: %w", f.Name, err)
		}
	}
	var last [8]byte
	binary.NativeEndian.PutUint32(last[:], claimGo)
	_, err := control.Write(last[:])
	return err
}

func handOver(control *os.File, f bindFile) error {
	src, err := openSource(f.Path, f.Name, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, false)
	if err != nil {
		return err
	}
	defer unix.Close(src.fd)
	msg := make([]byte, 8, 8+len(f.Name))
	binary.NativeEndian.PutUint32(msg, claimFile)
	binary.NativeEndian.PutUint32(msg[4:], uint32(len(f.Name)))
	msg = append(msg, f.Name...)
	raw, err := control.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	var sent error
	if err := raw.Write(func(fd uintptr) bool {
		n, sent = unix.SendmsgN(int(fd), msg, unix.UnixRights(src.fd), nil, unix.MSG_NOSIGNAL)
		return sent != unix.EAGAIN && sent != unix.EINTR
	}); err != nil || sent != nil {
		return errors.Join(err, sent)
	}
	if n < len(msg) {
		_, err = control.Write(msg[n:])
	}
	return err
}
