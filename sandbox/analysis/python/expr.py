"""Expressions. Each handler returns the value of a node; effects go to the machine."""

import ast

from interp import Statements
from machine import EXPRESSIONS, mix_onto
from scope import nodes
from kinds import *
from values import V, Frame, alt, join, join_all, join_constants, merge_code, mix, new_value, unmangled

# Attributes of tabular objects that are plain values.
SCALAR_ATTRIBUTES = frozenset(("shape", "size", "ndim", "empty", "dtype", "nbytes", "itemsize", "is_unique",
                               "hasnans", "is_monotonic_increasing", "is_monotonic_decreasing"))
ACCESSORS = frozenset(("loc", "iloc", "at", "iat"))
ELEMENT_ACCESSORS = ("se:iloc", "se:iat", "se:at", "df:at", "df:iat")


class Expressions(Statements):
    def e_constant(self, n):
        value = n.value
        if value.__class__ is str and len(value) <= 300:
            return new_value(SCALAR, 0, 0, (), 0, 0, 0, 0, frozenset((value,)), None, None, None)
        return V(SCALAR)

    def e_name(self, n):
        return self.load(n.id)

    def e_binop(self, n):
        # Long chains a + b + c + ... lean to the left: walked in a loop, so that depth costs no stack.
        chain = []
        while type(n) is ast.BinOp:
            chain.append(n)
            n = n.left
        left = self.ev(n)
        for node in reversed(chain):
            right = self.ev(node.right)
            both = (left, right)
            if left.code or right.code:
                extra = join(self.touch(left, both), self.touch(right, both))
                if extra is not None:
                    both = (left, right, extra)
            kind = arithmetic(left, right, node.op)
            out = mix(both, kind, 0, 0, merge_code(left.code, right.code) if left.code or right.code else ())
            if kind != SCALAR and kind not in TABULAR and (type(node.op) in SHARING or left.code or right.code):
                out.holds = left.holds | right.holds | (left.own | right.own) & self.BUF if kind in (LIST, ANY) else \
                    left.holds | right.holds
                if kind == ANY and (left.code or right.code):
                    # A user class decides what its operators give back.
                    out.holds = self.reach(left) | self.reach(right)
                    if len(both) == 3 and INSTANCE in (left.kind, right.kind):
                        out = mix(both, ANY, extra.own, extra.holds, extra.code)
            op = type(node.op)
            if left.const is not None and (right.const is not None) and op in (ast.Add, ast.Div):
                if left.kind == PATH or right.kind == PATH:
                    out.kind = PATH
                    out.const = self.product(left.const, right.const, "/")
                elif op is ast.Add:
                    out.const = self.product(left.const, right.const)
            elif PATH in (left.kind, right.kind) and op is ast.Div:
                out.kind = PATH
            if left.items is not None and right.items is not None and op is ast.Add:
                out.items = join_constants(left.items, right.items)
            left = out
        return left

    def e_unary(self, n):
        v = self.ev(n.operand)
        extra = self.touch(v, (v,)) if v.code else None
        if type(n.op) is ast.Not:
            return mix((v, extra) if extra else (v,), SCALAR)
        kind = v.kind if v.kind in TABULAR or v.kind == SCALAR else SCALAR if v.kind == LIB else ANY
        return mix((v, extra) if extra else (v,), kind, 0, v.holds, v.code)

    def e_boolop(self, n):
        # Every operand but the last both decides and may be the result.
        out = self.ev(n.values[0])
        if out.code:
            out = mix_onto(out, *filter(None, [self.touch(out, (out,))]))
        self.weak += 1
        for value in n.values[1:]:
            v = self.ev(value)
            if v.code:
                v = mix_onto(v, *filter(None, [self.touch(v, (v,))]))
            joined = join(out, v)
            if joined.kind == ANY and SCALAR in (out.kind, v.kind) and not joined.own:
                joined = alt(joined, kind=SCALAR) if out.kind == v.kind == SCALAR else joined
            out = joined
        self.weak -= 1
        return out

    def e_compare(self, n):
        values = [self.ev(n.left)]
        for c in n.comparators:
            values.append(self.ev(c))
        kind = SCALAR
        identity = all([type(op) in (ast.Is, ast.IsNot, ast.In, ast.NotIn) for op in n.ops])
        coded = [v for v in values if v.code]
        if coded:
            for v in coded:
                extra = self.touch(v, values)
                if extra is not None:
                    values.append(extra)
        if not identity:
            kinds = {v.kind for v in values}
            if FRAME in kinds:
                kind = FRAME
            elif kinds & PANDAS_KINDS:
                kind = SERIES if SERIES in kinds else PANDAS
            elif ARRAY in kinds:
                kind = ARRAY
            elif not kinds <= {SCALAR, LIB, LIST, DICT, SET, TUPLE, SCALARS}:
                kind = ANY
        return mix(values, kind)

    def e_ifexp(self, n):
        test = self.ev(n.test)
        self.ctl |= test.reads | test.ctl
        if test.code:
            self.touch(test, (test,))
        self.weak += 1
        pc = self.pcc
        self.pcc |= test.reads | test.ctl
        one = self.ev(n.body)
        two = self.ev(n.orelse)
        self.pcc = pc
        self.weak -= 1
        out = join(one, two)
        mask = test.reads | test.ctl
        return alt(out, ctl=out.ctl | mask) if mask else out

    def e_tuple(self, n):
        return self.display(n, n.elts, TUPLE)

    def e_list(self, n):
        return self.display(n, n.elts, LIST)

    def e_set(self, n):
        return self.display(n, n.elts, SET)

    def display(self, n, elts, kind):
        values = []
        starred = False
        for e in elts:
            if type(e) is ast.Starred:
                starred = True
                v = self.iterate(self.ev(e.value), id(e))
            else:
                v = self.ev(e)
                if v.kind not in ROOTLESS and not v.own and (v.holds or v.code or kind != TUPLE):
                    v = self.owned(v, id(e))
            values.append(v)
        holds = 0
        code = ()
        for v in values:
            holds |= v.own | v.holds
            if v.code:
                code = merge_code(code, v.code)
        out = mix(values, kind, 0, holds, code)
        if kind != SET and not starred and len(values) <= MAX_ELEMENTS:
            out.elems = tuple(values)
        if values and all([v.kind == SCALAR for v in values]):
            if kind == LIST or kind == TUPLE and not starred:
                out.kind = SCALARS if kind == LIST else TUPLE
            items = None
            for v in values:
                if v.const is None:
                    items = None
                    break
                items = v.const if items is None else join_constants(items, v.const)
                if items is None:
                    break
            out.items = items
        return out

    def e_dict(self, n):
        values = []
        holds, code = 0, ()
        for k, x in zip(n.keys, n.values):
            v = self.ev(x)
            if k is not None:
                key = self.ev(k)
                values.append(key)
                holds |= key.own | key.holds
                code = merge_code(code, key.code)
                v = self.owned(v, id(x))
                holds |= v.own
            else:
                holds |= v.own & self.BUF
            values.append(v)
            holds |= v.holds
            if v.code:
                code = merge_code(code, v.code)
        return mix(values, DICT, 0, holds, code)

    def e_joined(self, n):
        values = []
        const = frozenset(("",))
        for part in n.values:
            if type(part) is ast.Constant:
                if const is not None:
                    const = self.product(const, frozenset((part.value,)))
                continue
            v = self.ev(part.value)
            if v.code:
                extra = self.touch(v, (v,))
                if extra is not None:
                    values.append(extra)
            values.append(v)
            if part.format_spec is not None:
                values.append(self.ev(part.format_spec))
                const = None
            if const is not None:
                const = self.product(const, v.const) if v.const is not None and part.conversion == -1 else None
        out = mix(values, SCALAR)
        out.const = const
        return out

    def e_formatted(self, n):
        v = self.ev(n.value)
        self.touch(v, (v,))
        return mix((v,), SCALAR)

    def product(self, a, b, between=""):
        if a is None or b is None or len(a) * len(b) > MAX_CONSTANTS:
            return None
        out = frozenset([x + between + y for x in a for y in b])
        return out if all([len(x) <= 300 for x in out]) else None

    def e_named(self, n):
        v = self.owned(self.ev(n.value), id(n))
        self.bind(n.target.id, v, id(n), walrus=True)
        return v

    def e_await(self, n):
        v = self.ev(n.value)
        out = self.iterate(v, id(n)) if v.code else v
        return mix_onto(join(out, alt(v, code=())), v)

    def e_yield(self, n):
        v = self.ev(n.value) if n.value is not None else V(SCALAR)
        f = self.frame
        while f.kind == "comp":
            f = f.parent
        f.yields = join(f.yields, self.stamp(v))
        # What send() passes in is not known here; the generator's arguments are all there is.
        return mix((v,), ANY, v.own, v.holds, v.code)

    def e_yield_from(self, n):
        v = self.iterate(self.ev(n.value), id(n))
        f = self.frame
        while f.kind == "comp":
            f = f.parent
        f.yields = join(f.yields, self.stamp(v))
        return v

    def e_lambda(self, n):
        return self.function_value(n)[1]

    def e_starred(self, n):
        return self.ev(n.value)

    def e_slice(self, n):
        values = [self.ev(x) for x in (n.lower, n.upper, n.step) if x is not None]
        return mix(values, SCALAR)

    # ---- attributes and subscripts --------------------------------------------------------------

    def e_attribute(self, n):
        return self.attribute(self.ev(n.value), n.attr, n)

    def attribute(self, v, name, n):
        kind = v.kind
        if name and name[0] == "_":
            name = unmangled(name)
        if kind == LIB:
            return new_value(LIB, 0, 0, v.code, v.reads, v.ctl, v.files, v.flags, None, None, None, (v.lib + "." + name) if v.lib else None)
        if name == "__dict__":
            self.untracked.add("__dict__")
            v = alt(v, flags=v.flags | UNTRACKED)
        if v.code:
            found = self.instance_attribute(v, name, n)
            if found is not None:
                return found
        if kind == SCALAR:
            return mix((v,), SCALAR)
        if name in SCALAR_ATTRIBUTES and kind in TABULAR:
            return mix((v,), SCALAR)
        if name in ACCESSORS and (kind in PANDAS_KINDS or kind == ANY):
            return alt(mix((v,), LOC if kind != ANY else ANY, v.own, v.holds, v.code), lib=kind + ":" + name)
        if kind in PANDAS_KINDS:
            if name in ("index", "columns"):
                return mix((v,), INDEX, v.own & self.BUF, v.holds)
            if name in ("str", "dt", "cat") and kind in (SERIES, INDEX):
                return mix((v,), kind, v.own & self.BUF, v.holds)
            if name == "values" or name == "array":
                return mix((v,), ARRAY, v.own & self.BUF, v.holds)
            if name == "T":
                return mix((v,), kind, v.own & self.BUF, v.holds)
            return mix((v,), PANDAS, v.own & self.BUF if v.own else 0, v.holds, v.code)
        if kind == ARRAY:
            return mix((v,), ARRAY, v.own & self.BUF, v.holds)
        if kind == OBJECT:
            return mix((v,), OBJECT, v.own, v.holds, v.code)
        # The attribute may be anything that the object holds, or a bound method, which keeps its object.
        out = mix((v,), ANY, v.own | v.holds, v.holds, v.code)
        if v.lib == FOREIGN:
            out.lib = FOREIGN
        return out

    def e_subscript(self, n):
        v = self.ev(n.value)
        key = self.ev(n.slice)
        both = (v, key)
        if v.kind == LIB:
            if v.lib in ("os.environ", "os.environb"):
                self.untracked.add("os.environ")
            return mix(both, ANY, 0, 0, v.code)
        if v.code or key.code:
            extra = join(self.touch(v, both), self.touch(key, both))
            if extra is not None:
                both = (v, key, extra)
        if v.lib == DEFAULTS:
            # A missing key is put there by reading it.
            self.mutate(v.own, *both)
        kind = v.kind
        if kind == SCALAR:
            return mix(both, SCALAR)
        if v.elems is not None and type(n.slice) is ast.Constant and type(n.slice.value) is int:
            i = n.slice.value
            if -len(v.elems) <= i < len(v.elems):
                return mix_onto(v.elems[i], V(ctl=v.ctl))
        sliced = type(n.slice) is ast.Slice
        if sliced and (kind in (LIST, SCALARS, TUPLE)):
            return alt(mix(both, kind, 0, v.holds | v.own & self.BUF if kind != SCALARS else 0, v.code), items=v.items)
        if kind == SCALARS:
            out = mix(both, SCALAR)
            out.const = v.items
            return out
        picks = self.picks(n.slice, key)
        if kind in TABULAR:
            return self.item_of_table(v, key, n, both, sliced, picks)
        if kind == LOC:
            return self.item_of_accessor(v, n, both, sliced, picks)
        out = self.iterate(alt(v, kind=ANY) if kind == DICT else v, id(n))
        out = mix_onto(out, key)
        if sliced:
            out = alt(out, holds=out.holds | v.holds, kind=ANY, const=None)
        return out

    def item_of_table(self, v, key, n, both, sliced, picks):
        kind = v.kind
        if kind == FRAME:
            named = type(n.slice) is ast.Constant and type(n.slice.value) is str or key.const is not None
            kind = FRAME if sliced or picks else SERIES if named else PANDAS
        elif kind == INDEX:
            if not sliced and not picks:
                return mix(both, SCALAR)
        elif kind == SERIES and not sliced and not picks:
            kind = PANDAS
        elif kind == GROUP and type(n.slice) is ast.Constant:
            kind = GROUPED_SERIES
        if picks and kind not in (GROUP, GROUPED_SERIES):
            return mix(both, kind, 0, v.holds, v.code)
        return mix(both, kind, v.own & self.BUF, v.holds, v.code)

    def item_of_accessor(self, v, n, both, sliced, picks):
        parts = n.slice.elts if type(n.slice) is ast.Tuple else [n.slice]
        if v.lib in ELEMENT_ACCESSORS and not sliced and not picks or v.lib == "df:iloc" and len(parts) == 2 and \
                all([type(p) is ast.Constant for p in parts]):
            # One element: what it shares is what the table's cells hold.
            return mix(both, ANY, v.holds, v.holds, v.code)
        kind = PANDAS
        if v.lib is not None and v.lib.startswith("df:"):
            last = parts[-1]
            wide = len(parts) == 1 or type(last) in (ast.List, ast.Slice)
            if (picks or self.picks(parts[0], None) or type(parts[0]) is ast.Slice) and wide:
                kind = FRAME
            elif len(parts) == 2 and type(last) is ast.Constant and type(last.value) is str:
                kind = SERIES if picks or self.picks(parts[0], None) or type(parts[0]) is ast.Slice else PANDAS
        elif v.lib is not None and v.lib.startswith("se:") and (picks or sliced):
            kind = SERIES
        if picks or self.any_picks(parts):
            return mix(both, kind, 0, v.holds, v.code)
        return mix(both, kind, v.own & self.BUF, v.holds, v.code)

    def picks(self, node, key):
        """Whether an index selects by mask or by list, which copies."""
        t = type(node)
        if t is ast.List:
            return True
        if key is not None and (key.kind in TABULAR or key.kind in (LIST, SCALARS)):
            return True
        if t is ast.Name:
            k = self.load(node.id).kind
            return k in TABULAR or k in (LIST, SCALARS)
        if t is ast.Compare or t is ast.UnaryOp and type(node.op) is ast.Invert:
            v = self.ev(node.left if t is ast.Compare else node.operand)
            return v.kind in TABULAR
        if t is ast.BinOp and type(node.op) in (ast.BitAnd, ast.BitOr):
            return self.picks(node.left, None) or self.picks(node.right, None)
        return False

    def any_picks(self, nodes):
        for node in nodes:
            if self.picks(node, None):
                return True
        return False

    def iterate(self, v, site):
        """An element of v: what a loop, an index or an unpacking gets."""
        if v.code:
            extra = self.run_pending(v)
            if extra is not None:
                v = mix_onto(alt(v, own=v.own, holds=v.holds | extra.own | extra.holds,
                                 code=merge_code(v.code, extra.code)), extra)
            extra = self.touch(v, (v,))
            if extra is not None:
                v = mix_onto(alt(v, holds=v.holds | extra.own | extra.holds, code=merge_code(v.code, extra.code)), extra)
        kind = v.kind
        if kind == SCALAR:
            return mix((v,), SCALAR)
        if kind == SCALARS:
            out = mix((v,), SCALAR)
            out.const = v.items
            return out
        if kind == FRAME or kind == INDEX:
            return mix((v,), SCALAR)
        if kind == SERIES:
            return mix((v,), ANY, v.holds, v.holds, v.code)
        if kind == DICT and not v.code:
            # Keys are hashable: what can change in place is in the values.
            return mix((v,), SCALAR)
        if kind == GROUP or kind == GROUPED_SERIES:
            out = mix((v,), TUPLE, 0, v.own & self.BUF | v.holds)
            out.elems = (mix((v,), SCALAR), mix((v,), PANDAS, v.own & self.BUF, v.holds))
            return out
        if v.elems:
            out = join_all(v.elems)
            return mix_onto(out, V(ctl=v.ctl, reads=v.reads, files=v.files, flags=v.flags))
        if v.items is not None:
            out = mix((v,), SCALAR)
            out.const = v.items
            return out
        if kind == SEPARATE and not v.own:
            return mix((v,), ANY, 0, v.holds, v.code)
        own = v.own
        if not own and kind in (ANY, OBJECT):
            # Parts of one unknown result may share their insides.
            own = self.root(site)
        own = own & self.BUF | v.holds if kind not in (LIST, TUPLE, SET, DICT, GEN) else \
            v.holds | v.own & self.BUF
        out = mix((v,), kind if kind in (PANDAS, ARRAY, OBJECT) else ANY, own, v.holds, v.code)
        if v.lib == FIGURE or v.lib == FOREIGN:
            out.lib = v.lib
        return out

    # ---- comprehensions -------------------------------------------------------------------------

    def comprehension(self, n, parts, kind):
        key = ("comp", id(n), id(self.frame))
        frame = self.frames.get(key)
        if frame is None:
            frame = self.frames[key] = Frame("comp", self.frame)
        frame.parent = self.frame
        outer = self.frame
        self.frame = frame
        saved = self.pcc, self.pcr
        self.weak += 1
        passes = 2 if has_walrus(n) else 1
        try:
            for _ in range(passes):
                frame.env = {}
                values, controls = [], 0
                for g in n.generators:
                    if g is n.generators[0]:
                        self.frame = outer
                        source = self.ev(g.iter)
                        self.frame = frame
                    else:
                        source = self.ev(g.iter)
                    values.append(source)
                    self.assign(g.target, self.iterate(source, id(g)))
                    for test in g.ifs:
                        t = self.ev(test)
                        if t.code:
                            self.touch(t, (t,))
                        mask = t.reads | t.ctl
                        controls |= mask
                        self.ctl |= mask
                        self.pcc |= mask
                results = [self.ev(p) for p in parts]
        finally:
            self.frame = outer
            self.weak -= 1
            self.pcc, self.pcr = saved
        holds, code = 0, ()
        for p, v in zip(parts, results):
            if v.kind not in ROOTLESS:
                v = self.owned(v, id(p))
            holds |= v.own | v.holds
            code = merge_code(code, v.code)
        out = mix(results + values, kind, 0, holds, code)
        out.ctl |= controls
        if len(results) == 1 and results[0].kind == SCALAR:
            if kind == LIST:
                out.kind = SCALARS
            out.items = results[0].const
        return out

    def e_listcomp(self, n):
        return self.comprehension(n, (n.elt,), LIST)

    def e_setcomp(self, n):
        return self.comprehension(n, (n.elt,), SET)

    def e_dictcomp(self, n):
        return self.comprehension(n, (n.key, n.value), DICT)

    def e_generator(self, n):
        out = self.comprehension(n, (n.elt,), GEN)
        # Its body runs again whenever the value is used, with the names as they are then.
        fn = self.make_fn(n)
        fn.pending = True
        first = self.ev(n.generators[0].iter)
        fn.defaults[".0"] = join(fn.defaults.get(".0"), alt(first, kind=first.kind))
        return alt(out, code=merge_code(out.code, (fn,)), holds=out.holds | self.reach(first))


