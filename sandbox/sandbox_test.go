package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/trajectory"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

func TestTheDefaultsValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, Defaults().Validate())
}

func TestEveryBadKeyIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	err := Config{Clock: "yesterday"}.Validate()
	for _, key := range []string{
		"python", "min_tier", "max_sessions", "start_timeout", "limits.cell_wall", "limits.cell_cpu", "limits.memory_bytes",
		"limits.output_bytes", "limits.scratch_bytes", "limits.file_bytes", "limits.processes", "limits.open_files", "limits.frame_bytes", "clock",
	} {
		require.ErrorContains(t, err, "sandbox: "+key+": want ")
	}
	_, err = New(Config{})
	require.ErrorContains(t, err, "limits.frame_bytes")
}

func TestTheConfigIsReadStrictlyFromYAML(t *testing.T) {
	t.Parallel()
	cfg := Defaults()
	dec := yaml.NewDecoder(strings.NewReader("min_tier: confined\nmax_sessions: 3\nlimits:\n  cell_wall: 5s\n  memory_bytes: 1073741824\n"))
	dec.KnownFields(true)
	require.NoError(t, dec.Decode(&cfg))
	require.Equal(t, TierConfined, cfg.MinTier)
	require.Equal(t, 5*time.Second, cfg.Limits.CellWall)
	require.Equal(t, int64(1<<30), cfg.Limits.MemoryBytes)
	dec = yaml.NewDecoder(strings.NewReader("limits:\n  cell_wal: 5s\n"))
	dec.KnownFields(true)
	require.ErrorContains(t, dec.Decode(&cfg), "cell_wal")
}

func TestAMissingEnvironmentSaysWhatToRun(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, CheckPython(t.Context(), Config{Python: "/nonexistent/python"}), "run make python")
	i, err := inspect(t.Context(), python)
	require.NoError(t, err)
	i.Packages["pandas"] = "0.1"
	delete(i.Packages, "et-xmlfile")
	shipped, err := parseRequirements("requirements.txt", shippedRequirements)
	require.NoError(t, err)
	err = i.check("X", shipped, "run make python")
	require.Regexp(t, `^python environment X: 2 packages are missing or at another version: .*; run make python$`, err.Error())
	require.ErrorContains(t, err, "et_xmlfile 2.0.0 (found none)")
	require.ErrorContains(t, err, "(found 0.1)")
	require.NotContains(t, err.Error(), "numpy")
	require.NotContains(t, err.Error(), "\n")
	i.Packages["et-xmlfile"] = "2.0.0"
	require.Regexp(t, `^python environment X: 1 package is missing or at another version: pandas \S+ \(found 0\.1\); run make python$`, i.check("X", shipped, "run make python").Error())
}

func TestThisHostReachesTheStrictTier(t *testing.T) {
	t.Parallel()
	require.Equal(t, TierStrict, box(t).Tier())
}

// TestAProgramDirectlyBelowTmpReachesTheStrictTier: sessions have a directory of that name, too.
func TestAProgramDirectlyBelowTmpReachesTheStrictTier(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	require.NoError(t, err)
	f, err := os.CreateTemp(tmpDir, "program-")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	t.Cleanup(func() { require.NoError(t, os.Remove(f.Name())) })
	copyFile(t, exe, f.Name())
	require.NoError(t, os.Chmod(f.Name(), 0o755))
	cmd := exec.CommandContext(patience.Context(t), f.Name())
	cmd.Env = append(os.Environ(), supervisorEnv+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	require.NoError(t, err)
	require.Regexp(t, `^\d+\n$`, line)
}

func TestTheSelfTestNamesWhatDoesNotHold(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, judge(TierNone, map[string]string{"read_data": ""}), "self-test: descriptors: did not run")
	good := map[string]string{}
	for _, name := range TierStrict.required() {
		good[name] = ""
	}
	require.NoError(t, judge(TierStrict, good))
	for _, name := range TierStrict.required() {
		good[name] = "it was possible"
		require.ErrorContains(t, judge(TierStrict, good), "self-test: "+name+": it was possible")
		good[name] = ""
	}
}

// TestTheSelfTestOutlivesASweepOfTheTemporaryDirectory takes the self-test's files away while it runs.
func TestTheSelfTestOutlivesASweepOfTheTemporaryDirectory(t *testing.T) {
	t.Parallel()
	s := own(t, func(*Config) {})
	swept := false
	s.beforeSelfTest = func(dir string) {
		if !swept {
			swept = true
			require.NoError(t, os.RemoveAll(s.scratch))
		}
	}
	require.NoError(t, s.selfTest(t.Context()))
	require.True(t, swept)
	// What is no sweep is not tried again.
	calls := 0
	s.beforeSelfTest = func(string) { calls++ }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.selfTest(ctx), context.Canceled)
	require.Equal(t, 1, calls)
}

