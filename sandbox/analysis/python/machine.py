"""The abstract machine: names, roots, stores and the states that paths join.

Invariant: what a statement can read, bind, change in place or open on any path of execution is in
its result, or the result says untracked.
"""

import ast
import builtins
import re

from tables import PRIMITIVES
from kinds import *
from values import DELETED, UNBOUND, UNKNOWN, V, Bound, Cls, Fn, Frame, Inst, alt, join, merge_code, mix, new_value

IDENTIFIER = re.compile(r"[^\W\d]\w*")
_BUILTINS = {name: V(BUILTIN, lib="builtins." + name) for name in
             dir(builtins) + ["__name__", "__file__", "__doc__", "__spec__", "__annotations__"]} | \
    {name: V(PRIMITIVE, lib=name) for name in PRIMITIVES}

# Work allowed per statement, in expressions evaluated; measured 60-line cells need about 2,000.
MAX_STEPS = 40000
MAX_CELL_STEPS = 200000
MAX_DEPTH = 40
MAX_PASSES = 24


_WIDE = ((1 << 2 * 5120) - 1) // 3
NOTHING = 0, 0, 0

# Node type -> handler, which the modules of statements, expressions and calls fill in.
STATEMENTS, EXPRESSIONS = {}, {}

Name = ast.Name


class TooComplex(Exception):
    """The statement takes more work than is allowed; it is then reported as untracked."""


class Heap:
    """What was stored where during the statement: (owners, held roots, code, value it came from)."""
    __slots__ = ("entries", "version", "owners")

    def __init__(self):
        self.entries = {}
        self.version = 0
        self.owners = 0

    def put(self, owner, reach, code, v):
        key = owner
        old = self.entries.get(key)
        new = V(ANY, 0, reach, code, v.reads, v.ctl, v.files, v.flags)
        merged = join(old, new)
        if merged is not old:
            self.entries[key] = merged
            self.version += 1
            self.owners |= owner


