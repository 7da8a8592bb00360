package sandbox

import "testing"

// cross reaches for other sessions, of which one lives beside every cell.
var cross = []hostile{
	{rule: "no file of another session is seen", off: "namespaces landlock", own: true, code: "[n for n in listed('/tmp') if not any(p.startswith('/tmp/' + n + '/') for p in sys.path)] == [], os.path.exists('/tmp/mine'), os.path.exists('/scratch/mine')", says: `^\(True, False, False\)\n$`},
	{rule: "no process of another session is seen", off: "pid", code: "[d for d in os.listdir('/proc') if d.isdigit()]", says: `^\['1'\]\n$`},
	{rule: "no signal reaches anybody else", off: "seccomp", code: "[tried(lambda: os.kill(p, 0)) for p in (2, 3, PID, -1, 0)], [sc('tkill', PID, 0), sc('tgkill', PID, PID, 0), sc('rt_sigqueueinfo', PID, 0, 0), sc('pidfd_send_signal', 3, 9, 0, 0)]", says: `^\(\['EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM'\], \['EPERM', 'EPERM', 'EPERM', 'EPERM'\]\)`},
	{rule: "a session's own death is not in its hands", off: "pid", code: "os.kill(os.getpid(), 9); os.kill(os.getpid(), 19)\n'alive'", says: `^'alive'\n$`},
	{rule: "no System V memory, queue or semaphore", off: "seccomp", code: "[sc('shmget', 77, 4096, 0o1666), sc('msgget', 77, 0o1666), sc('semget', 77, 1, 0o1666)]", says: `^\['EPERM', 'EPERM', 'EPERM'\]`},
	{rule: "no POSIX queue", off: "seccomp", code: "sc('mq_open', b'hostile', 0o102, 0o666, 0)", says: eperm},
	{rule: "no shared memory by name", off: "namespaces landlock", code: "from multiprocessing import shared_memory\n[tried(lambda: shared_memory.SharedMemory('hostile', True, 4096)), tried(lambda: open('/dev/shm/hostile', 'w'))]", says: `^\['E(NOENT|ACCES|NOSYS)', 'E(NOENT|ACCES)'\]`},
	{rule: "no lock on a file that others read", off: "seccomp", code: "import fcntl\nfd = os.open('/data/a.csv', os.O_RDONLY)\ntried(lambda: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))", says: enosys},
	{rule: "no write lock on a file that others read", off: "namespaces landlock", code: "import fcntl\nfd = writable('a.csv')\ntried(lambda: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))", says: `^'EBADF'\n$`},
	{rule: "nobody watches who reads a file", off: "seccomp", code: "[sc('inotify_init1', 0), sc('fanotify_init', 0, 0), sc('fcntl', 0, 1026, 1), sc('fcntl', os.open('/data/a.csv', 0), 1024, 0)]", says: `^\['EPERM', 'EPERM', 'EPERM', 'EPERM'\]`},
	{rule: "no marks on a file that others read", off: "seccomp", code: "[tried(lambda: os.setxattr('/data/a.csv', 'user.mark', b'x')), tried(lambda: os.setxattr('/tmp', 'user.mark', b'x')), tried(lambda: os.utime('/data/a.csv'))]", says: `^\['EPERM', 'EPERM', 'E(ROFS|ACCES|PERM)'\]`},
	{rule: "reading leaves no time on a file", twin: "open('f', 'w').write('x'); os.utime('f', (1, 2))\nbefore = os.stat('f').st_atime_ns\nopen('f').read()\nos.stat('f').st_atime_ns == before", code: "before = os.stat('/data/a.csv').st_atime_ns\nopen('/data/a.csv').read()\nos.stat('/data/a.csv').st_atime_ns == before", says: `^True\n$`},
	{rule: "who else has read a file is not told", off: "seccomp namespaces", code: "b = ctypes.create_string_buffer(64)\nsc('cachestat', os.open('a.csv', 0), b, b, 0)", says: eperm},
	{rule: "pipes take no more than their share", off: "seccomp", code: "r, w = os.pipe()\nsc('fcntl', w, 1031, 1 << 20), sc('fcntl', w, 1 << 32 | 1031, 1 << 20)", says: `^\('EPERM', 'EPERM'\)`},
	{rule: "the host's disks are not flushed by a session", off: "seccomp", code: "sc('sync')", says: eperm},
	{rule: "no scheduling above others", off: "seccomp", code: "b = ctypes.create_string_buffer(64)\n[sc('setpriority', 0, 0, -20), sc('sched_setscheduler', 0, 1, b), sc('ioprio_set', 1, 0, 0)]", says: `^\['EPERM', 'EPERM', 'EPERM'\]`},
	{rule: "sessions see themselves alone in the network namespace", off: "net", code: "tried(lambda: open('/proc/net/unix').read()), os.path.exists('/proc/self/net/unix') and ABSTRACT in open('/proc/self/net/unix').read()", says: `^\('E(NOENT|ACCES)', False\)`},
	{rule: "the working directory is empty at start", off: "namespaces", code: "sorted(os.listdir('/data')), sorted(n for n in os.listdir('/scratch'))", own: true, says: `^\(\['a.csv'\], \['a.csv'\]\)`},
	{rule: "a session's number on the host is its own", off: "namespaces", code: "open('/proc/self/uid_map').read().split()[1] != '0' or open('/proc/self/uid_map').read()", says: `.`, host: func(t *testing.T, f *field, sess Session, _ *graph) string {
		if uid := uidOf(t, sess); f.box.ranged && len(uid) != 10 {
			// One that owns nothing; as an unprivileged user it is that user's.
			return "it is " + uid
		}
		return ""
	}},
}