// TestTooLittleIsolationIsARefusalToStart runs sessions of a lower tier against the promises of a
// higher one: the self-test, a real session, must find the difference.
func TestTooLittleIsolationIsARefusalToStart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		real, promised Tier
		finds          []string
	}{
		{TierConfined, TierStrict, []string{"process_1", "no_host_processes", "remove_data"}},
		{TierNone, TierConfined, []string{"no_sockets", "no_processes", "seccomp_filter", "host_file", "host_directory", "write_usr"}},
	} {
		s, err := newSandbox(t.Context(), testConfig(), inspected(t), []Tier{tc.real})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		dir := t.TempDir()
		data, secret := filepath.Join(dir, "d"), filepath.Join(dir, "s")
		require.NoError(t, os.WriteFile(data, []byte("a,b\n"), 0o644))
		require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o644))
		sess, err := s.Start(t.Context(), Spec{Files: map[string]string{"selftest.csv": data}})
		require.NoError(t, err)
		res := run(t, sess, s.selfTestCell(secret))
		require.NoError(t, sess.Close())
		var checks map[string]string
		require.NoError(t, json.Unmarshal([]byte(res.Output), &checks))
		err = judge(tc.promised, checks)
		for _, name := range tc.finds {
			require.ErrorContains(t, err, "self-test: "+name+":", tc.real)
		}
	}
	cfg := testConfig()
	cfg.Limits.OpenFiles = 1 << 30 // above what any kernel allows
	_, err := New(cfg)
	require.ErrorContains(t, err, "does not reach isolation tier strict")
	require.ErrorContains(t, err, "rlimits: open files: 1073741824")
}

func TestAPrivilegedPodIsRefused(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	err := refusePrivilegedPod()
	privileged := hasCapability(unix.CAP_SYS_ADMIN) && covers("/proc/self/uid_map", 0, 1<<32-1)
	require.Equal(t, privileged, err != nil && strings.Contains(err.Error(), "holds SYS_ADMIN"))
}

func inspected(t *testing.T) interpreter {
	t.Helper()
	i, err := inspect(t.Context(), python)
	require.NoError(t, err)
	return i
}

// TestEveryTierRunsCells is the conformance of the launches: what cells can count on is the same.
func TestEveryTierRunsCells(t *testing.T) {
	t.Parallel()
	for _, tier := range []Tier{TierStrict, TierGVisor, TierConfined, TierNone} {
		t.Run(string(tier), func(t *testing.T) {
			t.Parallel()
			cfg := testConfig()
			s, err := newSandbox(t.Context(), cfg, inspected(t), []Tier{tier})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			require.Equal(t, tier, s.Tier())
			require.Equal(t, tier, s.Stats().Tier)
			sess := start(t, s, map[string]string{"a.csv": "x\n1\n"})
			g := &graph{}
			res := runWith(t, sess, "import csv\nrows = list(csv.DictReader(open('a.csv')))\nc = bind('{n} row', n=len(rows))\nsubmit_answer(c)", g)
			require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
			require.Equal(t, []string{"a.csv"}, g.reports[1].Opened)
			require.Len(t, g.submits, 1)
			require.Equal(t, "PermissionError", run(t, sess, "import os; os.fork()").Exception)
			if tier != TierNone {
				require.Contains(t, []string{"OSError", "PermissionError"}, run(t, sess, "open('a.csv', 'w')").Exception)
			}
			sess.(*session).limits.CellWall = 3 * time.Second
			res = run(t, sess, "print(1)\nwhile True: pass")
			require.Equal(t, trajectory.CellTimeout, res.Status)
			require.Equal(t, "1\n", res.Output)
		})
	}
}

func TestStartsWaitInLineAndTheWaitIsVisible(t *testing.T) {
	t.Parallel()
	s := own(t, func(c *Config) { c.MaxSessions = 1 })
	first := start(t, s, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var canceled, second error
	var sess Session
	waiting := func(n int) func() bool { return func() bool { return s.Stats().Waiting == n } }
	wg.Go(func() { _, canceled = s.Start(ctx, Spec{}) })
	patience.Until(t, "one start waits", waiting(1))
	wg.Go(func() { sess, second = s.Start(t.Context(), Spec{}) })
	patience.Until(t, "two starts wait", waiting(2))
	cancel()
	patience.Until(t, "one start waits", waiting(1))
	require.NoError(t, first.Close())
	wg.Wait()
	require.ErrorIs(t, canceled, context.Canceled)
	require.NoError(t, second)
	require.Equal(t, "2\n", run(t, sess, "1 + 1").Output)
	st := s.Stats()
	require.Equal(t, 1, st.Live)
	require.Equal(t, int64(2), st.Started)
	require.Positive(t, st.WaitTime)
}

func TestALostSessionFreesItsSlotAtOnce(t *testing.T) {
	t.Parallel()
	s := own(t, func(c *Config) { c.MaxSessions = 1 })
	for range 3 {
		sess := start(t, s, nil)
		require.True(t, run(t, sess, "import os; os._exit(0)").NamespaceLost)
	}
	require.Equal(t, "1\n", run(t, start(t, s, nil), "1").Output)
}

func TestBadDataFilesAreErrorsAtStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ok := filepath.Join(dir, "ok")
	require.NoError(t, os.WriteFile(ok, nil, 0o644))
	secret := filepath.Join(dir, "unreadable")
	require.NoError(t, os.WriteFile(secret, nil, 0o600))
	for _, files := range []map[string]string{
		{"../a.csv": ok},
		{"/etc/passwd": ok},
		{"": ok},
		{".": ok},
		{"a//b": ok},
		{"a\x00b": ok},
		{"a.csv": filepath.Join(dir, "missing")},
		{"a.csv": dir},
		{"a.csv": "/dev/zero"},
		{"a.csv": secret},
	} {
		_, err := box(t).Start(t.Context(), Spec{Files: files})
		require.ErrorContains(t, err, "sandbox: start: data file", files)
	}
}

