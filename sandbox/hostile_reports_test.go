package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/verigraph/verigraph/internal/patience"
	"github.com/verigraph/verigraph/trajectory"
)

// reports are situations that broke somebody's sandbox in public, each with what has to happen.
var reports = []hostile{
	{rule: "one dict: functions call themselves", off: "one-dict", code: "def depth(n): return 0 if n == 0 else 1 + depth(n - 1)\nprint(depth(3))\n# then\nk = 3; print([k * i for i in range(3)])\ndef g(): return k\n# then\nk = 5\ng(), [[k for _ in range(1)] for _ in range(1)]", says: `^\(5, \[\[5\]\]\)`},
	{rule: "a forged reply is never a result", twin: "import sys; sys.__stdout__.write('{\"status\":\"ok\"}'); sys.__stdout__.flush()", code: `import sys; sys.__stdout__.write('{"status":"ok"}'); sys.__stdout__.flush(); import os; os._exit(0)`, status: trajectory.CellDied, says: `all variables are lost`, own: true},
	{rule: "no grandchild holds the pipe", off: "audit seccomp landlock", probe: &probe{code: "try:\n    import subprocess; subprocess.run('sleep 0.1 &', shell=True)\n    print('ran')\nexcept PermissionError: print('refused')", says: `^refused`, ok: true}, code: "import subprocess; subprocess.run('sleep 60 & wait', shell=True)", status: trajectory.CellException, says: noPrograms},
	{rule: "no child in a session of its own", off: "audit seccomp landlock", probe: &probe{code: "try:\n    import subprocess; subprocess.run(['setsid', 'true'])\n    print('ran')\nexcept PermissionError: print('refused')", says: `^refused`, ok: true}, code: "import subprocess; subprocess.Popen(['setsid', 'sleep', '60'])", status: trajectory.CellException, says: noPrograms},
	{rule: "a broad except does not outlive its cell's time", off: "time", code: "import time\nwhile True:\n    try: time.sleep(1)\n    except BaseException: pass", status: trajectory.CellTimeout, says: "did not end when interrupted; the session ended and all variables are lost", times: hard, own: true},
	{rule: "late prints are nobody's", off: "prints", code: "import threading, time\ndone = threading.Event()\ndef late(): time.sleep(0.05); print('late from 1'); done.set()\nthreading.Thread(target=late).start()\n# then\ndone.wait(); print('t2')", says: `^t2\n$`},
	{rule: "asyncio.run works", off: "no-loop", code: "import asyncio\nasync def f(): return 1\nprint(asyncio.run(f()))", says: `^1\n$`},
	{rule: "await at the top works", off: "await", code: "import asyncio\nawait asyncio.sleep(0, 5)", says: `^5\n$`},
	{rule: "plots never block", off: "plots", code: "import os; os.environ['DISPLAY'] = ':0'\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show(); plt.plot([3]); plt.show(block=True)", says: `^\[plot kept as plots/cell\d+-1\.png\]\n\[plot kept as plots/cell\d+-2\.png\]\n$`},
	{rule: "input has nobody to ask", off: "input", code: "name = input('who? ')", status: trajectory.CellException, says: "EOFError: input\\(\\) has no one to ask"},
	{rule: "input eats no request", off: "stdin", code: "import sys\nsys.stdin.read(), sys.stdin.readline(), list(sys.stdin)\n# then\n1 + 1", says: `^2\n$`},
	{rule: "a character in two pieces is one character", twin: "import os, sys\nb = 'né 你好 🙂'.encode()\nfor cut in range(len(b) + 1):\n    os.write(1, b[:cut]); os.write(1, b'.'); os.write(1, b[cut:] + b'\\n')", code: "import os, sys\nb = 'né 你好 🙂'.encode()\nfor cut in range(len(b) + 1):\n    os.write(1, b[:cut]); os.write(1, b[cut:] + b'\\n')", says: `^(né 你好 🙂\n){16}$`},
	{rule: "the head and the tail of long output are kept, with the total", off: "output", probe: &probe{code: "for i in range(10 ** 4): print(i)", says: `(?s)^0\n1\n.*\[\.\.\. \d+ of 48890 bytes left out \.\.\.\]\n.*9999\n$`}, code: "for i in range(10 ** 6): print(i)", says: `(?s)^0\n1\n.*\[\.\.\. \d+ of 6888890 bytes left out \.\.\.\]\n.*999999\n$`},
	{rule: "a long line is a line", off: "output", code: "print('x' * 70000)", says: `(?s)^x+\n\[\.\.\. \d+ of 70001 bytes left out \.\.\.\]\nx+\n$`},
	{rule: "a chatty cell is not slow", off: "output", code: "import sys; sys.stderr.write('w' * 200_000); None", says: `of 200000 bytes left out`},
	{rule: "forks that only sleep are not there", off: "audit seccomp", probe: &probe{code: "import os\ntry:\n    pid = os.fork()\n    if pid == 0: os._exit(0)\n    print('ran')\nexcept PermissionError: print('refused')", says: `^refused`, ok: true}, code: "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(60)", status: trajectory.CellException, says: noPrograms},
	{rule: "no zombies", off: "audit seccomp landlock", code: "import subprocess\nfor _ in range(200):\n    try: subprocess.Popen('sleep 0.1 &', shell=True)\n    except PermissionError: pass\nimport os\nsum(open(f'/proc/{p}/stat').read().rsplit(')', 1)[1].split()[0] == 'Z' for p in listed('/proc') if p.isdigit())", says: `^0\n$`},
	{rule: "two sessions write the same path", off: "namespaces", code: "for i in range(100):\n    open('/tmp/mine', 'w').write(str(i)); open('mine', 'w').write(str(i))\n    assert open('/tmp/mine').read() == open('mine').read() == str(i)\nos.remove('/tmp/mine') if 'os' in dir() else __import__('os').remove('/tmp/mine'); __import__('os').remove('mine')", says: `^$`},
	{rule: "every kind of object is there in the next cell", off: "objects", code: "import math\nseen = {1, 2}; fz = frozenset([3]); f = lambda x: x + 1; it = iter([1, 2]); next(it); fh = open('o.txt', 'w+')\nclass C: x = 5\n# then\nfh.write('hi'); fh.seek(0)\nprint(seen, fz, f(1), next(it), fh.read(), C.x, math.pi > 3)", says: `^\{1, 2\} frozenset\(\{3\}\) 2 2 hi 5 True`},
	{rule: "tracebacks show the cell's lines", off: "tracebacks", code: "x = 1\ny = 2\nraise KeyError('k')", status: trajectory.CellException, says: `^Traceback \(most recent call last\):\n  File "<cell \d+>", line 3, in <module>\n    raise KeyError\('k'\)\nKeyError: 'k'$`},
	{rule: "a syntax error reaches the model", off: "syntax", code: "x = (\n" + "# " + "padding\n", status: trajectory.CellSyntaxError, says: `SyntaxError: '\(' was never closed`},
	{rule: "a thread that is no daemon holds nothing up", off: "joins", code: "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()", says: `^$`, own: true},
	{rule: "the status is not in the text", twin: "print('Error: 5 rows dropped'); raise ValueError", code: "print('Error: 5 rows dropped'); print('Traceback (most recent call last):')", says: `^Error`},
	{rule: "an error without text is an error", twin: "print('SystemError')", code: "raise SystemError", status: trajectory.CellException, says: `^Traceback(?s).*SystemError$`},
	{rule: "NaN is no answer and loses no turn", twin: "submit_answer(bind('{x}', x=1.5))", code: "submit_answer({'mean': float('nan'), 'ratio': float('inf')})", status: trajectory.CellRefused, says: "must be claims that bind or infer returned, not dict"},
	{rule: "exit ends the cell and not the session", off: "exit-lives", code: "kept = 1\nexit()\n# then\nkept", says: `^1\n$`},
	{rule: "a pool of processes is refused with a clear message", off: "libraries", code: "import multiprocessing\nmultiprocessing.Pool(2)", status: trajectory.CellException, says: "PermissionError: this session can't start other programs or processes; do the work in Python"},
	{rule: "an executor of processes is refused with a clear message", off: "libraries", code: "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(2) as p: p.submit(int).result()", status: trajectory.CellException, says: noPrograms},
	{rule: "a queue of processes is refused with a clear message", off: "libraries", code: "import multiprocessing\nmultiprocessing.Queue()", status: trajectory.CellException, says: noPrograms},
	{rule: "a shell is refused with a clear message", off: "audit seccomp landlock", probe: &probe{code: "try:\n    import os; os.popen('ls').read()\n    print('ran')\nexcept PermissionError: print('refused')", says: `^refused`, ok: true}, code: "import os; os.popen('ls').read()", status: trajectory.CellException, says: noPrograms},
	{rule: "joblib works in one process", off: "joblib", code: "from joblib import Parallel, delayed\nParallel(n_jobs=4)(delayed(abs)(-i) for i in range(3))", says: `^\[0, 1, 2\]`},
}

func TestSessionsStillAnswerAfterManyCells(t *testing.T) {
	t.Parallel()
	s := box(t)
	done := make(chan string, 4)
	for range cap(done) {
		sess := start(t, s, nil)
		go func() {
			for range 50 {
				if res, err := sess.Run(t.Context(), "sum(range(100))", &graph{}); err != nil || res.Output != "4950\n" {
					done <- res.Output + res.Traceback
					return
				}
			}
			done <- ""
		}()
	}
	for range cap(done) {
		require.Empty(t, patience.Receive(t, done, "its end"))
	}
	require.Equal(t, "1\n", run(t, start(t, s, nil), "print(1)").Output)
}

func TestAKillLeavesNothing(t *testing.T) {
	t.Parallel()
	sess := timed(t, hard)
	lost(t, sess, "import threading, time\nfor _ in range(30): threading.Thread(target=time.sleep, args=(600,)).start()\nsum(range(10 ** 13))", trajectory.CellTimeout)
	require.False(t, exists(sess.(*session).proc.pid))
}
