"""Calls of builtins and of library functions."""

import ast

import files
from expr import Expressions
from machine import mix_onto
from tables import *
from kinds import *
from values import V, Fn, Inst, alt, join, join_all, merge_code, mix


def works_in_place(values):
    """Whether an estimator among the values, or in lists of them, works on its arguments."""
    return any([v.lib == IN_PLACE or v.elems and works_in_place(v.elems) for v in values])


class Library(Expressions):
    def library(self, f, args, kws, n):
        path = f.lib
        values = args + list(kws.values())
        last = path.rsplit(".", 1)[-1]
        root = path.split(".", 1)[0]
        results = list(values)
        coded = [v for v in values if v.code]
        if coded and last != "partial":
            results.append(self.callbacks(coded, values))
        results.append(self.library_text(path, root, args, kws, n))
        results = [v for v in results if v is not None]
        if path in ("importlib.import_module", "builtins.__import__"):
            return self.imported_module(args)
        if path.startswith(UNTRACKED_PATHS):
            self.untracked.add(root + "." + last)
        if path.startswith(("os.environ", "os.getenv")):
            self.untracked.add("os.environ")
        if isinstance(n, ast.Call):
            self.bound_arguments(n, results)
        done = files.library(self, path, args, kws, results)
        if done is None:
            done = self.changed_arguments(path, root, last, args, kws, values, results, n)
        if done is not None:
            return done
        if last == "partial":
            return self.partial(args, kws, results)
        code = ()
        for v in coded:
            code = merge_code(code, v.code)
        if code:
            # What keeps a function may call it whenever it is used.
            code = self.deferred(code, values)
        return self.library_result(path, root, last, args, kws, values, results, code, n)

    def library_text(self, path, root, args, kws, n):
        """What a text that the library evaluates reads by name."""
        if not (path in TEXT_PATHS or root in ("duckdb", "pandasql") or path.startswith(FORMULA_MODULES)):
            return None
        style = TEXT_PATHS.get(path, "sql")
        text = args[0] if args else kws.get("formula") or kws.get("expr") or kws.get("query")
        if text is None or text.const is None and not (path in TEXT_PATHS and style in ("code", "sql")):
            return None
        return self.text_names(text, n.args[0] if isinstance(n, ast.Call) and n.args else None, style)

    def changed_arguments(self, path, root, last, args, kws, values, results, n):
        """Changes the arguments that a known function changes; the result when that is all it does."""
        if "ax" in kws:
            self.store_all(kws["ax"], values)
        owner = path.rsplit(".", 2)[-2] if path.count(".") > 1 else ""
        if last in MUTATORS and (owner[:1].isupper() or owner in ("deque", "defaultdict")) and args:
            # deque.append(x, y): the object is the first argument.
            self.store_all(args[0], values)
            return mix(results, ANY, args[0].own, args[0].holds)
        if last in ARGUMENT_MUTATORS and path not in PURE_PATHS and root not in ("pandas", "sklearn"):
            for i in ARGUMENT_MUTATORS[last]:
                if i < len(args):
                    self.store_all(args[i], values)
            if last == "dump" and len(args) < 2 and "fp" in kws:
                self.store_all(kws["fp"], values)
            if last in ("heappop", "heapreplace", "heappushpop"):
                return mix_onto(self.iterate(args[0], id(n)), *results) if args else V(ANY)
            return mix(results, SCALAR)
        target = kws.get("out")
        if target is None and root == "numpy" and len(args) > 1:
            # ufuncs take it by position too: np.add(a, b, out), np.sqrt(a, out), np.clip(a, 0, 1, out)
            position = 3 if last == "clip" else 1 if last in UNARY_UFUNCS else 2 if last in BINARY_UFUNCS else 9
            target = args[position] if len(args) > position else None
        if target is not None:
            self.store_all(target, values)
            return mix(results, ARRAY, target.own, target.holds)
        if args and self.may_be_true(kws.get("inplace"), n, "inplace"):
            self.store_all(args[0], values)
        for name, v in kws.items():
            if name.startswith("overwrite_") and args and self.may_be_true(v, n, name):
                self.store_all(args[0], values)
            elif name in ("copy", "copy_X", "deep") and args and not self.may_be_true(v, n, name):
                # Without a copy the result is the argument, or the argument is worked on.
                if root == "sklearn":
                    self.store_all(args[0], values)
                return mix(results, ANY, args[0].own, args[0].holds)
        return None

    def library_result(self, path, root, last, args, kws, values, results, code, n):
        if path == "copy.copy":
            return mix(results, args[0].kind if args else ANY, 0, self.reach(args[0]) if args else 0, code)
        if path == "copy.deepcopy":
            return mix(results, args[0].kind if args and args[0].kind != OBJECT else ANY, 0, 0, code)
        if root == "pathlib" or path in PATH_FUNCTIONS:
            return self.path_call(last, args, results)
        if root in MATH_MODULES:
            return mix(results, SCALAR)
        if root == "pandas":
            return self.pandas(last, path, args, kws, results, code)
        if root == "numpy":
            return self.numpy(last, args, results, code)
        holds = 0
        for v in results:
            holds |= v.holds | v.own
        if root not in SAFE_MODULES:
            # A library that nothing is known about may change its arguments and keep them.
            self.mutate_arguments(values)
            return alt(mix(results, ANY, holds, holds, code), lib=FOREIGN)
        if last[:1].isupper() or last in ("defaultdict", "deque"):
            return self.constructed(root, last, values, kws, results, holds, code, n)
        return self.safe_result(path, root, last, values, results, holds, code)

    def constructed(self, root, last, values, kws, results, holds, code, n):
        """A constructor: the object may keep its arguments; other objects among them become parts of it."""
        if root == "collections":
            out = mix(results, LIST if last == "deque" else DICT if last in COLLECTION_DICTS else ANY, 0, holds, code)
            if last == "defaultdict":
                out.lib = DEFAULTS
            return out
        own = 0
        for v in values:
            if v.kind not in TABULAR and v.kind not in ROOTLESS and v.kind not in (LOC, DICT):
                own |= (v.own | v.holds) & ~self.tabular_roots(v)
        out = mix(results, OBJECT, own, holds, code)
        if any([name in kws and not is_true(n, name) for name in ("copy", "copy_X", "copy_x")]) or works_in_place(values):
            out.lib = IN_PLACE
        return out

    def change_figures(self, sources):
        """What is drawn goes to the current figure, which may be any that a name holds."""
        for names in (self.module.env or {}, self.base):
            for v in list(names.values()):
                if v.lib == FIGURE:
                    self.change(v, sources)

    def safe_result(self, path, root, last, values, results, holds, code):
        """The result of a function of a library whose functions leave their arguments alone."""
        if root in ("matplotlib", "seaborn", "plotly", "altair"):
            for v in values:
                self.sink(v)
            out = mix(results, OBJECT, 0, holds, code)
            if last in FIGURE_MAKERS:
                out.lib = FIGURE
            elif (root == "seaborn" or path.startswith("matplotlib.pyplot.")) and last not in FIGURE_READERS:
                self.change_figures(values)
            return out
        if last in ("tqdm", "closing", "nullcontext"):
            return mix(results, ANY, self.owns(values), holds, code)
        if root in ("sqlite3", "logging", "contextlib", "csv", "io", "zipfile", "tempfile", "tqdm"):
            return mix(results, OBJECT, 0, holds, code)
        if root == "random" and last in ("random", "randint", "uniform", "gauss", "randrange", "seed"):
            return mix(results, SCALAR)
        if path == "json.dumps" or root in ("string", "textwrap", "hashlib", "base64"):
            return mix(results, SCALAR)
        if root == "re" and last != "compile":
            return mix(results, ANY if last in ("findall", "split", "finditer", "match", "search", "fullmatch") else SCALAR, 0, 0, code)
        if last == "namedtuple":
            return alt(mix(results, OBJECT, 0, holds, code), lib=NAMED_TUPLE)
        if last in VIEW_FUNCTIONS or root in ("itertools", "operator", "collections"):
            for v in values:
                holds |= v.own & self.BUF
            own = 0 if root in ("itertools", "collections") else self.owns(values)
            return mix(results, ANY, own, holds, code)
        return mix(results, SEPARATE, 0, 0 if root in ("scipy", "sklearn", "json", "pickle", "statsmodels") else holds, code)

    def owns(self, values):
        out = 0
        for v in values:
            out |= v.own
        return out

    def tabular_roots(self, v):
        """Roots of tables inside a display: a constructor's own parts are not its data."""
        out = 0
        for e in v.elems or ():
            if e.kind in TABULAR:
                out |= e.own | e.holds
            elif e.elems:
                out |= self.tabular_roots(e)
        return out

    def store_all(self, target, values):
        for v in values:
            self.sink(v)
        self.change(target, values)

    def mutate_arguments(self, values, *more):
        for v in values:
            self.change(v, [*more, *values])

    def deferred(self, code, values):
        out = []
        extra = None
        for v in values:
            if v.kind not in (LIB, BUILTIN):
                part = alt(v, code=(), const=None, items=None, elems=None)
                part.holds |= part.own
                extra = join(extra, part)
        for c in code:
            if isinstance(c, Fn) and not c.pending:
                key = ("deferred", id(c))
                d = self.fns.get(key)
                if d is None:
                    d = self.fns[key] = Fn(c.node, c.closure, c.source)
                    d.defaults, d.cls, d.decorators, d.original = c.defaults, c.cls, c.decorators, c
                    d.pending = True
                d.extra = join(d.extra, extra)
                out.append(d)
            else:
                out.append(c)
        return tuple(out)

    def partial(self, args, kws, results):
        f = args[0] if args else V(ANY)
        extra = join_all([alt(v, elems=None) for v in args[1:] + list(kws.values())])
        code = []
        holds = 0
        for v in results:
            holds |= v.own | v.holds
        for c in f.code:
            if isinstance(c, Fn):
                key = ("partial", id(c))
                d = self.fns.get(key)
                if d is None:
                    d = self.fns[key] = Fn(c.node, c.closure, c.source)
                    d.defaults, d.cls, d.decorators, d.original = c.defaults, c.cls, c.decorators, c
                d.extra = join(d.extra, extra if extra is not None else V(SCALAR))
                code.append(d)
            else:
                code.append(c)
        if f.kind in (LIB, BUILTIN, PRIMITIVE) and not code:
            return mix(results, ANY if f.kind != PRIMITIVE else PRIMITIVE, 0, holds)
        return mix(results, ANY, 0, holds, tuple(code))

    def imported_module(self, args):
        if args and args[0].const is not None and len(args[0].const) == 1:
            return V(LIB, lib=next(iter(args[0].const)))
        self.untracked.add("import of an unknown module")
        return mix(args, ANY)

    def path_call(self, last, args, results):
        out = mix(results, PATH if last in ("Path", "PurePath", "PosixPath") else SCALAR)
        if not args and last == "Path":
            out.const = frozenset((".",))
            return out
        const = args[0].const if args else None
        for v in args[1:]:
            const = self.product(const, v.const, "/") if const is not None and v.const is not None else None
        if last == "basename" and const is not None:
            const = frozenset([files.base_name(c) for c in const])
        out.const = const
        return out

    def pandas(self, last, path, args, kws, results, code):
        holds = 0
        for v in results:
            holds |= v.holds
        if last in ("set_option", "reset_option", "get_option", "option_context"):
            return mix(results, OBJECT)
        if last in VIEW_FUNCTIONS:
            own = 0
            for v in args[:1] + [kws[k] for k in ("data",) if k in kws]:
                if v.kind in TABULAR or v.kind in (ANY, OBJECT):
                    own |= v.own & self.BUF
                holds |= v.holds if v.kind not in (FRAME,) else 0
                if v.kind in (DICT, LIST) and last in ("DataFrame", "Series"):
                    # Columns given as arrays may be kept without a copy.
                    holds |= v.own & self.BUF
            kind = FRAME if last in ("DataFrame", "from_dict", "from_records") else INDEX if last == "Index" else SERIES
            return mix(results, kind, own, holds, code)
        kind = FRAME if last in PANDAS_FRAME_FUNCTIONS else PANDAS
        if last == "concat":
            axis = kws.get("axis")
            kind = PANDAS if axis is not None or len(args) > 1 else PANDAS
        elif last in ("isna", "isnull", "notna", "notnull", "to_numeric", "unique", "factorize", "Timestamp", "Timedelta",
                      "NaT", "DateOffset", "Interval"):
            kind = SCALAR if last in ("Timestamp", "Timedelta", "DateOffset", "Interval") else \
                SEPARATE if last == "factorize" else PANDAS
        elif last in ("cut", "qcut"):
            kind = SEPARATE if "retbins" in kws else PANDAS
        elif last in ("date_range", "bdate_range", "period_range", "RangeIndex"):
            kind = PANDAS
        elif last in ("Grouper", "NamedAgg"):
            kind = OBJECT
        return mix(results, kind, 0, holds, code)

    def numpy(self, last, args, results, code):
        holds = own = 0
        for v in results:
            holds |= v.holds
        scalar = bool(args) and all([v.kind in (SCALAR, LIB) for v in results])
        if last in ("array", "copy"):
            return mix(results, ARRAY, 0, holds, code)
        if last in VIEW_FUNCTIONS:
            for v in results:
                if v.kind not in (LIST, SCALARS, TUPLE, SET, DICT):
                    own |= v.own & self.BUF
            return mix(results, ARRAY if last not in ("split", "array_split", "hsplit", "vsplit", "meshgrid",
                                                      "broadcast_arrays") else ANY, own, holds, code)
        if last in ("unique", "histogram", "linalg", "eig", "svd", "qr", "eigh", "polyfit", "where", "nonzero", "modf",
                    "divmod", "frexp", "lstsq", "slogdet", "histogram2d", "gradient", "ogrid", "mgrid"):
            return mix(results, ARRAY if last in ("where",) and len(args) == 3 else SEPARATE, 0, holds, code)
        if last in ("default_rng", "RandomState", "Generator", "vectorize", "poly1d", "frompyfunc", "errstate", "printoptions"):
            return mix(results, OBJECT if not code else ANY, 0, holds, code)
        if scalar and not last.startswith(("zeros", "ones", "full", "arange", "linspace", "empty", "eye", "identity",
                                           "rand", "normal", "uniform", "choice", "permutation", "logspace")):
            return mix(results, SCALAR)
        kind = ARRAY
        if any([v.kind in PANDAS_KINDS for v in results]):
            kind = PANDAS
        return mix(results, kind, 0, holds, code)

    # ---- builtins -----------------------------------------------------------------------------

    def builtin(self, name, args, kws, n, star=None):
        values = args + list(kws.values())
        results = values
        first = args[0] if args else V(SCALAR)
        if any([v.code for v in values]):
            extra = None
            if name in ("map", "filter", "sorted", "min", "max", "sum", "list", "tuple", "set", "dict", "any", "all", "iter",
                        "next", "reversed", "enumerate", "zip", "print", "len", "str", "repr", "frozenset"):
                for v in values:
                    extra = join(extra, self.touch(v, values))
                fns = [v for v in (args[:1] if name in ("map", "filter") else []) + [kws[k] for k in ("key", "default") if k in kws]
                       if v.code]
                if fns:
                    extra = join(extra, self.callbacks(fns, values))
                parts = [alt(v, code=tuple([c for c in v.code if not (isinstance(c, Fn) and c.pending)])) for v in values]
                results = parts
            elif name not in ("getattr", "isinstance", "issubclass", "callable", "type", "id", "hasattr", "super", "property",
                              "staticmethod", "classmethod", "setattr", "delattr"):
                for v in values:
                    extra = join(extra, self.touch(v, values))
            if extra is not None:
                results = list(results) + [alt(extra, code=tuple([c for c in extra.code if not (isinstance(c, Fn) and c.pending)]))]
        if name in ("globals", "locals", "vars"):
            self.untracked.add(name + "()")
            out = mix(results, ANY, first.own, first.holds, first.code)
            out.flags |= UNTRACKED
            return out
        if name in ("exec", "eval", "compile", "execfile", "breakpoint"):
            self.untracked.add(name + "()")
            for v in values:
                self.sink(v)
            out = mix(results, ANY)
            out.flags |= UNTRACKED
            return out
        if name == "__import__":
            return self.imported_module(args)
        if name == "print":
            for v in values:
                self.sink(v)
            if "file" in kws:
                files.write(self, kws["file"], values) if kws["file"].kind != LIB else None
            return mix(results, SCALAR)
        if name == "open":
            return files.open_file(self, files.path_argument(args, kws), files.mode_of(args, kws), results)
        if name == "range":
            return mix(results, SCALARS)
        if name in SCALAR_BUILTINS:
            out = mix(results, SCALAR)
            if name == "str" and first.const is not None:
                out.const = first.const
            return out
        if name in ("getattr", "setattr", "delattr"):
            return self.reflect(name, args, results, n)
        if name == "super":
            return V(SUPER)
        if name in ("staticmethod", "classmethod", "property"):
            return mix(results, ANY, 0, first.own | first.holds, first.code)
        if name == "type":
            if len(args) == 3:
                self.untracked.add("type()")
            return mix(results, ANY, 0, 0, tuple([c.cls for c in first.code if isinstance(c, Inst)]))
        holds = 0
        code = ()
        for v in results:
            if v.kind == FUNCTION:
                continue
            holds |= v.holds | (v.own & self.BUF if v.kind not in (FRAME, SCALARS, INDEX, SERIES) else 0)
            code = merge_code(code, v.code)
        if name in CONTAINER_BUILTINS:
            return self.container(name, args, values, results, holds, code, n, star)
        if name == "dict":
            for v in values:
                holds |= v.own if v.kind not in (DICT, LIST, GEN) else 0
            return mix(results, DICT, 0, holds, code)
        if name == "next":
            out = self.iterate(first, id(n))
            self.alter(first.own, first)
            for v in args[1:]:
                out = join(out, v)
            return mix_onto(out, *results)
        if name in ("min", "max", "sum"):
            if len(args) > 1 and name != "sum":
                out = join_all(args)
                return mix_onto(alt(out, const=None, items=None), *results)
            inner = self.iterate(alt(first, code=code), id(n))
            if name == "sum" and inner.kind == ANY:
                inner = mix((inner,), ANY, 0, inner.holds | inner.own)
            if name == "sum" and first.kind in TABULAR:
                inner = mix((inner,), PANDAS if first.kind != ARRAY else ARRAY)
            return mix_onto(alt(inner, const=None), *results)
        if name in ("bytearray", "object"):
            return mix(results, ANY)
        if name in ("aiter", "anext", "memoryview"):
            return mix(results, ANY, self.owns(results), holds, code)
        if name[:1].isupper():
            return mix(results, OBJECT, 0, holds | self.owns(results), code)
        return mix(results, ANY, self.owns(results), holds, code)

    def container(self, name, args, values, results, holds, code, n, star):
        """list, zip, map and so on: new containers and iterators over the elements of others."""
        first = args[0] if args else V(SCALAR)
        items = None
        kind = {"list": LIST, "sorted": LIST, "tuple": TUPLE, "set": SET, "frozenset": SET}.get(name, GEN)
        if name == "list" and not args:
            return V(LIST)
        scalars = first.kind in (SCALARS, FRAME, INDEX) or first.kind == SERIES and not first.holds or first.kind == SCALAR
        if name in ("list", "sorted", "tuple", "set", "reversed") and scalars:
            kind = SCALARS if kind == LIST else kind
            items = first.items
        elems = None
        if name == "enumerate":
            inner = self.iterate(first, id(n))
            out = mix(results, GEN, 0, holds, code)
            pair = mix([inner], TUPLE, 0, inner.own | inner.holds, inner.code)
            pair.elems = (mix(results, SCALAR), inner)
            out.elems = (pair,)
            return out
        if name == "zip" and star is None:
            parts = [self.iterate(v, (id(n), i)) for i, v in enumerate(args)]
            out = mix(results, GEN, 0, holds, code)
            pair = mix(parts, TUPLE, 0, holds, code)
            pair.elems = tuple(parts)
            out.elems = (pair,)
            return out
        if name in ("map", "filter"):
            out = mix(results, GEN, 0, holds | self.owns([v for v in results if v.kind not in (FUNCTION, LIB, BUILTIN)]), code)
            fn_code = tuple([c for c in first.code if not (isinstance(c, Fn) and c.pending)])
            if fn_code:
                out.code = merge_code(out.code, self.deferred(fn_code, values[1:]))
            elif first.kind not in (LIB, BUILTIN, SCALAR):
                self.bound_arguments(n, results) if isinstance(n, ast.Call) else None
            if first.kind == PRIMITIVE:
                self.call_dynamic_primitive(first.lib, self.site or n, values)
            if name == "map" and first.kind == BUILTIN and first.lib[9:] in SCALAR_BUILTINS:
                out.kind = SCALARS
                out.holds = 0
            elif name == "map" and first.kind == LIB:
                got = self.library(first, [self.iterate(v, (id(n), i)) for i, v in enumerate(args[1:])], {}, n)
                out = mix_onto(out, got)
                out = alt(out, holds=out.holds | got.own | got.holds)
            return out
        if name in ("list", "tuple") and first.elems is not None and first.kind in (LIST, TUPLE):
            elems = first.elems
        out = mix(results, kind, 0, holds, code)
        out.items, out.elems = items, elems
        return out

    def reflect(self, name, args, results, n):
        first = args[0] if args else V(ANY)
        key = args[1] if len(args) > 1 else V(SCALAR)
        names = key.const
        if names is None:
            self.untracked.add(name + " with a dynamic name")
        if name == "getattr":
            out = None
            for attr in names or ():
                out = join(out, self.attribute(first, attr, n))
            if out is None or names is None:
                out = mix(results, ANY, first.own, first.holds, first.code)
                out.flags |= UNTRACKED
            for v in args[2:]:
                out = join(out, v)
            return mix_onto(out, *results)
        if first.kind == LIB:
            self.taints.add("attribute_store:module")
        if len(args) > 2:
            for attr in names or ("",):
                self.set_attr_hook(first, attr, args[2])
            self.store(first, mix_onto(args[2], key))
        else:
            self.mutate(first.own, *results)
        return V(SCALAR)


def is_true(n, keyword):
    for k in n.keywords if isinstance(n, ast.Call) else ():
        if k.arg == keyword and type(k.value) is ast.Constant and k.value.value is True:
            return True
    return False
