"""Denied constructs, found by their syntax.

A construct is denied when it reaches around what the pass can see: frames, interpreters, raw
descriptors, changes of imported code, or a primitive under another name. Ordinary analysis code
uses none of them. What is found is a mark, not a defence.
"""

import ast
import re

from scope import child_fields
from tables import PRIMITIVES, PROTECTED, words

DENIED_MODULES = words("ctypes _ctypes cffi gc inspect socket _socket unittest.mock mock code codeop bdb pdb "
                       "_thread forbiddenfruit mmap ptrace _posixsubprocess frame_eval")
DENIED_ATTRIBUTES = words("""f_globals f_locals f_back f_builtins f_code gi_frame gi_code cr_frame cr_code ag_frame
    tb_frame __globals__ __code__ __closure__ __builtins__ __subclasses__ __mro__ __bases__ __base__ __self__
    __func__ __loader__ __subclasshook__ __init_subclass__ _getframe _current_frames settrace setprofile
    __reduce_ex__ __getattribute__ cell_contents""")
DENIED_PATHS = {
    "sys.modules", "sys._getframe", "sys.settrace", "sys.setprofile", "sys._current_frames", "sys.meta_path",
    "sys.path_hooks", "sys.addaudithook", "sys._current_exceptions", "sys.monitoring", "threading.settrace",
    "threading.setprofile", "types.CodeType", "types.FunctionType", "types.FrameType", "types.CellType",
    "os.write", "os.read", "os.dup", "os.dup2", "os.pipe", "os.pipe2", "os.fdopen", "os.open", "os.pread",
    "os.pwrite", "os.readv", "os.writev", "os.sendfile", "os.memfd_create", "os.close", "os.closerange",
    "os.fork", "os.forkpty", "os.openpty", "os.set_inheritable", "os.ftruncate", "os.lseek", "os.kill",
    "os.eventfd", "os.splice", "os.copy_file_range", "os.pidfd_open", "io.FileIO", "io.open_code",
    "signal.signal", "signal.setitimer", "signal.alarm", "signal.set_wakeup_fd", "signal.sigwait",
    "signal.pthread_kill", "signal.raise_signal", "atexit.register", "atexit.unregister",
    "builtins.exec", "builtins.eval", "builtins.compile", "builtins.__import__", "weakref.finalize",
    "posix.write", "posix.read", "posix.dup", "posix.dup2", "posix.pipe", "posix.open",
}
# Settings that honest code stores on module attributes.
ALLOWED_STORES = ("pandas.options", "matplotlib.rcParams", "matplotlib.pyplot.rcParams", "pandas.plotting",
                  "numpy.random.seed", "plotly.io.templates.default", "plotly.io.renderers.default",
                  "seaborn.", "tqdm.")
_TEXT = re.compile(r"__(globals|code|closure|builtins|subclasses|mro)__|_verigraph|^/proc(/|$)|^/dev/fd")
_DYNAMIC_CODE = words("exec eval compile")
_ATTRIBUTE_FUNCTIONS = words("getattr setattr delattr hasattr attrgetter methodcaller")
_PATH_FUNCTIONS = words("import_module __import__ open")
# What a call must be of for there to be more to see in it.
_CALLED_NAMES = _DYNAMIC_CODE | _ATTRIBUTE_FUNCTIONS | _PATH_FUNCTIONS | PRIMITIVES
_CALLED_ATTRIBUTES = _ATTRIBUTE_FUNCTIONS | _PATH_FUNCTIONS | {"__setattr__", "__delattr__"}
_NAMES = _DYNAMIC_CODE | {"__builtins__"}
_PLAIN = (type(None), str, int, bool)
_SCOPES = frozenset((ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef))


