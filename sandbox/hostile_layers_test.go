package sandbox

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layer is one defence that tests can leave out.
type layer struct {
	name, about string
	// part, old and new change the runner's source, where the layer is a piece of the runner.
	part, old, new string
}

// layers are all of them. Those of the runner are replaced in its source: no switch for them stands in what ships.
var layers = []layer{
	{name: "seccomp", about: "the filter of system calls"},
	{name: "landlock", about: "the rules for paths, TCP and abstract sockets"},
	{name: "privileges", about: "the loss of every capability and of uid 0"},
	{name: "rlimits", about: "the limits of the process but its address space"},
	{name: "read-only", about: "the read-only flag of the mounts that come from the host"},
	{name: "scratch", about: "the size and number of files of scratch"},
	{name: "pid", about: "the pid namespace and its /proc"},
	{name: "net", about: "the network namespace"},
	{name: "namespaces", about: "all namespaces, the session's own root and its own user number"},
	{name: "sizes", about: "the limits of memory, files, threads and descriptors: four times as high"},
	{name: "output", about: "the limit of a cell's output: 64 MiB"},
	{name: "time", about: "the guard of a cell's time: the test ends the cell"},
	{name: "nonce", about: "a nonce for each cell"},
	{name: "frames", about: "the end of a session at its first bad frame"},
	{name: "audit", about: "the runner's refusals and taints by audit events"},
	{name: "hooks", about: "hooks, timers and limits are taken back when their cell ends"},
	{name: "threads", about: "threads, tasks and their children belong to the cell that made them"},

	{"handlers", "signal handlers run as the cell that set them", "watch", "            token = CELL.set(cell)", "            token = CELL.set(None)"},
	{"prints", "what belongs to another cell prints nothing", "output", "        if not self.mine():", "        if False:"},
	{"claims", "the cell that runs may make claims", "output", "return state.running and", "return False and"},
	{"divert", "descriptors 1 and 2 lead nowhere while a thread of an earlier cell lives", "output", "        if away == (self.descriptor != 1):", "        if True:"},
	{"streams", "every cell prints to the session's own streams", "runner", "        if self.streams is not None:", "        if False:"},
	{"descriptors", "output that can't be written is lost and no more", "output", "        except OSError:\n            # The cell closed the descriptor", "        except EOFError:\n            # The cell closed the descriptor"},
	{"bound", "the runner holds the functions that it calls", "channel", "data[_write(CONTROL, data):]", `data[__import__("os").write(CONTROL, data):]`},
	{"builtins", "the runner has builtins of its own", "runner", "__builtins__ = dict(vars(builtins))", "__builtins__ = builtins"},
	{"modules", "the runner looks nothing up in sys.modules", "runner", "        self.overdue, self.rung = False, None\n        self.channel.nonce,", "        self.overdue, self.rung = sys.modules['linecache'] is None, None\n        self.channel.nonce,"},
	{"imports", "the runner imports nothing between cells", "runner", "        self.overdue, self.rung = False, None\n        self.channel.nonce,", "        self.overdue, self.rung = __import__(('colorsys', 'cmd', 'sched', 'netrc', 'plistlib')[request['cell'] % 5]) is None, None\n        self.channel.nonce,"},
	{"exit", "what is registered for the exit is not run", "runner", "    raise SystemExit(code)", "    __import__('atexit')._run_exitfuncs(); raise SystemExit(code)"},
	{"exit-lives", "exit() ends the cell", "runner", "    raise SystemExit(code)", "    os._exit(0)"},
	{"primitives", "the primitives are compared after each statement", "runner", "        for name in self.names.rebound():", "        for name in ():"},
	{"originals", "builtins and modules are compared when a claim is made and at the end", "watch", "        fresh = [t for t in texts if t not in self.said][:20]", "        fresh = []"},
	{"handles", "a claim is known by its object, not by what it says", "primitives", "        return entry[1] if entry is not None and entry[0] is value else None", `        return getattr(value, "id", "c1") if isinstance(value, Claim) else None`},
	{"making", "a claim is made by a primitive only", "primitives", "        if key is not _making:", "        if False:"},
	{"pickles", "a claim has no form in bytes", "primitives", `        raise TypeError("a Claim can't be pickled")`, "        return str, (self.id,)"},
	{"templates", "a value's text is no template", "primitives", `"text": text})`, `"text": text.format(**values) if "{" in text else text})`},
	{"kinds", "a class of the session's own is not a library's", "describe", `    family = _family(value)`, `    if isinstance(value, float): return "number"
    family = _family(value)`},
	{"texts", "a number that JSON has not is a text", "primitives", `"repr": d.repr_of(value, kind, REPR_CHARS)`, `"repr": "0"`},
	{"names", "a statement may change so many names", "runner", "MAX_NAMES = 4000", "MAX_NAMES = 1 << 30"},
	{"digits", "the interpreter's limit of digits", "runner", "    session.start(start)", "    sys.set_int_max_str_digits(0); session.start(start)"},
	{"recursion", "the interpreter's limit of recursion", "runner", "    session.start(start)", "    sys.setrecursionlimit(1 << 30); session.start(start)"},
	{"one-dict", "one dict is the namespace", "runner", "value = eval(code, self.names.dict)", "value = eval(code, dict(self.names.dict), self.names.dict)"},
	{"objects", "the namespace lives: nothing is copied between cells", "runner", "        self.overdue, self.rung = False, None\n        self.channel.nonce,", "        self.overdue, self.rung = any(self.names.dict.pop(n) is self for n, v in list(self.names.dict.items()) if callable(v) or hasattr(v, 'send') or hasattr(v, '__next__')), None\n        self.channel.nonce,"},
	{"no-loop", "no event loop runs around a cell", "runner", "            value = eval(code, self.names.dict)", "            import asyncio\n            async def inside(): return eval(code, self.names.dict)\n            value = asyncio.new_event_loop().run_until_complete(inside())"},
	{"await", "await at the top of a cell", "runner", "flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | self.flags", "flags = self.flags"},
	{"plots", "show() keeps a plot as a file", "libraries", "        pyplot.show = show", "        pass"},
	{"input", "input() says that nobody answers", "runner", "        builtins.input = _input", "        pass"},
	{"stdin", "input does not come from the control channel", "runner", "        builtins.input = _input", "        sys.stdin = open(3, closefd=False)"},
	{"tracebacks", "tracebacks show lines of cells only", "trace", `if f.filename.startswith("<cell ")]`, "]"},
	{"syntax", "a syntax error is told", "runner", `"traceback": trace.exception_only(exc), "exception"`, `"traceback": "", "exception"`},
	{"joins", "no thread is waited for at the end of a cell", "runner", "        self.out.flush()\n        self.running = False", "        [t.join() for t in sys.modules['threading'].enumerate()[1:]]\n        self.out.flush()\n        self.running = False"},
	{"libraries", "multiprocessing is refused where it makes its locks", "libraries", "        module.SemLock = refuse", "        pass"},
	{"joblib", "joblib works in this process", "runner", "    session.start(start)", `    os.environ.pop("JOBLIB_MULTIPROCESSING"), os.environ.pop("LOKY_MAX_CPU_COUNT"); session.start(start)`},
}

