"""Calls of values: functions are followed with the arguments they get, the unknown may do anything."""

import ast
import re

import files
from classes import Classes
from machine import EXPRESSIONS, IDENTIFIER, MAX_DEPTH, MAX_PASSES, mix_onto
from scope import free_names, parameters, scope_of
from tables import *
from kinds import *
from values import UNKNOWN, V, Bound, Cls, Fn, Frame, Inst, alt, join, join_all, merge_code, mix


# bind's template by keyword, in the order in which the session looks for it.
TEMPLATE_KEYWORDS = ("template_str", "template")


class Calls(Classes):
    def e_call(self, n):
        func = n.func
        f: V
        receiver: V = None
        chosen: V = None
        star: V = None
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
        args = []
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
                return mix_onto(join_all([self.method(receiver, name, args, kws, n, star) for name in sorted(chosen.const)]),
                                chosen)
            return self.method(receiver, func.attr, args, kws, n, star)
        finally:
            self.site = outer

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
                template, keyword = n.args[0] if n.args else None, None
                given = {k.arg: k.value for k in n.keywords}
                if template is None:
                    keyword = ([k for k in TEMPLATE_KEYWORDS if k in given] or [None])[0]
                    template = given.get(keyword)
                if type(template) is ast.Constant and type(template.value) is str:
                    entry[4] = template.value
                # Tests and loops around the call decide whether the claim is made at all.
                around = V(ANY, ctl=self.pcc | self.pcr)
                for k in n.keywords:
                    if k.arg is not None and k.arg != keyword:
                        old = entry[3].get(k.arg)
                        # A name that this statement bound has no version that the graph could show.
                        whole = type(k.value) is ast.Name and direct and not around.ctl and k.value.id not in self.module.env
                        entry[3][k.arg] = (k.value, join(old[1] if old else None, mix_onto(kws[k.arg], around)),
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
        if f.lib == NAMED_TUPLE and kind == OBJECT:
            holds = 0
            for v in values:
                holds |= v.own | v.holds
            return mix([f] + values, TUPLE, 0, holds)
        if f.code:
            return mix_onto(self.call_code(f, args, kws, n, star), f)
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
                    self.hold(mask, self.reach(s), s.code, s)
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
            running.recursive = True
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
                frame.changed = frame.recursive = False
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
                # What a recursive call returned was what was known then.
                if not frame.changed and not (grown and frame.recursive):
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

    def bound_arguments(self, n, results):
        """A bound method passed as an argument may be called: map(seen.add, names)."""
        for a in n.args if isinstance(n, ast.Call) else ():
            if type(a) is ast.Attribute and a.attr in MUTATORS:
                v = self.ev(a.value)
                if v.kind not in TABULAR and v.kind not in ROOTLESS:
                    self.change(v, results)

    def may_be_true(self, v, n, keyword):
        if v is None:
            return False
        for k in n.keywords if isinstance(n, ast.Call) else ():
            if k.arg == keyword and type(k.value) is ast.Constant:
                return bool(k.value.value)
        return True

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


EXPRESSIONS[ast.Call] = Calls.e_call
