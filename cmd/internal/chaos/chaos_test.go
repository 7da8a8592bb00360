package chaos

import (
	"context"
	"flag"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	length = flag.Duration("chaos.for", 0, "inject faults for that long")
	window = flag.Duration("chaos.window", 4*time.Minute, "measure the rate for that long before and after them")
	seed   = flag.Uint64("chaos.seed", 1, "seed of the schedule")
	where  = flag.String("chaos.dir", "", "directory of the bed; the default is a temporary one")
	page   = flag.String("chaos.page", "", "write the report's page there")
	slow   = flag.Duration("chaos.latency", 3*time.Second, "how long a call of the policy takes, about")
	built  = flag.String("chaos.bin", "", "take the binaries from there; the default is to build them")
	only   = flag.String("chaos.only", "", "inject only faults whose names hold this")
)

// settle is how long everything may take to be as before once the faults are over.
const settle = 5 * time.Minute

// experiment is one run of the bed.
type experiment struct {
	size     size
	seed     uint64
	schedule []fault
	window   time.Duration // of the rates; 0 measures none
	warm     int           // batches before anything breaks
	length   time.Duration
	patience time.Duration // for everything that is left after the faults
}

func bedDir(t *testing.T) string {
	t.Helper()
	if *where == "" {
		return t.TempDir()
	}
	return *where
}

// TestClusterUnderFaults is `make chaos`.
func TestClusterUnderFaults(t *testing.T) {
	if *length == 0 {
		t.Skip("make chaos")
	}
	kinds := allKinds
	if *only != "" {
		kinds = nil
		for _, k := range allKinds {
			if strings.Contains(string(k), *only) {
				kinds = append(kinds, k)
			}
		}
	}
	all := *length + 2**window + settle
	dir := bedDir(t)
	r := experiment{
		size: size{
			prompts: 200 + int(all.Minutes()*90), latency: *slow, judging: *slow / 6, deliveries: 6, stay: 2, waiting: 24, clocks: true,
		},
		seed: *seed, schedule: plan(*seed, *length, 12*time.Second, kinds), window: *window, warm: 5, length: *length, patience: 30 * time.Minute,
	}.run(t, dir)
	require.NoError(t, r.write(dir, *page))
	t.Logf("%s\nreport in %s", r.page(), dir)
	for _, d := range r.Deaths {
		t.Log(d)
	}
	for _, p := range r.Problems {
		t.Error(p)
	}
}

// TestClusterSurvivesAFewFaultsOfEveryPart is the short run: one fault after the other while there is work.
func TestClusterSurvivesAFewFaultsOfEveryPart(t *testing.T) {
	second := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	r := experiment{
		size: size{first: 10, prompts: 2000, latency: 200 * time.Millisecond, judging: 20 * time.Millisecond, deliveries: 6, stay: 2, waiting: 6},
		seed: 1, warm: 1, patience: settle, schedule: []fault{
			{At: 0, Kind: killWorker, Target: 0},
			{At: second(1), Kind: stopWorker, Target: 1, For: second(6)}, // longer than the ack wait: another takes its groups
			{At: second(1.5), Kind: killLeader},
			{At: second(3), Kind: judgeErrors, For: second(2)},
			{At: second(4), Kind: cutWorker, Target: 2, For: second(3), Silent: true},
			{At: second(5), Kind: policyDeath, Target: 1, For: second(2)},
			{At: second(7), Kind: killNode, Target: 1},
			{At: second(8), Kind: killTrainer},
			{At: second(9), Kind: cutNode, Target: 1, For: second(2)},
		},
	}.run(t, bedDir(t))
	for _, in := range r.Injected {
		require.NotContains(t, in.Note, "not undone", in.Fault)
	}
	require.Empty(t, r.Problems)
	require.Positive(t, r.Figures["groups delivered"])
}

