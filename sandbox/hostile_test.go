package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/evidence"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/trajectory"
)

// lost asserts that a cell ended its session with the given status and that we say so from then on.
func lost(t *testing.T, sess Session, code string, want trajectory.CellStatus) Result {
	t.Helper()
	res := run(t, sess, code)
	require.Equal(t, want, res.Status, code)
	require.True(t, res.NamespaceLost, code)
	_, err := sess.Run(t.Context(), "1", &graph{})
	require.ErrorIs(t, err, ErrSessionLost)
	return res
}

func TestADeadInterpreterIsReportedAndNeverAForgedReply(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{
		"forged reply on descriptor 1": `import os; os.write(1, b'{"status":"ok","stdout":"42"}\n'); os._exit(0)`,
		"os._exit":                     "import os; os._exit(0)",
		"abort":                        "import os; os.abort()",
		"segmentation fault":           "import ctypes; ctypes.string_at(0)",
		"exec of the interpreter":      "import ctypes, sys\nlibc = ctypes.CDLL(None)\na = (ctypes.c_char_p * 4)(sys.executable.encode(), b'-c', b'print(1)', None)\nlibc.execve(sys.executable.encode(), a, None)\nimport os; os._exit(0)",
		"control socket closed":        "import os; os.close(3)",
		"frame without nonce":          `import os; os.write(3, b'\x00\x00\x00\x13{"done":{"status":"ok"}}'[:23])`,
		"frame with a wrong nonce":     "import os, json\nb = json.dumps({'nonce': 'x', 'done': {'status': 'ok', 'statements': 3, 'completed': 3}}).encode()\nos.write(3, len(b).to_bytes(4, 'big') + b)\nwhile True: pass",
		"oversized frame":              "import os; os.write(3, b'\\xff' * 8)\nwhile True: pass",
		"not JSON":                     "import os; os.write(3, b'\\x00\\x00\\x00\\x02xx')\nwhile True: pass",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lost(t, start(t, box(t), nil), code, trajectory.CellDied)
		})
	}
}

// timed is a session whose cells have other time limits.
func timed(t *testing.T, change func(*Limits)) Session {
	t.Helper()
	sess := start(t, box(t), nil)
	change(&sess.(*session).limits)
	return sess
}

func TestWhatWasPrintedBeforeTheEndIsKept(t *testing.T) {
	t.Parallel()
	brief := func(l *Limits) { l.CellWall, l.Grace = 3*time.Second, 0 }
	require.Equal(t, "before\n", lost(t, timed(t, brief), "print('before')\nimport os; os._exit(3)", trajectory.CellDied).Output)
	require.Equal(t, "before\n", lost(t, timed(t, brief), "print('before')\nwhile True: pass", trajectory.CellTimeout).Output)
	require.Equal(t, "before", lost(t, timed(t, brief), "print('before', end='')\nimport time; time.sleep(60)", trajectory.CellTimeout).Output)
}

func TestABroadExceptDoesNotStopTheTimeout(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		"import time\nwhile True:\n    try: time.sleep(1)\n    except BaseException: pass",
		"while True:\n    try: sum(n for n in range(10 ** 6))\n    except: pass",
		"sum(range(10 ** 12))",
		"import threading, time\nwhile True:\n    try:\n        if threading.active_count() < 20: threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()\n        time.sleep(0.001)\n    except BaseException: pass",
		"import signal\nfor n in set(signal.Signals) - {9, 19}: signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
	} {
		res := lost(t, timed(t, func(l *Limits) { l.CellWall, l.Grace = 500*time.Millisecond, 300*time.Millisecond }), code, trajectory.CellTimeout)
		require.GreaterOrEqual(t, res.WallS, 0.5)
	}
}

func TestTheCPULimitCountsCPUTimeOnly(t *testing.T) {
	t.Parallel()
	sess := timed(t, func(l *Limits) { l.CellCPU, l.Grace = 300*time.Millisecond, 0 })
	res := run(t, sess, "import time; time.sleep(0.6)")
	require.Equal(t, trajectory.CellOK, res.Status)
	require.Less(t, res.CPUS, 0.3)
	require.GreaterOrEqual(t, res.WallS, 0.6)
	res = lost(t, sess, "while True: pass", trajectory.CellTimeout)
	require.GreaterOrEqual(t, res.CPUS, 0.3)
}

