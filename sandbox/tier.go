package sandbox

// Tier is how well sessions are isolated. It is measured by the self-test, never assumed.
type Tier string

const (
	// TierStrict has own user, pid, mount, network, ipc, uts and cgroup namespaces, a minimal
	// read-only root, Landlock, seccomp, rlimits, no capability.
	TierStrict Tier = "strict"
	// TierGVisor is the same inside a gVisor kernel, which has no Landlock, no cgroup namespaces and no limit of threads.
	TierGVisor Tier = "gvisor"
	// TierConfined has Landlock, seccomp and rlimits alone, for hosts without user namespaces. One
	// uid and one pid namespace for all sessions, and a scratch directory of the host.
	TierConfined Tier = "confined"
	// TierNone is a plain process with rlimits.
	TierNone Tier = "none"
)

// rank orders tiers, best highest; 0 is no tier.
func (t Tier) rank() int {
	switch t {
	case TierStrict:
		return 4
	case TierGVisor:
		return 3
	case TierConfined:
		return 2
	case TierNone:
		return 1
	}
	return 0
}

func (t Tier) namespaces() bool { return t == TierStrict || t == TierGVisor }
func (t Tier) landlock() bool   { return t == TierStrict || t == TierConfined }
func (t Tier) seccomp() bool    { return t != TierNone }

// sentry: the kernel is gVisor's.
func (t Tier) sentry() bool { return t == TierGVisor }
