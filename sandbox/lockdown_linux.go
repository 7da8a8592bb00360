package sandbox

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rlimit is one limit, soft and hard.
type rlimit struct {
	name     string
	resource int
	value    uint64
}

// list names every limit but the address space, which an init must set last.
func (l initLimits) list() []rlimit {
	all := []rlimit{
		{"core", unix.RLIMIT_CORE, 0},
		{"file size", unix.RLIMIT_FSIZE, l.FileSize},
		{"open files", unix.RLIMIT_NOFILE, l.OpenFiles},
		{"processes", unix.RLIMIT_NPROC, l.Processes},
		{"stack", unix.RLIMIT_STACK, 8 << 20},
		{"locked memory", unix.RLIMIT_MEMLOCK, 0},
	}
	if l.Sentry { // message queues are refused by the filter, and a session can signal itself only
		return all
	}
	return append(all, rlimit{"message queues", unix.RLIMIT_MSGQUEUE, 0}, rlimit{"pending signals", unix.RLIMIT_SIGPENDING, 256})
}

// setLimits sets each rlimit on its own, soft and hard: one that can't be set is an error at start,
// not a weaker session, and never keeps the others from being set.
func setLimits(l initLimits) error {
	for _, r := range l.list() {
		// The kernel would take a value above the hard limit from root and refuse it from others;
		// x/sys and not package syscall, which remembers and restores RLIMIT_NOFILE at exec.
		lim := unix.Rlimit{Cur: r.value, Max: r.value}
		if err := unix.Prlimit(0, r.resource, &lim, nil); err != nil {
			return fmt.Errorf("%s: %d: %w", r.name, r.value, err)
		}
	}
	return nil
}

// dropPrivileges leaves every capability for good: empty sets, an empty bounding set, and secure
// bits that keep uid 0 of a user namespace from getting them back at exec. gVisor (sentry) has no secure bits: there the empty
// bounding set alone does so.
func dropPrivileges(switchID, sentry bool) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && err != unix.EINVAL {
		return fmt.Errorf("ambient set: %w", err)
	}
	privileged := hasCapability(unix.CAP_SETPCAP)
	if privileged {
		for c := uintptr(0); c <= 63; c++ {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err == unix.EINVAL {
				break
			} else if err != nil {
				return fmt.Errorf("bounding set: %d: %w", c, err)
			}
		}
		const noRoot, noSetuidFixup, noAmbientRaise = 0x3, 0xc, 0xc0
		if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot|noAmbientRaise, 0, 0, 0); err != nil && !(sentry && err == unix.EPERM) {
			return fmt.Errorf("secure bits: %w", err)
		}
	}
	if switchID {
		// The raw calls change this thread only, which is the one that execs.
		if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
			return fmt.Errorf("groups: %w", e)
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, sessionID, sessionID, sessionID); e != 0 {
			return fmt.Errorf("gid: %w", e)
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, sessionID, sessionID, sessionID); e != 0 {
			return fmt.Errorf("uid: %w", e)
		}
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&head, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}

func hasCapability(c uint) bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&head, &data[0]) == nil && data[c/32].Effective&(1<<(c%32)) != 0
}

// landlockABI is the kernel's Landlock version, 0 without Landlock.
func landlockABI() int {
	r, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0
	}
	return int(r)
}

const (
	landlockRead  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockWrite = landlockRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	landlockFile = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// handled is what a kernel of this Landlock version can restrict; everything handled and not
// granted is denied.
func handled(abi int) unix.LandlockRulesetAttr {
	a := unix.LandlockRulesetAttr{Handled_access_fs: 1<<13 - 1}
	if abi >= 2 {
		a.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		a.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 4 {
		a.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= 5 {
		a.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= 6 {
		a.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return a
}

// pathRule grants access beneath paths.
type pathRule struct {
	access uint64
	paths  []string
}

// rules are a session's. Programs to execute are granted one by one, so that the only program that a
// session can become is its own interpreter.
func (s initSpec) rules() []pathRule {
	return []pathRule{
		{landlockRead, s.ReadOnly},
		{landlockWrite, s.Write},
		{unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE, s.Execute},
	}
}

// restrictPaths applies Landlock to this thread.
func restrictPaths(rules []pathRule) error {
	abi := landlockABI()
	if abi < 1 {
		return fmt.Errorf("the kernel has no Landlock")
	}
	attr := handled(abi)
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if e != 0 {
		return fmt.Errorf("rule set: %w", e)
	}
	defer unix.Close(int(fd))
	for _, rule := range rules {
		for _, p := range rule.paths {
			if err := allowPath(int(fd), p, rule.access&attr.Handled_access_fs); err != nil {
				return fmt.Errorf("rule: %s: %w", p, err)
			}
		}
	}
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); e != 0 {
		return fmt.Errorf("restrict: %w", e)
	}
	return nil
}

// allowPath grants access beneath path; a path that is not there grants nothing.
func allowPath(ruleset int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= landlockFile
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0); e != 0 {
		return e
	}
	return nil
}
