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
func claim(control *os.File, files []bindFile, copyMount func(path string) (int, error)) error {
	for _, f := range files {
		if err := handOver(control, f, copyMount); err != nil {
			return fmt.Errorf("data file %s: %w", f.Name, err)
		}
	}
	var last [8]byte
	binary.NativeEndian.PutUint32(last[:], claimGo)
	_, err := control.Write(last[:])
	return err
}

// copyMount makes a detached read-only copy of a file's mount, ourselves where we may.
func (s *Sandbox) copyMount(path string) (int, error) {
	if s.mounter != nil {
		return s.mounter.copy(path)
	}
	src, err := openSource(path, path, readOnlyData, false)
	return src.fd, err
}

func handOver(control *os.File, f bindFile, copyMount func(path string) (int, error)) error {
	mount, err := copyMount(f.Path)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
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
		n, sent = unix.SendmsgN(int(fd), msg, unix.UnixRights(mount), nil, unix.MSG_NOSIGNAL)
		return sent != unix.EAGAIN && sent != unix.EINTR
	}); err != nil || sent != nil {
		return errors.Join(err, sent)
	}
	if n < len(msg) {
		_, err = control.Write(msg[n:])
	}
	return err
}
