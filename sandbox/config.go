package sandbox

import (
	"errors"
	"fmt"
	"time"
)

// Config says which interpreter sessions run, how well they must be isolated and what they may use.
type Config struct {
	// Python is the interpreter of the environment that holds the packages of
	// python/requirements.txt, e.g. .venv/sandbox/bin/python.
	Python string `yaml:"python"`
	// Requirements is the file of pinned packages (name==version) that the environment must hold; empty is the shipped list.
	Requirements string `yaml:"requirements"`
	// MinTier is the least isolation that New accepts.
	MinTier Tier `yaml:"min_tier"`
	// Engine is how sessions start: zygote (where it works, else fresh) or fresh.
	Engine Engine `yaml:"engine"`
	// Profile is what the zygote spends memory on: density or throughput.
	Profile Profile `yaml:"profile"`
	// Preload are the modules that the zygote imports; none named means those of Preloaded.
	Preload []string `yaml:"preload"`
	// MaxSessions bounds the live sessions; further starts wait in line.
	MaxSessions int `yaml:"max_sessions"`
	// Tenant names whose sessions these are: no two tenants are served by one zygote.
	Tenant string `yaml:"tenant"`
	// IDRange is which range of user numbers the sessions have when we are root, 0 to 255; -1 takes the first that
	// no supervisor on this host holds. Name one where supervisors on one host don't see each other's locks.
	IDRange int `yaml:"id_range"`
	// Groups is auto for a control group of each session (memory, processes) below the one that this process is in, where
	// that can be written; own to refuse a start without; or off.
	Groups string `yaml:"cgroups"`
	// StartTimeout bounds one start, the time in line not counted.
	StartTimeout time.Duration `yaml:"start_timeout"`
	// HashSeed is PYTHONHASHSEED, which orders sets of strings: one for all sessions, so that a
	// cell log replays to the same text.
	HashSeed uint32 `yaml:"hash_seed"`
	// Clock is the date that sessions see and that stands still but for sleeping (RFC 3339, e.g. 2024-01-31T12:00:00Z), so that
	// cells which ask for it replay to the same values; empty is the real clock.
	Clock  string `yaml:"clock"`
	Limits Limits `yaml:"limits"`
}

// Limits bound one session. Sizes are bytes.
type Limits struct {
	// CellWall and CellCPU bound one cell; past either it is interrupted, then killed.
	CellWall time.Duration `yaml:"cell_wall"`
	CellCPU  time.Duration `yaml:"cell_cpu"`
	// Grace is how long a cell past a time limit may take to end after the runner has interrupted it;
	// the namespace then survives. 0 kills at the limit.
	Grace time.Duration `yaml:"grace"`
	// MemoryBytes bounds the address space (RLIMIT_AS): the cell sees a MemoryError.
	MemoryBytes int64 `yaml:"memory_bytes"`
	// OutputBytes is what a cell's output keeps, half of it head and half tail.
	OutputBytes int64 `yaml:"output_bytes"`
	// ScratchBytes bounds the working directory and /tmp together.
	ScratchBytes int64 `yaml:"scratch_bytes"`
	// FileBytes bounds one written file.
	FileBytes int64 `yaml:"file_bytes"`
	// Processes bounds the threads (a session can't start processes), OpenFiles the descriptors.
	Processes int `yaml:"processes"`
	OpenFiles int `yaml:"open_files"`
	// FrameBytes bounds one message to or from a session, the cell's code included.
	FrameBytes int64 `yaml:"frame_bytes"`
}

// Defaults returns the configuration that a laptop and a worker start from.
func Defaults() Config {
	return Config{
		Python:       ".venv/sandbox/bin/python",
		MinTier:      TierStrict,
		Engine:       EngineZygote,
		Profile:      ProfileDensity,
		MaxSessions:  64,
		IDRange:      AnyIDRange,
		Groups:       GroupsAuto,
		StartTimeout: 30 * time.Second,
		Limits: Limits{
			CellWall:     60 * time.Second,
			CellCPU:      60 * time.Second,
			Grace:        time.Second,
			MemoryBytes:  4 << 30,
			OutputBytes:  16 << 10,
			ScratchBytes: 256 << 20,
			FileBytes:    128 << 20,
			Processes:    64,
			OpenFiles:    256,
			FrameBytes:   1 << 20,
		},
	}
}

// Validate reports every problem at once, each with its key.
func (c Config) Validate() error {
	var errs []error
	bad := func(ok bool, key, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("sandbox: %s: want %s", key, want))
		}
	}
	l := c.Limits
	bad(c.Python != "", "python", "the path of a Python interpreter")
	bad(c.MinTier.rank() > 0, "min_tier", "strict, gvisor, confined or none")
	bad(c.Engine == EngineZygote || c.Engine == EngineFresh, "engine", "zygote or fresh")
	bad(c.Profile == ProfileDensity || c.Profile == ProfileThroughput, "profile", "density or throughput")
	bad(c.MaxSessions >= 1 && c.MaxSessions <= maxSlots, "max_sessions", fmt.Sprintf("1 to %d", maxSlots))
	bad(c.Groups == GroupsAuto || c.Groups == GroupsOwn || c.Groups == GroupsOff, "cgroups", "auto, own or off")
	bad(c.IDRange >= AnyIDRange && c.IDRange < idRanges, "id_range", fmt.Sprintf("0 to %d, or -1 for any that is free", idRanges-1))
	bad(c.StartTimeout > 0, "start_timeout", "a positive duration")
	bad(l.CellWall > 0, "limits.cell_wall", "a positive duration")
	bad(l.CellCPU > 0, "limits.cell_cpu", "a positive duration")
	bad(l.Grace >= 0, "limits.grace", "a duration, 0 to kill at the limit")
	bad(l.MemoryBytes >= 256<<20, "limits.memory_bytes", "at least 256 MiB")
	bad(l.OutputBytes >= 256, "limits.output_bytes", "at least 256")
	bad(l.ScratchBytes >= 1<<20, "limits.scratch_bytes", "at least 1 MiB")
	bad(l.FileBytes >= 1<<20, "limits.file_bytes", "at least 1 MiB")
	bad(l.Processes >= 8, "limits.processes", "at least 8")
	bad(l.OpenFiles >= 32, "limits.open_files", "at least 32")
	bad(l.FrameBytes >= 64<<10 && l.FrameBytes <= 64<<20, "limits.frame_bytes", "64 KiB to 64 MiB")
	_, err := c.fixedClock()
	bad(err == nil, "clock", "a date such as 2024-01-31T12:00:00Z, or empty for the real clock")
	return errors.Join(errs...)
}

// fixedClock is Clock, or the zero time.
func (c Config) fixedClock() (time.Time, error) {
	if c.Clock == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339, c.Clock)
}