func TestClosingASessionLeavesNothing(t *testing.T) {
	t.Parallel()
	s := own(t, func(c *Config) {})
	var pids []int
	for range 5 {
		sess, err := s.Start(t.Context(), Spec{})
		require.NoError(t, err)
		run(t, sess, "import threading\nfor _ in range(5): threading.Thread(target=threading.Event().wait).start()")
		pids = append(pids, sess.(*session).proc.pid)
		require.NoError(t, sess.Close())
		require.NoError(t, sess.Close())
		_, err = sess.Run(t.Context(), "1", &graph{})
		require.Error(t, err)
	}
	for _, pid := range pids {
		require.False(t, exists(pid), pid)
	}
	require.Equal(t, 0, s.Stats().Live)
}

func TestClosingTheSandboxEndsRunningCells(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	s, err := New(cfg)
	require.NoError(t, err)
	sess, err := s.Start(t.Context(), Spec{})
	require.NoError(t, err)
	pid := sess.(*session).proc.pid
	running := make(chan struct{})
	g := &graph{onReport: func(evidence.Report) { close(running) }}
	ended := make(chan error)
	go func() {
		_, err := sess.Run(context.Background(), "x = 1\nwhile True: pass", g)
		ended <- err
	}()
	patience.Receive(t, running, "the cell")
	require.NoError(t, s.Close())
	require.ErrorIs(t, patience.Receive(t, ended, "its end"), ErrClosed)
	require.NoError(t, s.Close())
	require.False(t, exists(pid))
	_, err = s.Start(t.Context(), Spec{})
	require.ErrorIs(t, err, ErrClosed)
	left, err := filepath.Glob(s.scratch)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestNoDescriptorMountOrProcessIsLeft is not parallel: it counts what the whole process holds.
func TestNoDescriptorMountOrProcessIsLeft(t *testing.T) {
	box(t)
	mounts := lines(t, "/proc/self/mounts")
	fds, kids := descriptors(t), children(t)
	cfg := testConfig()
	for _, tier := range []Tier{TierStrict, TierConfined} {
		s, err := newSandbox(t.Context(), cfg, inspected(t), []Tier{tier})
		require.NoError(t, err)
		for i, code := range []string{"1", "import os; os._exit(1)", "import os; os.close(3)"} {
			sess, err := s.Start(t.Context(), Spec{Seed: int64(i)})
			require.NoError(t, err)
			run(t, sess, code)
		}
		require.NoError(t, s.Close())
	}
	require.Equal(t, mounts, lines(t, "/proc/self/mounts"))
	require.Equal(t, fds, descriptors(t))
	require.Equal(t, kids, children(t))
}

func TestACellAboveTheFrameLimitIsAnError(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	_, err := sess.Run(t.Context(), strings.Repeat("#", 2<<20), &graph{})
	require.ErrorIs(t, err, errTooLarge)
}

func TestNoSignalIsSentAfterTheProcessWasReaped(t *testing.T) {
	t.Parallel()
	s := box(t)
	sess := start(t, s, nil).(*session)
	require.True(t, run(t, sess, "import os; os._exit(0)").NamespaceLost)
	patience.Receive(t, sess.proc.exited, "the end of the process")
	sess.proc.kill()
	require.False(t, sess.proc.killedByUs())
}

func exists(pid int) bool {
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return err == nil
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return strings.Split(string(b), "\n")
}

// descriptors counts ours.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

// children lists our child processes, zombies included.
func children(t *testing.T) []string {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	require.NoError(t, err)
	var out []string
	for _, f := range tasks {
		if b, err := os.ReadFile(f); err == nil {
			out = append(out, strings.Fields(string(b))...)
		}
	}
	return out
}