func TestOtherProgramsAreRefusedWithAClearMessage(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	for _, code := range []string{
		"import os\nwhile True: os.fork()",
		"import subprocess; subprocess.run('sleep 60 & wait', shell=True)",
		"import subprocess; subprocess.Popen(['setsid', 'sleep', '60'])",
		"import os; os.system('ls')",
		"import os; os.execv('/bin/sh', ['sh'])",
		"import os; os.posix_spawn('/bin/sh', ['sh'], {})",
		"import multiprocessing as mp\np = mp.get_context('fork').Process(target=print); p.start()",
	} {
		res := run(t, sess, code)
		require.Equal(t, "PermissionError", res.Exception, code)
		require.Contains(t, res.Traceback, "can't start other programs or processes", code)
	}
	res := run(t, sess, "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.fork(), libc.vfork(), ctypes.get_errno(), libc.system(b'ls')")
	require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
	require.True(t, strings.HasPrefix(res.Output, "(-1, -1, 1, "), res.Output)
	res = run(t, sess, "e = ctypes.get_errno\na = (ctypes.c_char_p * 2)(b'/bin/ls', None)\nlibc.execve(b'/bin/ls', a, None), e()")
	require.Equal(t, map[Engine]string{EngineFresh: "(-1, 13)\n", EngineZygote: "(-1, 1)\n"}[engine], res.Output)
}

func TestTheNetworkIsRefusedWithAClearMessage(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	for _, code := range []string{
		"import socket; socket.create_connection(('127.0.0.1', 80), 1)",
		"import socket; socket.socket()",
		"import urllib.request; urllib.request.urlopen('http://127.0.0.1:80/')",
		"import pandas as pd; pd.read_csv('http://127.0.0.1/a.csv')",
	} {
		res := run(t, sess, code)
		require.Equal(t, trajectory.CellException, res.Status, code)
		require.Contains(t, res.Traceback, "no network", code)
	}
	res := run(t, sess, "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n[libc.socket(f, 1, 0) for f in (1, 2, 10, 16, 17)], ctypes.get_errno()")
	require.Equal(t, "([-1, -1, -1, -1, -1], 1)\n", res.Output)
	require.Equal(t, trajectory.CellOK, run(t, sess, "import socket; a, b = socket.socketpair(); a.send(b'x'); b.recv(1)").Status)
}

func TestHostFilesCannotBeReadOrWritten(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), map[string]string{"a.csv": "x\n"})
	exe, err := os.Executable()
	require.NoError(t, err)
	wd, err := os.Getwd()
	require.NoError(t, err)
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("s"), 0o644))
	for _, path := range []string{exe, filepath.Join(wd, "session.go"), secret, "/etc/shadow", "/etc/hostname", "/.canary", "/proc/1/environ", "/proc/sys/kernel/hostname"} {
		if path == "/proc/1/environ" {
			// Its own, and there is nothing of ours in it.
			require.NotContains(t, run(t, sess, "open('/proc/1/environ').read()").Output, "GOPATH")
			continue
		}
		res := run(t, sess, fmt.Sprintf("open(%q).read()", path))
		require.Contains(t, []string{"FileNotFoundError", "PermissionError"}, res.Exception, path)
	}
	for _, path := range []string{"/x", "/usr/x", "/etc/x", "/data/x", "/proc/x", "/dev/x", "/home/x"} {
		res := run(t, sess, fmt.Sprintf("open(%q, 'w')", path))
		require.Contains(t, []string{"OSError", "PermissionError", "FileNotFoundError"}, res.Exception, path)
	}
	for _, dir := range []string{"/", filepath.Dir(exe), wd, home, "/home"} {
		if dir == tmpDir {
			continue // sessions have one of their own
		}
		res := run(t, sess, fmt.Sprintf("import os; os.listdir(%q)", dir))
		require.Contains(t, []string{"FileNotFoundError", "PermissionError"}, res.Exception, dir)
	}
}

func TestOnlyTheSessionsOwnProcessIsVisible(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	res := run(t, sess, "import os\nprint(os.getpid(), [d for d in os.listdir('/proc') if d.isdigit()], os.getuid() != 0)\nos.kill(1, 9)\nprint('alive')")
	require.Equal(t, "1 ['1'] True\nalive\n", res.Output, res.Traceback)
	require.Equal(t, "PermissionError", run(t, sess, "os.kill(2, 0)").Exception)
}

func TestNothingOfOursIsInherited(t *testing.T) {
	t.Setenv("JUDGE_API_KEY", "sk-secret")
	sess := start(t, box(t), nil)
	res := run(t, sess, "import os, json\nopen_fds = []\nfor fd in range(200):\n    try: os.fstat(fd); open_fds.append(fd)\n    except OSError: pass\nprint(json.dumps([open_fds, dict(os.environ)]))")
	var got []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(res.Output), &got))
	require.JSONEq(t, "[0, 1, 2, 3]", string(got[0]))
	var env map[string]string
	require.NoError(t, json.Unmarshal(got[1], &env))
	require.NotContains(t, env, "JUDGE_API_KEY")
	require.Equal(t, "0", env["PYTHONHASHSEED"])
	require.Equal(t, "UTC", env["TZ"])
	require.LessOrEqual(t, len(env), 20)
}

