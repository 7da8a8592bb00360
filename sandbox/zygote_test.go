package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/trajectory"
)

// forked skips a test of zygotes in the run of the other engine.
func forked(t *testing.T) {
	t.Helper()
	if engine != EngineZygote {
		t.Skip("about zygotes")
	}
}

// zygoteBox is a sandbox with a zygote of its own that imports next to nothing.
func zygoteBox(t *testing.T, change func(*Config)) *Sandbox {
	t.Helper()
	s := own(t, func(c *Config) {
		c.Preload = []string{"json", "no_" + t.Name()} // a name of its own: no other test shares the zygote
		change(c)
	})
	require.Equal(t, EngineZygote, s.Stats().Engine, s.Stats().Fallback)
	return s
}

func TestTheEngineThatWasAskedForIsUsed(t *testing.T) {
	t.Parallel()
	st := box(t).Stats()
	require.Equal(t, engine, st.Engine, st.Fallback)
	require.Empty(t, st.Fallback)
}

func TestWithoutItsHelperAZygoteIsReplacedByFreshSessionsAndThatIsSaid(t *testing.T) {
	t.Parallel()
	forked(t)
	p := inspected(t)
	p.Helpers = nil
	s, err := newSandbox(t.Context(), testConfig(), p, []Tier{TierStrict})
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, EngineFresh, s.Stats().Engine)
	require.Contains(t, s.Stats().Fallback, "run make python")
	require.Equal(t, "1\n", run(t, start(t, s, nil), "1").Output)
}

// helperWith compiles the helper otherwise, to where a zygote sees it.
func helperWith(t *testing.T, flags ...string) interpreter {
	t.Helper()
	sources, err := filepath.Glob("helper/*.c")
	require.NoError(t, err)
	dir, err := os.MkdirTemp("../.venv/sandbox/lib/verigraph", "test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	helper, err := filepath.Abs(filepath.Join(dir, "zygote.so"))
	require.NoError(t, err)
	out, err := exec.Command("cc", slices.Concat([]string{"-std=gnu11", "-fPIC", "-shared", "-o", helper}, flags, sources)...).CombinedOutput()
	require.NoError(t, err, string(out))
	p := inspected(t)
	p.Helpers = []string{helper}
	return p
}

func TestAnOlderHelperIsReplacedByFreshSessionsAndThatIsSaid(t *testing.T) {
	t.Parallel()
	forked(t)
	s, err := newSandbox(t.Context(), testConfig(), helperWith(t, "-Dvg_version=vg_earlier"), []Tier{TierStrict})
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, EngineFresh, s.Stats().Engine)
	require.Contains(t, s.Stats().Fallback, "zygote.so is older than this program; run make python")
	require.Equal(t, "1\n", run(t, start(t, s, nil), "1").Output)
}

// As under the seccomp profile of a container runtime; make test-runc has the real one.
func TestSessionsAreForkedWhereClone3DoesNotExist(t *testing.T) {
	t.Parallel()
	forked(t)
	header := filepath.Join(t.TempDir(), "without.h")
	require.NoError(t, os.WriteFile(header, []byte("#include <sys/syscall.h>\n#undef SYS_clone3\n#define SYS_clone3 100000\n"), 0o600))
	p := helperWith(t, "-include", header)
	for _, tier := range []Tier{TierStrict, TierConfined} {
		cfg := testConfig()
		cfg.Preload = []string{"json", "no_" + t.Name()}
		s, err := newSandbox(t.Context(), cfg, p, []Tier{tier})
		require.NoError(t, err)
		defer s.Close()
		require.Equal(t, EngineZygote, s.Stats().Engine, s.Stats().Fallback)
		sess := start(t, s, nil)
		require.Equal(t, "1\n", run(t, sess, "1").Output)
		require.Equal(t, trajectory.CellDied, run(t, sess, "import os; os._exit(3)").Status)
	}
}

func TestAZygoteThatDiesIsReplacedAndItsSessionsGoOn(t *testing.T) {
	t.Parallel()
	forked(t)
	s := zygoteBox(t, func(*Config) {})
	before := start(t, s, nil)
	run(t, before, "x = 41")
	z := s.nest.current
	require.NoError(t, syscall.Kill(z.proc.pid, syscall.SIGKILL))
	patience.Receive(t, z.proc.exited, "the end of the process")
	after := start(t, s, nil)
	require.Equal(t, "2\n", run(t, after, "1 + 1").Output)
	require.Equal(t, "42\n", run(t, before, "x + 1").Output)
	require.Equal(t, nestStats{Started: 2, Died: 1}, s.nest.stats)
}

