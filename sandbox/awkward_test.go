package sandbox

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/trajectory"
)

func TestAnAlarmDoesNotOutliveItsCell(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	res := run(t, sess, "import signal, time\ndef ring(*a): raise TimeoutError('ring')\nsignal.signal(signal.SIGALRM, ring)\nsignal.setitimer(signal.ITIMER_REAL, 0.02)\ntime.sleep(5)")
	require.Equal(t, "TimeoutError", res.Exception)
	run(t, sess, "signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)")
	require.Equal(t, trajectory.CellOK, run(t, sess, "time.sleep(0.1)").Status)
	// A handler that runs between cells ends nothing either.
	run(t, sess, "import threading\nthreading.Timer(0.02, signal.raise_signal, (signal.SIGALRM,)).start()")
	res = run(t, sess, "x = 1")
	require.False(t, res.NamespaceLost, res.Traceback)
}

// Handlers that raise come at any moment: in a statement that is an exception of the cell, in the session's own code it must not be.
func TestHandlersThatRaiseAgainAndAgainDoNotEndTheSession(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	run(t, sess, "import signal, threading\ndef ring(*a): raise TimeoutError('ring')\nsignal.signal(signal.SIGALRM, ring)\nover = threading.Event()\n"+
		"def storm():\n    while not over.wait(0.001): signal.raise_signal(signal.SIGALRM)\nthreading.Thread(target=storm, daemon=True).start()")
	for range 30 {
		res := run(t, sess, "a = 1\nb = bind('{x}', x=a)\nc = 3")
		require.False(t, res.NamespaceLost, res.Traceback)
		// ValueError is bind's word for a value that raised while it was rendered.
		require.Contains(t, []string{"", "TimeoutError", "ValueError"}, res.Exception)
	}
	for stopped := false; !stopped; { // the cell that stops it may be interrupted too
		stopped = run(t, sess, "over.set()").Status == trajectory.CellOK
	}
	res := run(t, sess, "import time\nsignal.setitimer(signal.ITIMER_REAL, 0.02)\ntime.sleep(60)")
	require.Equal(t, "TimeoutError", res.Exception, "in a statement it still rings")
}

func TestFinalizersMayPrintAndTryToClaim(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	res := run(t, sess, "class D:\n    def __del__(self):\n        print('gone')\n        bind('{x}', x=1)\na = D(); a.me = a\ndel a\nimport gc; gc.collect()\nfor i in range(2000): l = D(); l.me = l\nNone")
	require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
	require.Contains(t, res.Output, "gone")
}

func TestAStatementThatChangesTooManyNamesFails(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	g := &graph{}
	res := runWith(t, sess, "x = 1\nglobals().update({f'v{i}': i for i in range(10_000)})", g)
	require.Equal(t, trajectory.CellException, res.Status)
	require.Contains(t, res.Traceback, "a statement may change up to 4000 names")
	require.Len(t, g.reports, 1)
	require.LessOrEqual(t, len(res.Environment), 300)
	res = run(t, sess, strings.Repeat("n", 500)+" = 1")
	require.Equal(t, trajectory.CellException, res.Status)
	require.Equal(t, "2\n", run(t, sess, "x + 1").Output)
}

func TestHugeCellsAreErrorsAndNotTheEnd(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	res := run(t, sess, strings.Repeat("x\n", 60_000))
	require.Equal(t, trajectory.CellSyntaxError, res.Status)
	require.Contains(t, res.Traceback, "up to 50000 statements")
	res = run(t, sess, "x = "+strings.Repeat("(", 5000)+strings.Repeat(")", 5000))
	require.Equal(t, trajectory.CellSyntaxError, res.Status)
	require.Equal(t, "1\n", run(t, sess, "1").Output)
}

func TestAMemoryBombOfSmallObjectsLeavesRoomToReport(t *testing.T) {
	t.Parallel()
	s := own(t, func(c *Config) { c.Limits.MemoryBytes = 256 << 20 })
	sess := start(t, s, nil)
	res := run(t, sess, "l = []\nwhile True: l.append((1.5 * len(l),))")
	require.Equal(t, "MemoryError", res.Exception)
	require.Equal(t, trajectory.CellException, res.Status)
	require.Equal(t, trajectory.CellOK, run(t, sess, "del l\nx = 1").Status)
}

func TestStrangeObjectsInTheNamespaceAreListed(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), nil)
	res := run(t, sess, "class M(type):\n    def __getattribute__(c, n): raise RuntimeError(n)\nclass C(metaclass=M): pass\n"+
		"class R:\n    def __repr__(self): raise KeyError\n    def __len__(self): return -1\n    shape = property(lambda s: 1 / 0)\nr = R(); c = C.__call__ if 0 else None\n"+
		"s = '\\ud800'; globals()['not a name'] = 1; globals()[5] = 2\nimport os as _os")
	require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
	var names []string
	for _, v := range res.Environment {
		names = append(names, v.Name)
	}
	require.Equal(t, []string{"C", "M", "R", "_os", "c", "not a name", "r", "s"}, names)
}

func TestADirectoryChangeDoesNotHideWhichFileIsRead(t *testing.T) {
	t.Parallel()
	sess := start(t, box(t), map[string]string{"a.csv": "x\n"})
	for _, code := range []string{
		"import os; os.makedirs('d', exist_ok=True); os.chdir('d'); open('../a.csv').read()",
		"os.chdir('/'); import pathlib; pathlib.Path('data/a.csv').read_text()",
		"os.chdir('/scratch'); os.symlink('a.csv', 'link'); open(b'link', 'rb').read()",
		"os.close(os.open('a.csv', os.O_RDONLY))",
	} {
		g := &graph{}
		res := runWith(t, sess, code, g)
		require.Equal(t, trajectory.CellOK, res.Status, res.Traceback)
		require.Equal(t, []string{"a.csv"}, g.reports[len(g.reports)-1].Opened, code)
	}
}
