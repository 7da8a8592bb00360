package sandbox

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/trajectory"
)

func TestACellPastItsTimeIsInterruptedAndItsVariablesLive(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Limits)
		code   string
	}{
		"wall": {func(l *Limits) { l.CellWall = 2 * time.Second }, "time.sleep(60)"},
		"CPU":  {func(l *Limits) { l.CellCPU = time.Second }, "while True: n += 1"},
		"in a regular expression": {
			func(l *Limits) { l.CellWall = 2 * time.Second },
			"re.match('(a*)*b', 'a' * 60)",
		},
		"in an await": {func(l *Limits) { l.CellWall = 2 * time.Second }, "await asyncio.sleep(60)"},
		"in a lock":   {func(l *Limits) { l.CellWall = 2 * time.Second }, "threading.Event().wait()"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sess := start(t, box(t), nil)
			require.Equal(t, trajectory.CellOK, run(t, sess, "import time, re, asyncio, threading").Status)
			limits := &sess.(*session).limits
			limits.Grace = time.Minute
			tc.change(limits)
			g := &graph{}
			res := runWith(t, sess, "n = 5\nm = 6\nprint('before')\n"+tc.code+"\nprint('after')", g)
			require.Equal(t, trajectory.CellTimeout, res.Status)
			require.False(t, res.NamespaceLost)
			require.Equal(t, "CellTimeout", res.Exception)
			require.Contains(t, res.Traceback, "CellTimeout: the cell reached its time limit and was interrupted")
			require.Equal(t, "before\n", res.Output)
			require.Equal(t, 3, res.Completed)
			require.Len(t, g.reports, 3)
			*limits = box(t).cfg.Limits
			require.Equal(t, "True\n", run(t, sess, "n >= 5").Output)
		})
	}
}

func TestACellThatCatchesItsInterruptionIsStillATimeout(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	run(t, sess, "import time")
	soft(&sess.(*session).limits)
	res := run(t, sess, "try: time.sleep(60)\nexcept BaseException: print('caught')")
	require.Equal(t, trajectory.CellTimeout, res.Status)
	require.Equal(t, "caught\n", res.Output)
	require.False(t, res.NamespaceLost)
	require.Contains(t, res.Traceback, "the cell ran longer than its limit of 300ms")
	// except Exception does not catch it at all.
	res = run(t, sess, "try: time.sleep(60)\nexcept Exception: print('caught')")
	require.Equal(t, trajectory.CellTimeout, res.Status)
	require.Empty(t, res.Output)
	sess.(*session).limits = box(t).cfg.Limits
	require.Equal(t, "1\n", run(t, sess, "1").Output)
}

func TestEveryLimitHasItsOwnMessage(t *testing.T) {
	t.Parallel()
	s := own(t, func(c *Config) {
		l := &c.Limits
		l.MemoryBytes, l.OpenFiles, l.Processes, l.FileBytes, l.ScratchBytes, l.OutputBytes = 512<<20, 40, 16, 2<<20, 4<<20, 512
	})
	sess := start(t, s, nil)
	for name, tc := range map[string]struct{ code, exception, says string }{
		"memory":      {"x = bytearray(1 << 30)", "MemoryError", "limit: a session may use 512 MiB of memory"},
		"descriptors": {"held = []\nfor i in range(100): held.append(open('/dev/null'))", "OSError", "limit: a session may hold 40 files open"},
		"threads":     {"import threading\ne = threading.Event()\nfor i in range(100): threading.Thread(target=e.wait, daemon=True).start()", "RuntimeError", "limit: a session may have 16 threads"},
		"file size":   {"open('big', 'wb').write(bytes(3 << 20))", "OSError", "limit: a file may have 2 MiB"},
		"scratch":     {"for i in range(9): open(str(i), 'wb').write(bytes(1 << 20))", "OSError", "limit: the working directory and /tmp hold 4 MiB together"},
		"inodes":      {"for i in range(20000): open(f'/tmp/f{i}', 'w').close()", "OSError", "limit: the working directory and /tmp hold 4 MiB together"},
		"processes":   {"import os; os.fork()", "PermissionError", "this session can't start other programs or processes"},
	} {
		t.Run(name, func(t *testing.T) {
			sess := start(t, s, nil)
			res := run(t, sess, "kept = 1\n"+tc.code)
			require.Equal(t, tc.exception, res.Exception, res.Traceback)
			require.Contains(t, res.Traceback, tc.says)
			require.False(t, res.NamespaceLost)
			require.Equal(t, "1\n", run(t, sess, "held = x = None\nprint(kept)").Output)
		})
	}
	res := run(t, sess, "print('x' * 5000)")
	require.Contains(t, res.Output, "of 5001 bytes left out ...]")
	require.Less(t, len(res.Output), 700)
}

func TestWhatEndedASessionIsSaid(t *testing.T) {
	t.Parallel()
	for code, says := range map[string]string{
		"import os; os._exit(1)": "the interpreter ended in the middle of the cell",
		"import os; os.write(3, b'\\0\\0\\0\\1x')\nimport time; time.sleep(9)":             "the interpreter said something on its control channel that it never says",
		"import time\nwhile True:\n    try: time.sleep(9)\n    except BaseException: pass": "the cell ran longer than its limit of 500ms and did not end when interrupted",
		"sum(range(10 ** 12))": "the cell used more than its limit of 300ms of CPU time and did not end when interrupted",
	} {
		sess := start(t, box(t), nil)
		run(t, sess, "import os, time")
		l := &sess.(*session).limits
		switch {
		case strings.Contains(says, "500ms"):
			l.CellWall, l.Grace = 500*time.Millisecond, 100*time.Millisecond
		case strings.Contains(says, "300ms"):
			l.CellCPU, l.Grace = 300*time.Millisecond, 100*time.Millisecond
		}
		res := run(t, sess, code)
		require.True(t, res.NamespaceLost, code)
		require.Contains(t, res.Traceback, says, code)
		require.True(t, strings.HasSuffix(res.Traceback, "all variables are lost"), res.Traceback)
	}
}
