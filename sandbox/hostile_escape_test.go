package sandbox

import (
	"os"
	"testing"

	"github.com/verigraph/verigraph/trajectory"
)

const (
	eperm  = `^'EPERM'\n$`
	enosys = `^'ENOSYS'\n$`
)

// escapes reach for the host's kernel, files and processes.
var escapes = []hostile{
	{rule: "nothing is mounted", off: "seccomp landlock privileges", code: "sc('mount', b'tmpfs', b'/scratch', b'tmpfs', 0, 0)", says: eperm},
	{rule: "nothing is mounted through the new calls", off: "seccomp", code: "[sc('fsopen', b'tmpfs', 0), sc('open_tree', -100, b'/', 1), sc('move_mount', 0, b'', -100, b'/tmp', 4), sc('fspick', -100, b'/', 0), sc('mount_setattr', -100, b'/', 0, 0, 0)]", says: `^\['EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM'\]`},
	{rule: "nothing is unmounted", off: "seccomp landlock privileges", code: "[sc('umount2', b'/scratch/a.csv', 2), sc('pivot_root', b'.', b'.')]", says: `^\['EPERM', 'EPERM'\]`},
	{rule: "no user namespace of its own", off: "seccomp", code: "sc('unshare', 0x10000000)", says: eperm},
	{rule: "no process in a new user namespace", off: "seccomp", code: "sc('clone', 0x10000000 | 17, 0, 0, 0, 0)", says: eperm},
	{rule: "clone3 does not exist", off: "seccomp", code: "sc('clone3', 0, 0)", says: enosys},
	{rule: "no other namespace is entered", off: "seccomp privileges", code: "fd = os.open('/proc/self/ns/net', os.O_RDONLY)\n[sc('setns', fd, 0), sc('setns', fd, 0x40000000)], os.close(fd)", says: `^\(\['EPERM', 'EPERM'\]`},
	{rule: "no chroot", off: "seccomp privileges", code: "sc('chroot', b'/tmp'), tried(lambda: os.chroot('/tmp'))", says: `^\('EPERM', 'EPERM'\)`},
	{rule: "the root is not left upwards", off: "namespaces", code: "os.chdir('/')\nfor _ in range(64): os.chdir('..')\nfound = os.path.exists('etc/shadow') or os.path.exists(SECRET)\nos.chdir('/scratch'); found", says: `^False\n$`},
	{rule: "no tracing", off: "seccomp", code: "[sc('ptrace', 0, 0, 0, 0), sc('ptrace', 16, 1, 0, 0)]", says: `^\['EPERM', 'EPERM'\]`},
	{rule: "no memory of other processes", off: "seccomp", code: "b = ctypes.create_string_buffer(16)\nv = (ctypes.c_uint64 * 2)(ctypes.addressof(b), 16)\n[sc('process_vm_readv', PID, v, 1, v, 1, 0), sc('process_vm_writev', 1, v, 1, v, 1, 0), sc('process_madvise', 3, v, 1, 0, 0)]", says: `^\['EPERM', 'EPERM', 'EPERM'\]`},
	{rule: "no descriptors of other processes", off: "seccomp", code: "[sc('pidfd_open', 1, 0), sc('pidfd_getfd', 3, 0, 0), sc('kcmp', 1, 1, 0, 0, 0)]", says: `^\['EPERM', 'EPERM', 'EPERM'\]`},
	{rule: "no key rings", off: "seccomp", code: "[sc('keyctl', 0, -3, 0), sc('add_key', b'user', b'k', b'v', 1, -3), sc('request_key', b'user', b'k', 0, 0)]", says: `^\['EPERM', 'EPERM', 'EPERM'\]`},
	{rule: "no io_uring", off: "seccomp", code: "b = ctypes.create_string_buffer(256)\n[sc('io_uring_setup', 8, b), sc('io_uring_enter', 0, 0, 0, 0, 0, 0), sc('io_uring_register', 0, 0, 0, 0)]", says: `^\['ENOSYS', 'ENOSYS', 'ENOSYS'\]`},
	{rule: "no BPF", off: "seccomp", code: "b = ctypes.create_string_buffer(128)\nsc('bpf', 0, b, 128)", says: eperm},
	{rule: "no performance counters", off: "seccomp", code: "b = ctypes.create_string_buffer(128)\nsc('perf_event_open', b, 0, -1, -1, 0)", says: eperm},
	{rule: "no userfaultfd", off: "seccomp", code: "sc('userfaultfd', 1)", says: eperm},
	{rule: "no kernel module, no new kernel", off: "seccomp", code: "[sc('init_module', 0, 0, b''), sc('finit_module', 0, b'', 0), sc('delete_module', b'x', 0), sc('kexec_load', 0, 0, 0, 0)]", says: `^\['EPERM', 'EPERM', 'EPERM', 'EPERM'\]`},
	{rule: "no file handles", off: "seccomp", code: "b = ctypes.create_string_buffer(256)\n[sc('name_to_handle_at', -100, b'/scratch', b, b, 0), sc('open_by_handle_at', 3, b, 0)]", says: `^\['EPERM', 'EPERM'\]`},
	{rule: "the clock and the names of the host stay", off: "seccomp", code: "b = ctypes.create_string_buffer(64)\n[sc('settimeofday', b, 0), sc('clock_settime', 0, b), sc('adjtimex', b), sc('sethostname', b'x', 1), sc('setdomainname', b'x', 1)]", says: `^\['EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM'\]`},
	{rule: "no reboot, no swap, no accounting, no kernel log", off: "seccomp", code: "[sc('reboot', 0, 0, 0, 0), sc('swapon', b'/tmp/x', 0), sc('acct', b'/tmp/x'), sc('syslog', 3, 0, 0), sc('quotactl', 0, 0, 0, 0)]", says: `^\['EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM'\]`},
	{rule: "no other user, group or capability", off: "seccomp", code: "[sc('setuid', 0), sc('setresuid', 0, 0, 0), sc('setgid', 0), sc('setgroups', 0, 0), sc('capset', 0, 0), sc('setfsuid', 0)]", says: `^\['EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM'\]`},
	{rule: "no capability is held", off: "privileges", code: "[l.split()[1] for l in open('/proc/self/status') if l.startswith('Cap')]", says: `^\['0000000000000000', '0000000000000000', '0000000000000000', '0000000000000000', '0000000000000000'\]`},
	{rule: "no port of the machine", off: "namespaces landlock", code: "[sc('iopl', 3) if 'iopl' in NR else 'EPERM', sc('ioperm', 0x80, 1, 1) if 'ioperm' in NR else 'EPERM', tried(lambda: open('/dev/mem', 'rb')), tried(lambda: open('/dev/kmsg', 'rb'))]", says: `^\['EPERM', 'EPERM', 'E(NOENT|ACCES)', 'E(NOENT|ACCES)'\]`},
	{rule: "no device nodes", off: "seccomp privileges namespaces landlock", probe: &probe{code: "sc('mknodat', -100, b'null', 0o20666, 0x103)", says: `^'E(PERM|ACCES)'`, ok: true}, code: "[sc('mknodat', -100, b'/tmp/null', 0o20666, 0x103), tried(lambda: os.mknod('/tmp/sda', 0o60666, 0x800))]", says: `^\['EPERM', 'EPERM'\]`},
	{rule: "the only devices are null, zero and random", off: "namespaces landlock", code: "[tried(lambda: open('/dev/' + n, 'rb')) for n in ('sda', 'vda', 'tty', 'ptmx', 'fuse', 'kvm', 'net/tun', 'shm')], open('/dev/zero', 'rb').read(1)", says: `^\(\[('E(NOENT|ACCES)'(, )?){8}\], b'\\x00'\)`},
	{rule: "core patterns and other settings stay", off: "namespaces landlock", probe: &probe{code: "[tried(lambda: os.close(os.open('/proc/sys/' + n, os.O_WRONLY))) for n in ('kernel/core_pattern', 'kernel/modprobe')]", says: `^\[('E(NOENT|ACCES|ROFS|PERM)'(, )?){2}\]`, ok: true}, code: "[tried(lambda: open('/proc/sys/' + n, 'w').write('|/bin/sh')) for n in ('kernel/core_pattern', 'kernel/modprobe', 'kernel/hotplug', 'vm/overcommit_memory')]", says: `^\[('E(NOENT|ACCES|ROFS|PERM)'(, )?){4}\]`},
	{rule: "sysrq, kernel memory and the list of symbols stay away", off: "namespaces landlock", code: "[tried(lambda: open(n, 'rb')) for n in ('/proc/kcore', '/proc/kallsyms', '/proc/sysrq-trigger', '/proc/config.gz', '/sys/kernel/uevent_helper', '/proc/sched_debug')]", says: `^\[('E(NOENT|ACCES|PERM)'(, )?){6}\]`},
	{rule: "proc shows one process", off: "pid", code: "[d for d in os.listdir('/proc') if d.isdigit()], tried(lambda: open(f'/proc/{PID}/environ').read())", says: `^\(\['1'\], 'ENOENT'\)`},
	{rule: "the paths of proc lead nowhere else", off: "namespaces landlock privileges", code: "[tried(lambda: os.listdir(f'/proc/{p}/root/home')) for p in (1, PID)], [os.path.exists(p + SECRET) for p in ('/proc/1/root', f'/proc/{PID}/root', '/proc/self/cwd/../')]", says: `^\(\['E(NOENT|ACCES)', 'E(NOENT|ACCES)'\], \[False, False, False\]\)`},
	{rule: "host files are not there", off: "namespaces landlock", code: "[tried(lambda: open(p).read()) for p in (SECRET, '/etc/shadow', '/etc/hostname', '/home/user/.ssh/id_rsa', '/var/run/docker.sock', '/run/secrets/kubernetes.io/serviceaccount/token')]", says: `^\[('E(NOENT|ACCES)'(, )?){6}\]`},
	{rule: "files without a grant cannot be read", off: "landlock", code: "tried(lambda: open('/.canary').read()), tried(lambda: os.listdir('/'))", says: `^\('EACCES', 'EACCES'\)`},
	{rule: "the system cannot be written", off: "read-only landlock", probe: &probe{code: "[tried(lambda: open(DECOY + '/' + n, 'w')) for n in ('x', 'y/z')]", says: `^\['E(ROFS|ACCES)', 'E(ROFS|ACCES|NOENT)'\]`, ok: true}, code: "[tried(lambda: open(p, 'w')) for p in ('/usr/x', '/etc/passwd', '/x', '/lib/x', os.path.dirname(os.__file__) + '/os.py')]", says: `^\[('E(ROFS|ACCES|NOENT)'(, )?){5}\]`},
	{rule: "a hard link to what is not ours cannot be made", off: "namespaces landlock", probe: &probe{code: "tried(lambda: os.link(DECOY + '/file', 'l'))", says: `^'E(XDEV|PERM|ACCES|ROFS)'`, ok: true}, code: "[tried(lambda: os.link(p, '/tmp/l')) for p in ('/etc/passwd', '/data/a.csv', os.__file__, '/proc/self/status')]", says: `^\[('E(XDEV|PERM|ACCES|ROFS)'(, )?){4}\]`},
	{rule: "a symbolic link opens nothing that its target forbids", off: "landlock", code: "os.symlink(SECRET, '/tmp/s'); os.symlink('/etc/shadow', '/tmp/t'); os.symlink('/.canary', '/tmp/u')\n[tried(lambda: open(p).read()) for p in ('/tmp/s', '/tmp/t', '/tmp/u')]", says: `^\['ENOENT', 'ENOENT', 'EACCES'\]`},
	{rule: "a race of links opens nothing", off: "landlock", code: "import threading\nopen('/tmp/ok', 'w').write('ok'); stop = False\ndef swap():\n    while not stop:\n        for target in ('/tmp/ok', '/.canary', SECRET):\n            os.symlink(target, '/tmp/next'); os.replace('/tmp/next', '/tmp/race')\nt = threading.Thread(target=swap); os.symlink('/tmp/ok', '/tmp/race'); t.start()\nseen = set()\nfor _ in range(3000):\n    try: seen.add(open('/tmp/race').read())\n    except OSError: pass\nstop = True; t.join(); seen <= {'ok'}", says: `^True\n$`},
	{rule: "data files cannot be changed by any path", off: "namespaces landlock", probe: &probe{code: "[tried(lambda: open('a.csv', 'r+')), tried(lambda: os.truncate('a.csv', 12))]", says: `^\['E(ROFS|ACCES)', 'E(ROFS|ACCES)'\]`, ok: true}, code: "os.chdir('/scratch')\n[tried(f) for f in (lambda: open('a.csv', 'r+'), lambda: os.truncate('/data/a.csv', 0), lambda: os.rename('a.csv', 'b'), lambda: os.unlink('/data/a.csv'), lambda: os.chmod('a.csv', 0o777), lambda: os.utime('a.csv'), lambda: os.open('/proc/self/fd/%d' % os.open('a.csv', os.O_RDONLY), os.O_RDWR), lambda: os.open('a.csv', os.O_RDONLY | os.O_TRUNC))]", says: `^\[('E(ROFS|ACCES|BUSY|PERM)'(, )?){8}\]`},
	{rule: "a mapping of a data file cannot be written", off: "namespaces landlock", code: "import mmap\nfd = writable('a.csv')\nm = mmap.mmap(fd, 0, mmap.MAP_PRIVATE, mmap.PROT_READ)\n[tried(lambda: mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)), 'OK' if libc.mprotect(ctypes.c_void_p(0), 4096, 3) == 0 else 'refused']", says: `^\['E(ACCES|PERM)', 'refused'\]`},
	{rule: "its own memory is its own", off: "audit", code: "with open('/proc/self/mem', 'rb', 0) as f: f.seek(id(None)); n = len(f.read(16))\nn", says: `^16\n$`, taint: "process memory"},
	{rule: "memory of process 1 is the session's", off: "namespaces landlock privileges", code: "tried(lambda: open('/proc/%d/mem' % PID, 'rb'))", says: `^'E(NOENT|ACCES|PERM)'\n$`},
	{rule: "no program is run from anywhere", off: "landlock", code: "a = (ctypes.c_char_p * 2)(b'x', None)\nopen('/tmp/x', 'wb').write(b'#!/bin/sh\\n'); tried(lambda: os.chmod('/tmp/x', 0o755))\n[sc('execve', p, a, a) for p in (b'/bin/sh', b'/usr/bin/env', b'/tmp/x', b'/scratch/a.csv')], sc('execveat', -100, b'/bin/sh', a, a, 0)", says: `^\(\[('E(PERM|ACCES)'(, )?){4}\], 'E(PERM|ACCES)'\)`, own: true},
	{rule: "no code from nameless files", off: "seccomp", code: "[sc('memfd_create', b'x', 0), sc('memfd_secret', 0)]", says: `^\['EPERM', 'EPERM'\]`},
	{rule: "no other personality", off: "seccomp", code: "[sc('personality', 0x0040000), sc('modify_ldt', 0, 0, 0) if 'modify_ldt' in NR else 'EPERM']", says: `^\['EPERM', 'EPERM'\]`},
	{rule: "what ends a session with its supervisor cannot be switched off", off: "seccomp", code: "[sc('prctl', 1, 0, 0, 0, 0), sc('prctl', 1 << 32 | 1, 0, 0, 0, 0)]", says: `^\['EPERM', 'EPERM'\]`},
	{rule: "no second filter and no loss of the first", off: "seccomp", code: "[sc('seccomp', 1, 0, 0), sc('prctl', 22, 2, 0, 0, 0), sc('prctl', 1 << 32 | 22, 1, 0, 0, 0)], [l.split()[1] for l in open('/proc/self/status') if l.startswith(('Seccomp:', 'NoNewPrivs'))]", says: `^\(\['EPERM', 'EPERM', 'EPERM'\], \['1', '2'\]\)`, own: true},
	{rule: "no keys are typed into a terminal", off: "seccomp", code: "b = ctypes.create_string_buffer(b'x')\n[sc('ioctl', 0, 0x5412, b), sc('ioctl', 0, 1 << 32 | 0x5412, b), sc('ioctl', 0, 0x541C, b)]", says: `^\['EPERM', 'EPERM', 'EPERM'\]`},
	{rule: "calls that are newer than the filter do not exist", off: "seccomp", code: "[sc(n, 0, 0, 0) for n in (468, 500, 1000, 1 << 20)]", says: `^\['ENOSYS', 'ENOSYS', 'ENOSYS', 'ENOSYS'\]`},
	{rule: "Landlock cannot be loosened", off: "seccomp", code: "[sc('landlock_create_ruleset', 0, 0, 1), sc('landlock_restrict_self', 3, 0)]", says: `^\['EPERM', 'EPERM'\]`},
	{rule: "limits cannot be raised", off: "rlimits", code: "import resource\n[tried(lambda: resource.setrlimit(r, (1 << 40, 1 << 40))) for r in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC)]", says: `^\[('ValueError'(, )?){5}\]`},
	{rule: "a crash leaves no core on the host", off: "rlimits", code: "import resource; print(resource.getrlimit(resource.RLIMIT_CORE)); os.abort()", status: trajectory.CellDied, says: `(?s)^\(0, 0\)\n.*the interpreter ended`, own: true, host: func(_ *testing.T, _ *field, _ Session, _ *graph) string {
		if _, err := os.Stat("core"); err == nil {
			return "there is a core"
		}
		return ""
	}},
	{rule: "descriptors that are passed to the supervisor are dropped", twin: "None", code: "import array\nmsg, iov = ctypes.create_string_buffer(56), ctypes.create_string_buffer(16)\nfds = [os.open('/dev/null', os.O_RDONLY) for _ in range(50)]\nimport _socket\ns = _socket.socket.__new__(_socket.socket); s.__init__(1, 1, 0, 3)\ns.sendmsg([b'\\xff'], [(1, 1, array.array('i', fds))])", status: trajectory.CellDied, says: "control channel", own: true},
}