func (e experiment) run(t *testing.T, dir string) (r report) {
	r = report{Commit: commit(), Machine: machine(), Seed: e.seed, Began: time.Now(), Faults: e.length, Window: e.window}
	t.Logf("seed %d, bed in %s:", e.seed, dir)
	for _, f := range e.schedule {
		t.Log(f)
	}
	b := newBed(t, dir, e.size)
	b.startTrainer()
	n, err := newNursery(func() map[int]bool {
		own := map[int]bool{}
		for _, p := range b.all() {
			own[p.pid()] = true
		}
		return own
	})
	require.NoError(t, err)
	background, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	others.Go(func() { n.watch(background) })
	defer func() { stop(); others.Wait() }()

	loading, noMore := context.WithCancel(t.Context())
	fed := make(chan error, 1)
	go func() { fed <- b.feed(loading, e.size.waiting) }()
	defer noMore()
	within := func(d time.Duration, f func(context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		require.NoError(t, f(ctx))
	}
	within(settle, func(ctx context.Context) error { return b.trains(ctx, e.warm) })
	r.UseFirst = b.use()
	r.Before = b.rate(t, e.window)
	t.Logf("%.1f groups a minute before", r.Before)

	begun := time.Now()
	r.Injected = b.breakThings(t.Context(), e.schedule)
	r.During = float64(4*b.between(begun, time.Now())) / time.Since(begun).Minutes()
	within(settle, b.ready)
	within(settle, func(ctx context.Context) error { return b.trains(ctx, e.warm) })
	if old := n.older(20 * time.Second); len(old) > 0 {
		r.problem("processes that nobody looks after: %v", old)
	}
	r.After = b.rate(t, e.window)
	r.UseLast = b.use()

	noMore()
	require.NoError(t, <-fed)
	within(settle, func(ctx context.Context) error {
		return every(ctx, time.Second, func() error { return b.submit.Submit(ctx, nil, nil, nil, true) })
	})
	select {
	case <-b.trainer.done:
	case <-time.After(e.patience):
		st, leads := b.status(t.Context())
		t.Fatalf("the trainer was not done after %s; led by %d: %v\n%s", e.patience, leads, st, b.trainer.last())
	}
	within(settle, func(ctx context.Context) (err error) {
		problems := r.Problems
		r.findings, err = b.check(ctx)
		r.Problems = append(problems, r.Problems...)
		return err
	})
	b.finish(&r, n)
	return r
}

// rate is how many groups a minute the trainer gets over a stretch of time.
func (b *bed) rate(t *testing.T, window time.Duration) float64 {
	if window == 0 {
		return 0
	}
	from := time.Now()
	select {
	case <-time.After(window):
	case <-t.Context().Done():
	}
	return float64(4*b.between(from, time.Now())) / window.Minutes()
}

// finish ends all processes as an operator does and looks at what is left of them.
func (b *bed) finish(r *report, n *nursery) {
	if r.Before > 0 && r.After < 0.8*r.Before {
		r.problem("the rate came back to %.1f groups a minute of %.1f only", r.After, r.Before)
	}
	for name, after := range r.UseLast.Descriptors {
		if before := r.UseFirst.Descriptors[name]; before > 0 && after > 2*before+64 {
			r.problem("%s holds %d descriptors, %d before the faults", name, after, before)
		}
	}
	for _, group := range [][]*process{b.worker[:], b.server[:], b.node[:]} {
		var all sync.WaitGroup
		var mu sync.Mutex
		for _, p := range group {
			all.Go(func() {
				if err := p.end(syscall.SIGTERM, time.Minute); err != nil {
					mu.Lock()
					defer mu.Unlock()
					r.problem("%v", err)
				}
			})
		}
		all.Wait()
	}
	end, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	_ = every(end, 500*time.Millisecond, func() error { // what dies with its parent takes a moment
		n.look()
		if len(n.older(0)) > 0 {
			return errNotNow
		}
		return nil
	})
	for _, o := range n.older(0) {
		r.problem("left behind: %s", o)
	}
	r.Left = b.left()
	for _, l := range r.Left {
		r.problem("left behind: %s", l)
	}
	for _, p := range b.all() {
		r.Deaths = append(r.Deaths, p.deaths...)
		for _, d := range p.deaths {
			if strings.Contains(d, "panic") || strings.Contains(d, "fatal error") {
				r.problem("%s", d)
			}
		}
	}
}