class Machine:
    """Interprets one cell, statement by statement, over the state that earlier statements left."""

    def __init__(self, base, used, source):
        self.base = base              # name -> V, which comes from the name alone
        self.used = used              # roots in use
        self.names, self.index = [], {}
        self.files, self.file_index = [], {}
        self.module = Frame("mod", None)
        self.source = source
        self.total = 0                # steps of the statements so far
        self.steps, self.limit = 0, MAX_CELL_STEPS
        self.widen()

    def widen(self):
        """Masks of all identity bits and all interior bits, wide enough for the roots of one cell."""
        wide = _WIDE
        if self.used.bit_length() > 2048:
            size = self.used.bit_length() // 2 + 4096
            wide = ((1 << 2 * size) - 1) // 3
        self.OBJ, self.BUF = wide, wide << 1

    def spend(self, steps):
        """Counts work. Steps are counted and not timed, so that a cell's analysis is the same everywhere."""
        self.steps += steps
        if self.steps > self.limit:
            raise TooComplex()

    def begin(self):
        self.frame = self.module
        self.module.env, self.module.must = {}, set()
        # Module-level names bound on any path, those that raise included; hasty: before the end of
        # the simple statement that binds them (in a function that it calls, or by a walrus).
        self.bound, self.hasty = set(), set()
        self.heap = Heap()
        self.mutated = 0
        # What changes came from, by the roots that changed: (reads, files, flags).
        self.changes = {}
        self.loaded = 0
        self.reads = self.ctl = self.file_bits = 0
        self.flags = 0
        self.written = set()
        self.dynamic_writes = False
        self.untracked, self.taints = set(), set()
        self.calls = {}
        self.sites = {}
        self.fns, self.classes, self.frames = {}, {}, {}
        self.active = {}
        self.depth = 0
        # weak: code runs perhaps never; branch, early, guarded: the same inside a function, because of
        # a branch, a return before, or an exception that a caller catches.
        self.weak = self.branch = self.guarded = 0
        self.early = False
        self.steps = 0
        self.limit = min(MAX_STEPS, max(MAX_CELL_STEPS - self.total, 0))
        self.pcr = self.pcc = self.pcf = self.pcg = 0
        self.tries = []
        self.site = None
        self.imported = set()
        self.unseen = []              # names that the statement uses and nothing is known of

    def ev(self, n):
        self.steps = steps = self.steps + 1
        if steps > self.limit:
            raise TooComplex()
        kind = n.__class__
        if kind is Name:
            return self.load(n.id)
        return EXPRESSIONS[kind](self, n)

    def bit(self, name):
        i = self.index.get(name)
        if i is None:
            i = self.index[name] = len(self.names)
            self.names.append(name)
        return 1 << i

    def file_bit(self, name):
        i = self.file_index.get(name)
        if i is None:
            i = self.file_index[name] = len(self.files)
            self.files.append(name)
        return 1 << i

    def root(self, site):
        """The pair of root bits of an allocation site; the same in each pass over a loop."""
        r = self.sites.get(site)
        if r is None:
            low = ~self.used & (self.used + 1)
            r = low | low << 1
            if low & self.BUF:
                raise AssertionError("roots are pairs")
            self.used |= r
            self.sites[site] = r
        return r

    def owned(self, v, site):
        """v with an identity of its own, as an object has once it is bound to a name."""
        if v.kind in ROOTLESS or v.own & self.OBJ:
            return v
        r = self.root(site)
        if v.own:
            r &= self.OBJ
        return new_value(ANY if v.kind == SEPARATE else v.kind, v.own | r, v.holds, v.code, v.reads, v.ctl, v.files, v.flags,
                         v.const, v.items, v.elems, v.lib)

    def reach(self, v):
        """All roots that can be reached from v, through closures too."""
        out = v.own | v.holds
        if v.code:
            out |= self.code_reach(v.code, set())
        return self.close(out) if self.heap.entries else out

    def code_reach(self, code, seen):
        out = 0
        for item in code:
            if id(item) in seen:
                continue
            seen.add(id(item))
            if isinstance(item, Fn):
                parts = list(item.defaults.values())
                if item.extra is not None:
                    parts.append(item.extra)
                frame = item.closure
                while frame is not None and frame.kind != "mod":
                    out |= frame.root
                    if frame.kind != "cls":
                        parts += frame.seen.values()
                    frame = frame.parent
            elif isinstance(item, Cls):
                parts = list(item.attrs.values())
                out |= item.root | self.code_reach(item.bases, seen)
            elif isinstance(item, Inst):
                parts = []
                out |= self.code_reach((item.cls,), seen)
            elif isinstance(item, Bound):
                parts = [item.me]
                out |= self.code_reach((item.fn,), seen)
            else:
                parts = []
            self.spend(1 + len(parts) // 4)
            for p in parts:
                if id(p) in seen:
                    continue
                seen.add(id(p))
                out |= p.own | p.holds
                if p.code:
                    out |= self.code_reach(p.code, seen)
        return out

    def close(self, mask):
        entries = self.heap.entries
        changed = True
        while changed:
            changed = False
            self.spend(len(entries) // 4)
            for owner, held in entries.items():
                if mask & owner and (held.holds | mask) != mask:
                    mask |= held.holds
                    changed = True
        return mask

    def live(self, v):
        """v as it is now, with all that this statement stored into what it reaches."""
        if not (self.heap.owners | self.mutated):
            return v
        mask = v.own | v.holds
        if v.own & self.mutated and (v.items is not None or v.elems is not None or v.kind == SCALARS):
            v = alt(v, items=None, elems=None, kind=LIST if v.kind == SCALARS else v.kind)
        if not mask & self.heap.owners:
            return v
        mask = self.close(mask)
        hits = [held for owner, held in self.heap.entries.items() if mask & owner]
        code = v.code
        for held in hits:
            code = merge_code(code, held.code)
        out = mix([v] + hits, v.kind, v.own, v.holds | (mask & ~v.own), code)
        out.const, out.lib = v.const, v.lib
        out.kind = LIST if v.kind == SCALARS else v.kind
        return out

    def load(self, name):
        f = self.frame
        if f is not self.module:
            v = self.load_inner(f, name)
            if v is not None:
                return v
        v = self.module.env.get(name) if self.module.env is not None else None
        if v is not None:
            if v is DELETED:
                return UNBOUND
        else:
            v = self.base.get(name)
            if v is None:
                v = self.before(name)
            self.loaded |= v.reads
        return self.live(v) if self.heap.owners or self.mutated else v

    def load_inner(self, f, name):
        """The value of a name of a function's or comprehension's scope; None when it is the module's."""
        here = True
        while f.kind != "mod":
            if name in f.globals:
                break
            if here or f.kind != "cls":
                v = f.env.get(name) if here and f.env is not None else f.seen.get(name)
                if v is not None and v is not DELETED:
                    return self.live(v)
                if here and f.kind == "fn" and name in f.locals:
                    return UNBOUND
            here = here and f.kind == "comp"
            f = f.parent
        return None

    def before(self, name):
        """The value of a module-level name that the state does not hold."""
        v = _BUILTINS.get(name)
        if v is None:
            # Bound by something the pass could not see, or not at all.
            v = self.base[name] = V(ANY, self.root(("name", name)), 0, (UNKNOWN,), self.bit(name))
            self.unseen.append(name)
        return v

    def keep(self, name, v):
        """v is what the next statements find under the name: it comes from the name, unless it is a library's."""
        if v.own or v.kind not in LIBRARY:
            i = self.index.get(name)
            v.reads = 1 << i if i is not None else self.bit(name)
        self.base[name] = v

    def stamp(self, v):
        """v as it is when made on the current path: loops and tests it stands under flow in."""
        if not (self.pcr or self.pcc or self.pcf or self.pcg):
            return v
        return mixed(v, (new_value(ANY, 0, 0, (), self.pcr, self.pcc, self.pcf, self.pcg, None, None, None, None),))

    def sink(self, v):
        """v has an effect outside the expression: it is data that the statement reads."""
        self.reads |= v.reads | self.pcr
        self.ctl |= v.ctl | self.pcc

    def control(self, v):
        self.pcc |= v.reads | v.ctl
        self.ctl |= v.reads | v.ctl

    def bind(self, name, v, site, walrus=False, imported=False):
        f = self.frame
        if v.kind in LIBRARY and not imported and not v.own:
            # A library's value under a name of the cell's own is a variable, unlike an import.
            v = alt(v, own=self.root(site))
        if walrus:
            while f.kind == "comp":
                f = f.parent
        v = self.stamp(self.owned(v, site))
        if f.kind == "mod" or name in f.globals:
            self.sink(v)
            self.bound.add(name)
            if walrus or self.frame is not self.module:
                self.hasty.add(name)
            self.bind_module(name, v, self.weak or self.branch or self.early or self.guarded)
            return
        if name in f.nonlocals:
            self.bind_nonlocal(f, name, v)
            return
        if self.weak and walrus:
            v = join(v, f.env.get(name))
        f.env[name] = v
        f.must.add(name)
        if f.inner or f.kind == "comp":
            f.seen[name] = join(f.seen.get(name), v)

    def bind_module(self, name, v, weak):
        env = self.module.env
        if env is None:
            return
        if weak:
            old = env.get(name)
            if old is None:
                old = self.earlier(name)
            if old is not None and old is not DELETED:
                v = join(v, old)
        else:
            self.module.must.add(name)
        env[name] = v
        if v.kind == LIB:
            self.imported.add(name)

    def earlier(self, name):
        """The value before the statement of a name that is bound on some paths only."""
        v = self.base.get(name)
        return v if v is None or v.reads else alt(v, reads=self.bit(name))

    def bind_nonlocal(self, f, name, v):
        p = f.parent
        while p is not None and p.kind != "mod":
            if p.kind == "fn" and (name in p.locals or name in p.seen):
                p.seen[name] = join(p.seen.get(name), v)
                if p.env is not None and name in p.env:
                    p.env[name] = join(p.env[name], v)
                if not p.root:
                    p.root = self.root(("frame", id(p)))
                self.mutate(p.root, v)
                return
            p = p.parent

    def mutate(self, mask, *values):
        """Objects with these roots change; values are what the change comes from."""
        self.mutate_by(mask, values)

    def mutate_by(self, mask, values):
        self.mutated |= mask
        r, f, g = self.changes.get(mask, NOTHING)
        r, f, g = r | self.pcr, f | self.pcf, g | self.pcg
        for v in values:
            self.sink(v)
            r, f, g = r | v.reads, f | v.files, g | v.flags
        self.changes[mask] = r, f, g

    def alter(self, mask, me, *values):
        """As mutate, of one object that takes the values in: me says which object it is, and what it was
        before stays in it. What else an object does when it changes is only known of some kinds."""
        if me.kind in SELF_CONTAINED and not me.code and me.lib != FOREIGN:
            self.sink(me)
            self.mutate_by(mask, values)
        else:
            self.mutate_by(mask, (me, *values))

    def hold(self, owner, reach, code, v):
        """v is stored in the owner on the current path."""
        self.heap.put(owner, reach, code, self.stamp(v))

    def store(self, target, v, mask=None):
        """v becomes part of target. mask narrows what of target changes."""
        own = target.own if mask is None else mask
        self.alter(own, target, v)
        owner = target.own | (target.holds if not target.own else 0)
        if owner:
            held = self.reach(v) if v.own or v.holds or v.code else 0
            if target.kind in TABULAR and v.kind in TABULAR:
                held &= ~v.own
            self.hold(owner, held, v.code, v)

    def note_files(self, v):
        self.file_bits |= v.files
        self.flags |= v.flags & DYNAMIC

    def fork(self):
        f = self.frame
        return None if f.env is None else (dict(f.env), set(f.must))

    def set(self, state):
        f = self.frame
        if state is None:
            f.env = None
        else:
            f.env, f.must = dict(state[0]), set(state[1])

    def take(self):
        f = self.frame
        return None if f.env is None else (f.env, f.must)

    def join_states(self, a, b):
        if a is None:
            return b
        if b is None or a is b:
            return a
        ea, eb = a[0], b[0]
        self.spend((len(ea) + len(eb)) // 4)
        out = {}
        outer = self.earlier if self.frame.kind == "mod" else lambda name: None
        for name, v in ea.items():
            w = eb[name] if name in eb else outer(name)
            out[name] = join(v, w)
        for name, w in eb.items():
            if name not in ea:
                v = outer(name)
                out[name] = w if v is None else join(v, w)
        return out, a[1] & b[1]


def same(a, b):
    if a is None or b is None:
        return a is b
    ea, eb = a[0], b[0]
    return len(ea) == len(eb) and a[1] == b[1] and all(eb.get(k) is v for k, v in ea.items())


def mix_onto(v, *others):
    """v that also comes from the others."""
    return mixed(v, others)


def mixed(v, others):
    r = c = f = g = 0
    for o in others:
        r |= o.reads
        c |= o.ctl
        f |= o.files
        g |= o.flags
    if not (r or c or f or g):
        return v
    elems = v.elems
    if elems:
        # The parts of a display come from what the whole comes from.
        source = (new_value(ANY, 0, 0, (), r, c, f, g, None, None, None, None),)
        elems = tuple([mixed(e, source) for e in elems])
    return new_value(v.kind, v.own, v.holds, v.code, v.reads | r, v.ctl | c, v.files | f, v.flags | g,
                     v.const, v.items, elems, v.lib)
