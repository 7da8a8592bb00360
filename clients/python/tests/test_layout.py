"""What a reader relies on: a small core, and docstrings that give shapes, dtypes, units and errors."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import verigraph

HOME = Path(verigraph.__file__).parent
FILES = sorted(p for p in HOME.rglob("*.py") if p.parent.name != "v1")
CORE = {"batch", "checks", "errors", "feed", "transfer", "wire"}


def test_importing_the_package_loads_six_small_modules_and_none_of_the_adapters():
    loaded = "import sys, verigraph; print(*(m for m in sys.modules if m.startswith('verigraph.')))"
    names = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout
    assert {n.split(".")[1] for n in names.split()} == CORE | {"v1"}
    lines = [len((HOME / f"{name}.py").read_text("utf-8").splitlines()) for name in CORE]
    assert max(lines) <= 210
    assert sum(lines) <= 6 * 175


def public(tree: ast.Module) -> Iterator[tuple[str, ast.AST, str]]:
    """Name, node and the docstrings around it, of everything without an underscore."""
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
            continue
        own = ast.get_docstring(node) or ""
        yield node.name, node, own
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and not inner.name.startswith("_"):
                yield f"{node.name}.{inner.name}", inner, own


def missing(node: ast.AST, around: str) -> Iterator[str]:
    text = ast.get_docstring(node)
    if not text:
        yield "has no docstring"
        return
    around += text
    if isinstance(node, ast.ClassDef):
        return
    signature = ast.unparse(node.args) + (ast.unparse(node.returns) if node.returns else "")
    if "ndarray" in signature and not (re.search(r"\[\w+", around) and re.search(r"int\d|float\d|dtype", around)):
        yield "takes or gives arrays without a word on shape and dtype"
    if re.search(r"seconds|timeout|budget", signature) and not re.search(r"second|\bs\b", around):
        yield "takes a time without its unit"
    for error in ast.walk(node):
        if isinstance(error, ast.Raise) and isinstance(error.exc, ast.Call):
            name = ast.unparse(error.exc.func).rpartition(".")[2]
            if name[0].isupper() and name not in around:
                yield f"raises {name} without a word"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(HOME)))
def test_the_docstring_of_every_public_name_gives_shapes_dtypes_units_and_errors(path):
    tree = ast.parse(path.read_text("utf-8"))
    found = [f"{name} {what}" for name, node, around in public(tree) for what in missing(node, around)]
    assert not found
    assert ast.get_docstring(tree)


def test_the_check_of_docstrings_sees_what_is_missing():
    bad = ast.parse(
        "class A:\n def f(self): pass\n"
        'def g(x: np.ndarray, timeout: float):\n "Adds."\n raise ValueError("no")\n'
    )
    found = [what for _, node, around in public(bad) for what in missing(node, around)]
    assert found[:2] == ["has no docstring", "has no docstring"]
    assert [f.split()[0] for f in found[2:]] == ["takes", "takes", "raises"]