// layerOf is the layer of that name.
func layerOf(t *testing.T, name string) layer {
	t.Helper()
	i := slices.IndexFunc(layers, func(l layer) bool { return l.name == name })
	require.GreaterOrEqual(t, i, 0, "no layer is called %q", name)
	return layers[i]
}

func TestTheLineThatALayerTakesAwayStandsOnceInTheRunner(t *testing.T) {
	t.Parallel()
	sources, err := runnerParts()
	require.NoError(t, err)
	for _, l := range layers {
		if l.part != "" {
			require.Equal(t, 1, strings.Count(sources[l.part], l.old), "layer %s: python/%s.py has not once: %s", l.name, l.part, l.old)
		}
	}
}

// mutate gives the runner's code without the layers of the runner among off; nil where none is.
func mutate(t *testing.T, off []string) []byte {
	t.Helper()
	sources, err := runnerParts()
	require.NoError(t, err)
	changed := false
	for _, name := range off {
		l := layerOf(t, name)
		if l.part == "" {
			continue
		}
		require.Equal(t, 1, strings.Count(sources[l.part], l.old), "layer %s: python/%s.py has not once: %s", l.name, l.part, l.old)
		sources[l.part], changed = strings.Replace(sources[l.part], l.old, l.new, 1), true
	}
	if !changed {
		return nil
	}
	i, err := inspectWith(t.Context(), python, sources)
	require.NoError(t, err)
	return i.Runner
}