# Operators by which lists, sets and dicts make containers that share their operands' elements.
SHARING = (ast.Add, ast.Mult, ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub)


def arithmetic(a, b, op):
    x, y = a.kind, b.kind
    if x == SCALAR and y == SCALAR:
        return SCALAR
    if x == FRAME or y == FRAME:
        return FRAME
    if x in PANDAS_KINDS or y in PANDAS_KINDS:
        return SERIES if SERIES in (x, y) and (x in (SERIES, SCALAR, LIB) or y in (SERIES, SCALAR, LIB)) else PANDAS
    if x == ARRAY or y == ARRAY:
        return ARRAY
    if x in (LIST, SCALARS) and y in (LIST, SCALARS):
        return SCALARS if x == y == SCALARS else LIST
    if x in (LIST, SCALARS, TUPLE, SET, DICT):
        return LIST if x == SCALARS and y != SCALAR else x
    if type(op) in (ast.Div, ast.Pow, ast.FloorDiv, ast.Mod, ast.MatMult) and not (a.code or b.code) and PATH not in (x, y):
        return PANDAS if SCALAR not in (x, y) or ANY in (x, y) else SCALAR
    if x == LIB and y in (SCALAR, LIB) or y == LIB and x == SCALAR:
        return SCALAR
    return ANY


