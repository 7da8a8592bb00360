"""The interpreter side of a session.

Invariant: one dict is the namespace for the whole session; a cell is parsed once and run statement
by statement, and what is said about statement i leaves before statement i+1 starts. Frames on the
control descriptor are a big-endian u32 length and one JSON object that carries the nonce of the
request it belongs to. Only the standard library is imported here; the model imports the rest.
"""
import ast
import builtins
import json
import linecache
import os
import random
import string
import sys
import threading
import time
import traceback
import types
import _thread

CONTROL = 3
TRACEBACK_CHARS = 4000
MESSAGE_CHARS = 1500
REPR_CHARS = 200
VALUE_CHARS = 80
NAME_CHARS = 60
LIST_ITEMS = 100
MAX_VARIABLES = 300
MAX_OPENED = 200
# Names that the interpreter itself puts into a namespace.
MACHINE_NAMES = frozenset(("__warningregistry__", "__annotations__", "__conditional_annotations__"))


# ---------------------------------------------------------------- frames

def _read_exactly(n):
    parts = []
    while n:
        part = os.read(CONTROL, min(n, 1 << 16))
        if not part:
            os._exit(0)
        parts.append(part)
        n -= len(part)
    return b"".join(parts)


def _read_frame():
    return json.loads(_read_exactly(int.from_bytes(_read_exactly(4), "big")))


def _encode(body):
    # ensure_ascii keeps lone surrogates out of the bytes; allow_nan keeps bare NaN out of the JSON.
    return json.dumps(body, allow_nan=False, separators=(",", ":")).encode("ascii")


def _send(data):
    data = len(data).to_bytes(4, "big") + data
    while data:
        data = data[os.write(CONTROL, data):]


class TooLong(Exception):
    pass


# ---------------------------------------------------------------- output

class Output:
    """Writes to descriptor 1, at once while a cell has printed little and in blocks after that.

    What is printed by a thread that an earlier cell started is dropped: it is not this cell's.
    """

    def __init__(self, head):
        self.head = head
        self.lock = _thread.allocate_lock()
        self.reset()

    def reset(self):
        self.written = 0
        self.pending = bytearray()
        self.flushed_at = 0.0

    def write(self, data):
        if not state.running or getattr(_owner, "cell", state.cell) != state.cell:
            return
        with self.lock:
            self.written += len(data)
            if self.written <= self.head:
                self._out(data)
                return
            self.pending += data
            now = time.monotonic()
            if len(self.pending) >= 1 << 16 or now - self.flushed_at > 0.1:
                self._flush()
                self.flushed_at = now

    def flush(self):
        with self.lock:
            self._flush()

    def _flush(self):
        data, self.pending = bytes(self.pending), bytearray()
        self._out(data)

    @staticmethod
    def _out(data):
        view = memoryview(data)
        while view:
            view = view[os.write(1, view):]


def _make_streams(out):
    import io

    class Raw(io.RawIOBase):
        def writable(self):
            return True

        def write(self, data):
            data = bytes(data)
            out.write(data)
            return len(data)

        def fileno(self):
            return 1

    class Text(io.TextIOBase):
        encoding = "utf-8"
        errors = "backslashreplace"
        newlines = None
        buffer = Raw()
        name = "<stdout>"
        mode = "w"

        def writable(self):
            return True

        def write(self, text):
            if not isinstance(text, str):
                raise TypeError(f"write() argument must be str, not {type(text).__name__}")
            out.write(text.encode("utf-8", "backslashreplace"))
            return len(text)

        def flush(self):
            out.flush()

        def close(self):
            pass

        def fileno(self):
            return 1

        def isatty(self):
            return False

        def reconfigure(self, **options):
            pass

    return Text(), Text()


# ---------------------------------------------------------------- threads belong to the cell that started them

_owner = threading.local()


def _mine():
    return getattr(_owner, "cell", state.cell) == state.cell and state.running


def _inherit(start):
    def starting(function, *args, **kwargs):
        cell = getattr(_owner, "cell", state.cell)

        def run(*a, **k):
            _owner.cell = cell
            return function(*a, **k)
        return start(run, *args, **kwargs)
    return starting


