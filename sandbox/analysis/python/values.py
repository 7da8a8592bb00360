"""Abstract values.

A value says what a Python object may be and what it may share. Sets are int bitmasks.

own    roots that the object itself may be. A root is a pair of bits: the even bit is the object's
       identity, the odd one its interior (buffer, elements), which views and elements share.
holds  roots that can be reached through the object.
reads, ctl, files, flags   what the object's value comes from: names as data, names as control,
       literal files, and the two marks below.
Invariant: every operation only ever adds bits; dropping one would be an under-report.
"""

from kinds import *


class V:
    __slots__ = ("kind", "own", "holds", "code", "reads", "ctl", "files", "flags",
                 "const", "items", "elems", "lib")

    def __init__(self, kind=ANY, own=0, holds=0, code=(), reads=0, ctl=0, files=0, flags=0,
                 const=None, items=None, elems=None, lib=None):
        self.kind = kind
        self.own = own
        self.holds = holds
        self.code = code
        self.reads = reads
        self.ctl = ctl
        self.files = files
        self.flags = flags
        self.const = const
        self.items = items
        self.elems = elems
        self.lib = lib


def new_value(kind, own, holds, code, reads, ctl, files, flags, const, items, elems, lib):
    """As V(...): compiled, this is several times faster."""
    v = V.__new__(V)
    v.kind, v.own, v.holds, v.code = kind, own, holds, code
    v.reads, v.ctl, v.files, v.flags = reads, ctl, files, flags
    v.const, v.items, v.elems, v.lib = const, items, elems, lib
    return v


def unmangled(name):
    """The private name __x that a class's own code writes for what others see as _Class__x."""
    at = name.find("__", 1)
    return name[at:] if at > 0 and name[0] == "_" and name[1] != "_" and not name.endswith("__") else name


def alt(v, **changes):
    out = new_value(v.kind, v.own, v.holds, v.code, v.reads, v.ctl, v.files, v.flags, v.const, v.items, v.elems, v.lib)
    for key, value in changes.items():
        setattr(out, key, value)
    return out


class Unknown:
    """Code that the pass has never seen."""


UNKNOWN = Unknown()
UNBOUND = V(SCALAR)
DELETED = V("deleted")


def mix(values, kind=ANY, own=0, holds=0, code=()):
    """A value of the given shape that comes from all the values."""
    r = c = f = g = 0
    for v in values:
        r |= v.reads
        c |= v.ctl
        f |= v.files
        g |= v.flags
    return new_value(kind, own, holds, code, r, c, f, g, None, None, None, None)


def merge_code(a, b):
    if not b or a is b or a == b:
        return a
    if not a:
        return b
    known = set(map(id, a))
    out = [item for item in b if id(item) not in known]
    if not out:
        return a
    out = list(a) + out
    if len(out) > MAX_CODE:
        return (UNKNOWN,) if UNKNOWN not in a else a
    return tuple(out)


def join_kind(a, b):
    if a == b:
        return a
    if a == "deleted":
        return b
    if b == "deleted":
        return a
    if LIB in (a, b) and SCALAR in (a, b):
        return LIB
    if a in (LIST, SCALARS) and b in (LIST, SCALARS):
        return LIST
    if a in PANDAS_KINDS and b in PANDAS_KINDS:
        return PANDAS
    return ANY


def join_constants(a, b):
    if a is b:
        return a
    if a is None or b is None:
        return None
    out = a | b
    return out if len(out) <= MAX_CONSTANTS else None


def join(a, b):
    """The value that is a or b. Returns a itself when b adds nothing: loops stop on identity."""
    if a is b or b is None:
        return a
    if a is None:
        return b
    kind = join_kind(a.kind, b.kind)
    own, holds = a.own | b.own, a.holds | b.holds
    code = merge_code(a.code, b.code)
    reads, ctl = a.reads | b.reads, a.ctl | b.ctl
    files, flags = a.files | b.files, a.flags | b.flags
    const, items = join_constants(a.const, b.const), join_constants(a.items, b.items)
    lib = a.lib if a.lib == b.lib or b.lib is None else b.lib if a.lib is None else None
    if kind == LIB and lib is None:
        kind = ANY
    ea, eb = a.elems, b.elems
    if ea is eb:
        elems = ea
    elif ea is None or eb is None or len(ea) != len(eb):
        elems = None
    else:
        elems = tuple([join(x, y) for x, y in zip(ea, eb)])
        if all([x is y for x, y in zip(ea, elems)]):
            elems = ea
    if (kind == a.kind and own == a.own and holds == a.holds and code is a.code and reads == a.reads
            and ctl == a.ctl and files == a.files and flags == a.flags and const == a.const
            and items == a.items and elems is a.elems and lib == a.lib):
        return a
    return new_value(kind, own, holds, code, reads, ctl, files, flags, const, items, elems, lib)


def join_all(values):
    out = None
    for v in values:
        out = join(out, v)
    return out


class Fn:
    """A function, lambda or generator expression with what it closes over."""
    __slots__ = ("node", "closure", "defaults", "extra", "pending", "decorators", "cls", "source", "original")

    def __init__(self, node, closure, source=None):
        self.node = node
        self.closure = closure
        self.defaults = {}
        self.extra = None        # may be bound to any parameter (partial, map, defaultdict)
        self.pending = False     # runs when the value is used: generators, lazy iterators
        self.decorators = ()
        self.cls = None
        self.source = source     # (key, text) once known
        self.original = None


class Cls:
    """A user class."""
    __slots__ = ("name", "attrs", "bases", "open", "inst", "node", "root")

    def __init__(self, name, node=None):
        self.name = name
        self.attrs = {}
        self.bases = ()
        self.open = False        # has a base that the pass can't see into
        self.inst = Inst(self)
        self.node = node
        self.root = 0            # of the class object, which its instances share


class Inst:
    """An instance of a user class."""
    __slots__ = ("cls",)

    def __init__(self, cls):
        self.cls = cls


class Bound:
    """A method bound to its object."""
    __slots__ = ("fn", "me")

    def __init__(self, fn, me):
        self.fn = fn
        self.me = me


class Frame:
    """One scope while it runs: env is the state on the current path, None when it can't go on."""
    __slots__ = ("kind", "env", "must", "parent", "globals", "nonlocals", "locals", "inner",
                 "ret", "yields", "seen", "root", "breaks", "conts", "changed", "recursive", "params", "fn")

    def __init__(self, kind, parent):
        self.kind = kind
        self.parent = parent
        self.env = {}
        self.must = set()
        self.globals = self.nonlocals = self.locals = frozenset()
        self.inner = False
        self.ret = self.yields = None
        self.seen = {}           # every value a name ever had: what closures see
        self.root = 0
        self.breaks = self.conts = None
        self.changed = self.recursive = False
        self.params = {}
        self.fn = None
