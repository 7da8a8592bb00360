package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// forkTimeout bounds one fork; it takes milliseconds, so that a zygote that needs longer hangs.
const forkTimeout = 10 * time.Second

// zygote is one interpreter that forks sessions. It runs no model code; its sessions are our
// children, not its, and outlive it.
type zygote struct {
	proc *process
	log  *drain
	// about is what it said of itself.
	about zygoteReport
	// size is its address space in bytes, which a session inherits.
	size int64

	// mu is held for one request and its reply.
	mu    sync.Mutex
	conn  *net.UnixConn
	forks int
}

// zygoteReport is the zygote's word that it is ready.
type zygoteReport struct {
	Version string   `json:"version"`
	Missing []string `json:"missing"`
	// HugePages hold its heap; Pages of 4 KiB are written ahead in every session.
	HugePages int `json:"huge_pages"`
	Pages     int `json:"pages"`
}

// zygoteConfig is what a zygote is told once.
type zygoteConfig struct {
	SysPath  []string `json:"sys_path"`
	Preload  []string `json:"preload"`
	Helper   string   `json:"helper"`
	Warm     []string `json:"warm"`
	Rehearse []string `json:"rehearse"`
	// Start is what the rehearsal's session is told.
	Start    startRequest `json:"start"`
	Collapse bool         `json:"collapse"`
	Prefault bool         `json:"prefault"`
	// IDs: the id inside a session, the first one in the zygote's namespace, and whether each
	// session has its own; last, whether sessions have namespaces.
	IDs [4]uint32 `json:"ids"`
}

// startZygote returns when the zygote has imported everything and waits for requests.
func startZygote(ctx context.Context, spawn *spawner, spec initSpec, runner []byte, cfg zygoteConfig, ids idMapping) (_ *zygote, err error) {
	sess := &session{}
	defer func() {
		if err != nil {
			_ = sess.discard()
		}
	}()
	ends, err := sess.plug()
	if err != nil {
		return nil, err
	}
	defer ends.close()
	var namespaces uintptr
	if spec.Tier.namespaces() {
		namespaces = sharedNamespaces
	}
	if sess.proc, err = spawn.spawn(namespaces, false, ids, ends.output, ends.control); err != nil {
		return nil, err
	}
	ends.close() // so that its end is seen
	stop := context.AfterFunc(ctx, sess.proc.kill)
	defer stop()
	const limit = 1 << 24
	if err := errors.Join(writeFrame(sess.control, spec, limit), writeRaw(sess.control, runner, limit), writeFrame(sess.control, cfg, limit)); err != nil {
		return nil, fmt.Errorf("zygote: %w: %s", err, sess.pipe.rest())
	}
	z := &zygote{proc: sess.proc, log: sess.pipe}
	if z.about, err = readReport(sess); err != nil {
		return nil, err
	}
	if !stop() {
		return nil, ctx.Err()
	}
	if z.size, err = addressSpace(z.proc.pid); err != nil {
		return nil, fmt.Errorf("zygote: %w", err)
	}
	conn, err := net.FileConn(sess.control)
	if err != nil {
		return nil, err
	}
	_ = sess.control.Close() // conn is a copy
	z.conn = conn.(*net.UnixConn)
	return z, nil
}

func readReport(sess *session) (zygoteReport, error) {
	body, err := readFrame(sess.control, 1<<20)
	if err != nil {
		sess.proc.kill()
		<-sess.proc.exited
		return zygoteReport{}, fmt.Errorf("zygote: ended at start: %w (%v): %s", err, sess.proc.state, sess.pipe.rest())
	}
	var f struct {
		Failed *failed       `json:"failed"`
		Zygote *zygoteReport `json:"zygote"`
	}
	switch err := json.Unmarshal(body, &f); {
	case err != nil:
		return zygoteReport{}, fmt.Errorf("zygote: %w", err)
	case f.Failed != nil:
		return zygoteReport{}, fmt.Errorf("zygote: %s: %s", f.Failed.Error, sess.pipe.rest())
	case f.Zygote == nil:
		return zygoteReport{}, errors.New("zygote: not a report")
	}
	return *f.Zygote, nil
}

// fork asks for one session, whose descriptors and plan go along. On an error that is not the
// session's own the zygote is of no more use.
func (z *zygote) fork(patience time.Duration, id, flags uint32, control, output, plan int) (*process, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if err := z.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	var req [8]byte
	binary.NativeEndian.PutUint32(req[:], id)
	binary.NativeEndian.PutUint32(req[4:], flags)
	if _, _, err := z.conn.WriteMsgUnix(req[:], unix.UnixRights(control, output, plan), nil); err != nil {
		return nil, err
	}
	var rep struct{ PID, Error, Threads int32 }
	raw, oob := make([]byte, 12), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := z.conn.ReadMsgUnix(raw, oob)
	if err != nil {
		return nil, err
	}
	pidfd, err := oneDescriptor(oob[:oobn])
	if n != len(raw) || binary.Read(bytes.NewReader(raw), binary.NativeEndian, &rep) != nil {
		return nil, fmt.Errorf("a reply of %d bytes", n)
	}
	if rep.PID <= 0 || err != nil {
		return nil, fmt.Errorf("fork with %d threads: %w", rep.Threads, unix.Errno(rep.Error))
	}
	z.forks++
	// It is our child and not reaped yet: the number is its own.
	proc, err := os.FindProcess(int(rep.PID))
	if err != nil {
		unix.Close(pidfd)
		return nil, err
	}
	p, err := watch(proc, pidfd, false)
	if err == nil && rep.Error != 0 {
		p.kill()
		<-p.exited
		err = fmt.Errorf("map ids: %w", unix.Errno(rep.Error))
	}
	return p, err
}

// oneDescriptor takes the descriptor out of a control message.
func oneDescriptor(oob []byte) (int, error) {
	list, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(list) != 1 {
		return -1, errors.New("no descriptor came with the reply")
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.New("no descriptor came with the reply")
	}
	return fds[0], nil
}

// close ends the zygote; its sessions go on.
func (z *zygote) close() {
	z.proc.kill()
	<-z.proc.exited
	_ = z.conn.Close()
	z.log.close()
}

// addressSpace is the size of a process in bytes.
func addressSpace(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var pages int64
	if _, err := fmt.Sscan(string(b), &pages); err != nil {
		return 0, err
	}
	return pages * int64(os.Getpagesize()), nil
}