class Scan:
    """Collects the taints of one statement. lib(name) gives the import path bound to a module-level name."""

    def __init__(self, lib):
        self.lib = lib
        self.imports = {}
        self.paths = {}          # what lib said
        self.found = set()
        self.calls = []          # syntactic calls of primitives

    def scan(self, node, scoped=False):
        # (nodes, inside a function): a binding there is local, unless declared global.
        work = [([node], scoped)]
        checks = _CHECKS
        while work:
            stack, local = work.pop()
            while stack:
                n = stack.pop()
                t = n.__class__
                if t is ast.Name:
                    if n.ctx.__class__ is not ast.Load or n.id in _NAMES or n.id[0] == "_":
                        self.name(n, local)
                    continue
                if t is ast.Constant:
                    value = n.value
                    if value.__class__ is str and ("_" in value or "/" in value):
                        self.text(value)
                    continue
                check = checks.get(t)
                if check is not None:
                    check(self, n, local)
                if t in _SCOPES:
                    for field in ("decorator_list", "bases"):
                        stack += getattr(n, field, ())
                    if t is ast.ClassDef:
                        stack += [k.value for k in n.keywords]
                    else:
                        stack += [d for d in n.args.defaults + n.args.kw_defaults if d]
                        stack += [a.annotation for a in n.args.args if a.annotation]
                    work.append((n.body[::-1] if n.body.__class__ is list else [n.body], True))
                    continue
                for name in child_fields(t):
                    value = getattr(n, name)
                    if value.__class__ is list:
                        if value:
                            stack += value[::-1]
                    elif value.__class__ not in _PLAIN:
                        stack.append(value)
        return self.found

    def path(self, n):
        """The import path of an expression such as np.random, or None."""
        parts = []
        while n.__class__ is ast.Attribute:
            parts.append(n.attr)
            n = n.value
        if type(n) is ast.Call and type(n.func) is ast.Name and n.func.id == "__import__" and n.args \
                and type(n.args[0]) is ast.Constant and type(n.args[0].value) is str:
            base = n.args[0].value
        elif type(n) is ast.Name:
            base = self.imports.get(n.id)
            if base is None:
                base = self.paths.get(n.id, self)
                if base is self:
                    base = self.paths[n.id] = self.lib(n.id)
        else:
            return None
        return ".".join([base] + parts[::-1]) if base else None

    def rebind(self, name, local=False):
        if name in PROTECTED and not local:
            self.found.add("rebind:" + name)
        if name.startswith("_verigraph"):
            self.found.add("name:_verigraph")

    def module(self, name):
        parts = name.split(".")
        for i in range(1, len(parts) + 1):
            prefix = ".".join(parts[:i])
            if prefix in DENIED_MODULES:
                self.found.add("import:" + prefix)
                return
        if parts[0].startswith("_verigraph"):
            self.found.add("import:_verigraph")

    def attribute_name(self, name):
        if name in DENIED_ATTRIBUTES:
            self.found.add("attribute:" + name)
        elif name.startswith("_verigraph"):
            self.found.add("attribute:_verigraph")

    def text(self, value):
        hit = _TEXT.search(value)
        if hit:
            self.found.add("literal:" + hit.group(0).rstrip("/"))

    def import_(self, n, local):
        for a in n.names:
            self.module(a.name)
            self.rebind(a.asname or a.name.split(".")[0], local)
            self.imports[a.asname or a.name.split(".")[0]] = a.name if a.asname else a.name.split(".")[0]

    def import_from(self, n, local):
        module = n.module or ""
        self.module(module)
        for a in n.names:
            path = module + "." + a.name
            if path in DENIED_MODULES:
                self.found.add("import:" + path)
            if path in DENIED_PATHS:
                self.found.add("import:" + path)
            self.rebind(a.asname or a.name, local)
            self.imports[a.asname or a.name] = path

    def name(self, n, local):
        name = n.id
        if type(n.ctx) is ast.Load:
            if name in _DYNAMIC_CODE and not self.lib(name):
                if not getattr(n, "_called", False):
                    self.found.add("name:" + name)
            elif name == "__builtins__":
                self.found.add("name:__builtins__")
            elif name.startswith("_verigraph"):
                self.found.add("name:_verigraph")
        else:
            self.rebind(name, local)

    def attribute(self, n, local):
        self.attribute_name(n.attr)
        path = self.path(n)
        if path is not None:
            if path in DENIED_PATHS:
                self.found.add("attribute:" + path if not path.startswith("builtins.") else "name:" + path[9:])
            elif path.split(".")[0] in DENIED_MODULES:
                self.found.add("import:" + path.split(".")[0])
            elif path.startswith("os.exec") or path.startswith("os.spawn"):
                self.found.add("attribute:" + path)
        if type(n.ctx) is not ast.Load:
            self.store(n.value, n.attr)

    def store(self, base, attribute):
        """An attribute of base is set or deleted."""
        if type(base) is ast.Name and base.id in PROTECTED:
            self.found.add("attribute_store:" + base.id)
            return
        if type(base) is ast.Call and type(base.func) is ast.Name and base.func.id == "type":
            self.found.add("attribute_store:class")
            return
        if type(base) is ast.Attribute and base.attr == "__class__" or attribute == "__class__":
            self.found.add("attribute_store:class")
            return
        path = self.path(base)
        if path is not None:
            full = path + "." + (attribute or "")
            if not full.startswith(ALLOWED_STORES):
                self.found.add("attribute_store:module")

    def subscript(self, n, local):
        if type(n.ctx) is ast.Load:
            return
        base = n.value
        if type(base) is ast.Attribute and base.attr == "__dict__":
            self.store(base.value, None)
        if type(base) is ast.Call and type(base.func) is ast.Name and base.func.id in ("globals", "vars", "locals"):
            if type(n.slice) is ast.Constant and n.slice.value in PROTECTED:
                self.found.add("rebind:" + n.slice.value)
            if base.args:
                self.store(base.args[0], None)

    def call(self, n, local):
        f = n.func
        first = n.args[0] if n.args else None
        literal = first.value if type(first) is ast.Constant else None
        name = f.id if type(f) is ast.Name else None
        if name not in _CALLED_NAMES and (type(f) is not ast.Attribute or f.attr not in _CALLED_ATTRIBUTES):
            return
        if name in PRIMITIVES:
            self.calls.append(n)
        if name in _DYNAMIC_CODE:
            f._called = True
            if not isinstance(literal, (str, bytes)):
                self.found.add("call:" + name)
            else:
                self.nested(literal)
        if name in _ATTRIBUTE_FUNCTIONS or type(f) is ast.Attribute and f.attr in _CALLED_ATTRIBUTES - _PATH_FUNCTIONS:
            for a in n.args:
                if type(a) is ast.Constant and type(a.value) is str:
                    self.attribute_name(a.value)
        if (name in ("setattr", "delattr") or type(f) is ast.Attribute and f.attr in ("__setattr__", "__delattr__")) \
                and first is not None:
            second = n.args[1] if len(n.args) > 1 else None
            attribute = second.value if type(second) is ast.Constant and type(second.value) is str else ""
            self.store(first, attribute)
            if type(f) is ast.Attribute and self.path(f.value):
                self.store(f.value, attribute)
        path = self.path(f) if type(f) is ast.Attribute and f.attr in _PATH_FUNCTIONS or name in _PATH_FUNCTIONS else None
        if name == "__import__" or path in ("importlib.import_module", "importlib.__import__"):
            if type(literal) is str:
                self.module(literal)
            else:
                self.found.add("call:import")
        if (name == "open" or path in ("io.open", "builtins.open")) and type(literal) is int:
            self.found.add("call:open_descriptor")

    def nested(self, literal):
        try:
            tree = ast.parse(literal)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        for child in tree.body:
            self.scan(child)

    def function(self, n, local):
        self.rebind(n.name, local)

    def class_(self, n, local):
        self.rebind(n.name, local)
        for base in n.bases:
            if type(base) is ast.Name and base.id == "Claim":
                self.found.add("subclass:Claim")

    def global_(self, n, local):
        for name in n.names:
            self.rebind(name)

    def handler(self, n, local):
        if n.name:
            self.rebind(n.name, local)

    def capture(self, n, local):
        name = n.rest if type(n) is ast.MatchMapping else n.name
        if name:
            self.rebind(name, local)

    def constant(self, n, local):
        if type(n.value) is str and ("_" in n.value or "/" in n.value):
            self.text(n.value)


_CHECKS = {
    ast.Import: Scan.import_, ast.ImportFrom: Scan.import_from, ast.Name: Scan.name, ast.Attribute: Scan.attribute,
    ast.Subscript: Scan.subscript, ast.Call: Scan.call, ast.FunctionDef: Scan.function,
    ast.AsyncFunctionDef: Scan.function, ast.ClassDef: Scan.class_, ast.Global: Scan.global_,
    ast.ExceptHandler: Scan.handler, ast.MatchAs: Scan.capture, ast.MatchStar: Scan.capture,
    ast.MatchMapping: Scan.capture, ast.Constant: Scan.constant,
}
