"""Statements. Paths are joined and loops run until nothing is added."""

import ast

from machine import MAX_PASSES, STATEMENTS, Machine, mix_onto, same
from scope import parameters
from taint import ALLOWED_STORES
from kinds import *
from values import DELETED, V, Cls, Fn, Frame, Inst, alt, join, merge_code, mix, unmangled


class Statements(Machine):
    def run(self, body):
        f = self.frame
        for s in body:
            if f.env is None:
                return
            self.steps += 1
            inner = f.kind == "fn" and type(s) in COMPOUND
            self.branch += inner
            STATEMENTS[type(s)](self, s)
            self.branch -= inner
            if self.tries and f.env is not None:
                for entry in self.tries:
                    if entry[0] is f:
                        entry[1] = self.join_states(entry[1], self.fork())

    def s_expr(self, s):
        v = self.ev(s.value)
        if self.frame.kind == "mod" or v.kind != SCALAR or type(s.value) is not ast.Constant:
            self.sink(v)

    def s_assign(self, s):
        v = self.ev(s.value)
        if len(s.targets) > 1:
            v = self.owned(v, id(s))
        for t in s.targets:
            self.assign(t, v)

    def s_ann_assign(self, s):
        if self.frame.kind in ("mod", "cls"):
            a = self.ev(s.annotation)
            self.ctl |= a.reads | a.ctl
        if s.value is not None:
            self.assign(s.target, self.ev(s.value))

    def s_aug_assign(self, s):
        t = s.target
        value = self.ev(s.value)
        if type(t) is ast.Name:
            old = self.load(t.id)
        else:
            old = self.ev(t)
        both = (old, value)
        self.touch(old, both)
        self.touch(value, both)
        if type(t) is ast.Name:
            if old.kind not in ROOTLESS and old.kind != TUPLE:
                self.alter(old.own, old, value)
                if old.own:
                    self.hold(old.own, self.reach(value) if old.kind not in TABULAR else 0, value.code, value)
            out = mix(both, old.kind, old.own, old.holds | (self.reach(value) if old.kind not in TABULAR else 0),
                      merge_code(old.code, value.code))
            if old.kind == SCALAR and value.kind != SCALAR:
                out.kind = value.kind if value.kind in TABULAR else ANY
            if old.const is not None and value.const is not None and type(s.op) is ast.Add:
                out.const = self.product(old.const, value.const)
            self.bind(t.id, out, id(t))
            return
        out = mix(both, ANY if old.kind in (SCALAR,) else old.kind, old.own, old.holds | value.holds)
        if old.kind not in ROOTLESS:
            self.alter(old.own, old, value)
        self.assign(t, out)

    def assign(self, t, v):
        kind = type(t)
        if kind is ast.Name:
            self.bind(t.id, v, id(t))
        elif kind is ast.Tuple or kind is ast.List:
            self.unpack(t, v)
        elif kind is ast.Attribute:
            self.store_attribute(t, v)
        elif kind is ast.Subscript:
            self.store_item(t, v)
        elif kind is ast.Starred:
            self.assign(t.value, mix((v,), LIST, v.own & self.BUF, v.holds, v.code))

    def unpack(self, t, v):
        targets = t.elts
        starred = [i for i, e in enumerate(targets) if type(e) is ast.Starred]
        elems = v.elems
        if elems is not None and not starred and len(elems) == len(targets):
            extra = alt(v, reads=0, files=0, flags=0) if v.ctl else None
            for e, x in zip(targets, elems):
                self.assign(e, mix_onto(x, extra) if extra is not None else x)
            return
        v = self.iterate(v, id(t))
        for e in targets:
            if type(e) is ast.Starred:
                self.assign(e.value, mix((v,), LIST, 0, v.own | v.holds, v.code))
            else:
                self.assign(e, v)

    def store_attribute(self, t, v):
        base = self.ev(t.value)
        if base.kind == LIB and base.lib:
            if not (base.lib + "." + t.attr).startswith(ALLOWED_STORES):
                self.taints.add("attribute_store:module")
        elif base.kind == PRIMITIVE:
            self.taints.add("attribute_store:" + base.lib)
        mask = None
        if base.kind in PANDAS_KINDS and base.own & self.OBJ:
            mask = base.own & self.OBJ
        self.set_attr_hook(base, unmangled(t.attr), v)
        self.store(base, v, mask)

    def set_attr_hook(self, base, name, v):
        """A user class may define __setattr__ or a property setter."""
        for item in base.code:
            if isinstance(item, Inst):
                self.invoke_methods(item.cls, base, v, only=lambda key, fn: key == "__setattr__" or fn.decorators and key == name)

    def store_item(self, t, v):
        base = self.ev(t.value)
        key = self.ev(t.slice)
        mask = None
        if base.kind == FRAME and base.own & self.OBJ and is_column(t.slice, key):
            mask = base.own & self.OBJ
        if base.code:
            self.touch(base, (base, key, v))
        if v.own or v.holds or v.code or key.reads or key.ctl or key.files or key.flags:
            v = mix_onto(v, key)
        self.store(base, v, mask)
        if key.own or key.holds:
            self.store(base, key, mask or base.own)
        self.write_through(base)

    def s_delete(self, s):
        for t in s.targets:
            self.delete(t)

    def delete(self, t):
        kind = type(t)
        if kind is ast.Name:
            f = self.frame
            name = t.id
            if f.kind == "mod" or name in f.globals:
                if name not in self.base and name not in (self.module.env or {}):
                    self.load(name)
                if self.weak or self.branch or self.early or self.guarded:
                    return
                self.module.env[name] = DELETED
                self.module.must.add(name)
            elif f.env is not None:
                f.env.pop(name, None)
        elif kind in (ast.Tuple, ast.List):
            for e in t.elts:
                self.delete(e)
        elif kind is ast.Attribute:
            base = self.ev(t.value)
            if base.kind == LIB:
                self.taints.add("attribute_store:module")
            self.alter(base.own, base)
        elif kind is ast.Subscript:
            base = self.ev(t.value)
            key = self.ev(t.slice)
            self.touch(base, (base, key))
            mask = base.own
            if base.kind == FRAME and base.own & self.OBJ:
                mask = base.own & self.OBJ
            self.alter(mask, base, key)

    def s_pass(self, s):
        pass

    def s_import(self, s):
        for a in s.names:
            name = a.asname or a.name.split(".")[0]
            self.bind(name, V(LIB, lib=a.name if a.asname else name), id(a), False, True)

    def s_import_from(self, s):
        module = "." * s.level + (s.module or "")
        for a in s.names:
            if a.name == "*":
                self.untracked.add("import *")
                continue
            path = module + "." + a.name
            if path.startswith("builtins."):
                v = V(BUILTIN, lib=path)
            else:
                v = V(LIB, lib=path)
            self.bind(a.asname or a.name, v, id(a), False, True)

    def s_global(self, s):
        pass

    def s_return(self, s):
        f = self.frame
        v = self.ev(s.value) if s.value is not None else V(SCALAR)
        v = self.stamp(v)
        if f.kind == "fn":
            f.ret = join(f.ret, v)
            self.early = self.early or self.branch > 0
        self.leave()

    def s_raise(self, s):
        for e in (s.exc, s.cause):
            if e is not None:
                self.sink(self.ev(e))
        self.leave()

    def leave(self):
        """The path ends here; handlers around it see the state."""
        f = self.frame
        for entry in self.tries:
            if entry[0] is f:
                entry[1] = self.join_states(entry[1], self.fork())
        f.env = None

    def s_break(self, s):
        f = self.frame
        if f.breaks is not None:
            f.breaks[0] = self.join_states(f.breaks[0], self.fork())
        self.leave()

    def s_continue(self, s):
        f = self.frame
        if f.conts is not None:
            f.conts[0] = self.join_states(f.conts[0], self.fork())
        self.leave()

    def s_assert(self, s):
        v = self.ev(s.test)
        self.ctl |= v.reads | v.ctl
        if s.msg is not None:
            v = self.ev(s.msg)
            self.ctl |= v.reads | v.ctl

    def s_if(self, s):
        test = self.ev(s.test)
        pc = self.pcc
        self.control(test)
        before = self.fork()
        self.run(s.body)
        one = self.take()
        self.set(before)
        self.run(s.orelse)
        two = self.take()
        # After a branch that left, all that follows depends on the test.
        if one is not None and two is not None:
            self.pcc = pc
        self.set(self.join_states(one, two))

    def loop(self, s, head):
        """Runs a loop's body until nothing is added. head binds the targets and says whether the loop can end."""
        f = self.frame
        saved = f.breaks, f.conts
        entry = self.fork()
        pcr, pcf, pcg, pcc = self.pcr, self.pcf, self.pcg, self.pcc
        exits = None
        breaks = None
        for attempt in range(MAX_PASSES):
            version = (self.heap.version, self.mutated)
            f.breaks, f.conts = [None], [None]
            self.set(entry)
            endless = head()
            inside = self.fork()
            exits = None if endless else (entry if s.__class__ is not ast.While else inside)
            self.run(s.body)
            end = self.join_states(self.take(), f.conts[0])
            breaks = f.breaks[0]
            merged = self.join_states(entry, end)
            if same(merged, entry) and version == (self.heap.version, self.mutated):
                break
            entry = merged
        else:
            self.untracked.add("a loop is too complex to follow")
        f.breaks, f.conts = saved
        left = breaks is not None
        self.pcr, self.pcf, self.pcg = pcr, pcf, pcg
        self.set(exits)
        if self.frame.env is not None:
            self.run(s.orelse)
        end = self.take()
        if not left and f.kind == "mod":
            self.pcc = pcc
        self.set(self.join_states(end, breaks))

    def s_for(self, s):
        source = self.ev(s.iter)
        self.sink(source)
        item = self.iterate(source, id(s))
        # How often a loop over a display runs depends on nothing.
        counted = type(s.iter) not in (ast.List, ast.Tuple) or any(type(e) is ast.Starred for e in s.iter.elts)

        def head():
            self.pcc |= source.ctl
            if counted:
                self.pcr |= source.reads
                self.pcf |= source.files
                self.pcg |= source.flags
            self.assign(s.target, self.live(item))
            return False
        self.loop(s, head)

    def s_while(self, s):
        endless = type(s.test) is ast.Constant and bool(s.test.value)

        def head():
            self.control(self.ev(s.test))
            return endless
        self.loop(s, head)

    def s_with(self, s):
        f = self.frame
        entry = [f, self.fork()]
        swallow = False
        for item in s.items:
            v = self.ev(item.context_expr)
            self.sink(v)
            swallow = swallow or not self.lets_errors_through(item.context_expr)
            self.touch(v, (v,))
            inner = v
            if v.code:
                for code in v.code:
                    if isinstance(code, Inst):
                        found = self.find_method(code.cls, "__enter__")
                        if found is not None:
                            inner = self.call_value(found, [v], {}, item.context_expr)
                    elif isinstance(code, Fn):
                        inner = join(inner, self.iterate(v, id(item)))
            if item.optional_vars is not None:
                self.assign(item.optional_vars, inner)
        if swallow:
            self.tries.append(entry)
        self.run(s.body)
        if swallow:
            self.tries.pop()
            self.set(self.join_states(self.take(), entry[1]))

    def lets_errors_through(self, node):
        if type(node) is not ast.Call:
            return False
        func = node.func
        path = None
        if type(func) is ast.Name:
            v = self.load(func.id)
            path = v.lib
        elif type(func) is ast.Attribute:
            v = self.ev(func)
            path = v.lib if v.kind == LIB else "method." + func.attr
        return bool(path) and path.rsplit(".", 1)[-1] not in ("suppress", "raises", "ExitStack", "assertRaises", "nullcontext")

    def s_try(self, s):
        f = self.frame
        pc = self.pcc
        outer = [f, self.fork()]
        if s.finalbody:
            self.tries.append(outer)
        entry = [f, self.fork()]
        self.tries.append(entry)
        self.run(s.body)
        self.tries.pop()
        normal = self.take()
        raised = entry[1]
        self.set(normal)
        if f.env is not None:
            self.run(s.orelse)
        end = self.take()
        # An exception says something about all that the body read.
        loaded = V(ANY, reads=self.loaded)
        for h in s.handlers:
            self.set(raised)
            if f.env is None:
                break
            if h.type is not None:
                self.control(self.ev(h.type))
            self.control(loaded)
            if h.name:
                self.bind(h.name, V(ANY, 0, 0, (), reads=self.loaded, files=self.file_bits, flags=self.flags), id(h))
            self.run(h.body)
            if h.name and f.env is not None:
                self.delete(ast.Name(h.name, ast.Del()))
            end = self.join_states(end, self.take())
        if s.finalbody:
            self.tries.pop()
            exceptional = self.join_states(outer[1], self.join_states(raised, end))
            self.set(exceptional)
            self.run(s.finalbody)
            if end is not None:
                self.set(end)
                if f.env is not None:
                    self.run(s.finalbody)
            else:
                f.env = None
            end = self.take()
        else:
            self.set(end)
        if end is not None:
            self.pcc = pc

    def s_match(self, s):
        subject = self.ev(s.subject)
        pc = self.pcc
        self.touch(subject, (subject,))
        before = self.fork()
        out = None
        irrefutable = False
        for case in s.cases:
            self.set(before)
            captures = self.pattern(case.pattern, subject)
            if captures:
                self.sink(subject)
            self.control(subject)
            if case.guard is not None:
                self.control(self.ev(case.guard))
                before = self.join_states(before, self.fork())
            elif type(case.pattern) is ast.MatchAs and case.pattern.pattern is None:
                irrefutable = True
            self.run(case.body)
            out = self.join_states(out, self.take()) if out is not None else self.take()
        if not irrefutable:
            out = self.join_states(out, before)
        self.set(out)
        if out is not None:
            self.pcc = pc

    def pattern(self, p, v):
        """Binds a pattern's captures; says whether there are any."""
        t = type(p)
        found = False
        if t is ast.MatchAs:
            if p.pattern is not None:
                found = self.pattern(p.pattern, v)
            if p.name:
                self.bind(p.name, v, id(p))
                found = True
        elif t is ast.MatchStar or t is ast.MatchMapping:
            inner = self.iterate(v, id(p))
            rest = p.name if t is ast.MatchStar else p.rest
            if rest:
                self.bind(rest, mix((v,), LIST, v.own & self.BUF, v.holds, v.code), id(p))
                found = True
            if t is ast.MatchMapping:
                for k in p.keys:
                    self.ctl |= self.ev(k).reads
                for q in p.patterns:
                    found = self.pattern(q, inner) or found
        elif t is ast.MatchSequence:
            inner = self.iterate(v, id(p))
            for q in p.patterns:
                found = self.pattern(q, v if type(q) is ast.MatchStar else inner) or found
        elif t is ast.MatchOr:
            for q in p.patterns:
                found = self.pattern(q, v) or found
        elif t is ast.MatchClass:
            self.ctl |= self.ev(p.cls).reads
            inner = self.iterate(v, id(p))
            for q in list(p.patterns) + list(p.kwd_patterns):
                found = self.pattern(q, inner) or found
        elif t is ast.MatchValue:
            w = self.ev(p.value)
            self.ctl |= w.reads | w.ctl
        return found

    def make_fn(self, node):
        """The function object of a def, lambda or generator expression, evaluated here."""
        closure = self.frame
        key = (id(node), id(closure))
        fn = self.fns.get(key)
        if fn is None:
            fn = self.fns[key] = Fn(node, closure)
            f = closure
            while f.kind != "mod":
                if not f.root:
                    f.root = self.root(("frame", id(f)))
                f = f.parent
        return fn

    def function_value(self, node):
        fn = self.make_fn(node)
        args = node.args
        positional, keyword, _, _ = parameters(args)
        values = []
        for name, default in zip(positional[len(positional) - len(args.defaults):], args.defaults):
            v = self.owned(self.ev(default), id(default))
            values.append(v)
            fn.defaults[name] = join(fn.defaults.get(name), v)
        for name, default in zip(keyword, args.kw_defaults):
            if default is not None:
                v = self.owned(self.ev(default), id(default))
                values.append(v)
                fn.defaults[name] = join(fn.defaults.get(name), v)
        return fn, mix(values, FUNCTION, 0, 0, (fn,))

    def s_function(self, s):
        fn, v = self.function_value(s)
        decorators = []
        for d in s.decorator_list:
            decorators.append(self.ev(d))
        fn.decorators = tuple(decorator_name(d) for d in s.decorator_list)
        v = self.owned(v, id(s))
        for node, d in reversed(list(zip(s.decorator_list, decorators))):
            v = self.decorate(d, v, node)
        self.bind(s.name, v, id(s))

    def decorate(self, d, v, node):
        if d.kind == LIB or d.kind == BUILTIN or \
                type(node) is ast.Call and not d.code and self.ev(node.func).kind == LIB:
            return mix((v, d), v.kind, v.own, v.holds, v.code)
        out = self.call_value(d, [v], {}, node)
        if not out.code:
            out = mix((out, v), ANY, out.own | v.own, out.holds | v.holds, v.code)
        return out

    def s_class(self, s):
        key = (id(s), id(self.frame))
        cls = self.classes.get(key)
        if cls is None:
            cls = self.classes[key] = Cls(s.name, s)
        values = []
        bases = ()
        for b in s.bases:
            v = self.ev(b)
            values.append(v)
            codes = tuple(c for c in v.code if isinstance(c, Cls))
            bases = merge_code(bases, codes)
            if not codes and not (v.kind in (LIB, BUILTIN) and
                                  (v.lib or "").rsplit(".", 1)[-1] in ("object", "ABC", "Enum", "NamedTuple", "Protocol", "Generic", "Exception", "ValueError")):
                cls.open = True
        cls.bases = bases
        for k in s.keywords:
            values.append(self.ev(k.value))
            cls.open = True
        decorators = [self.ev(d) for d in s.decorator_list]
        frame = self.frames.get(key)
        if frame is None:
            frame = self.frames[key] = Frame("cls", self.frame)
        frame.env, frame.must = {}, set()
        outer, self.frame = self.frame, frame
        self.run(s.body)
        self.frame = outer
        for name, v in (frame.env or {}).items():
            if v is DELETED:
                continue
            values.append(v)
            cls.attrs[name] = join(cls.attrs.get(name), v)
            for c in v.code:
                if isinstance(c, Fn) and c.closure is frame:
                    c.cls = cls
        v = self.owned(mix(values, CLASS, 0, 0, (cls,)), id(s))
        cls.root = v.own
        v = alt(v, holds=v.holds | self.reach(v) & ~v.own)
        for node, d in reversed(list(zip(s.decorator_list, decorators))):
            v = self.decorate(d, v, node)
        self.bind(s.name, v, id(s))

    def s_type_alias(self, s):
        self.bind(s.name.id, V(ANY), id(s))