func TestDataFilesAreReadOnlyUnderTheirBareNames(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), map[string]string{"a.csv": "x\n1\n", "dir/b c.csv": "y\n2\n"})
	res := run(t, sess, "import pandas as pd, os\nprint(pd.read_csv('a.csv').x[0], pd.read_csv('/data/a.csv').x[0], pd.read_csv('dir/b c.csv').y[0], os.getcwd())\nsorted(os.listdir('.')), sorted(os.listdir('/data'))")
	require.Equal(t, "1 1 2 /scratch\n(['a.csv', 'dir'], ['a.csv', 'dir'])\n", res.Output, res.Traceback)
	for _, code := range []string{
		"open('a.csv', 'w')", "open('a.csv', 'a')", "open('a.csv', 'r+')", "pd.DataFrame({'x': [2]}).to_csv('a.csv')",
		"os.remove('a.csv')", "os.rename('a.csv', 'z.csv')", "open('z', 'w').close(); os.replace('z', 'a.csv')", "os.chmod('a.csv', 0o777)",
		"os.truncate('a.csv', 0)", "import shutil; shutil.rmtree('dir')", "os.symlink('/etc/passwd', 'a.csv')", "open('/data/a.csv', 'w')",
	} {
		res := run(t, sess, code)
		require.Contains(t, []string{"OSError", "PermissionError", "FileExistsError"}, res.Exception, code)
	}
	require.Equal(t, "1\n", run(t, sess, "pd.read_csv('a.csv').x[0].item()").Output)
	require.Equal(t, trajectory.CellOK, run(t, sess, "pd.DataFrame({'x': [2]}).to_csv('out.csv'); os.makedirs('d/e'); os.rename('out.csv', 'd/e/out.csv'); os.remove('d/e/out.csv')").Status)
}

func TestSessionsThatShareADataFileShareNothingElse(t *testing.T) {
	t.Parallel()
	s := box(t)
	path := filepath.Join(t.TempDir(), "blob")
	require.NoError(t, os.WriteFile(path, []byte("x\n1\n"), 0o644))
	spec := Spec{Files: map[string]string{"a.csv": path}}
	var wg sync.WaitGroup
	outputs := make([]string, 2)
	for i := range outputs {
		sess, err := s.Start(t.Context(), spec)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, sess.Close()) })
		wg.Go(func() {
			code := fmt.Sprintf("bad = 0\nfor _ in range(100):\n    for p in ('/tmp/out.csv', 'out.csv'):\n        with open(p, 'w') as f: f.write('%d')\n        bad += open(p).read() != '%d'\nprint(bad, open('a.csv').read())", i, i)
			if res, err := sess.Run(t.Context(), code, &graph{}); err == nil {
				outputs[i] = res.Output + res.Traceback
			}
		})
	}
	wg.Wait()
	require.Equal(t, []string{"0 x\n1\n\n", "0 x\n1\n\n"}, outputs)
	left, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "x\n1\n", string(left))
}

func TestAMemoryBombIsAMemoryErrorAndTheNamespaceLives(t *testing.T) {
	t.Parallel()
	s := own(t, func(c *Config) { c.Limits.MemoryBytes = 512 << 20 })
	sess := start(t, s, nil)
	run(t, sess, "x = 1")
	for _, code := range []string{"b = bytearray(1 << 30)", "l = []\nwhile True: l.append(bytearray(1 << 24))"} {
		res := run(t, sess, code)
		require.Equal(t, trajectory.CellException, res.Status, code)
		require.Equal(t, "MemoryError", res.Exception, code)
		require.Equal(t, trajectory.CellOK, run(t, sess, "l = None").Status)
	}
	require.Equal(t, "1\n", run(t, sess, "x").Output)
}

func TestScratchIsLimitedInSize(t *testing.T) {
	t.Parallel()
	s := own(t, func(c *Config) { c.Limits.ScratchBytes, c.Limits.FileBytes = 8<<20, 4<<20 })
	sess := start(t, s, nil)
	res := run(t, sess, "open('big', 'wb').write(bytes(5 << 20))")
	require.Contains(t, res.Traceback, "File too large")
	res = run(t, sess, "import os; os.remove('big')\nfor i in range(4):\n    with open(f'/tmp/{i}' if i % 2 else f'{i}', 'wb') as f: f.write(bytes(3 << 20))")
	require.Contains(t, res.Traceback, "No space left on device")
}

