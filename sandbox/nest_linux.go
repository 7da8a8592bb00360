package sandbox

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

//go:embed python/warm.py
var warmCells string

//go:embed python/rehearse_density.py
var densityCells string

//go:embed python/rehearse_throughput.py
var throughputCells string

// recycleAfter is how many sessions a zygote forks before another takes its place: its children share
// their address layout, and whatever the kernel may leak for it ends with it.
const recycleAfter = 5000

// helperName is the helper's file below a prefix of the environment.
const helperName = "lib/verigraph/zygote.so"

// nestKey names what two sandboxes must have in common to fork from the same zygote.
type nestKey struct {
	python, helper, preload, tenant string
	profile                         Profile
	hashSeed                        uint32
	tier                            Tier
}

// nest keeps one zygote of one environment alive. Its invariant: a zygote that dies or stops answering is
// replaced, and the request that met it is made again; only an environment whose zygotes don't
// start is an error.
type nest struct {
	key   nestKey
	spec  initSpec
	cfg   zygoteConfig
	ids   *idPool
	spawn *spawner
	// runner is the compiled code that the zygote runs.
	runner []byte
	ranged bool
	// home is the zygote's own directory on the host where it has no mounts, else empty.
	home string
	// size is the address space of the first zygote, in bytes; later ones differ by little.
	size int64

	users int // guarded by nests.mu

	// recycle is recycleAfter and patience forkTimeout, but for tests.
	recycle  int
	patience time.Duration

	// turn is held to look at or change what follows; waiting for it ends with the context.
	turn     chan struct{}
	current  *zygote
	closed   bool
	renewals sync.WaitGroup
	// quit ends what the nest does by itself.
	quit     context.Context
	stop     context.CancelFunc
	renewing bool
	stats    nestStats
}

// nestStats count what became of zygotes.
type nestStats struct{ Started, Died, Recycled int64 }

// nests are those of this process: a zygote costs seconds to start and the memory of all its imports,
// so that sandboxes which differ in limits only share one.
var nests = struct {
	mu  sync.Mutex
	all map[nestKey]*nest
}{all: map[nestKey]*nest{}}

// joinNest returns the nest of the environment, starting it for its first user.
func joinNest(ctx context.Context, s *Sandbox) (*nest, error) {
	helper, err := findHelper(s.python)
	if err != nil {
		return nil, err
	}
	preload := s.cfg.Preload
	if preload == nil {
		preload = Preloaded()
	}
	key := nestKey{python: s.python.Executable, helper: helper, preload: strings.Join(preload, " "), tenant: s.cfg.Tenant, profile: s.cfg.Profile, hashSeed: s.cfg.HashSeed, tier: s.tier}
	nests.mu.Lock()
	n := nests.all[key]
	if n == nil {
		if n, err = newNest(ctx, s, key, preload); err != nil {
			nests.mu.Unlock()
			return nil, err
		}
		nests.all[key] = n
	}
	n.users++
	nests.mu.Unlock()
	if _, err := n.zygote(ctx); err != nil {
		n.leave()
		return nil, err
	}
	return n, nil
}

