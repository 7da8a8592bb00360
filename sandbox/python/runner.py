"""The interpreter side of a session.

Invariant: one dict is the namespace for the whole session; a cell is parsed once and run statement
by statement, and what is said about statement i leaves before statement i+1 starts. Only the
standard library is imported here; the model imports the rest. The other parts of the runner are
modules that sys.modules does not hold.
"""
import ast
import builtins
import linecache
import os
import random
import re
import signal
import sys
import types

# The runner's own builtins: what a cell does to builtins.open or builtins.len must not reach it.
__builtins__ = dict(vars(builtins))

MAX_NAMES = 4000
MAX_STATEMENTS = 50_000
MAX_VARIABLES = 300
NAME_CHARS = 60
VALUE_CHARS = 80
# Names that the interpreter itself puts into a namespace.
MACHINE_NAMES = frozenset(("__warningregistry__", "__annotations__", "__conditional_annotations__"))
# Address space kept back for the report about a cell that used up all the rest.
RESERVE = 16 << 20
COROUTINE = 0x80
LINE_END = re.compile(r"\r\n?|\n")


def _part(name):
    module = types.ModuleType("verigraph." + name)
    module.__builtins__ = __builtins__
    exec(parts[name], module.__dict__)  # parts comes from the bootstrap
    return module


channel = _part("channel")
output = _part("output")
describe = _part("describe")
trace = _part("trace")
primitives = _part("primitives")
audit = _part("audit")
watch = _part("watch")
libraries = _part("libraries")


class CellTimeout(BaseException):
    """The supervisor interrupts a cell that is past a time limit; "except Exception" does not stop it."""

    __module__ = "builtins"


class Namespace:
    """The model's names, which are those of __main__."""

    def __init__(self, given):
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        self.dict = main.__dict__
        self.dict.update(given, __builtins__=builtins)
        self.given = {**given, "__builtins__": builtins}
        self.hidden = MACHINE_NAMES.union(self.dict)

    def changes(self, before):
        """Names that are new or name another object than before, and names that are gone."""
        hidden, now = self.hidden, self.dict
        bound = [n for n, v in now.items() if (n not in before or before[n] is not v) and type(n) is str and n not in hidden]
        unbound = [n for n in before if n not in now and type(n) is str and n not in hidden]
        if len(bound) + len(unbound) > MAX_NAMES or any(len(n) > 200 for n in bound):
            raise RuntimeError(f"a statement may change up to {MAX_NAMES} names of up to 200 characters")
        return sorted(bound), sorted(unbound)

    def rebound(self):
        return [name for name, value in self.given.items() if self.dict.get(name) is not value]


