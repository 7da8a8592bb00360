package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Errors that a caller tells apart. All are ours: the rollout is retried elsewhere.
var (
	// ErrClosed: the sandbox is shutting down.
	ErrClosed = errors.New("sandbox is closed")
	// ErrSessionLost: the session ended before this cell, as an earlier Result said.
	ErrSessionLost = errors.New("session is lost")
)

// Sandbox starts sessions. At most MaxSessions live at a time; further
// starts wait in one line, in order of arrival. Safe for concurrent use.
type Sandbox struct {
	cfg    Config
	python interpreter
	tier   Tier
	ranged bool
	spawn  *spawner
	// nest and plan fork sessions; nil where every session is a fresh interpreter.
	nest *nest
	plan *os.File
	// mounter copies the mounts of data files; nil where we may do so ourselves.
	mounter *mounter
	// warm holds sessions that wait ready; nil for none.
	warm *warmPool
	// groups limit sessions by control groups; nil where Stats.Groups says why there are none.
	groups *groups
	// memory ends sessions before the kernel ends us.
	memory *watchdog
	// slots hands out the slot numbers of sessions; an empty channel is the line.
	slots chan int
	// scratch is the host directory of the confined tier's working directories.
	scratch string
	// scratchLock tells other supervisors that the directory is in use.
	scratchLock *os.File

	// checks is what the last self-test saw.
	checks map[string]string
	// beforeSelfTest is called with the directory of its files; for tests.
	beforeSelfTest func(dir string)
	// off names defences that tests leave out.
	off map[string]bool

	mu      sync.Mutex
	closed  bool
	closing chan struct{}
	live    map[*session]struct{}
	starts  sync.WaitGroup
	stats   Stats
}

var _ Provider = (*Sandbox)(nil)

// Stats is a snapshot of a Sandbox.
type Stats struct {
	// Tier is what the self-test measured, with Engine.
	Tier   Tier
	Engine Engine
	// Fallback says why Engine is not the one that was asked for.
	Fallback string
	// Groups says whether each session has a control group, and if not, why.
	Groups string
	// Signals says how sessions are signalled: by pidfd or, on a kernel without, by number before they are reaped.
	Signals string
	// Live sessions, and starts that wait for a free slot.
	Live, Waiting int
	// Evicted counts sessions killed because memory was short.
	Evicted int64
	// Started and Failed count starts so far.
	Started, Failed int64
	// WaitTime is the time spent in line, StartTime the time of starts proper, both summed.
	WaitTime, StartTime time.Duration
}

// New checks the interpreter, measures the isolation that this host gives with a real session, and
// refuses when it is below cfg.MinTier, naming the checks that failed.
func New(cfg Config) (*Sandbox, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if !initReady {
		return nil, errors.New("sandbox: this program does not call sandbox.MaybeInit first thing in main")
	}
	if err := refusePrivilegedPod(); err != nil {
		return nil, err
	}
	// The constructor bounds its own work; no caller's context outlives or shortens it.
	ctx, cancel := context.WithTimeout(context.Background(), 4*cfg.StartTimeout)
	defer cancel()
	python, err := inspect(ctx, cfg.Python)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	return newSandbox(ctx, cfg, python, candidates(cfg.MinTier))
}

// newSandbox takes the first of tiers that passes its self-test.
func newSandbox(ctx context.Context, cfg Config, python interpreter, tiers []Tier) (*Sandbox, error) {
	s := &Sandbox{
		cfg: cfg, python: python, ranged: canMapRange(), spawn: newSpawner(),
		slots: make(chan int, cfg.MaxSessions), closing: make(chan struct{}), live: map[*session]struct{}{},
	}
	for i := range cfg.MaxSessions {
		s.slots <- i
	}
	var err error
	if s.ranged {
		if err = reserveIDs(cfg.IDRange); err != nil {
			s.Close()
			return nil, err
		}
	}
	if s.scratch, s.scratchLock, err = openScratch(); err != nil {
		s.Close()
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	about := "off"
	if cfg.Groups != GroupsOff {
		s.groups, err = openGroups(cfg.Limits)
		switch {
		case err == nil:
			about = s.groups.about()
		case cfg.Groups == GroupsOwn:
			s.Close()
			return nil, fmt.Errorf("sandbox: cgroups: own: %w", err)
		default:
			about = "none: " + err.Error()
		}
	}
	var failures []error
	for _, t := range tiers {
		st, err := s.settle(ctx, t)
		if err != nil {
			failures = append(failures, fmt.Errorf("tier %s: %w", t, err))
			continue
		}
		s.stats, s.stats.Groups, s.stats.Signals = st, about, "pidfd"
		if !hasPidfd() {
			s.stats.Signals = "number: the kernel gives no pidfd"
		}
		s.memory = newWatchdog(ctx, s, memoryLeft)
		return s, nil
	}
	s.Close()
	if len(tiers) == 0 {
		failures = append(failures, errors.New("inside gVisor the best tier is gvisor"))
	}
	return nil, fmt.Errorf("sandbox: this host does not reach isolation tier %s: %w", cfg.MinTier, errors.Join(failures...))
}

// settle takes the first engine whose sessions pass the tier's self-test.
func (s *Sandbox) settle(ctx context.Context, t Tier) (Stats, error) {
	s.tier = t
	st := Stats{Tier: t, Engine: EngineFresh}
	if s.cfg.Engine == EngineZygote {
		err := s.hatch(ctx)
		if err == nil {
			if err = s.selfTest(ctx); err == nil {
				st.Engine = EngineZygote
				if k := s.cfg.Profile.warmSessions(); k > 0 && s.plan != nil {
					s.warm = newWarmPool(ctx, s, k)
				}
				return st, nil
			}
			s.unhatch()
		}
		st.Fallback = err.Error()
	}
	return st, s.selfTest(ctx)
}

// candidates are the tiers worth trying, best first.
func candidates(least Tier) []Tier {
	var out []Tier
	for _, t := range []Tier{TierStrict, TierGVisor, TierConfined, TierNone} {
		if t.rank() < least.rank() || (t == TierGVisor) != insideGVisor() && t.namespaces() {
			continue
		}
		out = append(out, t)
	}
	return out
}

// Tier is the isolation that sessions have, as measured.
func (s *Sandbox) Tier() Tier { return s.tier }

// Stats returns a snapshot.
func (s *Sandbox) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Live = len(s.live)
	return st
}