func TestAZygoteThatHangsIsReplaced(t *testing.T) {
	t.Parallel()
	forked(t)
	s := zygoteBox(t, func(*Config) {})
	s.nest.patience = 5 * time.Second
	require.NoError(t, syscall.Kill(s.nest.current.proc.pid, syscall.SIGSTOP))
	require.Equal(t, "2\n", run(t, start(t, s, nil), "1 + 1").Output)
	require.Equal(t, int64(1), s.nest.stats.Died)
}

func TestAWornZygoteIsReplacedWhileItStillServes(t *testing.T) {
	t.Parallel()
	forked(t)
	s := zygoteBox(t, func(*Config) {})
	s.nest.recycle = 3
	worn := s.nest.current
	for range 3 {
		require.Equal(t, "1\n", run(t, start(t, s, nil), "1").Output)
	}
	patience.Receive(t, worn.proc.exited, "the end of the process")
	require.Equal(t, "1\n", run(t, start(t, s, nil), "1").Output)
	require.Equal(t, int64(0), s.nest.stats.Died)
	require.GreaterOrEqual(t, s.nest.stats.Recycled, int64(1))
}

func TestAZygoteWithASecondThreadIsRefused(t *testing.T) {
	t.Parallel()
	forked(t)
	n, err := newNest(t.Context(), box(t), nestKey{helper: box(t).nest.key.helper}, []string{"pyarrow"})
	require.NoError(t, err)
	n.spec.Env = slices.DeleteFunc(n.spec.Env, func(v string) bool { return strings.HasPrefix(v, "JE_ARROW_MALLOC_CONF=") })
	_, err = n.zygote(t.Context())
	n.users = 1
	n.leave()
	require.ErrorContains(t, err, "2 threads after the imports")
}

func TestAStartDoesNotWaitForAZygoteLongerThanItsContext(t *testing.T) {
	t.Parallel()
	forked(t)
	s := zygoteBox(t, func(*Config) {})
	require.NoError(t, s.nest.take(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := s.Start(ctx, Spec{})
	s.nest.give()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, 0, s.Stats().Live)
}

func TestSandboxesOfOneEnvironmentShareAZygote(t *testing.T) {
	t.Parallel()
	forked(t)
	a, b := zygoteBox(t, func(*Config) {}), zygoteBox(t, func(c *Config) { c.Limits.OpenFiles = 99 })
	require.Same(t, a.nest, b.nest)
	limit := "import resource; resource.getrlimit(resource.RLIMIT_NOFILE)[0]"
	require.Equal(t, "256\n", run(t, start(t, a, nil), limit).Output)
	require.Equal(t, "99\n", run(t, start(t, b, nil), limit).Output)
}

func TestNestedDataFilesAreAttachedToForkedSessions(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), map[string]string{"a.csv": "1", "deep/er/b.csv": "2", "deep/c d.csv": "3"})
	res := run(t, sess, "import os\n[open(d + n).read() for d in ('', '/data/') for n in ('a.csv', 'deep/er/b.csv', 'deep/c d.csv')], sorted(os.listdir('/data'))")
	require.Equal(t, "(['1', '2', '3', '1', '2', '3'], ['a.csv', 'deep'])\n", res.Output, res.Traceback)
	for _, code := range []string{"open('/data/x', 'w')", "os.remove('/data/a.csv')", "os.rename('/data/deep', '/data/d')", "open('/data/a.csv', 'a')"} {
		require.Contains(t, []string{"OSError", "PermissionError"}, run(t, sess, code).Exception, code)
	}
}

func TestTheSameSeedGivesTheSameNumbersOnBothEngines(t *testing.T) {
	t.Parallel()
	forked(t)
	fresh := own(t, func(c *Config) { c.Engine = EngineFresh })
	code := "import random, numpy as np, pandas as pd\nprint(random.random(), np.random.rand(), np.random.default_rng().random(), hash('a'), {'x', 'y', 'z'})\n" +
		"from sklearn.ensemble import RandomForestRegressor\nX = np.random.rand(30, 2); print(RandomForestRegressor(3).fit(X, X[:, 0]).predict(X[:2]))\n" +
		"from scipy import stats; print(stats.bootstrap((X[:, 0],), np.mean, n_resamples=50).confidence_interval.low)\nprint(pd.DataFrame(X).sample(2).index.tolist())"
	a, b := run(t, start(t, box(t), nil), code), run(t, start(t, fresh, nil), code)
	require.Equal(t, trajectory.CellOK, a.Status, a.Traceback)
	require.Equal(t, b.Output, a.Output)
}

