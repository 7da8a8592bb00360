package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// Weakened is New without the named defences, for tests that show what each is there for: "audit" (the
// runner's refusals of programs and network), "environment" (the session's own environment), "nonce",
// "frames" (the end at the first bad frame), "hooks" and "threads" (the runner's care for what outlives a cell), those of the
// init process ("seccomp", "landlock", ...), single namespaces ("pid", "net"), "read-only" and "scratch" of the file system, or
// "tier:none" for a plain process. Its sessions are fresh interpreters. Outside a test it is an error.
func Weakened(cfg Config, off ...string) (*Sandbox, error) {
	if !testing.Testing() {
		return nil, errors.New("sandbox: defences can be switched off in tests only")
	}
	cfg.Engine = EngineFresh
	tiers := candidates(cfg.MinTier)
	without := map[string]bool{}
	for _, name := range off {
		if tier, ok := strings.CutPrefix(name, "tier:"); ok {
			cfg.MinTier, tiers = Tier(tier), []Tier{Tier(tier)}
			continue
		}
		without[name] = true
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*cfg.StartTimeout)
	defer cancel()
	python, err := inspect(ctx, cfg.Python)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	s, err := newSandbox(ctx, cfg, python, tiers)
	if err != nil {
		return nil, err
	}
	s.off = without
	return s, nil
}

// lenient: a test wants bad frames to be passed over.
func (s *session) lenient() bool { return s.sandbox != nil && s.sandbox.off["frames"] }

// inherited is what a session gets of our own environment: nothing, unless a test wants it.
func (s *Sandbox) inherited() []string {
	if s.off["environment"] {
		return os.Environ()
	}
	return nil
}

// shares are the namespaces that a session has in common with us: none, unless a test wants it.
func (s *Sandbox) shares() (flags uintptr) {
	for name, flag := range map[string]uintptr{"pid": syscall.CLONE_NEWPID, "net": syscall.CLONE_NEWNET} {
		if s.off[name] {
			flags |= flag
		}
	}
	return flags
}
