package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// systemPaths are what an interpreter needs of the host besides its own prefixes.
var systemPaths = []string{"/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts", "/etc/mime.types"}

// loaders are the dynamic loaders that run the interpreter.
var loaders = []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-aarch64.so.1"}

// passedThrough are variables of ours that a session gets too: they choose how the same CPU computes.
var passedThrough = []string{"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"}

// launch starts one session and waits until its runner is ready.
func (s *Sandbox) launch(ctx context.Context, slot int, files []bindFile, spec Spec) (*session, error) {
	for s.warm != nil {
		sess := s.warm.take()
		if sess == nil {
			break
		}
		sess.slot = slot
		if err := s.prepare(ctx, sess, scratchDir, files, spec); err == nil {
			return sess, nil
		}
		// A session that died waiting is nobody's failure.
		_ = sess.discard()
	}
	dir := scratchDir
	sess := &session{sandbox: s, slot: slot, limits: s.cfg.Limits}
	if !s.tier.namespaces() {
		var err error
		if dir, err = hostScratch(s.scratch, slot, files); err != nil {
			return nil, err
		}
		sess.dir = filepath.Dir(dir)
	}
	var err error
	if s.tier == TierNone {
		sess.data, err = watched(files)
	}
	if err == nil && s.nest != nil && s.plan == nil {
		sess.plan, err = s.planFor(dir, files)
	}
	if err == nil {
		err = s.connect(ctx, sess, 0)
	}
	if err == nil {
		err = s.prepare(ctx, sess, dir, files, spec)
	}
	if err != nil {
		_ = sess.discard()
		return nil, err
	}
	return sess, nil
}

// prepare makes a started process a session that waits for its first cell.
func (s *Sandbox) prepare(ctx context.Context, sess *session, dir string, files []bindFile, spec Spec) error {
	deadline := time.Now().Add(s.cfg.StartTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := sess.control.SetDeadline(deadline); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, sess.proc.kill)
	defer stop()
	if err := s.handshake(sess, dir, files, spec); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	if !stop() {
		return ctx.Err()
	}
	return sess.control.SetDeadline(time.Time{})
}

// connect starts the process with its control socket and output pipe, in a control group of its own where there are some.
func (s *Sandbox) connect(ctx context.Context, sess *session, flags uint32) error {
	if err := s.begin(ctx, sess, flags); err != nil || s.groups == nil {
		return err
	}
	c, err := s.groups.take()
	if err != nil {
		return err
	}
	free := sess.free
	sess.free = func() {
		s.groups.give(c)
		free()
	}
	return c.join(sess.proc.pid)
}

// begin starts the process, which waits for what handshake sends.
func (s *Sandbox) begin(ctx context.Context, sess *session, flags uint32) error {
	ends, err := sess.plug()
	if err != nil {
		return err
	}
	defer ends.close()
	if s.nest != nil {
		plan := s.plan
		if sess.plan != nil {
			plan = sess.plan
			defer plan.Close()
		}
		return s.nest.fork(ctx, sess, ends, plan, flags)
	}
	var namespaces uintptr
	if s.tier.namespaces() {
		namespaces = ownNamespaces &^ (s.shares() | s.tier.absentNamespaces())
	}
	id, ok := pool.take()
	if !ok {
		return errNoID
	}
	sess.proc, err = s.spawn.spawn(namespaces, s.tier == TierNone, mapIDs(id, s.ranged), ends.output, ends.control)
	sess.free = func() { pool.give(id) }
	if err != nil {
		return fmt.Errorf("start process: %w", err)
	}
	return nil
}

// sessionEnds are the descriptors of the session's side. They block, ours don't: a print must wait
// for us, not fail.
type sessionEnds struct{ control, output *os.File }

func (e sessionEnds) close() {
	_ = e.control.Close()
	_ = e.output.Close()
}

// plug makes the control socket and the output pipe.
func (sess *session) plug() (sessionEnds, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return sessionEnds{}, fmt.Errorf("control socket: %w", err)
	}
	control := os.NewFile(uintptr(pair[1]), "session control")
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		control.Close()
		return sessionEnds{}, err
	}
	sess.control = os.NewFile(uintptr(pair[0]), "control")
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		control.Close()
		return sessionEnds{}, fmt.Errorf("output pipe: %w", err)
	}
	ends := sessionEnds{control: control, output: os.NewFile(uintptr(pipe[1]), "session output")}
	if err := unix.SetNonblock(pipe[0], true); err != nil {
		unix.Close(pipe[0])
		ends.close()
		return sessionEnds{}, err
	}
	sess.pipe = newDrain(os.NewFile(uintptr(pipe[0]), "output"))
	return ends, nil
}

// handshake sends the init its specification, the interpreter its runner and the runner its start
// request, and waits for the word that it is ready.
func (s *Sandbox) handshake(sess *session, dir string, files []bindFile, spec Spec) error {
	nonce := newNonce()
	data := []string{dir}
	if s.tier.namespaces() {
		data = []string{dir, dataDir}
	}
	start := newStartRequest(nonce, s.cfg.Limits, spec)
	start.Off = slices.Sorted(maps.Keys(s.off))
	start.SysPath, start.DataDirs = s.python.SysPath, data
	for _, f := range files {
		start.Files = append(start.Files, f.Name)
	}
	const limit = 1 << 24
	send := func() error {
		return errors.Join(writeFrame(sess.control, s.initSpec(dir, files), limit),
			writeRaw(sess.control, s.python.Runner, limit), writeFrame(sess.control, start, limit))
	}
	if s.nest != nil {
		mounts := files
		if !s.tier.namespaces() {
			mounts = nil // they are links in its directory
			start.Home, start.Tmp = dir, filepath.Join(filepath.Dir(dir), "tmp")
		}
		send = func() error {
			return errors.Join(claim(sess.control, mounts, s.copyMount), writeFrame(sess.control, start, limit))
		}
	}
	if err := send(); err != nil {
		// The init may have given up already; then its own words explain more.
		if why := s.explain(sess, nonce); why != nil {
			return why
		}
		return fmt.Errorf("handshake: %w", err)
	}
	if why := s.explain(sess, nonce); why != nil {
		return why
	}
	return nil
}