def _own_threads():
    _thread.start_new_thread = _thread.start_new = threading._start_new_thread = _inherit(_thread.start_new_thread)
    joinable = getattr(_thread, "start_joinable_thread", None)
    if joinable is not None:
        _thread.start_joinable_thread = threading._start_joinable_thread = _inherit(joinable)


# ---------------------------------------------------------------- state

class State:
    """What the runner knows; set up by main."""

    def __init__(self):
        self.cell = 0
        self.running = False
        self.nonce = ""
        self.statement = 0
        self.filename = ""
        self.opened = []
        self.tainted = set()
        self.refusal = None
        self.flags = 0
        self.loop = None
        # Held for one frame, or one request with its reply.
        self.channel = threading.Lock()


state = State()
namespace = None
originals = {}
files = {}
data_dirs = []
frame_bytes = 1 << 20


def _say(**body):
    body["nonce"] = state.nonce
    data = _encode(body)
    if len(data) > frame_bytes:
        raise TooLong
    with state.channel:
        _send(data)


def _taint(construct):
    if construct not in state.tainted and state.running:
        state.tainted.add(construct)
        _say(taint={"statement": state.statement, "construct": construct})


def _check_primitives():
    for name, original in originals.items():
        if namespace.get(name) is not original:
            _taint("rebinds " + name)


# ---------------------------------------------------------------- audit

REFUSED_PROGRAMS = frozenset((
    "subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile",
    "pty.spawn"))
REFUSED_NETWORK = frozenset((
    "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr",
    "socket.getnameinfo", "socket.sendto"))
DENIED = {
    "gc.get_objects": "gc", "gc.get_referrers": "gc", "gc.get_referents": "gc",
    "sys._getframe": "frames", "sys._current_frames": "frames", "sys.settrace": "sys.settrace",
    "sys.setprofile": "sys.setprofile", "sys.addaudithook": "sys.addaudithook",
    "ctypes.dlopen": "ctypes", "ctypes.dlsym": "ctypes", "ctypes.addressof": "ctypes", "code.__new__": "code objects"}


def _audit(event, args):
    if event == "open":
        if state.running:
            _opened(args[0], args[2])
    elif event in REFUSED_PROGRAMS:
        raise PermissionError("this session can't start other programs or processes; do the work in Python, in this process")
    elif event in REFUSED_NETWORK or (event == "socket.__new__" and args[1] in (2, 10)):
        raise PermissionError("this session has no network; only the task's own files are there")
    elif event in DENIED:
        # Only what the cell itself does: libraries use frames and ctypes all the time.
        if state.running and _calling_file().startswith("<cell "):
            _taint(DENIED[event])
    elif event == "sqlite3.connect":
        if state.running:
            _opened(args[0], 0)


def _calling_file():
    """The file of the frame that raised the audit event; sys._getframe would raise another one."""
    try:
        raise TooLong
    except TooLong as exc:
        frame = exc.__traceback__.tb_frame.f_back.f_back
        while frame is not None and frame.f_code.co_filename.endswith("/ctypes/__init__.py"):
            frame = frame.f_back
        return frame.f_code.co_filename if frame is not None else ""


def _opened(path, mode_flags):
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str) or path.endswith((".py", ".pyc", ".so")):
        return
    if isinstance(mode_flags, int) and mode_flags & (os.O_WRONLY | os.O_RDWR) == os.O_WRONLY:
        return
    try:
        path = os.path.realpath(path)
    except OSError:
        return
    name = files.get(path)
    if name is not None and name not in state.opened and len(state.opened) < MAX_OPENED:
        state.opened.append(name)


# ---------------------------------------------------------------- claims

_registry = {}
_making = object()


class Claim:
    """A claim of the evidence graph: id, and its text as content or text.

    It is a handle. The graph lives elsewhere; which claim this is, is looked up by the object.
    """

    __slots__ = ("id", "content", "text", "__weakref__")

    def __new__(cls, key=None, claim_id="", text=""):
        if key is not _making:
            raise TypeError("a Claim is made by bind(...) or infer(...)")
        self = object.__new__(cls)
        object.__setattr__(self, "id", claim_id)
        object.__setattr__(self, "content", text)
        object.__setattr__(self, "text", text)
        return self

    def __setattr__(self, name, value):
        raise AttributeError("a Claim can't be changed; make a new one with bind or infer")

    __delattr__ = None

    def __repr__(self):
        return f"Claim({self.id}: {self.text!r})"

    def __str__(self):
        return self.text

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError("a Claim can't be pickled")