func TestSessionsOfOneZygoteDifferBySeedOnly(t *testing.T) {
	t.Parallel()
	forked(t)
	code := "import random, uuid, tempfile, os, numpy as np\nprint(random.random(), np.random.rand())\nuuid.uuid4().hex + tempfile.mktemp() + os.urandom(4).hex()"
	var seen []string
	for _, seed := range []int64{1, 1, 2} {
		sess, err := box(t).Start(t.Context(), Spec{Seed: seed})
		require.NoError(t, err)
		seen = append(seen, run(t, sess, code).Output)
		require.NoError(t, sess.Close())
	}
	first := func(i int) string { line, _, _ := strings.Cut(seen[i], "\n"); return line }
	require.Equal(t, first(0), first(1))
	require.NotEqual(t, first(0), first(2))
	require.NotEqual(t, seen[0], seen[1]) // what comes from the kernel is each session's own
}

func TestAForkedSessionKnowsItsOwnThread(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	res := run(t, sess, "import threading, os\nl = threading.RLock()\nl.acquire()\nprint(threading.get_native_id(), threading.main_thread().native_id, threading.current_thread() is threading.main_thread(), os.getpid(), threading.active_count())\n"+
		"got = []\nt = threading.Thread(target=lambda: got.append(l.acquire(timeout=0.05))); t.start(); t.join(); got")
	require.Equal(t, "1 1 True 1 1\n[False]\n", res.Output, res.Traceback)
}

func TestWarmSessionsAreClaimedWithTheirOwnDataAndSeed(t *testing.T) {
	t.Parallel()
	forked(t)
	s := zygoteBox(t, func(c *Config) { c.Profile = ProfileThroughput })
	patience.Until(t, "all warm sessions are ready", func() bool { return len(s.warm.ready) == cap(s.warm.ready) })
	waiting := cap(s.warm.ready)
	code := "import random, os\nprint(open('a.csv').read(), random.random(), sorted(os.listdir('/data')), os.listdir('/tmp'), len(globals()))"
	var outputs []string
	for i := range waiting + 2 { // the last ones are forked for the caller
		sess := start(t, s, map[string]string{"a.csv": "same"})
		res := run(t, sess, code)
		require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
		outputs = append(outputs, res.Output)
		require.Equal(t, outputs[0], outputs[i])
	}
	require.Contains(t, outputs[0], "same 0.32")
	require.Contains(t, outputs[0], "['a.csv'] [] ")
}

func TestAWarmSessionThatDiedIsPassedOver(t *testing.T) {
	t.Parallel()
	forked(t)
	s := zygoteBox(t, func(c *Config) { c.Profile = ProfileThroughput })
	patience.Until(t, "all warm sessions are ready", func() bool { return len(s.warm.ready) == cap(s.warm.ready) })
	var dead []*session
	for range cap(s.warm.ready) {
		dead = append(dead, s.warm.take())
	}
	back := 0
	for _, sess := range dead { // the refill is at work already: what it has filled stays
		sess.proc.kill()
		select {
		case s.warm.ready <- sess:
			back++
		default:
			require.NoError(t, sess.Close())
		}
	}
	for _, sess := range dead {
		patience.Receive(t, sess.proc.exited, "the end of the process")
	}
	require.Positive(t, back)
	require.Equal(t, "2\n", run(t, start(t, s, nil), "1 + 1").Output)
}

// TestTheHeapThatSessionsInheritLiesOnHugePages asks the kernel of the zygote and of a session: the share of anonymous memory on huge pages.
func TestTheHeapThatSessionsInheritLiesOnHugePages(t *testing.T) {
	t.Parallel()
	forked(t)
	if text, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled"); err != nil || strings.Contains(string(text), "[never]") {
		t.Skip("the kernel gives no huge pages")
	}
	s := box(t)
	require.Positive(t, currentZygote(s).about.HugePages)
	sess := start(t, s, nil)
	require.Equal(t, "1\n", run(t, sess, "1").Output)
	for name, pid := range map[string]int{"zygote": currentZygote(s).proc.pid, "session": sess.(*session).proc.pid} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		require.NoError(t, err)
		kib := map[string]int64{}
		for line := range strings.Lines(string(text)) {
			var n int64
			if key, rest, ok := strings.Cut(line, ":"); ok {
				if _, err := fmt.Sscan(rest, &n); err == nil {
					kib[key] = n
				}
			}
		}
		// The rest are what sessions write, each on small pages of its own, and the libraries' own data.
		require.Greater(t, kib["AnonHugePages"], kib["Anonymous"]/2, "%s: %v", name, kib)
	}
}
