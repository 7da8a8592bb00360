"""Compares the pass's own scoping with Python's symtable, for every function in the given files."""

import ast
import symtable
import sys

sys.path.insert(0, sys.argv[1])
from scope import scope_of  # noqa: E402


def tables(table, out):
    for child in table.get_children():
        if child.get_type() == "function":
            out.setdefault((child.get_name(), child.get_lineno()), []).append(child)
        tables(child, out)
    return out


def check(source, where):
    tree = ast.parse(source)
    known = tables(symtable.symtable(source, where, "exec"), {})
    count = bad = 0
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        name = getattr(node, "name", "lambda")
        found = known.get((name, node.lineno)) or known.get((name, min(
            [node.lineno] + [d.lineno for d in getattr(node, "decorator_list", [])])))
        if not found or len(found) != 1:
            continue
        count += 1
        table, scope = found[0], scope_of(node)
        # Python 3.12 inlines comprehensions; their targets are then listed as locals too.
        inner = {t.id for c in ast.walk(node) if isinstance(c, ast.comprehension)
                 for t in ast.walk(c.target) if isinstance(t, ast.Name)}
        local = {n for n in table.get_locals() if not n.startswith(".")} - inner
        if local != set(scope.locals) - inner or set(scope.nonlocals) != set(table.get_nonlocals()) & set(scope.nonlocals):
            bad += 1
            print("%s:%d %s: pass %s, symtable %s" % (where, node.lineno, name, sorted(scope.locals), sorted(local)))
    return count, bad


count = bad = 0
for path in sys.argv[2:]:
    with open(path, encoding="utf-8") as f:
        c, b = check(f.read(), path)
    count, bad = count + c, bad + b
print("%d functions compared" % count)
sys.exit(1 if bad or not count else 0)