def _claim(claim_id, text):
    claim = Claim(_making, claim_id, text)
    # The reference keeps the object alive, so that its identity is never reused.
    _registry[id(claim)] = (claim, claim_id)
    return claim


def _claim_id(value):
    entry = _registry.get(id(value))
    return entry[1] if entry is not None and entry[0] is value else None


def _claim_ids(value, primitive, parameter):
    if _claim_id(value) is not None:
        return [_claim_id(value)]
    if value is None or isinstance(value, (str, bytes, dict)):
        raise _refuse(f"{primitive}: {parameter} must be claims that bind or infer returned, not {_short_type(value)}")
    try:
        items = list(value)
    except TypeError:
        raise _refuse(f"{primitive}: {parameter} must be claims that bind or infer returned, "
                      f"not {_short_type(value)}") from None
    ids = []
    for item in items:
        claim_id = _claim_id(item)
        if claim_id is None:
            raise _refuse(f"{primitive}: {parameter} must be claims that bind or infer returned, "
                          f"but one of them is {_short_type(item)}")
        ids.append(claim_id)
    if len(ids) > 1000:
        raise _refuse(f"{primitive}: {len(ids)} claims are too many for one call")
    return ids


def _short_type(value):
    return _cut(type(value).__name__, NAME_CHARS)


def _refuse(message):
    state.refusal = ValueError(message)
    return state.refusal


def _request(kind, body):
    if not _mine():
        raise RuntimeError("claims can only be made while the cell that makes them runs")
    with state.channel:
        body["statement"] = state.statement
        data = _encode({"nonce": state.nonce, kind: body})
        if len(data) > frame_bytes:
            raise _refuse("the claim is too long to state; use single numbers and short strings")
        _send(data)
        answer = _read_frame()
    if answer["refused"]:
        raise _refuse(answer["refusal"])
    return answer


# ---------------------------------------------------------------- values

def _cut(text, limit):
    return text if len(text) <= limit else text[:limit - 1] + "…"


def type_name(value):
    kind = type(value)
    module, name = getattr(kind, "__module__", ""), getattr(kind, "__qualname__", "")
    if not isinstance(module, str) or not isinstance(name, str):
        return "object"
    return _cut(name if module == "builtins" else f"{module}.{name}", 2 * NAME_CHARS)


def _family(value):
    """The library that the value's type comes from."""
    module = getattr(type(value), "__module__", "")
    return module.partition(".")[0] if isinstance(module, str) else ""


def kind_of(value, depth=0):
    """One of the kinds of the evidence package."""
    if _claim_id(value) is not None or type(value) is Claim:
        return "claim"
    if value is None:
        return "none"
    exact = type(value)
    if exact is bool:
        return "boolean"
    if exact in (int, float, complex):
        return "number"
    if exact is str:
        return "string"
    if exact in (list, tuple, set, frozenset, dict):
        return _kind_of_container(value, depth)
    family = _family(value)
    if family in ("decimal", "fractions"):
        return "number"
    if family == "datetime":
        return "date"
    if family == "numpy":
        return _kind_of_numpy(value, depth)
    if family == "pandas":
        return _kind_of_pandas(value, depth)
    if family in ("pyarrow", "polars", "scipy") and hasattr(exact, "shape"):
        return "table"
    if isinstance(value, (tuple, list, dict, set)) and depth < 3:
        return _kind_of_container(value, depth)
    return "other"


def _kind_of_container(value, depth):
    if len(value) > LIST_ITEMS:
        return "table"
    if depth >= 4:
        return "other"
    found = "list"
    items = value
    if isinstance(value, dict):
        items = [x for pair in value.items() for x in pair]
    for item in items:
        kind = kind_of(item, depth + 1)
        if kind in ("claim", "table"):
            return kind
        if kind == "other":
            found = "other"
    return found


def _kind_of_numpy(value, depth):
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return "other"
    if isinstance(value, (numpy.generic, numpy.ndarray)):
        if isinstance(value, numpy.ndarray) and value.ndim:
            if value.size > LIST_ITEMS:
                return "table"
            return _kind_of_container(value.ravel().tolist(), depth) if value.dtype.kind == "O" else "list"
        code = value.dtype.kind
        if code == "b":
            return "boolean"
        if code in "iufc":
            return "number"
        if code in "US":
            return "string"
        if code in "mM":
            return "date"
        if code == "O" and depth < 4:
            return kind_of(value.item(), depth + 1)
    return "other"


