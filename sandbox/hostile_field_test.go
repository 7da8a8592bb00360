package sandbox

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/trajectory"
)

// hostile is one cell that tries what a session must not do, or must survive.
type hostile struct {
	// rule is what has to hold, as a sentence.
	rule string
	// code is the cell; "# then" on a line of its own starts the next one, and the last one counts.
	code string
	// status is that of the last cell; ok when empty.
	status trajectory.CellStatus
	// says is a regular expression that the output and the traceback together match.
	says string
	// taint is a construct that the host is told.
	taint string
	// own: the cell ends its session or spoils it for others.
	own bool
	// small: the session has small limits of memory, files and threads.
	small bool
	// times changes the time that the last cell has.
	times func(*Limits)
	// off names the layers that hold the rule: without all of them it fails, with any one of them it holds.
	off string
	// probe stands in for the cell where the cell itself would harm the host without them.
	probe *probe
	// twin is the cell with the one thing changed that the rule is about, where nothing of ours could be switched off
	// (what the kernel or the interpreter holds, or what has to work): the rule fails for it.
	twin string
	// host looks at the host afterwards, beside what is looked at after every cell, and says what is wrong.
	host func(*testing.T, *field, Session, *graph) string
}

// probe is the last cell of a hostile one in a harmless form.
type probe struct {
	code, says string
	// ok: it ends well, whatever the status of the cell.
	ok bool
}

// differ says that two values are not the same, or nothing.
func differ(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return fmt.Sprintf("%v, want %v", got, want)
}

// field is the host that hostile cells run against: things to read, to reach and to disturb.
type field struct {
	box       *Sandbox
	secret    string
	data      string
	prelude   string
	reached   *atomic.Int64
	arrived   chan struct{} // holds one once reached has grown
	bystander Session
	before    hostState
	// tight is the sandbox of sessions with small limits, nil until one is needed.
	tight *Sandbox
}

// hostState is what no session may change.
type hostState struct {
	CorePattern, Hostname, Secret, Data, Shm string
	Mode                                     os.FileMode
	Mounts                                   int
	Reached                                  int64
}

// count notes that a session reached a listener.
func (f *field) count() {
	f.reached.Add(1)
	select {
	case f.arrived <- struct{}{}:
	default:
	}
}

func newField(t *testing.T, s *Sandbox) *field {
	t.Helper()
	dir := t.TempDir()
	f := &field{box: s, secret: filepath.Join(dir, "reference_answer.json"), data: filepath.Join(dir, "a.csv"), reached: new(atomic.Int64), arrived: make(chan struct{}, 1)}
	require.NoError(t, os.WriteFile(f.secret, []byte("the answer is 34.65"), 0o644))
	require.NoError(t, os.WriteFile(f.data, []byte("x,y\n1,2\n3,4\n"), 0o644))
	path := filepath.Join(dir, "s")
	abstract := fmt.Sprintf("@verigraph-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	var port int
	for _, network := range [][2]string{{"tcp", "127.0.0.1:0"}, {"unix", path}, {"unix", abstract}} {
		l, err := net.Listen(network[0], network[1])
		require.NoError(t, err)
		if a, ok := l.Addr().(*net.TCPAddr); ok {
			port = a.Port
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				f.count()
				c.Close()
			}
		}()
		t.Cleanup(func() { l.Close(); patience.Receive(t, done, "its end") })
	}
	for _, at := range []string{fmt.Sprintf("127.0.0.1:%d", port), abstract + "d"} {
		network := "udp"
		if strings.HasPrefix(at, "@") {
			network = "unixgram"
		}
		c, err := net.ListenPacket(network, at)
		require.NoError(t, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for b := make([]byte, 16); ; f.count() {
				if _, _, err := c.ReadFrom(b); err != nil {
					return
				}
			}
		}()
		t.Cleanup(func() { c.Close(); patience.Receive(t, done, "its end") })
	}
	info, err := arch.GetInfo("")
	require.NoError(t, err)
	numbers, err := json.Marshal(info.SyscallNames)
	require.NoError(t, err)
	f.prelude = fmt.Sprintf("SECRET, PORT, SOCKET, ABSTRACT, PID, NR = %q, %d, %q, %q, %d, %s\n%s", f.secret, port, path, abstract[1:], os.Getpid(), numbers, preludeCode)
	f.bystander = f.session(t, s)
	require.Equal(t, trajectory.CellOK, run(t, f.bystander, "treasure = 'kept'\nopen('/tmp/mine', 'w').write('kept'); open('mine', 'w').write('kept')\nNone").Status)
	f.before = f.state(t)
	return f
}

