"""Calls: user code is followed, library code is looked up, and the rest may do anything to its operands."""

import ast
import re

import files
from interp import MAX_DEPTH, MAX_PASSES, mix_onto
from scope import free_names, parameters, scope_of
from tables import *
from values import *

IDENTIFIER = re.compile(r"[^\W\d]\w*")
REDUCERS = words("mean sum median std var count min max size nunique first last sem prod idxmax idxmin quantile")
PROPERTIES = words("property cached_property setter")


class Calls:
    def e_call(self, n):
        func = n.func
        receiver = None
        chosen = None
        if type(func) is ast.Call and type(func.func) is ast.Name and func.func.id == "getattr" and len(func.args) == 2:
            chosen = self.ev(func.args[1])
        if chosen is not None and chosen.const:
            receiver = self.ev(func.args[0])
            f = self.ev(func) if receiver.kind in LIBRARY else None
        elif type(func) is ast.Attribute:
            self.steps += 1
            receiver = self.ev(func.value)
            if receiver.kind == LIB:
                f = self.attribute(receiver, func.attr, func)
                receiver = None
            else:
                f = None
        else:
            f = self.ev(func)
        args, star = [], None
        for a in n.args:
            if type(a) is ast.Starred:
                v = self.iterate(self.ev(a.value), id(a))
                star = join(star, v)
            else:
                args.append(self.ev(a))
        kws = {}
        for k in n.keywords:
            v = self.ev(k.value)
            if k.arg is None:
                star = join(star, mix_onto(self.iterate(v, id(k)), v))
                self.touch(v, (v,))
            else:
                kws[k.arg] = v
        if star is not None:
            args = args + [star]
        outer = self.site
        if self.depth == 0 and self.frame.kind == "mod":
            self.site = n
        try:
            if f is not None:
                if f.kind == PRIMITIVE:
                    return self.primitive(f, n, args, kws, star)
                return self.call_value(f, args, kws, n, star)
            if chosen is not None:
                return mix_onto(join_all(self.method(receiver, name, args, kws, n, star) for name in sorted(chosen.const)),
                                chosen)
            return self.method(receiver, func.attr, args, kws, n, star)
        finally:
            self.site = outer

    # ---- primitives ---------------------------------------------------------------------------

    def primitive(self, f, n, args, kws, star):
        direct = self.depth == 0 and self.frame.kind == "mod" and type(n.func) is ast.Name \
            and n.func.id == f.lib
        syntactic = self.depth == 0 and type(n.func) is ast.Name and n.func.id == f.lib
        node = n if syntactic or self.site is None else self.site
        dynamic = star is not None or not direct
        values = args + list(kws.values())
        self.sink(f)
        for v in values:
            self.sink(v)
            if v.code:
                self.touch(v, (v,))
        key = (f.lib, id(node))
        entry = self.calls.get(key)
        if entry is None:
            entry = self.calls[key] = [f.lib, node, dynamic, {}, None]
        entry[2] = entry[2] or dynamic
        if syntactic:
            if f.lib == "bind":
                template = n.args[0] if n.args else None
                for k in n.keywords:
                    if k.arg == "template":
                        template = k.value
                if type(template) is ast.Constant and type(template.value) is str:
                    entry[4] = template.value
                for k in n.keywords:
                    if k.arg is not None and k.arg != "template":
                        old = entry[3].get(k.arg)
                        # A name that this statement bound has no version that the graph could show.
                        whole = type(k.value) is ast.Name and direct and k.value.id not in self.module.env
                        entry[3][k.arg] = (k.value, join(old[1] if old else None, kws[k.arg]),
                                           whole and (old is None or old[2]))
        return self.stamp(mix(values, SCALAR))

    def call_dynamic_primitive(self, lib, node, values):
        for v in values:
            self.sink(v)
        key = (lib, id(node))
        entry = self.calls.get(key)
        if entry is None:
            self.calls[key] = [lib, node, True, {}, None]
        else:
            entry[2] = True

    # ---- values -------------------------------------------------------------------------------

    def call_value(self, f, args, kws, n, star=None):
        kind = f.kind
        if kind == LIB and f.lib and not f.code:
            return self.library(f, args, kws, n)
        if kind == BUILTIN and f.lib:
            return self.builtin(f.lib[9:], args, kws, n, star)
        if kind == PRIMITIVE:
            values = [f] + args + list(kws.values())
            self.call_dynamic_primitive(f.lib, self.site or n, values)
            return mix(values, SCALAR)
        values = args + list(kws.values())
        if f.code:
            out = self.call_code(f, args, kws, n, star)
            if f.own & self.BUF and kind not in (FUNCTION, CLASS, INSTANCE):
                pass
            return mix_onto(out, alt(f, ctl=f.ctl))
        # An unknown callable: a bound method, a library object, anything.
        return self.unknown_call(f, values, n)

    def unknown_call(self, f, values, n):
        everything = [f] + values
        extra = self.callbacks(values, everything)
        if extra is not None:
            everything.append(extra)
        if f.kind != OBJECT:
            for v in everything:
                self.change(v, everything)
        own = holds = 0
        code = ()
        for v in everything:
            own |= v.own
            holds |= v.holds
            code = merge_code(code, v.code)
        return mix(everything, ANY, own, holds, code)

    def change(self, v, sources):
        """v may change in any way, and may come to hold what the sources hold."""
        if v.kind in ROOTLESS and not v.own:
            return
        mask = v.own or v.holds
        if mask:
            self.mutate(mask | (v.holds if v.kind == ANY else 0), *sources)
            for s in sources:
                if s is not v and (s.own or s.holds or s.reads or s.files or s.flags):
                    self.heap.put(mask, self.reach(s), s.code, s)
            self.write_through(v)

    def write_through(self, v):
        if v.kind == FILE:
            if v.const is None:
                self.dynamic_writes = True
            else:
                self.written |= {files.base_name(x) for x in v.const}

    def call_code(self, f, args, kws, n, star):
        """Calls every function that f may be."""
        out = None
        for item in f.code:
            if isinstance(item, Fn):
                if item.extra is not None or not f.own and f.kind == ANY:
                    r = self.call_fn(item, args, kws, star)
                else:
                    r = self.call_fn(item, args, kws, star)
            elif isinstance(item, Cls):
                r = self.instantiate(item, args, kws, n, star)
            elif isinstance(item, Inst):
                found = self.find_method(item.cls, "__call__")
                if found is not None:
                    r = self.call_value(found, [f] + args, kws, n, star)
                else:
                    r = self.callbacks([f], [f] + args + list(kws.values()))
                    r = join(r, self.unknown_call(alt(f, code=()), args + list(kws.values()), n))
            elif isinstance(item, Bound):
                r = self.call_fn(item.fn, [item.me] + args, kws, star)
            else:
                self.untracked.add("a call of code that was not seen")
                r = self.unknown_call(alt(f, code=()), args + list(kws.values()), n)
                r = alt(r, flags=r.flags | UNTRACKED, code=merge_code(r.code, (UNKNOWN,)))
            out = join(out, r)
        if out is None:
            out = self.unknown_call(alt(f, code=()), args + list(kws.values()), n)
        # An instance or wrapper may keep what its code is called with.
        if f.kind not in (FUNCTION, CLASS, INSTANCE) and f.own:
            for v in args + list(kws.values()):
                if v.own or v.holds or v.code:
                    self.heap.put(f.own, self.reach(v), v.code, v)
        return out

    def call_fn(self, fn, args, kws, star=None, extra=None):
        node = fn.node
        if type(node) is ast.GeneratorExp:
            return self.run_generator_expression(fn)
        key = (id(node), id(fn.closure))
        scope = scope_of(node)
        self.spend(5)
        params = self.parameters_of(fn, args, kws, star, extra)
        running = self.active.get(key)
        if running is not None:
            # Recursion: the call in progress takes these arguments too, and runs again if they add anything.
            for name, v in params.items():
                old = running.params.get(name)
                new = join(old, v)
                if new is not old:
                    running.params[name] = new
                    running.changed = True
            return running.ret if running.ret is not None else V(SCALAR)
        if self.depth >= MAX_DEPTH:
            self.untracked.add("calls are nested too deeply to follow")
            return alt(self.unknown_call(V(ANY), list(params.values()), node), flags=UNTRACKED)
        frame = self.frames.get(key)
        if frame is None:
            frame = self.frames[key] = Frame("fn", fn.closure)
        frame.parent = fn.closure
        frame.locals, frame.globals, frame.nonlocals, frame.inner = \
            scope.locals, scope.globals, scope.nonlocals, scope.inner
        frame.fn = fn
        frame.params = params
        frame.ret = frame.yields = None
        saved = self.frame, self.pcr, self.pcc, self.pcf, self.pcg, self.tries
        kept = self.branch, self.early, self.guarded
        self.guarded += bool(self.tries)
        self.branch, self.early = self.branch + self.early, False
        self.active[key] = frame
        self.frame = frame
        self.depth += 1
        try:
            for _ in range(MAX_PASSES):
                before = frame.ret, frame.yields
                frame.changed = False
                frame.env = {}
                frame.must = set()
                self.tries = []
                self.pcr, self.pcc, self.pcf, self.pcg = saved[1:5]
                for name, v in frame.params.items():
                    frame.env[name] = v
                    if scope.inner:
                        frame.seen[name] = join(frame.seen.get(name), v)
                if type(node) is ast.Lambda:
                    frame.ret = join(frame.ret, self.stamp(self.ev(node.body)))
                else:
                    self.run(node.body)
                    frame.ret = join(frame.ret, V(SCALAR, ctl=self.pcc)) if frame.env is not None else frame.ret
                grown = frame.ret is not before[0] or frame.yields is not before[1]
                if not frame.changed and not (grown and self.recursive(node)):
                    break
            else:
                self.untracked.add("recursion is too complex to follow")
        finally:
            del self.active[key]
            self.depth -= 1
            self.branch, self.early, self.guarded = kept
            self.frame, self.pcr, self.pcc, self.pcf, self.pcg, self.tries = saved
            frame.env = None
        out = frame.ret if frame.ret is not None else V(SCALAR)
        if scope.inner and out.code:
            out = self.with_captures(out, frame)
        if scope.generator or type(node) is ast.AsyncFunctionDef:
            return self.lazy(fn, frame, out)
        return out

    def with_captures(self, v, frame):
        """A function that leaves its scope takes along what it captured there."""
        captured = []
        for item in v.code:
            if isinstance(item, Fn) and item.closure is not self.module:
                wanted = free_names(item.node)
                f = item.closure
                while f is not None and f.kind != "mod":
                    captured += [x for name, x in f.seen.items() if name in wanted]
                    f = f.parent
        return mix_onto(v, *captured)

    @staticmethod
    def recursive(node):
        known = getattr(node, "_recursive", None)
        if known is None:
            # A function that never calls anything by its own name can still recur through others;
            # then its return value grows on the next pass, which costs a pass and nothing else.
            known = node._recursive = True
        return known

    def lazy(self, fn, frame, out):
        """A generator or coroutine: its body ran above, and may run again when it is used."""
        y = frame.yields
        held = out if y is None else join(out, y)
        again = Fn(fn.node, fn.closure, fn.source)
        again.defaults = dict(frame.params)
        again.cls, again.decorators = fn.cls, fn.decorators
        again.pending = True
        again.original = fn
        key = ("lazy", id(fn.node), id(fn.closure))
        kept = self.fns.get(key)
        if kept is None:
            kept = self.fns[key] = again
        else:
            for name, v in again.defaults.items():
                kept.defaults[name] = join(kept.defaults.get(name), v)
        reach = 0
        for v in frame.params.values():
            reach |= self.reach(v)
        code = merge_code(held.code, (kept,))
        decorated = "contextmanager" in fn.decorators or "asynccontextmanager" in fn.decorators
        out = mix([held] + list(frame.params.values()) if decorated else [held], GEN, 0, held.own | held.holds | reach, code)
        return out

    def parameters_of(self, fn, args, kws, star, extra):
        node = fn.node
        positional, keyword, varargs, varkw = parameters(node.args)
        out = dict(fn.defaults)
        more = extra
        if fn.extra is not None:
            more = join(more, fn.extra)
        if star is not None:
            more = join(more, star)
            args = args[:-1]
        rest, named = None, None
        shift = fn.extra is not None
        for i, v in enumerate(args):
            if shift:
                more = join(more, v)
            elif i < len(positional):
                out[positional[i]] = v
            else:
                rest = join(rest, v)
        for name, v in kws.items():
            if name in positional or name in keyword:
                out[name] = v
            else:
                named = join(named, v)
        if more is not None:
            for name in positional + keyword:
                out[name] = join(more, out.get(name))
            rest, named = join(rest, more), join(named, more)
        for name in positional + keyword:
            if name not in out:
                out[name] = V(ANY)
        for name, v, kind in ((varargs, rest, TUPLE), (varkw, named, DICT)):
            if name:
                v = v or V(SCALAR)
                out[name] = self.owned(mix((v,), kind, 0, v.own | v.holds, v.code), (id(node), name))
        return {name: self.owned(v, (id(node), name)) if v.kind != SEPARATE and not v.own and v.kind not in ROOTLESS
                else v for name, v in out.items()}

    def run_generator_expression(self, fn):
        node = fn.node
        key = ("gen", id(node), id(fn.closure))
        if key in self.active or self.depth >= MAX_DEPTH:
            return None
        self.active[key] = True
        saved, self.frame = self.frame, fn.closure
        self.depth += 1
        env = None
        if self.frame.kind != "mod" and self.frame.env is None:
            # The scope it was written in has ended: what its names held is what it sees.
            env = self.frame
            env.env = dict(env.seen)
        try:
            return self.comprehension(node, (node.elt,), GEN)
        finally:
            if env is not None:
                env.env = None
            self.depth -= 1
            self.frame = saved
            del self.active[key]

    # ---- code that others call ----------------------------------------------------------------

    def callbacks(self, values, operands):
        """Library code may call any code it is handed, with any of its operands or their parts."""
        coded = [v for v in values if v.code]
        if not coded:
            return None
        extra = None
        for o in operands:
            if o.kind not in LIBRARY and o.kind != FUNCTION:
                part = alt(o, code=tuple(c for c in o.code if not isinstance(c, Fn)), const=None, items=None, elems=None)
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
            return None if r is None else alt(r, code=tuple(c for c in r.code if c is not fn))
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
                       tuple(c for c in out.code if not (isinstance(c, Fn) and c.pending)))
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

    # ---- user classes -------------------------------------------------------------------------

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
            if hook == "__init__" and (not seen or any(c.open for c in lineage(cls))):
                for v in values:
                    if v.own or v.holds or v.code:
                        self.heap.put(own, self.reach(v), v.code, v)
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
                                    tuple(c for c in v.code if not (isinstance(c, Inst) and v.kind == INSTANCE))))
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

    # ---- methods ------------------------------------------------------------------------------

    def method(self, v, name, args, kws, n, star):
        values = args + list(kws.values())
        everything = [v] + values
        if v.kind == SUPER:
            return self.super_method(name, args, kws, n, star)
        if name in ("send", "throw", "asend", "athrow") and v.code:
            self.untracked.add("a value sent into a generator")
        if v.code:
            done = self.user_method(v, name, args, kws, n, star)
            if done is not None:
                return done
        operands = everything
        results = list(everything)
        if any(x.code for x in values):
            extra = self.callbacks(values, operands)
            if extra is not None:
                results.append(extra)
        if v.code:
            extra = self.touch(v, everything)
            if extra is not None:
                results.append(extra)
        kind = v.kind
        if name in TEXT_METHODS and (kind in PANDAS_KINDS or kind == ANY) and (args or "expr" in kws):
            extra = self.text_names(args[0] if args else kws["expr"], n.args[0] if n.args else None, "query")
            if extra is not None:
                results.append(extra)
        out = files.method(self, v, name, args, kws, n)
        if out is not None:
            return mix_onto(out, *results)
        if kind == SCALAR:
            return self.scalar_method(v, name, args, results)
        if kind == PATH:
            return self.path_method(v, name, args, results)
        inplace = self.may_be_true(kws.get("inplace"), n, "inplace")
        if inplace:
            self.mutate(v.own, *results)
            for x in values:
                self.heap.put(v.own, self.reach(x) if x.kind not in TABULAR else 0, x.code, x) if v.own else None
            return mix(results, v.kind, v.own, v.holds, v.code)
        if "out" in kws:
            self.store(kws["out"], mix(results, ANY))
        mutates = self.is_mutator(kind, name, args, n)
        if mutates:
            return self.mutating_method(v, name, args, kws, results)
        self.bound_arguments(n, results)
        if kind in TABULAR or kind == LOC:
            return self.tabular_method(v, name, kws, results, n)
        lazy = [x for x in values if x.code] if name in CALLBACK_METHODS and name not in FRESH_METHODS else ()
        code = ()
        for x in lazy:
            code = merge_code(code, x.code)
        if name in FRESH_METHODS:
            if name in ("strip", "lower", "upper", "item", "format", "startswith", "endswith"):
                return mix(results, SCALAR)
            if name in NUMERIC_METHODS:
                return mix(results, PANDAS, 0, 0, code)
            return mix(results, ANY, 0, v.holds, code)
        if name in VIEW_METHODS or kind in (DICT, LIST, SET, TUPLE, SCALARS, GEN) and name in DICT_PURE:
            if kind == DICT and name in ("get", "values", "items"):
                own = 0
                if name == "get":
                    own = v.holds | v.own & self.BUF
                    for x in args[1:]:
                        own |= x.own | x.holds
                if name == "items" and not v.code:
                    inner = v.holds | v.own & self.BUF
                    out = mix(results, GEN, 0, inner)
                    value = mix(results, ANY, inner, v.holds)
                    out.elems = (alt(mix(results, TUPLE, 0, inner), elems=(mix(results, SCALAR), value)),)
                    return out
                return mix(results, ANY if name == "get" else GEN, own, v.holds | v.own & self.BUF, v.code)
            if name in ("get", "__getitem__", "xs", "get_group"):
                out = self.iterate(alt(v, elems=None, kind=ANY if kind == DICT else kind), id(n))
                for x in args[1:]:
                    out = join(out, x)
                return mix_onto(out, *results)
            return mix(results, v.kind if kind in TABULAR else ANY, v.own, v.holds, merge_code(v.code, code))
        if kind == OBJECT:
            # An object of a library whose functions leave their arguments alone.
            self.mutate(v.own, *results)
            for x in values:
                if v.own and (x.own or x.holds or x.code):
                    self.heap.put(v.own, self.reach(x), x.code, x)
            return mix(results, OBJECT, v.own, v.holds, merge_code(v.code, code))
        if kind == FILE:
            self.change(v, results)
            return mix(results, ANY, v.own, v.holds)
        return self.unknown_method(v, results)

    def unknown_method(self, v, results):
        for x in results:
            self.change(x, results)
        own = holds = 0
        code = ()
        for x in results:
            own |= x.own
            holds |= x.holds
            code = merge_code(code, x.code)
        return mix(results, ANY, own, holds, code)

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
            hooked = any(self.find_method(cls, h) for h in ("__getattr__", "__getattribute__"))
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
            elif out is not None and v.kind == INSTANCE and not any(c.cls.open for c in v.code if isinstance(c, Inst)):
                pass
        if handled and out is not None:
            return mix_onto(out, v)
        if v.kind == INSTANCE:
            r = self.unknown_method(alt(v, code=tuple(c for c in v.code if not isinstance(c, Inst))), [v] + args + list(kws.values()))
            return join(out, r)
        if out is not None:
            # The receiver only holds the instance: the ordinary rules apply as well.
            r = self.unknown_method(v, [v] + args + list(kws.values()) + [out])
            return join(out, r)
        return None

    def may_be_true(self, v, n, keyword):
        if v is None:
            return False
        for k in n.keywords if isinstance(n, ast.Call) else ():
            if k.arg == keyword and type(k.value) is ast.Constant:
                return bool(k.value.value)
        return True

    def is_mutator(self, kind, name, args, n):
        if name not in MUTATORS:
            return False
        if kind in PANDAS_KINDS or kind == LOC:
            return name in PANDAS_MUTATORS and kind not in (INDEX, GROUP, GROUPED_SERIES)
        if kind == ARRAY:
            return name in ARRAY_MUTATORS
        if kind in (LIST, SCALARS, DICT, SET, TUPLE):
            return name in CONTAINER_MUTATORS
        if name.startswith("execute") and args and args[0].const:
            # Reading SQL leaves the connection as it was.
            return not all(re.match(r"\s*(select|pragma|with|explain|describe|show)\b", c, re.I) for c in args[0].const)
        if name == "shuffle" and args:
            self.mutate(args[0].own, args[0])
        return True

    def mutating_method(self, v, name, args, kws, results):
        values = args + list(kws.values())
        own = v.own or v.holds
        if v.kind == OBJECT or v.kind == ANY and name not in CONTAINER_MUTATORS and name not in ESTIMATOR_METHODS:
            # What is written to a wrapper goes on to what it wraps.
            own = v.own | v.holds if v.kind == ANY or name in WRITES else v.own
        self.mutate(own, *results)
        self.write_through(v)
        if v.own:
            for x in values:
                held = self.reach(x)
                if name in ("extend", "update", "intersection_update", "difference_update", "extendleft"):
                    held &= ~(x.own & self.OBJ) if x.kind not in ROOTLESS else held
                if v.kind in TABULAR:
                    held = x.holds
                if held or x.code or x.reads or x.ctl or x.files or x.flags:
                    self.heap.put(v.own, held, x.code, self.stamp(x))
        if name in ("fit_transform", "fit_predict", "fit_resample"):
            return mix(results, SEPARATE if name == "fit_resample" else ARRAY if name == "fit_predict" else ANY)
        if name in ("pop", "popitem", "popleft", "setdefault"):
            out = mix(results, ANY, v.holds | v.own & self.BUF, v.holds, v.code)
            if name == "setdefault":
                for x in args[1:]:
                    out.own |= x.own
                    out.holds |= x.own | x.holds
                if len(args) > 1 and not args[1].own and args[1].kind not in ROOTLESS:
                    pass
            if v.kind == FRAME and name == "pop":
                out.kind = SERIES
            if v.kind == SCALARS:
                out = mix(results, SCALAR)
            return out
        if name in CONTAINER_MUTATORS and v.kind in (LIST, SCALARS, DICT, SET):
            return V(SCALAR)
        kind = v.kind if v.kind in (OBJECT, ARRAY) else ANY
        return mix(results, kind, v.own, v.holds, v.code)

    def tabular_method(self, v, name, kws, results, n):
        kind = v.kind
        held = v.holds
        view = v.own & self.BUF
        if name in ("tolist", "to_list", "unique", "to_dict"):
            out = LIST if held or kind == FRAME else SCALARS
            return mix(results, ARRAY if name == "unique" else DICT if name == "to_dict" and kind != FRAME else out, 0, held)
        if name in ("item", "to_string", "to_markdown", "nunique", "idxmax", "idxmin") and kind in (SERIES, INDEX):
            return mix(results, SCALAR)
        if name == "groupby":
            return mix(results, GROUP, view, held)
        if name in ("iterrows", "items", "iteritems"):
            out = mix(results, GEN, 0, view | held)
            second = mix(results, SERIES, view, held) if kind == FRAME else mix(results, PANDAS, view, held)
            out.elems = (alt(mix(results, TUPLE, 0, view | held), elems=(mix(results, SCALAR), second)),)
            return out
        if name == "itertuples":
            return mix(results, GEN, 0, held)
        if kind == ARRAY:
            rk = ARRAY
        elif kind == FRAME and name in FRAME_TO_FRAME or name in ("reset_index", "to_frame"):
            rk = FRAME
        elif kind == SERIES and name in FRAME_TO_FRAME or kind == INDEX and name in FRESH_METHODS or \
                name == "value_counts" or kind == GROUPED_SERIES and name in REDUCERS or kind == FRAME and name in REDUCERS:
            rk = SERIES if kind != INDEX else INDEX
        else:
            rk = PANDAS
        fresh = name in FRESH_METHODS and name not in VIEW_METHODS
        copy_keyword = kws.get("copy") or kws.get("deep")
        if copy_keyword is not None and not self.may_be_true(copy_keyword, n, "copy" if "copy" in kws else "deep"):
            fresh = False
        if name == "copy" and kind == FRAME and n.args:
            fresh = False
        if fresh:
            return mix(results, rk, 0, held)
        own = v.own & self.BUF if v.own else 0
        for x in results[1:]:
            if x.kind in TABULAR or x.kind == ANY:
                own |= x.own & self.BUF if name in ("pipe", "align") else 0
        if name == "pipe":
            for x in results[1:]:
                own |= x.own
        return mix(results, rk, own, held, v.code)

    def scalar_method(self, v, name, args, results):
        out = mix(results, SCALAR)
        if name in ("split", "rsplit", "splitlines", "partition", "rpartition"):
            out.kind = SCALARS
            if v.const is not None:
                parts = set()
                for c in v.const:
                    parts.update(c.replace(",", " ").replace(";", " ").split())
                out.items = None
            return out
        if name == "format" and v.const is not None and not args:
            return out
        if name in ("strip", "lower", "upper") and v.const is not None and not args:
            out.const = frozenset(getattr(c, name)() for c in v.const)
        if name in ("replace",) and v.const is not None and len(args) == 2 and args[0].const and args[1].const:
            if len(args[0].const) == len(args[1].const) == 1:
                out.const = frozenset(c.replace(next(iter(args[0].const)), next(iter(args[1].const))) for c in v.const)
        if name == "join":
            # Joining runs a lazy argument, which touched it already; the text holds nothing.
            out.const = None
        return out

    def path_method(self, v, name, args, results):
        if name == "joinpath":
            out = mix(results, PATH)
            const = v.const
            for a in args:
                const = self.product(const, a.const, "/") if const is not None and a.const is not None else None
            out.const = const
            return out
        if name in ("resolve", "absolute", "expanduser"):
            return alt(mix(results, PATH), const=v.const)
        if name in ("with_suffix", "with_name", "relative_to", "with_stem"):
            return mix(results, PATH)
        return mix(results, SCALAR)

    def bound_arguments(self, n, results):
        """A bound method passed as an argument may be called: map(seen.add, names)."""
        for a in n.args if isinstance(n, ast.Call) else ():
            if type(a) is ast.Attribute and a.attr in MUTATORS:
                v = self.ev(a.value)
                if v.kind not in TABULAR and v.kind not in ROOTLESS:
                    self.change(v, results)

    # ---- names inside texts -------------------------------------------------------------------

    def text_names(self, v, node, style):
        """What a text that is evaluated as code, SQL or a formula reads by name."""
        texts = v.const
        if texts is None:
            if isinstance(node, ast.JoinedStr):
                texts = [p.value for p in node.values if type(p) is ast.Constant]
            elif v.kind not in (SCALAR, ANY):
                return None
            else:
                self.untracked.add("names in a text that is evaluated")
                return V(flags=UNTRACKED)
        out = None
        for text in texts:
            if style == "query":
                found = re.findall(r"@\s*([^\W\d]\w*)", text)
            else:
                found = IDENTIFIER.findall(text)
            for name in found:
                known = name in self.base or self.module.env and name in self.module.env or self.frame.kind != "mod"
                if known or style == "query":
                    x = self.load(name)
                    if x.kind not in (LIB, BUILTIN, PRIMITIVE):
                        out = join(out, alt(x, own=0, holds=0, code=(), kind=ANY, const=None, items=None, elems=None))
        return out


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