def _kind_of_pandas(value, depth):
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return "other"
    if value is pandas.NA:
        return "none"
    if value is pandas.NaT or isinstance(value, (pandas.Timestamp, pandas.Timedelta, pandas.Period, pandas.DateOffset)):
        return "date"
    if isinstance(value, pandas.Interval):
        return "list"
    if isinstance(value, pandas.DataFrame):
        return "table"
    if isinstance(value, (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray)):
        return "table" if len(value) > LIST_ITEMS else _kind_of_container(list(value), depth)
    return "other"


def repr_of(value, kind, limit):
    """repr(value), never long to make: big things are named by type and size."""
    try:
        if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 4000:
            return f"<int of {value.bit_length()} bits>"
        if isinstance(value, (str, bytes)) and len(value) > 4 * limit:
            return _cut(repr(value[:limit]), limit)
        if kind == "table" or (kind == "other" and shape_of(value).startswith("(")):
            return _cut(f"<{type_name(value)} {shape_of(value)}>", limit)
        return _cut(repr(value), limit)
    except Exception as exc:
        return f"<repr failed: {_short_type(exc)}>"


def shape_of(value):
    try:
        if _family(value) in ("numpy", "pandas", "pyarrow", "polars", "scipy"):
            shape = getattr(value, "shape", None)
            if isinstance(shape, tuple):
                return _cut(str(tuple(int(n) for n in shape)), NAME_CHARS) if shape else ""
        if type(value) in (list, tuple, set, frozenset, dict, bytes, bytearray, range):
            return str(len(value))
    except Exception:
        pass
    return ""


# ---------------------------------------------------------------- primitives

class _Fields(string.Formatter):
    """Renders a template once and keeps what each replacement field became."""

    def get_value(self, key, args, kwargs):
        if isinstance(key, int) or key == "":
            raise _refuse("bind: a placeholder needs a name: write {name} in the template and pass name=value")
        try:
            return kwargs[key]
        except KeyError:
            raise _refuse(f"bind: no value for placeholder {{{_cut(key, NAME_CHARS)}}}: "
                          f"pass it as {_cut(key, NAME_CHARS)}=...") from None


def _render(template, values):
    formatter = _Fields()
    fields = []
    try:
        parts = list(formatter.parse(template))
    except ValueError as exc:
        raise _refuse(f"bind: the template is not valid: {exc}") from None
    for _, name, spec, conversion in parts:
        if name is None:
            continue
        first = name
        for stop in ".[":
            first = first.partition(stop)[0]
        source = "{" + name + ("!" + conversion if conversion else "") + (":" + spec if spec else "") + "}"
        try:
            text = formatter.vformat(source, (), values)
        except Exception as exc:
            if exc is state.refusal:
                raise
            raise _refuse(f"bind: {_cut(source, 100)} can't be formatted: {_cut(str(exc), 300)}") from None
        fields.append({"name": _cut(first, NAME_CHARS), "text": text})
    return fields


def _caller_line():
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename == state.filename:
            return frame.f_lineno or 0
        frame = frame.f_back
    return 0


def bind(*args, **values):
    """bind(template, **values) -> Claim. The template has {name} placeholders; every value is a keyword."""
    if len(args) > 1:
        raise _refuse("bind: only the template is positional; pass values as keywords, e.g. bind('{n} rows', n=n)")
    if args:
        template = args[0]
    else:
        for key in ("template_str", "template"):
            if key in values:
                template = values.pop(key)
                break
        else:
            raise _refuse("bind: no template: write bind('... {name} ...', name=value)")
    if not isinstance(template, str):
        raise _refuse(f"bind: the template must be a string, not {_short_type(template)}")
    if len(values) > 200:
        raise _refuse(f"bind: {len(values)} values are too many for one claim")
    described = []
    for name, value in values.items():
        kind = kind_of(value)
        described.append({"name": _cut(name, NAME_CHARS), "kind": kind, "type": type_name(value),
                          "repr": repr_of(value, kind, REPR_CHARS)})
    fields = _render(template, values)
    answer = _request("bind", {"line": _caller_line(), "template": template, "fields": fields, "values": described})
    return _claim(answer["id"], answer["text"])


