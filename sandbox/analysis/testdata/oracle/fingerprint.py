"""A value's deep fingerprint: equal for equal contents, whatever the object's identity.

Invariant: taking it changes nothing. What can't be looked into without using it up is opaque.
"""

import hashlib
import types

import numpy as np
import pandas as pd

MAX_DEPTH = 8
MAX_PARTS = 20000


def fingerprint(value):
    """(hex digest, whether every part could be compared)."""
    taker = _Taker()
    taker.take(value, 0)
    return taker.digest.hexdigest()[:20], not taker.opaque


class _Taker:
    def __init__(self):
        self.digest = hashlib.sha1()
        self.opaque = False
        self.parts = 0
        self.path = []

    def say(self, *texts):
        for text in texts:
            self.digest.update(text if isinstance(text, bytes) else str(text).encode("utf-8", "replace"))
            self.digest.update(b"\x00")

    def hide(self, value):
        self.opaque = True
        self.say("opaque", type(value).__qualname__)

    def take(self, v, depth):
        self.parts += 1
        if depth > MAX_DEPTH or self.parts > MAX_PARTS:
            self.hide(v)
            return
        if id(v) in self.path:
            self.say("loop", len(self.path) - self.path.index(id(v)))
            return
        self.path.append(id(v))
        try:
            self.look(v, depth)
        except Exception:
            self.hide(v)
        finally:
            self.path.pop()

    def look(self, v, depth):
        t = type(v)
        if v is None or t in (bool, int, float, complex, str, bytes):
            self.say(t.__name__, repr(v))
        elif isinstance(v, (np.generic, pd.Timestamp, pd.Timedelta, pd.Interval, pd.Period)) or v is pd.NaT or v is pd.NA:
            self.say("scalar", repr(v))
        elif isinstance(v, pd.DataFrame):
            self.say("frame", v.shape)
            self.take(v.index, depth + 1)
            self.take(v.columns, depth + 1)
            for i in range(v.shape[1]):
                self.column(v.iloc[:, i])
        elif isinstance(v, pd.Series):
            self.say("series", v.name, len(v))
            self.take(v.index, depth + 1)
            self.column(v)
        elif isinstance(v, pd.MultiIndex):
            self.say("multi", list(v.names), repr(v.tolist()))
        elif isinstance(v, pd.Index):
            self.say("index", v.name)
            self.column(v)
        elif isinstance(v, np.ndarray):
            self.say("array", v.dtype, v.shape)
            self.say(repr(v.tolist()) if v.dtype.hasobject else np.ascontiguousarray(v).tobytes())
        elif isinstance(v, dict):
            self.say("dict", len(v))
            if callable(getattr(v, "default_factory", None)):
                self.take(v.default_factory, depth + 1)
            for k, x in list(v.items()):
                self.take(k, depth + 1)
                self.take(x, depth + 1)
        elif isinstance(v, (set, frozenset)):
            self.say("set", sorted(fingerprint(x)[0] for x in v))
        elif isinstance(v, (list, tuple)) or t.__module__ == "collections" and t.__name__ == "deque":
            self.say(t.__name__, len(v))
            for x in list(v):
                self.take(x, depth + 1)
        else:
            self.other(v, t, depth)

    def column(self, v):
        a = v.to_numpy()
        self.say(v.dtype)
        self.say(repr(a.tolist()) if a.dtype.hasobject else np.ascontiguousarray(a).tobytes())

    def other(self, v, t, depth):
        module = t.__module__.split(".")[0]
        if isinstance(v, types.FunctionType):
            self.function(v, depth)
        elif isinstance(v, type):
            self.say("class", v.__qualname__)
            if v.__module__ == "__main__":
                for name, x in sorted(vars(v).items()):
                    if not name.startswith("__") or isinstance(x, types.FunctionType):
                        self.say(name)
                        self.take(x, depth + 1)
        elif isinstance(v, types.MethodType):
            self.say("method", v.__func__.__qualname__)
            self.take(v.__self__, depth + 1)
        elif isinstance(v, (property, classmethod, staticmethod)):
            self.say(t.__name__)
            self.take(v.fget if t is property else v.__func__, depth + 1)
        elif module == "matplotlib":
            self.drawing(v, t)
        elif module == "sqlite3":
            self.say("connection", *v.iterdump()) if t.__name__ == "Connection" else self.hide(v)
        elif module in ("decimal", "datetime", "fractions", "pathlib", "uuid", "re", "_pydatetime"):
            self.say(t.__qualname__, repr(v))
        elif module == "functools" and t.__name__ == "partial":
            self.say("partial")
            self.take((v.func, v.args, v.keywords), depth + 1)
        elif isinstance(v, (types.BuiltinFunctionType, types.ModuleType)):
            self.say(t.__name__, getattr(v, "__name__", ""))
            if type(getattr(v, "__self__", None)) in (list, dict, set):
                self.take(v.__self__, depth + 1)
        elif hasattr(v, "__dict__") and module not in ("_io", "io", "builtins", "itertools") and not hasattr(v, "__next__"):
            self.say("object", t.__module__, t.__qualname__)
            if t.__module__ == "__main__":
                # What the class holds is seen through its objects.
                self.take({n: x for n, x in vars(t).items() if not n.startswith("__") and not callable(x)}, depth + 1)
            for name, x in sorted(vars(v).items()):
                if not name.startswith("_cache"):
                    self.say(name)
                    self.take(x, depth + 1)
        else:
            self.hide(v)

    def function(self, v, depth):
        self.say("function", v.__qualname__)
        self.code(v.__code__)
        self.take(v.__defaults__, depth + 1)
        self.take(v.__kwdefaults__, depth + 1)
        for cell in v.__closure__ or ():
            try:
                self.take(cell.cell_contents, depth + 1)
            except ValueError:
                self.say("empty")

    def code(self, code):
        self.say(code.co_code)
        for c in code.co_consts:
            self.code(c) if isinstance(c, types.CodeType) else self.say(repr(c))

    def drawing(self, v, t):
        self.say("drawing", t.__qualname__)
        axes = getattr(v, "axes", None) if t.__name__ in ("Figure", "Axes") or hasattr(v, "get_lines") else None
        if axes is None:
            self.hide(v)
            return
        for ax in axes if isinstance(axes, list) else [axes]:
            self.say(ax.get_title(), ax.get_xlabel(), ax.get_ylabel())
            for line in ax.lines:
                self.say(np.asarray(line.get_xydata(), dtype=float).tobytes())
            for patch in ax.patches:
                self.say(patch.get_path().vertices.tobytes(), patch.get_extents().bounds)
            for text in ax.texts:
                self.say(text.get_text())