// findHelper looks for the helper that `make python` builds into the environment.
func findHelper(python interpreter) (string, error) {
	for _, path := range python.Helpers {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("zygote: no %s in the python environment; run make python", helperName)
}

func newNest(ctx context.Context, s *Sandbox, key nestKey, preload []string) (*nest, error) {
	dir, home := scratchDir, ""
	if !s.tier.namespaces() {
		var err error
		if dir, err = hostScratch("", 0, nil); err != nil {
			return nil, fmt.Errorf("zygote: %w", err)
		}
		home = filepath.Dir(dir)
	}
	spec := s.initSpec(dir, nil)
	spec.Zygote, spec.Root.Template, spec.Dir = true, true, "/"
	spec.Limits.AddressSpace = unix.RLIM_INFINITY
	spec.Argv[len(spec.Argv)-1] = bootstrap + "run('zygote')\n"
	var ids [4]uint32
	if s.tier.namespaces() {
		ids[3] = 1
		if s.ranged {
			ids = [4]uint32{sessionID, 1, 1, 1}
		}
	}
	rehearse := densityCells
	if key.profile == ProfileThroughput {
		rehearse = throughputCells
	}
	start := newStartRequest("", s.cfg.Limits, Spec{})
	start.SysPath, start.DataDirs = s.python.SysPath, []string{dir, dataDir}
	n := &nest{
		key: key, spec: spec, ids: pool, spawn: newSpawner(), runner: s.python.Runner, ranged: s.ranged, home: home,
		cfg: zygoteConfig{
			SysPath: s.python.SysPath, Preload: preload, Helper: key.helper, Warm: splitCells(warmCells),
			Rehearse: splitCells(rehearse), Start: start, Collapse: true, Prefault: true, IDs: ids,
		},
		turn: make(chan struct{}, 1), recycle: recycleAfter, patience: forkTimeout,
	}
	// It outlives the sandbox that happens to be its first user.
	n.quit, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	n.turn <- struct{}{}
	return n, nil
}

func splitCells(text string) []string { return strings.Split(text, "\n# %%\n") }

// take waits for the turn.
func (n *nest) take(ctx context.Context) error {
	select {
	case <-n.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *nest) give() { n.turn <- struct{}{} }

// zygote returns the present one, or starts it.
func (n *nest) zygote(ctx context.Context) (*zygote, error) {
	if err := n.take(ctx); err != nil {
		return nil, err
	}
	defer n.give()
	if n.closed {
		return nil, ErrClosed
	}
	if n.current == nil {
		z, err := n.start(ctx)
		if err != nil {
			return nil, err
		}
		n.current = z
		n.stats.Started++
		if n.size == 0 {
			n.size = z.size
		}
	}
	return n.current, nil
}

func (n *nest) start(ctx context.Context) (*zygote, error) {
	return startZygote(ctx, n.spawn, n.spec, n.runner, n.cfg, mapZygote(n.ranged))
}

// fork makes sess a forked session.
func (n *nest) fork(ctx context.Context, sess *session, ends sessionEnds, plan *os.File, flags uint32) error {
	id, ok := n.ids.take()
	if !ok {
		return errNoID
	}
	var errs []error
	for range 3 {
		z, err := n.zygote(ctx)
		if err != nil {
			n.ids.give(id)
			return errors.Join(append(errs, err)...)
		}
		sess.proc, err = z.fork(n.patience, id, flags, int(ends.control.Fd()), int(ends.output.Fd()), int(plan.Fd()))
		if err == nil {
			sess.free = func() { n.ids.give(id) }
			n.age(z)
			return nil
		}
		errs = append(errs, fmt.Errorf("zygote: fork: %w", err))
		n.bury(z)
	}
	n.ids.give(id)
	return errors.Join(errs...)
}

// bury ends a zygote that failed, unless somebody else has done so.
func (n *nest) bury(z *zygote) {
	<-n.turn
	defer n.give()
	if n.current != z {
		return
	}
	n.current = nil
	n.stats.Died++
	z.close()
}

// age replaces a zygote that has forked often enough. The old one serves until the new one is ready.
func (n *nest) age(z *zygote) {
	z.mu.Lock()
	worn := z.forks >= n.recycle
	z.mu.Unlock()
	if !worn {
		return
	}
	<-n.turn
	defer n.give()
	if n.current != z || n.renewing || n.closed {
		return
	}
	n.renewing = true
	n.renewals.Go(func() {
		fresh, err := n.start(n.quit)
		<-n.turn
		defer n.give()
		n.renewing = false
		switch {
		case err != nil:
			return // the old one goes on, and its next fork tries again
		case n.closed || n.current != z:
			fresh.close()
		default:
			n.current = fresh
			n.stats.Started++
			n.stats.Recycled++
			z.close()
		}
	})
}

// leave ends the nest with its last user.
func (n *nest) leave() {
	nests.mu.Lock()
	n.users--
	last := n.users == 0
	if last {
		delete(nests.all, n.key)
	}
	nests.mu.Unlock()
	if !last {
		return
	}
	n.stop()
	<-n.turn
	n.closed = true
	if n.current != nil {
		n.current.close()
		n.current = nil
	}
	n.give()
	n.renewals.Wait()
	n.spawn.close()
	if n.home != "" {
		_ = os.RemoveAll(n.home)
	}
}

var errNoID = errors.New("no id is free for another session")

// idPool hands out the ids of live sessions, each once.
type idPool struct {
	mu   sync.Mutex
	free []uint32
}

func newIDPool(n uint32) *idPool {
	p := &idPool{}
	for i := range n {
		p.free = append(p.free, n-1-i)
	}
	return p
}

func (p *idPool) take() (uint32, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return 0, false
	}
	id := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	return id, true
}

func (p *idPool) give(id uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, id)
}
