package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/trajectory"
)

// TestAConfinedSessionChangesNothingOfItsUser: it has our user number, and Landlock says nothing of modes, owners,
// times, limits and signals of other processes.
func TestAConfinedSessionChangesNothingOfItsUser(t *testing.T) {
	t.Parallel()
	s := without(t, "tier:confined")
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