class Session:
    """Made before its start is known: a zygote makes one, and each fork of it is a session. What start
    leaves to do is little, since every object that it touches is a page copied."""

    def __init__(self):
        self.cell = 0
        self.running = False
        self.statement = 0
        self.filename = ""
        self.flags = 0
        self.loop = None
        self.tainted = set()
        self.reserve = None
        self.executing = False
        self.overdue = False
        self.rung = None
        self.streams = None
        self.originals = None
        self.hooks = watch.Hooks()
        self.handlers = watch.Handlers(lambda: self.threads.current(), self.raised)
        self.alarm = self.interrupt
        self.channel = channel.Channel()
        self.threads = output.Threads(self, watch.CELL)
        self.out = output.Output(self.threads)
        self.audit = audit.Audit(self, self.taint)
        self.libraries = libraries.Libraries(self)
        self.primitives = primitives.Primitives(
            self.ask, lambda: primitives.caller_line(self.filename), describe, channel.TooLong)
        self.names = Namespace(self.primitives.names)

    def install(self):
        """Puts the session's own in the place of what the interpreter has."""
        self.libraries.install()
        builtins.exit = builtins.quit = _exit
        builtins.input = _input
        self.streams = sys.__stdout__, sys.__stderr__ = output.make_streams(self.out)
        self.threads.install()
        self.handlers.install()
        self.originals = watch.Originals()

    def start(self, start):
        os.set_inheritable(channel.CONTROL, False)
        self.channel.nonce, self.channel.limit = start["nonce"], start["frame_bytes"]
        self.out.head = start["head_bytes"]
        for name in start["files"] or ():
            for directory in start["data_dirs"]:
                self.audit.files[os.path.realpath(os.path.join(directory, name))] = name
        off = start.get("off") or ()  # a test shows what each part is there for
        self.audit.off = "audit" in off
        if "hooks" in off:
            self.hooks.clear = bool
        if "threads" in off:
            self.threads.mine = lambda: self.running
        if start.get("home"):
            self.move(start["home"], start["tmp"])
        random.seed(start["seed"])
        self.libraries.plant(start["seed"])
        trace.limits.update(start["limits"])
        if start.get("clock") is not None:
            _part("clock").Clock(start["clock"]).install()
        if not self.audit.off:
            sys.addaudithook(self.audit.hook)

    def move(self, home, tmp):
        """Goes from the zygote's directories to the session's own."""
        os.environ.update(HOME=home, TMPDIR=tmp, MPLCONFIGDIR=os.path.join(tmp, "matplotlib"))
        self.audit.place()
        if "tempfile" in sys.modules:
            sys.modules["tempfile"].tempdir = None

    # What is said while a cell runs.

    def ask(self, kind, body):
        if not self.threads.mine():
            raise RuntimeError("claims can only be made while the cell that makes them runs")
        self.check_originals()
        with self.channel.lock:
            for text in self.originals.replaced_modules():
                self.taint(text)
            body["statement"] = self.statement
            answer = self.channel.ask(**{kind: body})
        self.check_overdue()
        return answer

    def taint(self, construct):
        if self.running and construct not in self.tainted:
            self.tainted.add(construct)
            with self.channel.lock:
                self.channel.say(taint={"statement": self.statement, "construct": construct})

    def check_primitives(self):
        for name in self.names.rebound():
            self.taint("rebinds " + name)

    def check_originals(self):
        """Costs as much as a small statement: asked when a claim is made and when the cell ends."""
        for text in self.originals.replaced_builtins():
            self.taint(text)

    def interrupt(self, *_):
        """The handler of the supervisor's signal. Between two frames it raises; else what writes does."""
        self.overdue = self.running
        if self.executing and not self.channel.busy():
            self.check_overdue()

    def raised(self, exc):
        """Whether a handler of the model's may raise now. What it raises in the session's own code comes with the cell's
        next statement or the end of its claim; without one it is dropped."""
        if self.executing and not self.channel.mine():
            return True
        self.rung = exc if self.running else None
        return False

    def check_overdue(self):
        if self.rung is not None:
            exc, self.rung = self.rung, None
            raise exc
        if self.overdue:
            self.overdue = False
            raise CellTimeout("the cell reached its time limit and was interrupted; the session and its variables live on")

    def completed(self, before):
        bound, unbound = self.names.changes(before)
        self.check_primitives()
        self.originals.imported()
        with self.channel.lock:
            self.channel.say(completed={
                "index": self.statement, "bound": bound, "unbound": unbound, "opened": self.audit.take()})
            self.statement += 1

    # Running.

    def compile(self, code):
        """The cell's statements as code objects, each with whether it is an expression to echo."""
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | self.flags
        tree = compile(code, self.filename, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        if len(tree.body) > MAX_STATEMENTS:
            raise ValueError(f"a cell may have up to {MAX_STATEMENTS} statements")
        units = []
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                for alias in node.names:
                    flags |= getattr(getattr(__import__("__future__"), alias.name, None), "compiler_flag", 0)
            if node is tree.body[-1] and isinstance(node, ast.Expr) and not code.rstrip().endswith(";"):
                units.append((compile(ast.Expression(node.value), self.filename, "eval", flags, dont_inherit=True), True))
            else:
                units.append((compile(ast.Module([node], []), self.filename, "exec", flags, dont_inherit=True), False))
        self.flags = flags & ~ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return units

    def execute(self, code, echo):
        self.executing = True
        try:
            self.check_overdue()
            value = eval(code, self.names.dict)
            if code.co_flags & COROUTINE:  # the statement awaits
                if self.loop is None:
                    import asyncio
                    self.loop = asyncio.new_event_loop()
                value = self.loop.run_until_complete(value)
            if echo and value is not None:
                print(repr(value))
        finally:
            self.executing = False

    def run(self, code):
        """Runs a cell and returns the body of its done frame."""
        # The lines as the compiler counts them, each with its end: the traceback's carets count it too.
        lines = [line + "\n" for line in LINE_END.split(code)]
        linecache.cache[self.filename] = (len(code), None, lines, self.filename)
        try:
            units = self.compile(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as exc:
            return {"status": "syntax_error", "statements": 0, "completed": 0,
                    "traceback": trace.exception_only(exc), "exception": describe.short_type(exc)}
        failure = None
        try:
            for unit, echo in units:
                # Holds what the names name now: identities of dead objects would be used again.
                before = dict(self.names.dict)
                self.execute(unit, echo)
                self.completed(before)
                before = None
        except BaseException as exc:
            failure = exc
            self.reserve = before = None
        self.check_originals()
        result = {"status": "ok", "statements": len(units), "completed": self.statement, "traceback": "", "exception": ""}
        if failure is not None:
            self.check_primitives()
            result["exception"] = describe.short_type(failure)
            if isinstance(failure, SystemExit):
                result["status"] = "exit"
                self.out.write(b"exit() ended this cell; the session and its variables live on.\n")
            else:
                result["status"] = "refused" if failure is self.primitives.refusal else "exception"
                result["traceback"] = trace.render(failure)
            trace.forget(failure)
        return result

    def environment(self):
        out = []
        for name in sorted(n for n in self.names.dict if type(n) is str):
            if name in self.names.hidden or name.startswith("__") or len(name) > NAME_CHARS:
                continue
            out.append(self.variable(name, self.names.dict[name]))
            if len(out) >= MAX_VARIABLES:
                break
        return out

    def variable(self, name, value):
        entry = {"name": name, "type": "object"}
        try:
            entry["type"] = describe.type_name(value)
            shape = describe.shape_of(value)
            if shape:
                entry["shape"] = shape
            claim = self.primitives.known(value)
            kind = describe.kind_of(value, 4)
            if claim is not None:
                entry["value"] = describe.cut(f"{claim}: {value.text}", VALUE_CHARS)
            elif kind in ("number", "boolean", "string", "none", "date"):
                entry["value"] = describe.repr_of(value, kind, VALUE_CHARS)
        except Exception:
            pass
        return entry

    def begin(self, request):
        self.out.reset()
        self.overdue, self.rung = False, None
        self.channel.nonce, self.cell = request["nonce"], request["cell"]
        self.filename = f"<cell {self.cell}>"
        self.statement = 0
        self.primitives.refusal = None
        self.audit.take()
        if self.reserve is None:
            try:
                # bytes, whose zeros the kernel gives when they are touched; a bytearray writes them.
                self.reserve = bytes(RESERVE)
            except MemoryError:
                pass
        if self.streams is not None:
            # A stream that an earlier cell put in their place ended with it.
            sys.stdout, sys.stderr = self.streams
        if self.handlers.get(signal.SIGXCPU) is not self.alarm:
            self.handlers.set(signal.SIGXCPU, self.alarm)
        self.threads.adopt()
        self.out.divert(any(cell != self.cell for cell in list(self.threads.alive.values())))
        self.running = True

    def end(self, result):
        self.out.flush()
        self.running = False
        self.hooks.clear()
        if self.out.late:
            result["late"] = self.out.late
        variables = self.environment()
        while True:
            try:
                return self.channel.say(done=dict(result, environment=variables))
            except channel.TooLong:
                variables = variables[:len(variables) // 2]

    def serve(self):
        self.channel.say(ready={"version": sys.version.split()[0]})
        while True:
            request = channel.read(patient=True)
            self.begin(request)
            self.end(self.run(request["code"]))


def _exit(code=None):
    raise SystemExit(code)


def _input(prompt=""):
    if prompt:
        print(prompt, end="")
    raise EOFError("input() has no one to ask in this session")


def prepare():
    """A session that waits for its start."""
    session = Session()
    session.install()
    return session


def main(session=None):
    start = channel.read()
    if session is None:
        sys.path[:] = start["sys_path"]
        session = prepare()
    session.start(start)
    session.serve()
