"""Which names a function body binds, by Python's own scoping rules."""

import ast

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


# Fields that hold no expression or statement.
_LEAVES = frozenset("""ctx op ops id attr arg name names module level conversion kind type_comment type_ignores n s rest
    cls_name asname""".split())


def child_fields(t):
    """The fields of a node type under which other nodes stand."""
    fields = _FIELDS.get(t)
    if fields is None:
        fields = _FIELDS[t] = tuple(f for f in getattr(t, "_fields", ()) if f not in _LEAVES)
    return fields


_FIELDS = {}


def nodes(node):
    """The node and all nodes below it, contexts and operators left out; None and texts are among them."""
    out = [node]
    for n in out:
        t = type(n)
        if t is ast.Name or t is ast.Constant:
            continue
        fields = _FIELDS.get(t)
        for name in child_fields(t) if fields is None else fields:
            value = getattr(n, name)
            if value.__class__ is list:
                out += value
            elif value.__class__ not in _PLAIN:
                out.append(value)
    return out


_PLAIN = (type(None), str, int, bool)


class Scope:
    __slots__ = ("locals", "globals", "nonlocals", "inner", "generator")


def parameters(args):
    """All parameters of an ast.arguments: positional, keyword-only, *args name, **kwargs name."""
    positional = [a.arg for a in args.posonlyargs] + [a.arg for a in args.args]
    return positional, [a.arg for a in args.kwonlyargs], \
        args.vararg.arg if args.vararg else None, args.kwarg.arg if args.kwarg else None


def scope_of(node):
    """The scope of a function or lambda; kept on the node, since loops ask again and again."""
    known = getattr(node, "_scope", None)
    if known is not None:
        return known
    out = Scope()
    bound, globals_, nonlocals = set(), set(), set()
    out.inner = out.generator = False
    if hasattr(node, "args"):
        positional, keyword, star, stars = parameters(node.args)
        bound.update(positional, keyword)
        bound.update(n for n in (star, stars) if n)
    body = node.body if isinstance(node.body, list) else [node.body]
    stack = [(child, False) for child in body]
    while stack:
        n, comprehension = stack.pop()
        t = type(n)
        if t is ast.Name:
            if not comprehension and type(n.ctx) is not ast.Load:
                bound.add(n.id)
            continue
        if t in _FUNCTIONS or t is ast.ClassDef:
            out.inner = True
            if t is not ast.Lambda:
                bound.add(n.name)
                stack += [(d, comprehension) for d in n.decorator_list]
            if t is ast.ClassDef:
                stack += [(b, comprehension) for b in n.bases]
                stack += [(k.value, comprehension) for k in n.keywords]
            else:
                stack += [(d, comprehension) for d in n.args.defaults]
                stack += [(d, comprehension) for d in n.args.kw_defaults if d]
            continue
        if t is ast.NamedExpr:
            bound.add(n.target.id)
            stack.append((n.value, comprehension))
            continue
        if t in (ast.Yield, ast.YieldFrom):
            out.generator = out.generator or not comprehension
        elif t is ast.Global:
            globals_.update(n.names)
        elif t is ast.Nonlocal:
            nonlocals.update(n.names)
        elif t in (ast.Import, ast.ImportFrom):
            bound.update((a.asname or a.name.split(".")[0]) for a in n.names)
        elif t is ast.ExceptHandler and n.name:
            bound.add(n.name)
        elif t in (ast.MatchAs, ast.MatchStar) and n.name:
            bound.add(n.name)
        elif t is ast.MatchMapping and n.rest:
            bound.add(n.rest)
        inside = comprehension or t in _COMPREHENSIONS
        if t is ast.GeneratorExp:
            out.inner = True
        stack += [(child, inside) for child in ast.iter_child_nodes(n)]
    out.globals = frozenset(globals_)
    out.nonlocals = frozenset(nonlocals)
    out.locals = frozenset(bound - globals_ - nonlocals)
    node._scope = out
    return out


def free_names(node):
    """All names that occur in a function: a superset of what it captures."""
    known = getattr(node, "_free", None)
    if known is None:
        known = node._free = {n.id for n in nodes(node) if type(n) is ast.Name}
    return known