def has_walrus(n):
    known = getattr(n, "_walrus", None)
    if known is None:
        known = n._walrus = any([type(c) is ast.NamedExpr for c in nodes(n)])
    return known


EXPRESSIONS.update({
    ast.Constant: Expressions.e_constant, ast.Name: Expressions.e_name, ast.BinOp: Expressions.e_binop, ast.UnaryOp: Expressions.e_unary, ast.BoolOp: Expressions.e_boolop,
    ast.Compare: Expressions.e_compare, ast.IfExp: Expressions.e_ifexp, ast.Tuple: Expressions.e_tuple, ast.List: Expressions.e_list, ast.Set: Expressions.e_set,
    ast.Dict: Expressions.e_dict, ast.JoinedStr: Expressions.e_joined, ast.FormattedValue: Expressions.e_formatted, ast.NamedExpr: Expressions.e_named,
    ast.Await: Expressions.e_await, ast.Yield: Expressions.e_yield, ast.YieldFrom: Expressions.e_yield_from, ast.Lambda: Expressions.e_lambda,
    ast.Starred: Expressions.e_starred, ast.Slice: Expressions.e_slice, ast.Attribute: Expressions.e_attribute, ast.Subscript: Expressions.e_subscript,
    ast.ListComp: Expressions.e_listcomp, ast.SetComp: Expressions.e_setcomp, ast.DictComp: Expressions.e_dictcomp, ast.GeneratorExp: Expressions.e_generator,
})
