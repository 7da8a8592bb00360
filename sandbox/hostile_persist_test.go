package sandbox

import (
	"testing"

	"github.com/verigraph/verigraph/trajectory"
)

// claimsAs defines act, which makes a claim and notes what came of it.
const claimsAs = "import threading, signal, sys, gc, asyncio, os, time, atexit\nseen = []\ndef act(*a):\n    try: bind('{x}', x=1); seen.append('claimed')\n    except RuntimeError as e: seen.append('refused')\n"

// persistence acts in a later cell than its own.
var persistence = []hostile{
	{rule: "what is registered for the exit never runs", off: "exit", code: claimsAs + "atexit.register(lambda: os.write(1, b'late')); atexit.register(act)\nexit()\n# then\natexit._ncallbacks() > 0, seen", says: `^\(True, \[\]\)\n$`, host: noRequests},
	{rule: "a handler of an earlier cell makes no claim", off: "handlers", code: claimsAs + "signal.signal(signal.SIGUSR1, act)\nNone\n# then\nsignal.raise_signal(signal.SIGUSR1)\nseen", says: `^\['refused'\]`, host: noRequests},
	{rule: "a handler of an earlier cell prints nothing", off: "handlers", code: claimsAs + "signal.signal(signal.SIGUSR2, lambda *a: print('late'))\nNone\n# then\nsignal.raise_signal(signal.SIGUSR2)\n'mine'", says: `^'mine'\n$`},
	{rule: "a handler of this cell makes claims", off: "claims", code: claimsAs + "signal.signal(signal.SIGUSR1, act)\nsignal.raise_signal(signal.SIGUSR1)\nseen, signal.getsignal(signal.SIGUSR1) is act", says: `^\(\['claimed'\], True\)`},
	{rule: "an alarm does not reach the next cell", off: "hooks", code: claimsAs + "signal.signal(signal.SIGPROF, act); signal.setitimer(signal.ITIMER_PROF, 0.05)\nNone\n# then\nt = time.process_time()\nwhile time.process_time() - t < 0.15: pass\nseen", says: `^\[\]`, host: noRequests},
	{rule: "a thread of an earlier cell makes no claim", off: "threads", code: claimsAs + "go = threading.Event()\nt = threading.Thread(target=lambda: (go.wait(), act())); t.start()\n# then\ngo.set(); t.join(); seen", says: `^\['refused'\]`, host: noRequests},
	{rule: "a timer of an earlier cell makes no claim", off: "threads", code: claimsAs + "go = threading.Event(); t = threading.Timer(0.05, lambda: (go.wait(), act())); t.start()\n# then\ngo.set(); t.join(); seen", says: `^\['refused'\]`, host: noRequests},
	{rule: "a pool of an earlier cell that works for this one makes no claim", off: "threads", code: claimsAs + "from concurrent.futures import ThreadPoolExecutor\np = ThreadPoolExecutor(1); p.submit(int).result()\nNone\n# then\np.submit(act).result(); seen", says: `^\['refused'\]`, host: noRequests},
	{rule: "a task of an earlier cell makes no claim", off: "threads", code: claimsAs + "async def late():\n    await asyncio.sleep(0); await asyncio.sleep(0); act()\ntask = asyncio.ensure_future(late()) if 0 else None\nasync def begin():\n    global task; task = asyncio.get_running_loop().create_task(late())\nawait begin()\n# then\nseen.clear()\nawait task\nseen", says: `^\['refused'\]`, host: noRequests},
	{rule: "a callback of an earlier cell makes no claim", off: "threads", code: claimsAs + "async def begin(): asyncio.get_running_loop().call_later(0.01, act)\nawait begin()\n# then\nawait asyncio.sleep(0.1)\nseen", says: `^\['refused'\]`, host: noRequests},
	{rule: "a trace function ends with its cell", off: "hooks", code: claimsAs + "sys.settrace(lambda *a: act())\nseen.clear()\n# then\ndef f(): pass\nf(); sys.gettrace()", says: `^$`, taint: "sys.settrace", own: true},
	{rule: "a profile function ends with its cell", off: "hooks", code: claimsAs + "sys.setprofile(lambda *a: None)\n# then\nsys.getprofile()", says: `^$`, taint: "sys.setprofile", own: true},
	{rule: "trace functions of threads end with their cell", off: "hooks", code: claimsAs + "threading.settrace(lambda *a: act())\nNone\n# then\nt = threading.Thread(target=int); t.start(); t.join(); seen", says: `^\[\]`, host: noRequests},
	{rule: "a hook of the collector ends with its cell", off: "hooks", code: claimsAs + "gc.callbacks.append(lambda *a: act())\nNone\n# then\ngc.collect(); seen", says: `^\[\]`, host: noRequests},
	{rule: "a hook for lost exceptions ends with its cell", off: "hooks", code: claimsAs + "sys.unraisablehook = act\nclass D:\n    def __del__(self): raise ValueError\n# then\nd = D(); del d; seen", says: `\[\]\n$`, host: noRequests},
	{rule: "what a thread prints late is dropped and counted", off: "prints", code: claimsAs + "go = threading.Event()\nt = threading.Thread(target=lambda: (go.wait(), print('late' * 10))); t.start()\n# then\ngo.set(); t.join(); print('mine')", says: `^mine\n$`, host: func(t *testing.T, _ *field, sess Session, _ *graph) string {
		run(t, sess, "go.clear(); t = threading.Thread(target=lambda: (go.wait(), print('late' * 10))); t.start()")
		late := run(t, sess, "go.set(); t.join()").LateBytes
		return differ([]int64{41, 0}, []int64{late, run(t, sess, "1").LateBytes})
	}},
	{rule: "what a thread writes late to descriptor 1 is not shown as another cell's", off: "divert", code: claimsAs + "go = threading.Event()\nt = threading.Thread(target=lambda: (go.wait(), os.write(1, b'late from 1'), os.write(2, b'late from 1'))); t.start()\n# then\ngo.set(); t.join(); print('mine')\n# then\nos.write(1, b'shown again\\n'); None", says: `^shown again\n$`, own: true, host: func(t *testing.T, _ *field, sess Session, _ *graph) string {
		run(t, sess, "go.clear(); t = threading.Thread(target=lambda: (go.wait(), os.write(1, b'late from 1'), os.write(2, b'late from 1'))); t.start()")
		return differ("mine\n", run(t, sess, "go.set(); t.join(); print('mine')").Output)
	}},
	{rule: "a replaced output ends with its cell", off: "streams", code: "import sys, io; sys.stdout = sys.stderr = io.StringIO()\n# then\nprint('mine')", says: `^mine\n$`},
	{rule: "replaced functions of the standard library do not reach the runner", off: "bound", code: "import json, os, time, traceback, linecache, ast\nfor m, names in ((json, ['dumps', 'loads']), (os, ['read', 'write', 'dup2', 'fspath']), (time, ['monotonic']), (traceback, ['extract_tb', 'format_exception_only']), (linecache, ['getline']), (ast, ['parse'])):\n    for n in names: setattr(m, n, None)\n# then\nprint(bind('{x}', x=1).id)\n1 / 0", status: trajectory.CellException, says: `c1\n(?s).*ZeroDivisionError`, own: true},
	{rule: "replaced builtins do not reach the runner", off: "builtins", code: "import builtins\nkeep = builtins.len, builtins.repr\nfor n in ('len', 'isinstance', 'type', 'sorted', 'str', 'getattr', 'min', 'dict', 'compile', 'eval', 'any', 'print'): setattr(builtins, n, None)\n# then\nbind('{x}', x=1)\n# then\n2 + 3", says: `5`, taint: "rebinds builtins.len", own: true},
	{rule: "a session without modules goes on", off: "modules", code: "import sys; sys.modules.clear()\n# then\n2 + 3", says: `^5\n$`, own: true},
	{rule: "a patch of the runner is the session's own lie and taints", off: "audit", code: "import gc; gc.get_objects()\ns = bind.__closure__[0].cell_contents.ask.__self__\ns.environment = lambda: [{'name': 'proof', 'type': 'int', 'value': '1'}]\n# then\n1", says: `^1\n$`, taint: "gc", own: true},
	{rule: "a patched runner cannot take back what it reported", off: "frames", code: "import gc; gc.get_objects()\ns = bind.__closure__[0].cell_contents.ask.__self__\ns.statement -= 1", status: trajectory.CellDied, says: "control channel", taint: "gc", own: true},
	{rule: "collectors, limits and hooks of imports stay the session's own", off: "imports", code: "import gc, sys\ngc.disable(); sys.meta_path.clear(); sys.path_hooks.clear()\n# then\n2 + 3", says: `^5\n$`, own: true},
	{rule: "nothing is left for the next session in its place", off: "namespaces landlock", code: "for path in ('/tmp/left', 'left'):\n    try: open(path, 'w').write('x')\n    except OSError: pass\nimport os; os._exit(0)", status: trajectory.CellDied, own: true, host: func(t *testing.T, f *field, _ Session, _ *graph) string {
		next := f.session(t, f.box)
		return differ("False False\n", run(t, next, "import os\nprint(os.path.exists('/tmp/left'), os.path.exists('/scratch/left'))").Output)
	}},
}