// Start waits for a free slot and starts a session in it.
func (s *Sandbox) Start(ctx context.Context, spec Spec) (Session, error) {
	files, err := dataFiles(spec.Files, s.tier.namespaces() && s.ranged)
	if err != nil {
		return nil, fmt.Errorf("sandbox: start: %w", err)
	}
	if spec.Clock.IsZero() {
		if spec.Clock, err = s.cfg.fixedClock(); err != nil {
			return nil, fmt.Errorf("sandbox: start: %w", err)
		}
	}
	slot, err := s.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("sandbox: start: wait for a slot: %w", err)
	}
	begin := time.Now()
	sess, err := s.start(ctx, slot, files, spec)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.StartTime += time.Since(begin)
	if err != nil {
		s.stats.Failed++
		return nil, fmt.Errorf("sandbox: start: %w", err)
	}
	s.stats.Started++
	return sess, nil
}

// acquire takes a slot, in order of arrival.
func (s *Sandbox) acquire(ctx context.Context) (int, error) {
	begin := time.Now()
	s.mu.Lock()
	s.stats.Waiting++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.stats.Waiting--
		s.stats.WaitTime += time.Since(begin)
		s.mu.Unlock()
	}()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	select {
	case slot := <-s.slots:
		return slot, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-s.closing:
		return 0, ErrClosed
	}
}

// start starts a session in slot, which it owns from here on.
func (s *Sandbox) start(ctx context.Context, slot int, files []bindFile, spec Spec) (*session, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.slots <- slot
		return nil, ErrClosed
	}
	s.starts.Add(1)
	s.mu.Unlock()
	defer s.starts.Done()

	sess, err := s.launch(ctx, slot, files, spec)
	if err != nil {
		s.slots <- slot
		return nil, err
	}
	s.mu.Lock()
	s.live[sess] = struct{}{}
	s.mu.Unlock()
	return sess, nil
}

// release is called once by every session that ends.
func (s *Sandbox) release(sess *session) {
	s.mu.Lock()
	delete(s.live, sess)
	s.mu.Unlock()
	s.slots <- sess.slot
}

// Close kills all sessions and returns when nothing of them is left. It is idempotent.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.closing)
	s.mu.Unlock()
	// A start under way either fails or becomes live.
	s.starts.Wait()
	s.mu.Lock()
	live := make([]*session, 0, len(s.live))
	for sess := range s.live {
		live = append(live, sess)
	}
	s.mu.Unlock()
	var errs []error
	for _, sess := range live {
		sess.proc.kill()
	}
	for _, sess := range live {
		errs = append(errs, sess.Close())
	}
	if s.memory != nil {
		s.memory.close()
	}
	if s.warm != nil {
		s.warm.close()
	}
	s.unhatch()
	if s.groups != nil {
		s.groups.close()
	}
	s.spawn.close()
	if s.scratch != "" {
		errs = append(errs, os.RemoveAll(s.scratch), s.scratchLock.Close())
	}
	return errors.Join(errs...)
}

// dataFiles checks the names and paths of a session's data files; stranger says that sessions run as
// another user than we are.
func dataFiles(files map[string]string, stranger bool) ([]bindFile, error) {
	var out []bindFile
	var errs []error
	for name, host := range files {
		if !filepath.IsLocal(name) || path.Clean(name) != name || name == "." || strings.ContainsAny(name, "\\\x00") || len(name) > 255 {
			errs = append(errs, fmt.Errorf("data file %q: not a plain relative name", name))
			continue
		}
		info, err := os.Stat(host)
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("not a regular file")
		}
		if err == nil && info.Mode().Perm()&0o004 == 0 && stranger {
			// Better said here than met by the model.
			err = fmt.Errorf("mode %v: sessions can't read it", info.Mode().Perm())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("data file %s: %w", name, err))
			continue
		}
		abs, err := filepath.Abs(host)
		if err != nil {
			return nil, err
		}
		out = append(out, bindFile{Name: name, Path: abs})
	}
	return out, errors.Join(errs...)
}
