package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// cross reaches for other sessions, of which one lives beside every cell.
var cross = []hostile{
	{rule: "no file of another session is seen", own: true, code: "[n for n in os.listdir('/tmp') if not any(p.startswith('/tmp/' + n + '/') for p in sys.path)] == [], os.path.exists('/tmp/mine'), os.path.exists('/scratch/mine')", says: `^\(True, False, False\)\n$`, off: "tier:none"},
	{rule: "no process of another session is seen", code: "[d for d in os.listdir('/proc') if d.isdigit()]", says: `^\['1'\]\n$`, off: "tier:confined"},
	{rule: "no signal reaches anybody else", code: "[tried(lambda: os.kill(p, 0)) for p in (2, 3, PID, -1, 0)], [sc('tkill', PID, 0), sc('tgkill', PID, PID, 0), sc('rt_sigqueueinfo', PID, 0, 0), sc('pidfd_send_signal', 3, 9, 0, 0)]", says: `^\(\['EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM'\], \['EPERM', 'EPERM', 'EPERM', 'EPERM'\]\)`, off: "seccomp"},
	{rule: "a session's own death is not in its hands", code: "os.kill(1, 9); os.kill(1, 19)\n'alive'", says: `^'alive'\n$`},
	{rule: "no System V memory, queue or semaphore", code: "[sc('shmget', 77, 4096, 0o1666), sc('msgget', 77, 0o1666), sc('semget', 77, 1, 0o1666)]", says: `^\['EPERM', 'EPERM', 'EPERM'\]`, off: "seccomp"},
	{rule: "no POSIX queue", code: "sc('mq_open', b'hostile', 0o102, 0o666, 0)", says: eperm, off: "seccomp"},
	{rule: "no shared memory by name", code: "from multiprocessing import shared_memory\n[tried(lambda: shared_memory.SharedMemory('hostile', True, 4096)), tried(lambda: open('/dev/shm/hostile', 'w'))]", says: `^\['E(NOENT|ACCES|NOSYS)', 'E(NOENT|ACCES)'\]`, off: "tier:none"},
	{rule: "no lock on a file that others read", code: "import fcntl\nfd = os.open('/data/a.csv', os.O_RDONLY)\ntried(lambda: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))", says: enosys, off: "seccomp"},
	{rule: "no write lock on a file that others read", code: "import fcntl\nfd = os.open('/data/a.csv', os.O_RDONLY)\ntried(lambda: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))", says: `^'EBADF'\n$`},
	{rule: "nobody watches who reads a file", code: "[sc('inotify_init1', 0), sc('fanotify_init', 0, 0), sc('fcntl', 0, 1026, 1), sc('fcntl', os.open('/data/a.csv', 0), 1024, 0)]", says: `^\['EPERM', 'EPERM', 'EPERM', 'EPERM'\]`, off: "seccomp"},
	{rule: "no marks on a file that others read", code: "[tried(lambda: os.setxattr('/data/a.csv', 'user.mark', b'x')), tried(lambda: os.setxattr('/tmp', 'user.mark', b'x')), tried(lambda: os.utime('/data/a.csv'))]", says: `^\['EPERM', 'EPERM', 'E(ROFS|ACCES|PERM)'\]`, off: "seccomp"},
	{rule: "reading leaves no time on a file", code: "before = os.stat('/data/a.csv').st_atime_ns\nopen('/data/a.csv').read()\nos.stat('/data/a.csv').st_atime_ns == before", says: `^True\n$`},
	{rule: "who else has read a file is not told", code: "b = ctypes.create_string_buffer(64)\nsc('cachestat', os.open('/data/a.csv', 0), b, b, 0)", says: eperm},
	{rule: "pipes take no more than their share", code: "r, w = os.pipe()\nsc('fcntl', w, 1031, 1 << 20), sc('fcntl', w, 1 << 32 | 1031, 1 << 20)", says: `^\('EPERM', 'EPERM'\)`, off: "seccomp"},
	{rule: "the host's disks are not flushed by a session", code: "sc('sync')", says: eperm, off: "seccomp"},
	{rule: "no scheduling above others", code: "b = ctypes.create_string_buffer(64)\n[sc('setpriority', 0, 0, -20), sc('sched_setscheduler', 0, 1, b), sc('ioprio_set', 1, 0, 0)]", says: `^\['EPERM', 'EPERM', 'EPERM'\]`},
	{rule: "sessions see themselves alone in the network namespace", code: "tried(lambda: open('/proc/net/unix').read()), tried(lambda: open('/proc/self/net/tcp').read().count('\\n'))", says: `^\('E(NOENT|ACCES)', '(OK|E(NOENT|ACCES|INVAL))'\)`},
	{rule: "the working directory is empty at start", code: "sorted(os.listdir('/data')), sorted(n for n in os.listdir('/scratch'))", own: true, says: `^\(\['a.csv'\], \['a.csv'\]\)`},
	{rule: "a session's number on the host is its own", code: "open('/proc/self/uid_map').read().split()[1] != '0' or open('/proc/self/uid_map').read()", says: `.`, host: func(t *testing.T, f *field, sess Session, _ *graph) {
		if f.box.ranged {
			// One that owns nothing; as an unprivileged user it is that user's.
			require.Len(t, uidOf(t, sess), 10)
		}
	}},
}