def infer(premises=None, conclusion=None, reasoning=None):
    """infer(premises, conclusion, reasoning) -> Claim. Premises are claims."""
    ids = _claim_ids(premises, "infer", "premises")
    for name, text in (("conclusion", conclusion), ("reasoning", reasoning)):
        if not isinstance(text, str):
            raise _refuse(f"infer: {name} must be a string" + ("" if text is None else f", not {_short_type(text)}"))
    answer = _request("infer", {"premises": ids, "conclusion": conclusion, "reasoning": reasoning})
    return _claim(answer["id"], answer["text"])


def submit_answer(claims=None, *more):
    """submit_answer(claims). The claims that are the answer: one, or several in a list."""
    if more:
        claims = (claims, *more)
    _request("submit", {"claims": _claim_ids(claims, "submit_answer", "claims")})


# ---------------------------------------------------------------- running a cell

def _compile(code, filename):
    """The cell's statements as code objects, and whether the last one is an expression to echo."""
    base = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | state.flags
    tree = compile(code, filename, "exec", base | ast.PyCF_ONLY_AST, dont_inherit=True)
    units = []
    for i, node in enumerate(tree.body):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                feature = getattr(__import__("__future__"), alias.name, None)
                base |= getattr(feature, "compiler_flag", 0)
        if i == len(tree.body) - 1 and isinstance(node, ast.Expr) and not code.rstrip().endswith(";"):
            units.append((compile(ast.Expression(node.value), filename, "eval", base, dont_inherit=True), True))
        else:
            units.append((compile(ast.Module([node], []), filename, "exec", base, dont_inherit=True), False))
    state.flags = base & ~ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return units


def _execute(code, echo):
    if code.co_flags & 0x80:  # CO_COROUTINE: the statement awaits
        if state.loop is None:
            import asyncio
            state.loop = asyncio.new_event_loop()
        value = state.loop.run_until_complete(eval(code, namespace))
    else:
        value = eval(code, namespace)
    if echo and value is not None:
        print(repr(value))


def _report(index, before):
    bound = [n for n, v in namespace.items() if (n not in before or before[n] is not v) and type(n) is str and n not in HIDDEN]
    unbound = [n for n in before if n not in namespace and type(n) is str and n not in HIDDEN]
    opened, state.opened = state.opened, []
    _check_primitives()
    try:
        _say(completed={"index": index, "bound": sorted(bound), "unbound": sorted(unbound), "opened": sorted(opened)})
    except TooLong:
        raise MemoryError("this statement changed too many names") from None


def _run_cell(cell, code):
    """Runs a cell and returns the body of its done frame."""
    filename = f"<cell {cell}>"
    state.filename = filename
    state.refusal = None
    linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
    try:
        units = _compile(code, filename)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as exc:
        return {"status": "syntax_error", "statements": 0, "completed": 0,
                "traceback": _exception_only(exc), "exception": _short_type(exc)}
    completed = 0
    failure = None
    try:
        for code_object, echo in units:
            state.statement = completed
            before = dict(namespace)
            _execute(code_object, echo)
            _report(completed, before)
            del before
            completed += 1
    except BaseException as exc:
        failure = exc
    before = None
    result = {"status": "ok", "statements": len(units), "completed": completed, "traceback": "", "exception": ""}
    if failure is None:
        return result
    try:
        _check_primitives()
        result["exception"] = _short_type(failure)
        if isinstance(failure, SystemExit):
            result["status"] = "exit"
            print("exit() ended this cell; the session and its variables live on.")
        else:
            result["status"] = "refused" if failure is state.refusal else "exception"
            result["traceback"] = format_exception(failure, cell_only=True)
    finally:
        _forget(failure)
        del failure
    return result


def _forget(exc):
    """Drops the frames that an exception holds, and with them every object in them."""
    seen = 0
    while exc is not None and seen < 100:
        exc.__traceback__ = None
        exc, seen = exc.__cause__ or exc.__context__, seen + 1


def _exception_only(exc):
    try:
        return _middle("".join(traceback.format_exception_only(type(exc), exc)).rstrip(), MESSAGE_CHARS)
    except Exception:
        return _short_type(exc)


