"""The state between statements: what each module-level name may be, as compact JSON.

Keys are names, plus "$f:<hash>" for the source of a function or class that names refer to.
"""

import ast
import hashlib
import re

from scope import free_names
from kinds import *
from values import UNKNOWN, V, Bound, Cls, Fn, Frame, Inst, join

LINE_END = re.compile(r"\r\n?|\n")
_trees = {}
MAX_TREES = 2000
# Code that is nested deeper, or takes more, is kept as unknown code: calls of it are untracked.
MAX_NESTING, MAX_CODE_ITEMS = 6, 120


def bits(mask):
    out = []
    while mask:
        low = mask & -mask
        out.append(low.bit_length() - 1)
        mask ^= low
    return out


def mask(numbers):
    """The mask of bits given as numbers, or as bits_text writes them."""
    if numbers.__class__ is str:
        numbers = map(int, numbers.split(",")) if numbers != "-" else ()
    out = 0
    for n in numbers:
        out |= 1 << n
    return out


def forget():
    """Drops parsed sources when there are many; they are parsed again when needed."""
    if len(_trees) > MAX_TREES:
        _trees.clear()


def plain(v):
    """A value without code. Most are a text, "kind:own:holds:lib", which costs a third of an object."""
    if v.const is None and v.items is None and not v.flags & UNTRACKED:
        own, holds = v.own, v.holds
        return "%s:%s:%s:%s" % (v.kind, _texts.get(own) or bits_text(own), _texts.get(holds) or bits_text(holds), v.lib or "")
    out = {"k": v.kind}
    if v.own:
        out["o"] = bits(v.own)
    if v.holds:
        out["h"] = bits(v.holds)
    if v.const is not None:
        out["c"] = sorted(v.const)
    if v.items is not None:
        out["i"] = sorted(v.items)
    if v.lib is not None:
        out["m"] = v.lib
    if v.flags & UNTRACKED:
        out["u"] = 1
    return out


def bits_text(mask):
    if len(_texts) > MAX_TREES:
        _texts.clear()
    text = _texts[mask] = ",".join(map(str, bits(mask))) or "-"
    return text


_texts = {}


