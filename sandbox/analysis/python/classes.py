"""User classes, and code that others call: callbacks, operators and lazy values."""

import ast

from machine import mix_onto
from methods import Methods
from scope import parameters
from tables import *
from kinds import *
from values import UNKNOWN, V, Bound, Cls, Fn, Inst, alt, join, join_all, mix

PROPERTIES = words("property cached_property setter")


class Classes(Methods):
    def callbacks(self, values, operands):
        """Library code may call any code it is handed, with any of its operands or their parts."""
        coded = [v for v in values if v.code]
        if not coded:
            return None
        extra = None
        for o in operands:
            if o.kind not in LIBRARY and o.kind != FUNCTION:
                part = alt(o, code=tuple([c for c in o.code if not isinstance(c, Fn)]), const=None, items=None, elems=None)
                part.holds |= part.own
                if part.kind in (LIST, SCALARS, DICT, SET, TUPLE, FUNCTION, LOC, FILE, PATH):
                    part.kind = ANY
                if part.kind in PANDAS_KINDS:
                    part.kind = PANDAS
                extra = join(extra, part)
        return self.invoke(coded, extra)

    def touch(self, v, operands):
        """v takes part in an operation: what its class defines for operators runs, and lazy code runs."""
        if not v.code:
            return None
        out = None
        extra = None
        for item in v.code:
            if isinstance(item, Inst):
                if extra is None:
                    extra = join_all([alt(o, elems=None) for o in operands])
                out = join(out, self.invoke_methods(item.cls, v, extra, only=is_operator))
            elif isinstance(item, Fn) and item.pending:
                out = join(out, self.run_one_pending(item))
        return out

    def run_pending(self, v):
        out = None
        for item in v.code:
            if isinstance(item, Fn) and item.pending:
                out = join(out, self.run_one_pending(item))
        return out

    def run_one_pending(self, fn):
        if type(fn.node) is ast.GeneratorExp:
            r = self.run_generator_expression(fn)
            return None if r is None else alt(r, code=tuple([c for c in r.code if c is not fn]))
        key = ("pending", id(fn))
        if key in self.active:
            return None
        self.active[key] = True
        try:
            out = self.call_fn(fn, [], {}, None, fn.extra)
        finally:
            del self.active[key]
        if out.kind == GEN:
            return mix((out,), ANY, out.holds, out.holds,
                       tuple([c for c in out.code if not (isinstance(c, Fn) and c.pending)]))
        return out

    def invoke(self, coded, extra):
        self.weak += 1
        try:
            return self.invoke_each(coded, extra)
        finally:
            self.weak -= 1

    def invoke_each(self, coded, extra):
        out = None
        for v in coded:
            for item in v.code:
                if isinstance(item, Fn):
                    key = ("invoke", id(item))
                    if key in self.active:
                        continue
                    self.active[key] = True
                    try:
                        r = self.run_one_pending(item) if item.pending else self.call_fn(item, [], {}, None, extra)
                    finally:
                        del self.active[key]
                elif isinstance(item, Bound):
                    r = self.call_fn(item.fn, [item.me], {}, None, extra)
                elif isinstance(item, Cls):
                    r = self.instantiate(item, [extra] if extra is not None else [], {}, item.node)
                elif isinstance(item, Inst):
                    r = self.invoke_methods(item.cls, v, extra)
                else:
                    self.untracked.add("a call of code that was not seen")
                    r = V(ANY, flags=UNTRACKED, code=(UNKNOWN,))
                out = join(out, r)
        return out

    _NOT_IMPLICIT = words("__init__ __new__ __init_subclass__ __class_getitem__ __set_name__ __post_init__")

    def invoke_methods(self, cls, me, extra, only=None):
        """Methods that something unseen may call, with any arguments."""
        out = None
        self.weak += 1
        for c in lineage(cls):
            for name, m in c.attrs.items():
                if name in self._NOT_IMPLICIT:
                    continue
                for item in m.code:
                    if isinstance(item, Fn) and (only is None or only(name, item)):
                        key = ("invoke", id(item))
                        if key in self.active:
                            continue
                        self.active[key] = True
                        try:
                            out = join(out, self.call_fn(item, [me], {}, None, extra))
                        finally:
                            del self.active[key]
        self.weak -= 1
        return out

    def find_method(self, cls, name):
        for c in lineage(cls):
            v = c.attrs.get(name)
            if v is not None:
                return v
        return None

    def instantiate(self, cls, args, kws, n, star=None):
        values = args + list(kws.values())
        own = self.root(("new", id(n), id(cls)))
        me = mix(values, INSTANCE, own, 0, (cls.inst,))
        seen = False
        for hook in ("__new__", "__init__", "__post_init__"):
            found = self.find_method(cls, hook)
            if found is not None and found.code:
                seen = seen or hook == "__init__"
                first = me if hook != "__new__" else V(CLASS, code=(cls,))
                take = values if hook == "__post_init__" else args
                if hook == "__post_init__":
                    self.call_value(found, [me], {}, n)
                else:
                    self.call_value(found, [first] + take, kws, n, star)
            if hook == "__init__" and (not seen or any([c.open for c in lineage(cls)])):
                for v in values:
                    if v.own or v.holds or v.code:
                        self.hold(own, self.reach(v), v.code, v)
        return self.live(me)

    def instance_attribute(self, v, name, n):
        """An attribute that a user class defines; None when the ordinary rules apply."""
        out = None
        for item in v.code:
            cls = item.cls if isinstance(item, Inst) else item if isinstance(item, Cls) else None
            if cls is None:
                continue
            found = self.find_method(cls, name)
            for hook in ("__getattr__", "__getattribute__"):
                h = self.find_method(cls, hook)
                if h is not None:
                    out = join(out, self.call_value(h, [v, V(SCALAR)], {}, n))
            if found is None:
                out = join(out, mix((v,), ANY, v.own | v.holds, v.holds,
                                    tuple([c for c in v.code if not (isinstance(c, Inst) and v.kind == INSTANCE)])))
                continue
            fns = [c for c in found.code if isinstance(c, Fn)]
            if not fns or isinstance(item, Cls):
                out = join(out, mix_onto(alt(found, holds=found.holds | v.holds), v))
                if not fns:
                    out = join(out, mix((v,), ANY, v.own, v.holds, v.code))
                continue
            for fn in fns:
                plain = [d for d in fn.decorators if d not in ("staticmethod", "classmethod")]
                if plain:
                    out = join(out, mix_onto(self.call_fn(fn, [v], {}), v))
                    if set(plain) <= PROPERTIES:
                        continue
                key = ("bound", id(fn), v.own)
                b = self.fns.get(key)
                if b is None:
                    b = self.fns[key] = Bound(fn, v)
                else:
                    b.me = join(b.me, v)
                out = join(out, mix((v,), ANY, v.own, v.holds, (b,)))
        return out

    def super_method(self, name, args, kws, n, star):
        """super().name(...): the bases of the class that the running method belongs to."""
        f = self.frame
        while f is not None and not (f.kind == "fn" and f.fn is not None and f.fn.cls is not None):
            f = f.parent
        values = args + list(kws.values())
        if f is None:
            return self.unknown_call(V(ANY), values, n)
        positional = parameters(f.fn.node.args)[0]
        me = f.env.get(positional[0]) if positional and f.env else None
        if me is None:
            me = V(ANY)
        out = None
        for base in f.fn.cls.bases:
            found = self.find_method(base, name)
            if found is not None:
                out = join(out, self.call_value(found, [me] + args, kws, n, star))
        if out is None or f.fn.cls.open:
            if f.fn.cls.open or name not in ("__init__", "__init_subclass__", "__setattr__", "__enter__", "__exit__"):
                out = join(out, self.unknown_call(alt(me, code=()), values, n))
            else:
                out = mix([me] + values, SCALAR)
        return out

    def user_method(self, v, name, args, kws, n, star):
        """A method that a user class defines."""
        out = None
        handled = True
        for item in v.code:
            cls = item.cls if isinstance(item, Inst) else item if isinstance(item, Cls) else None
            if cls is None:
                if isinstance(item, Fn) and item.pending or item is UNKNOWN:
                    handled = False
                continue
            found = self.find_method(cls, name)
            hooked = any([self.find_method(cls, h) for h in ("__getattr__", "__getattribute__")])
            if found is None or hooked or v.kind not in (INSTANCE, CLASS):
                handled = False
            if found is None:
                # The method may be a function kept in an attribute, or come from an unseen base
                # that calls the class's own methods.
                if isinstance(item, Inst):
                    extra = join_all(args + list(kws.values()))
                    out = join(out, self.invoke_methods(cls, v, extra, only=None if cls.open or hooked else is_operator))
                continue
            for fn in found.code:
                if isinstance(fn, Fn):
                    if isinstance(item, Cls) and "classmethod" not in fn.decorators or "staticmethod" in fn.decorators:
                        r = self.call_fn(fn, args, kws, star)
                    elif [d for d in fn.decorators if d not in ("classmethod",)]:
                        got = self.instance_attribute(v, name, n)
                        r = self.call_value(got, args, kws, n, star)
                    else:
                        r = self.call_fn(fn, [v] + args, kws, star)
                    out = join(out, r)
                elif isinstance(fn, Cls):
                    out = join(out, self.instantiate(fn, args, kws, n, star))
        others = [c for c in v.code if isinstance(c, (Fn, Bound, Cls)) and not (isinstance(c, Fn) and c.pending)]
        if not handled or out is None:
            if others and not (v.kind == CLASS):
                out = join(out, self.call_value(alt(v, code=tuple(others), kind=ANY), args, kws, n, star))
        if handled and out is not None:
            return mix_onto(out, v)
        if v.kind == INSTANCE:
            r = self.unknown_method(alt(v, code=tuple([c for c in v.code if not isinstance(c, Inst)])), [v] + args + list(kws.values()))
            return join(out, r)
        if out is not None:
            # The receiver only holds the instance: the ordinary rules apply as well.
            r = self.unknown_method(v, [v] + args + list(kws.values()) + [out])
            return join(out, r)
        return None


def is_operator(name, fn):
    return name.startswith("__") and name.endswith("__")


def lineage(cls):
    """The class and its user-defined ancestors, nearest first."""
    out, queue = [], [cls]
    while queue and len(out) < 32:
        c = queue.pop(0)
        if c not in out:
            out.append(c)
            queue += [b for b in c.bases if isinstance(b, Cls)]
    return out
