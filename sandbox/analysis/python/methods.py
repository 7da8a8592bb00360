"""Methods of objects that no user class defines."""

import re

import files
from library import Library
from machine import mix_onto
from tables import *
from kinds import *
from values import V, alt, join, merge_code, mix, unmangled

REDUCERS = words("mean sum median std var count min max size nunique first last sem prod idxmax idxmin quantile")


class Methods(Library):
    def method(self, v, name, args, kws, n, star):
        values = args + list(kws.values())
        everything = [v] + values
        if name and name[0] == "_":
            name = unmangled(name)
        if v.kind == BUILTIN and args:
            # list.append(x, y): the object is the first argument.
            return self.method(args[0], name, args[1:], kws, n, None)
        if "ax" in kws:
            self.change(kws["ax"], everything)
        if v.kind == SUPER:
            return self.super_method(name, args, kws, n, star)
        if name in ("send", "throw", "asend", "athrow") and v.code:
            self.untracked.add("a value sent into a generator")
        if v.code:
            done = self.user_method(v, name, args, kws, n, star)
            if done is not None:
                return done
        results = list(everything)
        if any([x.code for x in values]):
            results.append(self.callbacks(values, everything))
        if v.code:
            results.append(self.touch(v, everything))
        if name in TEXT_METHODS and (v.kind in PANDAS_KINDS or v.kind == ANY) and (args or "expr" in kws):
            text = args[0] if args else kws["expr"]
            results.append(self.text_names(text, n.args[0] if n.args else None, "query"))
        results = [x for x in results if x is not None]
        out = files.method(self, v, name, args, kws, n)
        if out is not None:
            return mix_onto(out, *results)
        return self.plain_method(v, name, args, kws, n, results)

    def plain_method(self, v, name, args, kws, n, results):
        """A method whose code is not seen, by what its name and the receiver's kind say."""
        values = args + list(kws.values())
        kind = v.kind
        if kind == SCALAR:
            return self.scalar_method(v, name, args, results)
        if kind == PATH:
            return self.path_method(v, name, args, results)
        if v.lib is not None:
            if v.lib == IN_PLACE:
                self.mutate_arguments(values, v)
                out = self.plain_method(alt(v, lib=None), name, args, kws, n, results)
                # The result may be the argument that was worked on.
                for x in values:
                    out = alt(out, own=out.own | x.own, holds=out.holds | x.holds)
                return out
            elif v.lib == FOREIGN:
                return alt(self.unknown_method(v, results), lib=FOREIGN)
        if self.may_be_true(kws.get("inplace"), n, "inplace"):
            self.alter(v.own, v, *results[1:])
            for x in values:
                if v.own:
                    self.hold(v.own, self.reach(x) if x.kind not in TABULAR else 0, x.code, x)
            return mix(results, v.kind, v.own, v.holds, v.code)
        if "out" in kws:
            self.store(kws["out"], mix(results, ANY))
        if self.is_mutator(kind, name, args, n):
            return self.mutating_method(v, name, args, kws, results)
        self.bound_arguments(n, results)
        if kind in TABULAR or kind == LOC:
            return self.tabular_method(v, name, kws, results, n)
        if name in FRESH_METHODS:
            if name in ("strip", "lower", "upper", "item", "format", "startswith", "endswith"):
                return mix(results, SCALAR)
            return mix(results, PANDAS) if name in NUMERIC_METHODS else mix(results, ANY, 0, v.holds)
        if name in VIEW_METHODS or kind in (DICT, LIST, SET, TUPLE, SCALARS, GEN) and name in DICT_PURE:
            return self.view_method(v, name, args, n, results)
        if kind == OBJECT:
            # An object of a library whose functions leave their arguments alone.
            self.mutate(v.own, *results)
            for x in values:
                if v.own and (x.own or x.holds or x.code):
                    self.hold(v.own, self.reach(x), x.code, x)
            return mix(results, OBJECT, v.own, v.holds, v.code)
        if kind == FILE and name == "execute":
            # Reading SQL: is_mutator let it pass.
            return mix(results, ANY, v.own, v.holds)
        if kind == FILE:
            self.change(v, results)
            return mix(results, ANY, v.own, v.holds)
        return self.unknown_method(v, results)

    def view_method(self, v, name, args, n, results):
        """A method that changes nothing and may give back the receiver or parts of it."""
        kind = v.kind
        inner = v.holds | v.own & self.BUF
        if kind == DICT and name == "items" and not v.code:
            out = mix(results, GEN, 0, inner)
            value = mix(results, ANY, inner, v.holds)
            out.elems = (alt(mix(results, TUPLE, 0, inner), elems=(mix(results, SCALAR), value)),)
            return out
        if kind == DICT and name in ("values", "items"):
            return mix(results, GEN, 0, inner, v.code)
        if name in ("get", "__getitem__", "xs", "get_group"):
            out = self.iterate(alt(v, elems=None, kind=ANY if kind == DICT else kind), id(n))
            for x in args[1:]:
                out = join(out, x)
            return mix_onto(out, *results)
        code = v.code
        if name in CALLBACK_METHODS:
            for x in results[1:]:
                code = merge_code(code, x.code)
        return mix(results, ANY, v.own, v.holds, code)

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
            return not all([re.match(r"\s*(select|pragma|with|explain|describe|show)\b", c, re.I) for c in args[0].const])
        if name == "shuffle" and args:
            self.alter(args[0].own, args[0])
        return True

    def mutating_method(self, v, name, args, kws, results):
        values = args + list(kws.values())
        own = v.own or v.holds
        if v.kind == OBJECT or v.kind == ANY and name not in CONTAINER_MUTATORS and name not in ESTIMATOR_METHODS:
            # What is written to a wrapper goes on to what it wraps.
            own = v.own | v.holds if v.kind == ANY or name in WRITES else v.own
        if v.kind != ANY or name in CONTAINER_MUTATORS:
            self.alter(own, v, *results[1:])
        else:
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
                    self.hold(v.own, held, x.code, x)
        if name in ("fit_transform", "fit_predict", "fit_resample"):
            return mix(results, SEPARATE if name == "fit_resample" else ARRAY if name == "fit_predict" else ANY)
        if name in ("pop", "popitem", "popleft", "setdefault"):
            out = mix(results, ANY, v.holds | v.own & self.BUF, v.holds, v.code)
            if name == "setdefault":
                for x in args[1:]:
                    out.own |= x.own
                    out.holds |= x.own | x.holds
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
        if name in PLOTS and "ax" not in kws:
            self.change_figures(results)
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
            return out
        if name in ("strip", "lower", "upper") and v.const is not None and not args:
            out.const = frozenset([getattr(c, name)() for c in v.const])
        if name in ("replace",) and v.const is not None and len(args) == 2 and args[0].const and args[1].const:
            if len(args[0].const) == len(args[1].const) == 1:
                out.const = frozenset(c.replace(next(iter(args[0].const)), next(iter(args[1].const))) for c in v.const)
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