// disguise makes something look like what it is not.
var disguise = []hostile{
	{rule: "a replaced bind taints", off: "primitives", code: "bind = lambda *a, **k: None\nbind()", says: `^$`, taint: "rebinds bind", own: true},
	{rule: "a deleted submit_answer taints", off: "primitives", code: "del submit_answer", says: `^$`, taint: "rebinds submit_answer", own: true},
	{rule: "a bind that is replaced by a loop taints", off: "primitives", code: "for bind in range(2): pass", says: `^$`, taint: "rebinds bind", own: true},
	{rule: "a bind that is replaced through globals taints", off: "primitives", code: "vars()['infer'] = print", says: `^$`, taint: "rebinds infer", own: true},
	{rule: "a bind that is replaced in a failed statement taints", off: "primitives", code: "if True:\n    bind = 1\n    1 / 0", status: trajectory.CellException, says: "ZeroDivision", taint: "rebinds bind", own: true},
	{rule: "a patched open taints", off: "originals", code: "import builtins\nbuiltins.open = lambda *a: None", says: `^$`, taint: "rebinds builtins.open", own: true},
	{rule: "a builtin that is put back within a statement is found when a claim is made", off: "originals", code: "import builtins\nkeep = builtins.sum\ntry:\n    builtins.sum = lambda *a: 42\n    bind('{x}', x=sum([1]))\nfinally: builtins.sum = keep", says: `^$`, taint: "rebinds builtins.sum", own: true},
	{rule: "other builtins under the namespace taint", off: "primitives", code: "__builtins__ = {'sum': lambda *a: 42, 'print': print}", says: `^$`, taint: "rebinds __builtins__", own: true},
	{rule: "a replaced module taints when a claim is made", off: "originals", code: "import sys, types, json\n# then\nsys.modules['json'] = types.ModuleType('json')\nbind('{x}', x=1); None", says: `^$`, taint: "replaces module json", own: true},
	{rule: "a replaced __main__ taints when a claim is made", off: "originals", code: "import sys, types\nsys.modules['__main__'] = types.ModuleType('__main__')\nbind('{x}', x=1); None", says: `^$`, taint: "replaces module __main__", own: true},
	{rule: "a library of one's own making taints", off: "audit", code: "import sys\nopen('/scratch/statistics_plus.py', 'w').write('def mean(x): return 42'); sys.path.insert(0, '/scratch')\nimport statistics_plus; statistics_plus.mean([1])", says: `^42\n$`, taint: "module from the working directory", own: true},
	{rule: "a forged claim is refused", off: "handles", code: "submit_answer(object.__new__(Claim))", status: trajectory.CellRefused, says: "must be claims", host: noRequests},
	{rule: "a claim of one's own class is refused", off: "handles", code: "class C(Claim):\n    id = 'c1'\nsubmit_answer(object.__new__(C))", status: trajectory.CellRefused, says: "must be claims", host: noRequests},
	{rule: "a claim is not made by hand", off: "making", code: "Claim('c1', 'text')", status: trajectory.CellException, says: "TypeError: a Claim is made by bind"},
	{rule: "a claim is not made from bytes", off: "pickles", code: "import pickle; pickle.dumps(bind('{x}', x=1))", status: trajectory.CellException, says: "can't be pickled"},
	{rule: "an edited claim stays the claim that it was", off: "handles", code: "a = bind('{x}', x=1); b = bind('{x}', x=2)\nobject.__setattr__(a, 'id', b.id); submit_answer(a)", says: `^$`, host: func(_ *testing.T, _ *field, _ Session, g *graph) string {
		return differ([]string{"c1"}, g.submits[0].Claims)
	}},
	{rule: "a text that looks like a template is a text", off: "templates", code: "bind('{a}', a='{b}', b=1); None", says: `^$`, host: func(_ *testing.T, _ *field, _ Session, g *graph) string {
		return differ("{b}", g.binds[0].Fields[0].Text)
	}},
	{rule: "a number in disguise has the type of its class", off: "kinds", code: "class float64(float):\n    __module__ = 'numpy'\nbind('{x}', x=float64(3)); None", says: `^$`, host: func(_ *testing.T, _ *field, _ Session, g *graph) string {
		return differ("other", g.binds[0].Values[0].Kind)
	}},
	{rule: "a printed error is no error", twin: "raise MemoryError", code: "print('Traceback (most recent call last):\\nMemoryError')", says: `^Traceback`},
	{rule: "reaching for frames taints", off: "audit", code: "import sys; sys._getframe(); None", says: `^$`, taint: "frames", own: true},
	{rule: "native calls taint", off: "audit", code: "import ctypes; ctypes.CDLL(None); None", says: `^$`, taint: "ctypes", own: true},
	{rule: "descriptors by path taint", off: "audit", code: "try: open('/proc/self/fd/2', 'w')\nexcept OSError: print('refused')", says: `^(refused\n)?$`, taint: "raw descriptors", own: true},
}
