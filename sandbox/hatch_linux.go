package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// hatch prepares this sandbox for forked sessions.
func (s *Sandbox) hatch(ctx context.Context) error {
	if s.tier == TierNone {
		return errors.New("zygote: sessions without isolation are not forked")
	}
	if s.tier.sentry() {
		return errors.New("zygote: gVisor copies no mount of a single file (open_tree), and that is how a forked session gets its data")
	}
	if p, hidden := s.python.hiddenByTmp(); hidden && s.tier.namespaces() {
		// A forked session gets its own /tmp after the interpreter has been mounted.
		return fmt.Errorf("zygote: the Python environment lies below %s, which every session has for itself: %s", tmpDir, p)
	}
	if s.tier.namespaces() && !hasCapability(unix.CAP_SYS_ADMIN) {
		// Data is attached as mounts.
		var err error
		if s.mounter, err = startMounter(ctx, s.spawn); err != nil {
			return fmt.Errorf("zygote: mounts can't be made without CAP_SYS_ADMIN: %w", err)
		}
	}
	n, err := joinNest(ctx, s)
	if err != nil {
		s.unhatch()
		return err
	}
	s.nest = n
	if !s.tier.namespaces() {
		return nil // a plan for each session: it names the session's own directory
	}
	if s.plan, err = s.planFor(scratchDir, nil); err != nil {
		s.unhatch()
		return err
	}
	return nil
}

// planFor is the plan of a session that works in dir.
func (s *Sandbox) planFor(dir string, files []bindFile) (*os.File, error) {
	spec := s.initSpec(dir, files)
	spec.Limits.AddressSpace = uint64(s.addressSpace())
	return planFile(spec)
}

// unhatch lets go of what hatch took.
func (s *Sandbox) unhatch() {
	if s.plan != nil {
		_ = s.plan.Close()
		s.plan = nil
	}
	if s.nest != nil {
		s.nest.leave()
		s.nest = nil
	}
	if s.mounter != nil {
		s.mounter.close()
		s.mounter = nil
	}
}

// addressSpace is RLIMIT_AS: what a session may use, on top of what it is born with.
func (s *Sandbox) addressSpace() int64 {
	if s.nest == nil {
		return s.cfg.Limits.MemoryBytes
	}
	return s.cfg.Limits.MemoryBytes + s.nest.size
}