// preludeCode gives hostile cells raw system calls: what native code in a wheel could do.
const preludeCode = `import ctypes, os, errno, sys, time, signal
libc = ctypes.CDLL(None, use_errno=True)
def sc(name, *args):
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(NR[name] if isinstance(name, str) else name), *[a if isinstance(a, (bytes, ctypes.Array)) else ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return 'OK' if r != -1 else errno.errorcode[ctypes.get_errno()]
def tried(action):
    try: action()
    except BaseException as e: return type(e).__name__ if not isinstance(e, OSError) or e.errno is None else errno.errorcode[e.errno]
    return 'OK'
def listed(path):
    try: return os.listdir(path)
    except OSError: return []
def writable(path):
    try: return os.open(path, os.O_RDWR)
    except OSError: return os.open(path, os.O_RDONLY)
`

func (f *field) session(t *testing.T, s *Sandbox) Session {
	t.Helper()
	sess, err := s.Start(t.Context(), Spec{Files: map[string]string{"a.csv": f.data}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sess.Close()) })
	return sess
}

// victim starts the session that h attacks, in s unless h needs other limits. group owns what cells share.
func (f *field) victim(t, group *testing.T, h hostile, s *Sandbox) Session {
	t.Helper()
	switch {
	case h.small:
		if f.tight == nil {
			f.tight = own(group, func(c *Config) { small(&c.Limits) })
			f.tight.off = s.off
		}
		return f.session(t, f.tight)
	case h.own && h.taint != "":
		// What the prelude does taints already.
		return f.session(t, s)
	case h.own:
		return f.armed(t, s)
	}
	return f.armed(group, s)
}

// shared: the session may be used by other cells, too.
func (h hostile) shared() bool { return !h.own && !h.small && h.times == nil }

// armed is a session that has run the prelude.
func (f *field) armed(t *testing.T, s *Sandbox) Session {
	t.Helper()
	sess := f.session(t, s)
	res := run(t, sess, f.prelude)
	require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
	return sess
}

func (f *field) state(t *testing.T) hostState {
	t.Helper()
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if insideGVisor() && os.IsNotExist(err) && strings.HasPrefix(path, "/proc/sys/") {
			return "" // a setting that gVisor has not
		}
		require.NoError(t, err)
		return string(b)
	}
	s := hostState{
		CorePattern: read("/proc/sys/kernel/core_pattern"), Hostname: read("/proc/sys/kernel/hostname"),
		Secret: read(f.secret), Data: read(f.data), Mounts: strings.Count(read("/proc/self/mounts"), "\n"), Reached: f.reached.Load(),
	}
	info, err := os.Stat(f.data)
	require.NoError(t, err)
	s.Mode = info.Mode()
	// What a session would leave in shared memory has its name.
	left, err := filepath.Glob("/dev/shm/*hostile*")
	require.NoError(t, err)
	s.Shm = strings.Join(left, " ")
	return s
}

// attack runs the cells of h and returns the last result with what the host was told.
func (h hostile) attack(t *testing.T, sess Session) (Result, *graph) {
	t.Helper()
	cells := strings.Split(h.code, "\n# then\n")
	g := &graph{}
	for _, code := range cells[:len(cells)-1] {
		res := runWith(t, sess, code, g)
		require.False(t, res.NamespaceLost, "%s: %s", h.rule, res.Traceback)
	}
	if h.times != nil {
		h.times(&sess.(*session).limits)
	}
	return runWith(t, sess, cells[len(cells)-1], g), g
}

// wants is the status that the last cell must have.
func (h hostile) wants() trajectory.CellStatus {
	if h.status == "" {
		return trajectory.CellOK
	}
	return h.status
}

// holds says why the rule does not hold, or nothing.
func (h hostile) holds(res Result, g *graph) string {
	want := h.wants()
	said := res.Output + res.Traceback
	switch {
	case res.Status != want:
		return fmt.Sprintf("status %s, want %s: %.2000s", res.Status, want, said)
	case !regexp.MustCompile(h.says).MatchString(said):
		return fmt.Sprintf("says %.2000q, want %q", said, h.says)
	case h.taint != "" && !strings.Contains(strings.Join(g.taints, "\n"), h.taint):
		return fmt.Sprintf("taints %q, want %q", g.taints, h.taint)
	}
	return ""
}

// unharmed asserts that the host and the other sessions are as before.
func (f *field) unharmed(t *testing.T) {
	t.Helper()
	require.Equal(t, f.before, f.state(t))
	res := run(t, f.bystander, "print(treasure, open('/tmp/mine').read(), open('mine').read(), sorted(os.listdir('/tmp')) if 'os' in dir() else '')")
	require.Equal(t, "kept kept kept \n", res.Output, res.Traceback)
}

// ofTier is a sandbox of a tier that this host exceeds.
func ofTier(t *testing.T, tier Tier, change func(*Config)) *Sandbox {
	t.Helper()
	cfg := testConfig()
	change(&cfg)
	s, err := newSandbox(t.Context(), cfg, inspected(t), []Tier{tier})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// uidOf is the user number of a live session on the host.
func uidOf(t *testing.T, sess Session) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", sess.(*session).proc.pid))
	require.NoError(t, err)
	m := regexp.MustCompile(`\nUid:\t(\d+)`).FindSubmatch(b)
	require.NotNil(t, m)
	return string(m[1])
}
