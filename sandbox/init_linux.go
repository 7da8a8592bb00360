package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// initMarker as the name of this program makes it the init of a session.
const initMarker = "verigraph-sandbox-init"

// controlFD is the session's end of the control socket.
const controlFD = 3

// initSpec says what the init of a session has to do before it becomes the interpreter.
type initSpec struct {
	// Mounter: the process copies mounts for its supervisor, and nothing else here counts.
	Mounter bool `json:"mounter,omitempty"`
	// Zygote: the interpreter forks sessions, which lock themselves down; the init builds what they share.
	Zygote bool `json:"zygote"`
	Tier   Tier `json:"tier"`
	// Off names steps that tests leave out, to see what then succeeds.
	Off      map[string]bool `json:"off,omitempty"`
	SwitchID bool            `json:"switch_id"`
	Root     rootSpec        `json:"root"`
	Dir      string          `json:"dir"`
	ReadOnly []string        `json:"read_only"`
	Write    []string        `json:"write"`
	Execute  []string        `json:"execute"`
	Limits   initLimits      `json:"limits"`
	Argv     []string        `json:"argv"`
	Env      []string        `json:"env"`
	// FrameBytes bounds the init's own error message.
	FrameBytes int64 `json:"frame_bytes"`
}

// initLimits are the rlimits in the kernel's units.
type initLimits struct {
	AddressSpace uint64 `json:"address_space"`
	FileSize     uint64 `json:"file_size"`
	OpenFiles    uint64 `json:"open_files"`
	Processes    uint64 `json:"processes"`
	// Sentry: the kernel is gVisor's, which knows some limits only.
	Sentry bool `json:"sentry"`
}

var initReady bool

// MaybeInit must be called first thing in main (and in TestMain): sessions are started by running
// this program again, and in such a process MaybeInit locks it down, becomes the interpreter and
// does not return.
func MaybeInit() {
	initReady = true
	if len(os.Args) != 1 || os.Args[0] != initMarker {
		return
	}
	// What follows changes credentials and filters of one thread; the exec at its end makes that
	// thread the whole process.
	runtime.LockOSThread()
	control := os.NewFile(controlFD, "control")
	// Before anything is read: if we are orphans already, there is nothing to read.
	err := setDeathSignal()
	if err == nil {
		err = runInit(control)
	}
	_ = writeFrame(control, frame{Failed: &failed{Error: err.Error()}}, 1<<20)
	os.Exit(1)
}

// runInit returns only when something failed. The order matters: mounts need capabilities,
// Landlock needs the final paths, seccomp forbids most of the steps before it.
func runInit(control *os.File) error {
	body, err := readFrame(control, 1<<24)
	if err != nil {
		return fmt.Errorf("init: read the specification: %w", err)
	}
	var spec initSpec
	if err := json.Unmarshal(body, &spec); err != nil {
		return fmt.Errorf("init: read the specification: %w", err)
	}
	if spec.Mounter {
		return serveMounts(control)
	}
	steps := []struct {
		name string
		when bool
		do   func() error
	}{
		{"root", spec.Tier.namespaces(), func() error { return buildRoot(spec.Root) }},
		{"working directory", true, func() error { return unix.Chdir(spec.Dir) }},
		{"rlimits", !spec.Zygote, func() error { return setLimits(spec.Limits) }},
		{"privileges", !spec.Zygote && spec.Tier != TierNone, func() error { return dropPrivileges(spec.SwitchID, spec.Tier.sentry()) }},
		{"parent death signal", true, setDeathSignal},
		{"no_new_privs", !spec.Zygote, func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"landlock", !spec.Zygote && spec.Tier.landlock(), func() error { return restrictPaths(spec.rules()) }},
		{"descriptors", true, func() error { return unix.CloseRange(controlFD+1, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC) }},
		{"seccomp", !spec.Zygote && spec.Tier.seccomp(), func() error { return loadFilter(spec.Tier) }},
	}
	for _, s := range steps {
		if !s.when || spec.Off[s.name] {
			continue
		}
		if err := s.do(); err != nil {
			return fmt.Errorf("init: %s: %w", s.name, err)
		}
	}
	return become(spec)
}

// setDeathSignal asks for SIGKILL at our parent's death, first at the start and again after a change of uid, which forgot it.
func setDeathSignal() error {
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}

// become sets the address space limit and runs the interpreter, with no allocation between the
// two: the Go runtime's own reservations may already be above the limit.
func become(spec initSpec) error {
	path, err := syscall.BytePtrFromString(spec.Argv[0])
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings(spec.Argv)
	if err != nil {
		return err
	}
	env, err := syscall.SlicePtrFromStrings(spec.Env)
	if err != nil {
		return err
	}
	lim := unix.Rlimit{Cur: spec.Limits.AddressSpace, Max: spec.Limits.AddressSpace}
	if _, _, e := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_AS, uintptr(unsafe.Pointer(&lim)), 0, 0, 0); e != 0 {
		return fmt.Errorf("init: rlimit: address space: %w", e)
	}
	_, _, e := unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
	return fmt.Errorf("init: run %s: %w", spec.Argv[0], e)
}
