package sandbox

import (
	"fmt"
	"os"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// denied are the calls that a data analysis never needs and an escape does. Those that answer
// ENOSYS make libraries take their fallback (glibc: clone3 to clone).
var denied = []string{
	// Other processes.
	"fork", "vfork", "execveat", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease",
	"kcmp", "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "tkill", "rt_tgsigqueueinfo", "rt_sigqueueinfo",
	"migrate_pages", "move_pages", "setpriority", "ioprio_set", "sched_setattr", "sched_setscheduler",
	// The network, and local sockets to anything outside; socketpair stays.
	"socket", "bind", "connect", "listen", "accept", "accept4",
	// Namespaces and mounts.
	"unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig",
	"fsmount", "fspick", "mount_setattr", "statmount", "listmount", "swapon", "swapoff",
	"name_to_handle_at", "open_by_handle_at", "quotactl", "quotactl_fd", "fanotify_init", "fanotify_mark",
	// The kernel's larger attack surfaces.
	"bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key",
	"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "lookup_dcookie", "syslog", "acct",
	"reboot", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "vhangup",
	"iopl", "ioperm", "modify_ldt", "nfsservctl", "personality", "vmsplice", "memfd_secret", "seccomp",
	"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
	// System V and POSIX IPC.
	"shmget", "shmat", "shmctl", "msgget", "msgsnd", "msgrcv", "msgctl", "semget", "semop", "semctl", "semtimedop",
	"mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr",
	// Identity.
	"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid", "setfsgid", "capset", "setsid", "setpgid",
	"mknod", "mknodat",
	// Code from memory, which no path rule covers.
	"memfd_create", "uselib",
	// What sessions that read the same file could see or change of one another, and of the host.
	"inotify_init", "inotify_init1", "cachestat", "sync", "sysfs", "ustat",
	"setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat",
}

// absent are calls that libraries do without when the kernel has none. flock is among them because a
// lock on a shared data file would hold up the other sessions that read it.
var absent = []string{"clone3", "io_uring_setup", "io_uring_enter", "io_uring_register", "flock"}

// sameUser are denied where sessions share a user number with each other and with us, and no namespace stands between:
// what Landlock does not restrict on a file of that user, and what one process may do to another of its user.
var sameUser = []string{
	"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes", "futimesat", "utimensat",
	"sched_setparam", "get_robust_list",
}

// pastReadOnly are denied under gVisor, which carries them out on a read-only mount for the file's owner (truncate, mode, owner, times): data
// files would be open to sessions of the pod's user.
var pastReadOnly = append([]string{"truncate"}, sameUser...)

// lowWord are denied values of an argument of which the kernel looks at the low 32 bits only: a
// comparison of all 64 bits would let through the same value with a high bit set.
var lowWord = []struct {
	name   string
	arg    uint32
	values []uint32
}{
	// The signal at our death is what ends a session whose supervisor was killed.
	{"prctl", 0, []uint32{unix.PR_SET_PDEATHSIG, unix.PR_SET_SECCOMP, unix.PR_SET_CHILD_SUBREAPER, unix.PR_SET_PTRACER, unix.PR_SET_MM, unix.PR_SCHED_CORE}},
	// A datagram names whom it goes to, past connect: a socket of the host would get it.
	{"socketpair", 1, datagrams},
	// A terminal's input queue.
	// And, as F_SETOWN, whom a file sends signals to.
	{"ioctl", 1, []uint32{unix.TIOCSTI, unix.TIOCLINUX, fioSetOwn, sioSetGroup}},
	// Leases and notices reach other holders of a file; pipe buffers are counted by user; a file's owner gets signals.
	{"fcntl", 1, []uint32{unix.F_SETLEASE, unix.F_NOTIFY, unix.F_SETPIPE_SZ, unix.F_SETOWN, unix.F_SETOWN_EX, unix.F_SETSIG}},
}

// datagrams are the types of a pair that are not streams, with every flag: AF_UNIX takes a raw one for a datagram.
var datagrams = []uint32{
	unix.SOCK_DGRAM, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK,
	unix.SOCK_RAW, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.SOCK_RAW | unix.SOCK_NONBLOCK, unix.SOCK_RAW | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK,
}

const fioSetOwn, sioSetGroup = 0x8901, 0x8902

// filter assembles the program. The library answers a foreign architecture with the default action,
// which here is to allow: a 32-bit call would pass. So its program runs behind our own test, which
// kills. Calls that are newer than the library's table don't exist either.
//
// shared: the session shares its user number. also names calls that it can do without besides.
func filter(pid int, shared bool, also ...string) ([]bpf.RawInstruction, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	known := func(list []string) []string {
		var out []string
		for _, name := range list {
			if _, ok := info.SyscallNames[name]; ok {
				out = append(out, name)
			}
		}
		return out
	}
	eperm := seccomp.ActionErrno | seccomp.Action(unix.EPERM)
	enosys := seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)
	arg := func(name string, n uint32, op seccomp.Operation, v uint64) seccomp.NameWithConditions {
		return seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{{Argument: n, Operation: op, Value: v}}}
	}
	var others []seccomp.NameWithConditions
	if shared {
		also = append(also, sameUser...)
		// Its own limits and cores, not those of another process.
		others = append(others, arg("prlimit64", 0, seccomp.NotEqual, 0), arg("sched_setaffinity", 0, seccomp.NotEqual, 0))
	}
	policy := seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls: []seccomp.SyscallGroup{
			{Names: known(absent), Action: enosys},
			{Names: known(append(also, denied...)), Action: eperm, NamesWithCondtions: append(others,
				// Threads, and nothing else that clone makes.
				arg("clone", 0, seccomp.BitsNotSet, unix.CLONE_THREAD),
				arg("socketpair", 0, seccomp.NotEqual, unix.AF_UNIX),
				// Signals to itself only.
				arg("kill", 0, seccomp.NotEqual, uint64(pid)),
				arg("tgkill", 0, seccomp.NotEqual, uint64(pid)),
			)},
		},
	}
	program, err := policy.Assemble()
	if err != nil {
		return nil, err
	}
	guard := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(info.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(seccomp.ActionKillProcess)},
		bpf.LoadAbsolute{Off: 0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: newest(info), SkipFalse: 1},
		bpf.RetConstant{Val: uint32(enosys)},
	}
	for _, l := range lowWord {
		guard = append(guard, bpf.LoadAbsolute{Off: 0, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(info.SyscallNames[l.name]), SkipFalse: uint8(1 + 2*len(l.values))},
			// struct seccomp_data: the arguments start at 16, little-endian on every port.
			bpf.LoadAbsolute{Off: 16 + 8*l.arg, Size: 4})
		for _, v := range l.values {
			guard = append(guard, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipFalse: 1}, bpf.RetConstant{Val: uint32(eperm)})
		}
	}
	return bpf.Assemble(append(guard, program...))
}

// newest is the highest number that the table names.
func newest(info *arch.Info) uint32 {
	highest := 0
	for _, nr := range info.SyscallNames {
		highest = max(highest, nr)
	}
	return uint32(highest)
}

// loadFilter installs the filter on this thread; no_new_privs is set already.
func loadFilter(t Tier) error {
	var also []string
	if t.sentry() {
		also = pastReadOnly
	}
	raw, err := filter(os.Getpid(), !t.namespaces(), also...)
	if err != nil {
		return err
	}
	code := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		code[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); e != 0 {
		return fmt.Errorf("load: %w", e)
	}
	return nil
}
