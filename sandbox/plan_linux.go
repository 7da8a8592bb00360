package sandbox

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Kinds of records in a plan, as helper/zygote.h names them.
const (
	planScratch = iota + 1
	planRlimit
	planLandlock
	planPath
	planFilter
	planDirectory
)

const (
	// planMax is PLAN_MAX, and filterPID FILTER_PID of helper/zygote.h.
	planMax   = 32 << 10
	filterPID = 0x70696421
)

// sharedFilter is that of forked sessions without a pid namespace; each puts in its own number.
var sharedFilter = sync.OnceValues(func() ([]bpf.RawInstruction, error) { return filter(filterPID, true, "execve") })

// plan is what a forked session does to itself, in the form that the helper reads. It comes from the
// same initSpec as that of a fresh session, so that both end up the same.
func plan(spec initSpec) ([]byte, error) {
	var b bytes.Buffer
	record := func(kind uint32, parts ...any) {
		var body bytes.Buffer
		for _, p := range parts {
			if s, ok := p.(string); ok {
				body.WriteString(s)
				body.WriteByte(0)
			} else {
				_ = binary.Write(&body, binary.NativeEndian, p) // fixed-size values into memory
			}
		}
		_ = binary.Write(&b, binary.NativeEndian, [2]uint32{kind, uint32(body.Len())})
		b.Write(body.Bytes())
		b.Write(make([]byte, -body.Len()&7))
	}
	if spec.Tier.namespaces() {
		record(planScratch, scratchOptions(spec.Root))
	} else {
		record(planDirectory, spec.Dir)
	}
	for _, r := range spec.Limits.list() {
		if spec.Off["rlimits"] {
			break
		}
		record(planRlimit, uint64(r.resource), r.value, fmt.Sprintf("%s: %d", r.name, r.value))
	}
	record(planRlimit, uint64(unix.RLIMIT_AS), spec.Limits.AddressSpace, "address space")
	if spec.Tier.landlock() && !spec.Off["landlock"] {
		abi := landlockABI()
		if abi < 1 {
			return nil, fmt.Errorf("the kernel has no Landlock")
		}
		attr := handled(abi)
		record(planLandlock, attr)
		for _, rule := range spec.rules() {
			for _, p := range rule.paths {
				record(planPath, rule.access&attr.Handled_access_fs, p)
			}
		}
	}
	if spec.Tier.seccomp() && !spec.Off["seccomp"] {
		// A session is process 1, and the interpreter is there already: nothing is executed any more.
		program := func() ([]bpf.RawInstruction, error) { return filter(1, false, "execve") }
		if !spec.Tier.namespaces() {
			program = sharedFilter
		}
		raw, err := program()
		if err != nil {
			return nil, err
		}
		record(planFilter, raw)
	}
	if b.Len() > planMax {
		return nil, fmt.Errorf("a plan of %d bytes: too many data files", b.Len())
	}
	return b.Bytes(), nil
}

// planFile holds a plan in memory, for the zygote to hand to its child.
func planFile(spec initSpec) (*os.File, error) {
	b, err := plan(spec)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("plan", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "plan")
	if _, err := f.Write(b); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