def is_column(node, key):
    if type(node) is ast.Constant:
        return type(node.value) is str
    if type(node) is ast.List:
        return all(type(e) is ast.Constant and type(e.value) is str for e in node.elts)
    return key.const is not None


def decorator_name(node):
    if type(node) is ast.Call:
        node = node.func
    if type(node) is ast.Attribute:
        return node.attr
    return node.id if type(node) is ast.Name else "?"


STATEMENTS.update({
    ast.Expr: Statements.s_expr, ast.Assign: Statements.s_assign, ast.AnnAssign: Statements.s_ann_assign,
    ast.AugAssign: Statements.s_aug_assign, ast.Delete: Statements.s_delete, ast.Pass: Statements.s_pass,
    ast.Import: Statements.s_import, ast.ImportFrom: Statements.s_import_from, ast.Global: Statements.s_global,
    ast.Nonlocal: Statements.s_global, ast.Return: Statements.s_return, ast.Raise: Statements.s_raise,
    ast.Break: Statements.s_break, ast.Continue: Statements.s_continue, ast.Assert: Statements.s_assert,
    ast.If: Statements.s_if, ast.For: Statements.s_for, ast.AsyncFor: Statements.s_for, ast.While: Statements.s_while,
    ast.With: Statements.s_with, ast.AsyncWith: Statements.s_with, ast.Try: Statements.s_try, ast.Match: Statements.s_match,
    ast.FunctionDef: Statements.s_function, ast.AsyncFunctionDef: Statements.s_function, ast.ClassDef: Statements.s_class,
})
COMPOUND = {ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match}
if hasattr(ast, "TryStar"):
    COMPOUND.add(ast.TryStar)
    STATEMENTS[ast.TryStar] = Statements.s_try
if hasattr(ast, "TypeAlias"):
    STATEMENTS[ast.TypeAlias] = Statements.s_type_alias
