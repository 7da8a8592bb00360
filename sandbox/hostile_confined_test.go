package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/trajectory"
)

// openWhenConfined are rules that the confined tier does not hold, with why; docs/sandbox.md says so in its words.
var openWhenConfined = map[string]string{
	"files end":                             wouldFill,
	"directories end":                       wouldFill,
	"space ends":                            wouldFill,
	"the root is not left upwards":          "whether a path of the host exists is told",
	"proc shows one process":                "Landlock refuses the list of processes, there is no list of its own",
	"no process of another session is seen": "the same",
	"files without a grant cannot be read":  "the file is one of a root that is not there",

	"a symbolic link opens nothing that its target forbids":  "the same; what is there is refused by Landlock and not missing",
	"a hard link to what is not ours cannot be made":         "data files are links in its own directory, which it may link again",
	"data files cannot be changed by any path":               "the same: it may rename the link, and not open the file to write",
	"a session's own death is not in its hands":              "it is not process 1: it may kill itself, and no other",
	"sessions see themselves alone in the network namespace": "the network namespace is the host's: /proc/self/net lists its sockets",
	"a session's number on the host is its own":              "it is the supervisor's",
}

// TestHostileCellsOfTheConfinedTier runs the tables in sessions without namespaces.
func TestHostileCellsOfTheConfinedTier(t *testing.T) {
	t.Parallel()
	if os.Getenv("SANDBOX_TEST_ALL") == "" {
		t.Skip("make hostile runs it")
	}
	long := func(c *Config) { c.Limits.CellWall, c.Limits.CellCPU = 5*time.Minute, 5*time.Minute }
	boxes := map[bool]*Sandbox{false: ofTier(t, TierConfined, long), true: ofTier(t, TierConfined, func(c *Config) { long(c); small(&c.Limits) })}
	require.Equal(t, engine, boxes[false].Stats().Engine, boxes[false].Stats().Fallback)
	f := newField(t, box(t))
	f.box = boxes[false]
	for _, name := range tableNames {
		for _, h := range tables()[name] {
			t.Run(h.rule, func(t *testing.T) {
				why := openWhenConfined[h.rule]
				if os.Geteuid() != 0 {
					switch h.rule {
					case "no capability is held":
						why = "the bounding set stays: only a privileged process can empty it; nothing is gained from it by no_new_privs"
					case "a session's number on the host is its own":
						why = "" // the rule is root's
					}
				}
				if strings.HasPrefix(why, wouldFill) {
					t.Skip(why)
				}
				sess := f.session(t, boxes[h.small])
				if !h.small && !(h.own && h.taint != "") {
					require.Equal(t, trajectory.CellOK, run(t, sess, f.prelude).Status)
				}
				h.code = there(sess, h.code)
				res, g := h.attack(t, sess)
				said := h.holds(res, g)
				if said == "" && h.host != nil {
					said = h.host(t, f, sess, g)
				}
				require.Equal(t, why != "", said != "", "%s: %s", why, said)
				f.unharmed(t)
			})
		}
	}
}

// there is the code with the session's own directories, which have other names where it has no mounts.
func there(sess Session, code string) string {
	dir := sess.(*session).dir
	return strings.NewReplacer("/scratch", dir+"/scratch", "/data/a.csv", dir+"/scratch/a.csv", "'/data'", "'"+dir+"/scratch'", "/tmp", dir+"/tmp").Replace(code)
}

const wouldFill = "scratch is a directory of the host without a size"

// TestAConfinedSessionChangesNothingOfItsUser: it has our user number, and Landlock says nothing of modes, owners,
// times, limits and signals of other processes.
func TestAConfinedSessionChangesNothingOfItsUser(t *testing.T) {
	t.Parallel()
	s := ofTier(t, TierConfined, func(*Config) {})
	require.Equal(t, engine, s.Stats().Engine, s.Stats().Fallback)
	f := newField(t, box(t))
	sess, other := f.armed(t, s), f.session(t, s)
	require.Equal(t, trajectory.CellOK, run(t, other, "import os\nopen('mine', 'w').write('kept'); None").Status)
	theirs := filepath.Join(other.(*session).dir, "scratch")
	code := fmt.Sprintf("HERS, OTHER = %q, %d\n", theirs, other.(*session).proc.pid)
	for _, try := range []struct{ code, says string }{
		{"[tried(f) for f in (lambda: os.chmod(SECRET, 0o777), lambda: os.utime(SECRET), lambda: os.chown(SECRET, 1, 1), lambda: os.chmod('a.csv', 0), lambda: os.fchmod(os.open('a.csv', 0), 0))]", "['EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM']\n"},
		{"[tried(lambda: open(HERS + '/mine').read()), tried(lambda: os.listdir(HERS)), tried(lambda: os.remove(HERS + '/mine')), tried(lambda: open(SECRET).read())]", "['EACCES', 'EACCES', 'EACCES', 'EACCES']\n"},
		{"[tried(lambda: open(f'/proc/{p}/{n}').read()) for p in (PID, OTHER) for n in ('environ', 'maps', 'mem')]", "['EACCES', 'EACCES', 'EACCES', 'EACCES', 'EACCES', 'EACCES']\n"},
		{"b = ctypes.create_string_buffer(64)\n[sc('prlimit64', p, 7, b, 0) for p in (PID, OTHER)], [sc('sched_setaffinity', OTHER, 64, b), sc('sched_setparam', OTHER, b), sc('get_robust_list', OTHER, b, b)]", "(['EPERM', 'EPERM'], ['EPERM', 'EPERM', 'EPERM'])\n"},
		{"[sc(n, OTHER, *a) for n, a in (('kill', (9,)), ('tkill', (9,)), ('tgkill', (OTHER, 9)), ('rt_sigqueueinfo', (9, 0)), ('pidfd_open', (0,)), ('ptrace', (0, 0, 0)))]", "['EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM']\n"},
		{"import socket\na, b = socket.socketpair()\n[sc('fcntl', a.fileno(), n, OTHER) for n in (8, 10, 15, 1 << 32 | 8)], [sc('ioctl', a.fileno(), n, b'1234') for n in (0x8901, 0x8902)]", "(['EPERM', 'EPERM', 'EPERM', 'EPERM'], ['EPERM', 'EPERM'])\n"},
	} {
		res := run(t, sess, code+try.code)
		require.Equal(t, try.says, res.Output, "%s\n%s", try.code, res.Traceback)
	}
	require.Equal(t, "kept\n", run(t, other, "print(open('mine').read())").Output)
	info, err := os.Stat(f.data)
	require.NoError(t, err)
	require.Equal(t, f.before.Mode, info.Mode())
}
