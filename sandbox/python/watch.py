"""What outlives a cell and must not act in a later one, and what a cell must not replace.

Invariant: a handler, a task or a thread belongs to the cell that made it. Hooks that the interpreter
keeps for everybody are taken back when the cell ends.
"""
import _signal
import builtins
import contextvars
import gc
import sys
import threading
from operator import is_not

# The cell whose handler or task runs; threads start with an empty context.
CELL = contextvars.ContextVar("verigraph_cell", default=None)
TIMERS = tuple(getattr(_signal, name) for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF"))
TOOLS = range(6)
# Fewer frames than the runner itself needs.
LEAST_RECURSION = 500


class Handlers:
    """Signal handlers run as the cell that set them; current gives that cell. What one raises ends what the main
    thread does: raised is told, and says whether that is the cell's or the session's own."""

    def __init__(self, current, raised):
        self.current, self.raised = current, raised
        self.set, self.get = _signal.signal, _signal.getsignal

    def install(self):
        # The public functions of the signal module go through these.
        _signal.signal, _signal.getsignal = self.signal, self.getsignal

    def signal(self, number, handler):
        return self._given(self.set(number, self._owned(handler) if callable(handler) else handler))

    def getsignal(self, number):
        return self._given(self.get(number))

    def _owned(self, handler):
        cell = self.current()

        def run(*args):
            token = CELL.set(cell)
            try:
                return handler(*args)
            except BaseException as exc:
                if self.raised(exc):
                    raise
            finally:
                CELL.reset(token)
        run.given = handler
        return run

    @staticmethod
    def _given(handler):
        return getattr(handler, "given", handler)


class Hooks:
    """Hooks that call back in the middle of whatever runs."""

    def __init__(self):
        self.collector = list(gc.callbacks)

    def clear(self):
        for timer in TIMERS:
            # An alarm that the cell set must not go off in another one.
            _signal.setitimer(timer, 0)
        if sys.gettrace() is not None:
            sys.settrace(None)
        if sys.getprofile() is not None:
            sys.setprofile(None)
        if threading._trace_hook is not None:
            threading.settrace(None)
        if threading._profile_hook is not None:
            threading.setprofile(None)
        sys.unraisablehook = sys.__unraisablehook__
        if sys.getrecursionlimit() < LEAST_RECURSION:
            sys.setrecursionlimit(LEAST_RECURSION)
        if gc.callbacks != self.collector:
            gc.callbacks[:] = self.collector
        monitoring = getattr(sys, "monitoring", None)
        if monitoring is not None:
            for tool in TOOLS:
                if monitoring.get_tool(tool) is not None:
                    monitoring.set_events(tool, 0)
                    monitoring.free_tool_id(tool)


# Set by a zygote: its modules, and a function that gives the names in sys.modules that are new or stand
# for another module since. To look at all of them would copy the page of each.
BASE = None
changed = None
# Set by a zygote too: whether a builtin is another object than when the zygote forked.
rebound = None


class Originals:
    """Finds what was replaced since the session began, and says each once."""

    def __init__(self):
        self.names = tuple(builtins.__dict__)
        self.values = tuple(builtins.__dict__.values())
        # What stood first under a name, for the names that are looked at.
        self.modules = dict(sys.modules) if changed is None else {}
        self.loaded = len(sys.modules)
        self.said = set()
        self._look()

    def replaced_builtins(self):
        now = builtins.__dict__
        if len(now) == len(self.names) and not (rebound() if rebound else any(map(is_not, now.values(), self.values))):
            return ()
        before = dict(zip(self.names, self.values))
        # `_` is where gettext and interactive interpreters keep theirs.
        names = [n for n in {**before, **now} if n != "_" and now.get(n, self) is not before.get(n, self)]
        return self._new("rebinds builtins." + str(n)[:60] for n in names)

    def _look(self):
        """The modules that may be other ones, by name."""
        now = dict(sys.modules) if changed is None else changed()
        for name, module in now.items():
            if name not in self.modules:
                self.modules[name] = BASE.get(name, module) if BASE is not None else module
        return now

    def imported(self):
        """Remembers modules that are new; what stands under a known name is compared to the first."""
        if len(sys.modules) != self.loaded:
            self._look()
            self.loaded = len(sys.modules)

    def replaced_modules(self):
        """Costs more than a small cell: asked when a claim is made."""
        known, now = self.modules, self._look()
        # Libraries take modules out while they import; what stands in their place is what counts.
        names = [name for name, module in now.items() if known[name] is not module]
        known.update((name, now[name]) for name in names)
        return self._new("replaces module " + str(name)[:60] for name in names)

    def _new(self, texts):
        fresh = [t for t in texts if t not in self.said][:20]
        self.said.update(fresh)
        return fresh