class Coder:
    """Turns values into JSON and back; sources of functions are kept apart, by hash."""

    def __init__(self, raw, module, source):
        self.raw = raw                # key -> decoded JSON of the incoming state
        self.module = module          # the module frame: the closure of top-level functions
        self.known = set(k for k in raw if k.startswith("$f:"))
        self.new = {}
        self.source = source          # of this cell
        self.closures = {}            # closures with a root are one object for all that share them

    # ---- out ----------------------------------------------------------------------------------

    def encode(self, v, depth=0):
        if not v.code:
            return plain(v)
        if depth == 0:
            self.budget = MAX_CODE_ITEMS
        out = plain(v)
        if out.__class__ is str:
            out = {"p": out}
        self.budget -= len(v.code)
        if depth > MAX_NESTING or self.budget < 0:
            out["f"] = [None]
        else:
            out["f"] = [self.encode_code(c, depth + 1) for c in v.code]
        return out

    def encode_code(self, c, depth):
        if isinstance(c, Fn):
            out = {"t": "f", "s": self.keep(c.node)}
            if out["s"] is None:
                return None
            if c.defaults:
                out["d"] = {n: self.encode(v, depth) for n, v in c.defaults.items()}
            if c.extra is not None:
                out["x"] = self.encode(c.extra, depth)
            if c.pending:
                out["p"] = 1
            if c.decorators:
                out["a"] = list(c.decorators)
            env = self.environment(c, depth)
            if env is None:
                return None
            if env:
                out["e"] = env
                if c.closure.root:
                    out["r"] = bits(c.closure.root)
            if c.cls is not None and depth < MAX_NESTING and self.budget > 0:
                out["b"] = [self.encode_code(b, depth + 1) for b in c.cls.bases]
                out["z"] = 1 if c.cls.open else 0
            return out
        if isinstance(c, (Cls, Inst)):
            cls = c.cls if isinstance(c, Inst) else c
            return {"t": "c" if c is cls else "i", "n": cls.name, "z": 1 if cls.open else 0, "r": bits(cls.root),
                    "a": {n: self.encode(v, depth) for n, v in cls.attrs.items()},
                    "b": [self.encode_code(b, depth + 1) for b in cls.bases]}
        if isinstance(c, Bound):
            return {"t": "b", "f": self.encode_code(c.fn, depth), "v": self.encode(c.me, depth + 1)}
        return None

    def environment(self, fn, depth):
        """What a nested function closes over; None when it is too much to keep."""
        env = {}
        wanted = free_names(fn.node)
        f = fn.closure
        while f is not None and f.kind != "mod":
            if f.kind != "cls":
                for name, v in f.seen.items():
                    if name in wanted and name not in env:
                        env[name] = v
            f = f.parent
        if not env:
            return {}
        if depth >= MAX_NESTING or len(env) > 40:
            return None
        return {n: self.encode(v, depth) for n, v in env.items()}

    def written(self, node):
        """The function's source, which parses to the same function; None when there is none."""
        if node.col_offset == 0 and type(node) is ast.FunctionDef and self.source.isascii():
            # Written at the margin, so a statement of this cell as it stands: unparsing takes ten times as long.
            lines = LINE_END.split(self.source)[node.lineno - 1:node.end_lineno]
            lines[-1] = lines[-1][:node.end_col_offset]
            return "\n".join(lines)
        try:
            text = ast.unparse(node) if type(node) is not ast.Lambda and type(node) is not ast.GeneratorExp \
                else "(" + ast.unparse(node).strip() + ")"
        except (RecursionError, ValueError):
            return None
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.decorator_list:
            text = "\n".join(text.split("\n")[len(node.decorator_list):]) if all(
                d.lineno == d.end_lineno for d in node.decorator_list) else text
        return text

    def keep(self, node):
        key = getattr(node, "_key", None)
        if key is None:
            text = self.written(node)
            if text is None:
                return None
            if len(text) > 60000:
                return None
            key = node._key = "$f:" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
            node._text = text
        _trees.setdefault(key, node)
        if key not in self.known:
            self.new[key] = node._text
            self.known.add(key)
        return key

    # ---- in -----------------------------------------------------------------------------------

    def decode(self, d):
        text = d if d.__class__ is str else d.get("p")
        if text is not None:
            kind, own, holds, lib = text.split(":", 3)
            v = V(kind, mask(own), mask(holds), lib=lib or None)
            if text is d:
                return v
        else:
            v = V(d.get("k", ANY), mask(d.get("o", ())), mask(d.get("h", ())))
            if "c" in d:
                v.const = frozenset(d["c"])
            if "i" in d:
                v.items = frozenset(d["i"])
            v.lib = d.get("m")
            if "u" in d:
                v.flags = UNTRACKED
        if "f" in d:
            v.code = tuple([self.decode_code(c) for c in d["f"]])
        return v

    def decode_code(self, c):
        if c is None:
            return UNKNOWN
        t = c["t"]
        if t == "f":
            node = self.tree(c["s"])
            if node is None:
                return UNKNOWN
            closure = self.module
            if "e" in c:
                closure = self.closure(c)
            fn = Fn(node, closure)
            fn.defaults = {n: self.decode(v) for n, v in c.get("d", {}).items()}
            if "x" in c:
                fn.extra = self.decode(c["x"])
            fn.pending = bool(c.get("p"))
            fn.decorators = tuple(c.get("a", ()))
            if "b" in c:
                cls = Cls("")
                cls.bases = tuple(b for b in map(self.decode_code, c["b"]) if isinstance(b, Cls))
                cls.open = bool(c.get("z")) or len(cls.bases) != len(c["b"])
                fn.cls = cls
            return fn
        if t in "ci":
            cls = Cls(c["n"])
            cls.root = mask(c.get("r", ()))
            cls.attrs = {n: self.decode(v) for n, v in c["a"].items()}
            cls.bases = tuple(b for b in map(self.decode_code, c["b"]) if isinstance(b, Cls))
            cls.open = bool(c.get("z")) or len(cls.bases) != len(c["b"])
            return cls if t == "c" else cls.inst
        if t == "b":
            fn = self.decode_code(c["f"])
            return Bound(fn, self.decode(c["v"])) if isinstance(fn, Fn) else UNKNOWN
        return UNKNOWN

    def closure(self, c):
        root = mask(c.get("r", ()))
        frame = self.closures.get(root) if root else None
        if frame is None:
            frame = Frame("fn", self.module)
            frame.root, frame.env = root, None
            if root:
                self.closures[root] = frame
        for name, v in c["e"].items():
            frame.seen[name] = join(frame.seen.get(name), self.decode(v))
        frame.locals = frozenset(frame.seen)
        return frame

    def tree(self, key):
        node = _trees.get(key)
        if node is None:
            text = self.raw.get(key)
            if not isinstance(text, str):
                return None
            try:
                module = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return None
            node = module.body[0]
            if isinstance(node, ast.Expr):
                node = node.value
            node._key, node._text = key, text
            _trees[key] = node
        return node