// explain reads the answer to the handshake; nil means ready.
func (s *Sandbox) explain(sess *session, nonce string) error {
	body, err := readFrame(sess.control, 1<<20)
	if err != nil {
		sess.proc.kill()
		<-sess.proc.exited
		return fmt.Errorf("session ended at start: %w (%v): %s", err, sess.proc.state, sess.pipe.rest())
	}
	if f, err := parseFrame(body, ""); err == nil && f.Failed != nil {
		return errors.New(f.Failed.Error)
	}
	f, err := parseFrame(body, nonce)
	if err != nil {
		return err
	}
	if f.Failed != nil {
		return errors.New(f.Failed.Error)
	}
	if f.Ready == nil {
		return badFrame("not a ready frame")
	}
	return nil
}

// initSpec says what the session's init does.
func (s *Sandbox) initSpec(dir string, files []bindFile) initSpec {
	l := s.cfg.Limits
	spec := initSpec{
		Tier: s.tier, Off: s.off, SwitchID: s.tier.namespaces() && s.ranged, Dir: dir,
		Limits: initLimits{
			AddressSpace: uint64(l.MemoryBytes), FileSize: uint64(l.FileBytes),
			OpenFiles: uint64(l.OpenFiles), Processes: uint64(l.Processes), Sentry: insideGVisor(),
		},
		Argv: []string{s.python.Executable, "-s", "-S", "-P", "-B", "-X", "utf8", "-c", bootstrap + "run('runner')\n"},
		Env:  append(environment(dir, s.tier.namespaces(), s.cfg.HashSeed), s.inherited()...),
	}
	if !s.tier.namespaces() {
		// The limit counts all processes of the user; sessions share ours.
		spec.Limits.Processes = 1 << 14
	}
	system := append(append([]string(nil), systemPaths...), s.python.Prefixes...)
	spec.ReadOnly = append(system, "/dev/zero", "/dev/random", "/dev/urandom", "/proc")
	spec.Write = []string{dir, tmpDir, "/dev/null"}
	spec.Execute = append([]string{s.python.Real}, loaders...)
	if s.tier.namespaces() {
		owner := 0
		if spec.SwitchID {
			owner = sessionID
		}
		spec.Root = rootSpec{Binds: system, Files: files, ScratchBytes: l.ScratchBytes, Owner: owner, Off: s.off, Sentry: s.tier.sentry()}
		spec.ReadOnly = append(spec.ReadOnly, dataDir, "/etc/passwd")
		return spec
	}
	spec.ReadOnly = append(spec.ReadOnly[:len(spec.ReadOnly)-1], "/proc/self", "/etc/localtime")
	spec.Write = []string{dir, filepath.Join(filepath.Dir(dir), "tmp"), "/dev/null"}
	for _, f := range files {
		spec.ReadOnly = append(spec.ReadOnly, f.Path)
	}
	return spec
}

// environment is the whole environment of a session: nothing of ours leaks into it.
func environment(dir string, namespaces bool, hashSeed uint32) []string {
	tmp := tmpDir
	if !namespaces {
		tmp = filepath.Join(filepath.Dir(dir), "tmp")
	}
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TZ=UTC", "HOME=" + dir, "TMPDIR=" + tmp,
		"MPLBACKEND=Agg", "MPLCONFIGDIR=" + filepath.Join(tmp, "matplotlib"), "PYTHONHASHSEED=" + strconv.FormatUint(uint64(hashSeed), 10),
		"OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1", "NUMEXPR_NUM_THREADS=1",
		// One arena for two threads: each reserves 64 MiB of address space.
		"MALLOC_ARENA_MAX=2",
		// Arrow's allocator would start a thread when it is loaded; a process with two can't be forked.
		"JE_ARROW_MALLOC_CONF=background_thread:false",
		// joblib would start processes, which a session can't.
		"JOBLIB_MULTIPROCESSING=0", "LOKY_MAX_CPU_COUNT=1",
	}
	for _, name := range passedThrough {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// hostScratch makes the working directory of a session without a mount namespace; data files are
// links, which only Landlock protects.
func hostScratch(root string, slot int, files []bindFile) (string, error) {
	own, err := os.MkdirTemp(root, strconv.Itoa(slot)+"-")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(own, "scratch")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(filepath.Join(own, "tmp"), 0o700)); err != nil {
		return "", err
	}
	for _, f := range files {
		at := filepath.Join(dir, f.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.Symlink(f.Path, at)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func newNonce() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// insideGVisor reports whether the kernel is gVisor's, which says so in its log.
var insideGVisor = sync.OnceValue(func() bool {
	buf := make([]byte, 64<<10)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, buf)
	return err == nil && strings.Contains(string(buf[:n]), "Starting gVisor")
})