func TestThreadsAreLimited(t *testing.T) {
	t.Parallel()
	s := own(t, func(c *Config) { c.Limits.Processes = 16 })
	sess := start(t, s, nil)
	res := run(t, sess, "import threading\ne = threading.Event()\nn = 0\nfor _ in range(100):\n    threading.Thread(target=e.wait, daemon=True).start(); n += 1")
	require.Equal(t, "RuntimeError", res.Exception)
	require.Equal(t, "15\n", run(t, sess, "e.set(); n").Output)
}

func TestANonDaemonThreadHoldsNothingUp(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	res := run(t, sess, "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()")
	require.Equal(t, trajectory.CellOK, res.Status)
	require.NoError(t, sess.Close())
}

func TestLateOutputOfAnEarlierCellsThreadIsDropped(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	run(t, sess, "import threading, time, os\ngo = threading.Event()\nsaid = threading.Event()\n"+
		"def child(): print('late from a child'); said.set()\n"+
		"def late():\n    go.wait(); print('late from 1'); threading.Thread(target=child).start()\nthreading.Thread(target=late).start()")
	res := run(t, sess, "go.set(); said.wait(); print('t2')\nt = threading.Thread(target=print, args=('own thread',)); t.start(); t.join()")
	require.Equal(t, "t2\nown thread\n", res.Output, res.Traceback)
}

func TestOutputBetweenCellsIsTakenAndDropped(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	run(t, sess, "import threading, os\nwritten = 0\ndef late():\n    global written\n    go.wait(); written = os.write(1, b'x' * 300_000)\n"+
		"go = threading.Event(); t = threading.Thread(target=late); t.start()\nthreading.Timer(0.05, go.set).start()")
	// More than a pipe holds: the thread ends only if the bytes are taken while no cell runs.
	pipe := sess.(*session).pipe
	patience.Until(t, "all bytes are dropped", func() bool {
		pipe.mu.Lock()
		defer pipe.mu.Unlock()
		return pipe.dropped == 300_000
	})
	require.Equal(t, "300000\n", run(t, sess, "t.join(); written").Output)
}

func TestClaimsCannotBeMadeAfterTheirCell(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	g := &graph{}
	runWith(t, sess, "import threading\ngo = threading.Event(); errors = []\ndef late():\n    go.wait()\n    try: bind('{x}', x=1)\n    except Exception as e: errors.append(type(e).__name__)\nt = threading.Thread(target=late); t.start()", g)
	res := runWith(t, sess, "go.set(); t.join(); errors", g)
	require.Equal(t, "['RuntimeError']\n", res.Output)
	require.Empty(t, g.binds)
}

func TestSessionsDieWithTheirSupervisor(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), supervisorEnv+"=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var pid int
	_, err = fmt.Fscan(out, &pid)
	require.NoError(t, err)
	require.True(t, exists(pid))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	patience.Until(t, "the session is gone", func() bool { return !exists(pid) })
}

func TestAKillThatIsNotOursIsTheKernelsForMemory(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	g := &graph{onReport: func(evidence.Report) {
		_ = syscall.Kill(sess.(*session).proc.pid, syscall.SIGKILL)
	}}
	res := runWith(t, sess, "print('before')\nwhile True: pass", g)
	require.Equal(t, trajectory.CellMemory, res.Status)
	require.True(t, res.NamespaceLost)
	require.Equal(t, "before\n", res.Output)
}

func TestAnEndThatIsQueuedWhenTheDeadlineKillsIsATimeout(t *testing.T) {
	t.Parallel()
	sess := timed(t, func(l *Limits) { l.CellWall, l.Grace = 3*time.Second, 0 })
	// The first statement's report is held up until the session is dead; its end waits in the socket by then.
	g := &graph{onReport: func(evidence.Report) { <-sess.(*session).proc.exited }}
	res := runWith(t, sess, "x = 1", g)
	require.Equal(t, trajectory.CellTimeout, res.Status)
	require.True(t, res.NamespaceLost)
	require.Equal(t, 1, res.Completed)
	require.Len(t, g.reports, 1)
	_, err := sess.Run(t.Context(), "x", g)
	require.ErrorIs(t, err, ErrSessionLost)
}

func TestCancellationKillsTheCellAndReturnsTheContextsError(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	ctx, cancel := context.WithCancel(t.Context())
	g := &graph{}
	g.onReport = func(evidence.Report) { cancel() }
	_, err := sess.Run(ctx, "x = 1\nwhile True: pass", g)
	require.ErrorIs(t, err, context.Canceled)
	_, err = sess.Run(t.Context(), "1", g)
	require.ErrorIs(t, err, ErrSessionLost)
}