def format_exception(exc, cell_only):
    """The traceback with the cell's own lines only. An exception that led to this one is shown if
    it passed through a line of a cell."""
    parts = []
    seen = set()
    while exc is not None and id(exc) not in seen and len(parts) < 4:
        seen.add(id(exc))
        frames = [f for f in traceback.extract_tb(exc.__traceback__) if f.filename.startswith("<cell ")]
        if frames or not parts:
            lines = ["Traceback (most recent call last):\n"] if frames else []
            lines += traceback.StackSummary.from_list(frames).format()
            parts.append("".join(lines) + _exception_only(exc))
        if exc.__cause__ is not None:
            exc = exc.__cause__
        elif not exc.__suppress_context__:
            exc = exc.__context__
        else:
            exc = None
    return _middle("\n\nwhich came after:\n\n".join(parts), TRACEBACK_CHARS)


def _middle(text, limit):
    if len(text) <= limit:
        return text
    half = limit // 2
    return text[:half] + f"\n[... {len(text) - 2 * half} characters left out ...]\n" + text[-half:]


def _describe(name, value):
    entry = {"name": name, "type": type_name(value)}
    try:
        shape = shape_of(value)
        if shape:
            entry["shape"] = shape
        known = _registry.get(id(value))
        kind = kind_of(value, 4)
        if known is not None and known[0] is value:
            entry["value"] = _cut(f"{known[1]}: {known[0].text}", VALUE_CHARS)
        elif kind in ("number", "boolean", "string", "none", "date"):
            entry["value"] = repr_of(value, kind, VALUE_CHARS)
    except Exception:
        pass
    return entry


def environment():
    """The names that the model made."""
    out = []
    budget = frame_bytes // 4
    for name in sorted(n for n in namespace if type(n) is str):
        if name in HIDDEN or name.startswith("__") or len(name) > NAME_CHARS:
            continue
        entry = _describe(name, namespace[name])
        out.append(entry)
        budget -= 200
        if len(out) >= MAX_VARIABLES or budget < 0:
            break
    return out


# ---------------------------------------------------------------- set-up

def _exit(code=None):
    raise SystemExit(code)


def _input(prompt=""):
    if prompt:
        print(prompt, end="")
    raise EOFError("input() has no one to ask in this session")


class _SeedNumpy:
    """Seeds numpy's global generator when the model imports it."""

    def __init__(self, seed):
        self.seed = seed

    def find_spec(self, name, path, target=None):
        if name != "numpy.random":
            return None
        import importlib.machinery
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            module.seed(self.seed & 0xFFFFFFFF)
        spec.loader.exec_module = exec_module
        return spec


def _setup(start):
    global namespace, originals, files, data_dirs, frame_bytes, HIDDEN
    os.set_inheritable(CONTROL, False)
    state.nonce = start["nonce"]
    sys.path[:] = start["sys_path"]
    frame_bytes = start["frame_bytes"]
    data_dirs = start["data_dirs"]
    for name in start["files"] or ():
        for directory in data_dirs:
            files[os.path.realpath(os.path.join(directory, name))] = name
    random.seed(start["seed"])
    sys.meta_path.insert(0, _SeedNumpy(start["seed"]))

    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    namespace = main.__dict__
    originals = {"bind": bind, "infer": infer, "submit_answer": submit_answer, "Claim": Claim}
    namespace.update(originals)
    namespace["__builtins__"] = builtins
    HIDDEN = MACHINE_NAMES.union(namespace)
    for f in (bind, infer, submit_answer, Claim):
        f.__module__ = "__main__"

    builtins.exit = builtins.quit = _exit
    builtins.input = _input
    out = Output(start["head_bytes"])
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__ = _make_streams(out)
    _own_threads()

    import warnings
    warnings.filterwarnings("ignore", message=".*is non-interactive, and thus cannot be shown")
    sys.addaudithook(_audit)
    return out


HIDDEN = frozenset()


def main():
    out = _setup(_read_frame())
    _say(ready={"version": sys.version.split()[0]})
    while True:
        request = _read_frame()
        out.reset()
        state.nonce, state.cell = request["nonce"], request["cell"]
        state.opened, state.running = [], True
        _owner.cell = state.cell
        result = _run_cell(state.cell, request["code"])
        result["environment"] = environment()
        try:
            out.flush()
        finally:
            state.running = False
        _say(done=result)


main()
