package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// readOnlyData are the flags of a data file's mount.
const readOnlyData = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC

// mounter copies mounts for a supervisor that may not: a process of ours in a user and a mount namespace of its own, in
// which our user may. It runs no model code and reads what we say only. One that died is replaced, and the
// request that met it is made again.
type mounter struct {
	spawn *spawner

	mu   sync.Mutex
	proc *process
	pipe *drain
	conn *net.UnixConn
}

// mountAnswer comes with a descriptor, or says why not.
type mountAnswer struct {
	Error string `json:"error"`
}

const mountTimeout = 10 * time.Second

// startMounter also makes a first copy, to see that it works here.
func startMounter(ctx context.Context, spawn *spawner) (*mounter, error) {
	m := &mounter{spawn: spawn}
	fd, err := m.copy(os.DevNull)
	if err == nil {
		err = unix.Close(fd)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// copy returns a detached read-only copy of the mount at path.
func (m *mounter) copy(path string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for range 2 {
		if m.conn == nil {
			if err := m.start(); err != nil {
				return -1, errors.Join(append(errs, err)...)
			}
		}
		fd, refused, err := m.ask(path)
		if err == nil {
			return fd, refused
		}
		errs = append(errs, fmt.Errorf("mounter: %w: %s", err, m.pipe.rest()))
		m.end()
	}
	return -1, errors.Join(errs...)
}

func (m *mounter) start() (err error) {
	sess := &session{}
	defer func() {
		if err != nil {
			_ = sess.discard()
		}
	}()
	ends, err := sess.plug()
	if err != nil {
		return err
	}
	defer ends.close()
	sess.proc, err = m.spawn.spawn(syscall.CLONE_NEWUSER|syscall.CLONE_NEWNS, false, mapIDs(0, false), ends.output, ends.control)
	if err != nil {
		return fmt.Errorf("mounter: %w", err)
	}
	if err := writeFrame(sess.control, initSpec{Mounter: true}, 1<<20); err != nil {
		return err
	}
	conn, err := net.FileConn(sess.control)
	if err != nil {
		return err
	}
	_ = sess.control.Close() // conn is a copy
	m.proc, m.pipe, m.conn = sess.proc, sess.pipe, conn.(*net.UnixConn)
	return nil
}

// ask makes one request. refused is the mounter's word about the path; err says that the mounter is of no more use.
func (m *mounter) ask(path string) (fd int, refused, err error) {
	if err := m.conn.SetDeadline(time.Now().Add(mountTimeout)); err != nil {
		return -1, nil, err
	}
	if err := writeFrame(m.conn, path, 1<<16); err != nil {
		return -1, nil, err
	}
	// The whole answer is one message: a short one on a local socket is not split.
	raw, oob := make([]byte, 4<<10), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := m.conn.ReadMsgUnix(raw, oob)
	if err != nil {
		return -1, nil, err
	}
	if n == 0 {
		return -1, nil, errors.New("it ended")
	}
	var a mountAnswer
	if err := json.Unmarshal(raw[:n], &a); err != nil {
		return -1, nil, err
	}
	if a.Error != "" {
		return -1, errors.New(a.Error), nil
	}
	fd, err = oneDescriptor(oob[:oobn])
	return fd, nil, err
}

func (m *mounter) end() {
	if m.conn == nil {
		return
	}
	m.proc.kill()
	<-m.proc.exited
	_ = m.conn.Close()
	m.pipe.close()
	m.conn = nil
}

func (m *mounter) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end()
}

// serveMounts is what the mounter's process does until its supervisor lets go.
func serveMounts(control *os.File) error {
	// Nothing that is unmounted on the host stays busy here, and nothing of ours reaches the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("mounter: %w", err)
	}
	for {
		body, err := readFrame(control, 1<<16)
		if err != nil {
			os.Exit(0)
		}
		var path string
		if err := json.Unmarshal(body, &path); err != nil {
			return fmt.Errorf("mounter: %w", err)
		}
		if err := answerMount(control, path); err != nil {
			return fmt.Errorf("mounter: %w", err)
		}
	}
}

func answerMount(control *os.File, path string) error {
	var a mountAnswer
	var rights []byte
	src, err := openSource(path, path, readOnlyData, false)
	if err != nil {
		a.Error = fmt.Sprintf("%.1000s", err)
	} else {
		defer unix.Close(src.fd)
		rights = unix.UnixRights(src.fd)
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return unix.Sendmsg(int(control.Fd()), text, rights, nil, unix.MSG_NOSIGNAL)
}
