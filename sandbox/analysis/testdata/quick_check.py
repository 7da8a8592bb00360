"""Searches every statement that quick lets through: each statement of the given files and of TRICKS, as a cell."""

import ast
import sys

sys.path.insert(0, sys.argv[1])
import analyzer  # noqa: E402
from taint import Scan  # noqa: E402
from values import LIB, V  # noqa: E402

sys.setrecursionlimit(8000)
TRICKS = [
    'x = "__glo" "bals__"', 'x = ("__glo" # " \n \'bals__\')', 'x = ("/pr" f"oc")', "x = '''__glo''' \"\" r'bals__'",
    'x = "__glo\\\nbals__"', 'x = "\\x5f_globals__"', 'x = "\\137_globals__"', 'x = "\\N{LOW LINE}_globals__"',
    "import ｇc", "x = f.__ｇlobals__", "ｂind = 3", "bind, x = 1, 2", "(x, [Claim]) = 1, [2]", "bind += 1",
    "x = [0 for bind in y]", "x = [0 for pd.read_csv in y]", "print(bind := 3)", "pd.read_csv = f", "del pd.read_csv",
    "import pandas as infer", "from a import b as submit_answer", "import gc", "from unittest import mock", "x = exec", "x = lambda: bind('a {x}', x=1)", "x = lambda: exec(a)", "x = q.write(1, b'a')", "x = q.fork()", "x = open(3)",
    "globals()['bind'] = 3", "pd.DataFrame.__dict__['mean'] = 3", "x.__class__ = y", "getattr(x, '__code__')", "x = 1; bind = 2",
    "setattr(pd, 'read_csv', f)", "for bind in x: pass", "with x as pd.y: pass", "x = y._verigraph", "x = _verigraph_f()",
    "x = __import__('g' 'c')", "x = __builtins__", "def bind(): pass", "class Claim: pass",
]


def cells(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and not isinstance(node, (ast.Return, ast.Global, ast.Nonlocal, ast.Break, ast.Continue)):
            yield ast.unparse(node)


def check(source, base):
    """How many statements were let through, found to hold something, and both."""
    tree, error = analyzer.parse(source)
    if error is not None:
        return 0, 0, 0
    cell = analyzer.Cell(source, {})
    m = cell.machine
    m.base.update(base)
    cell.quick = analyzer.Quick(source, m.base)
    passed = held = both = 0
    for s in tree.body:
        m.begin()
        analyzer.STATEMENTS[type(s)](m, s)
        scan = Scan(cell.module_path)
        found = scan.scan(s)
        known = {id(entry[1]) for entry in m.calls.values()}
        missing = [c for c in scan.calls if id(c) not in known]
        if cell.quick.passes(s, len(m.calls)):
            passed += 1
            if found or missing:
                both += 1
                print("let through: %r: %s %d" % (source, sorted(found), len(missing)))
        held += bool(found or missing)
    return passed, held, both


totals = [0, 0, 0]
base = {"q": V(LIB, lib="os"), "pd": V(LIB, lib="pandas")}
held = 0
for source in TRICKS:
    got = check(source, dict(base))
    held += got[1]
    if not got[1]:
        print("no trick: %r" % source)
    totals = [a + b for a, b in zip(totals, got)]
for path in sys.argv[2:]:
    with open(path, encoding="utf-8") as f:
        for source in cells(f.read()):
            if len(source) < 5000:
                totals = [a + b for a, b in zip(totals, check(source, {}))]
print("%d statements let through, %d hold a denied construct, %d both; %d tricks hold one" % (*totals, held))
sys.exit(1 if totals[2] or not totals[0] or held < len(TRICKS) else 0)
