"""Which statements need no search for denied constructs: those in whose text no part of one stands.

The search (taint.Scan) walks every node, which takes a fifth of the pass. Here a few regular expressions look
at the whole cell once. Invariant: a statement that is let through holds nothing that the search would
find; where the text can't tell, it is searched.
"""

import ast
import re
import unicodedata

import taint
from kinds import BUILTIN, LIB
from tables import PRIMITIVES, PROTECTED, words

_WORD = re.compile(r"[^\W\d]\w*")
# Splitting is twice as fast as a search for words.
_SPACED = {c: " " for c in range(128) if not (chr(c).isalnum() or c == ord("_"))}
_LINE_END = re.compile(r"\r\n?|\n")
# Two literals that Python joins to one: what only the joined text would show must be seen too.
_JOINT = re.compile(r"""["'](?:\s|\\\r?\n|\#[^\n]*\n)*[rRbBfFuU]{0,2}["']""")
_DENIED_NAMES = re.compile(r"__(?:globals|code|closure|builtins|subclasses|mro)__")
# Escapes that may spell anything, and a line that goes on inside a literal.
_ESCAPE = re.compile(r"\\[xuUN0-7\r\n]")

ROOTS = frozenset(p.split(".")[0] for p in taint.DENIED_PATHS | taint.DENIED_MODULES)
SUSPECT = taint.DENIED_ATTRIBUTES | taint._DYNAMIC_CODE | taint._ATTRIBUTE_FUNCTIONS | taint._PATH_FUNCTIONS | ROOTS | \
    words("__builtins__ __dict__ __class__ __setattr__ __delattr__ globals vars locals")


def denied_text(text):
    """Whether a denied name or path may stand in a literal of the text; see taint.Scan.text."""
    return "_verigraph" in text or "/proc" in text or "/dev/fd" in text or "__" in text and _DENIED_NAMES.search(text)


def lines_of(text, part):
    """The number of the line of each place where the part stands."""
    out = []
    number, last, at = 1, 0, text.find(part)
    while at >= 0:
        number += text.count("\n", last, at)
        out.append(number)
        last, at = at, text.find(part, at + len(part))
    return out


class Quick:
    """Looks at one cell. base holds the names that earlier cells left."""

    def __init__(self, source, base):
        text = source if source.isascii() else unicodedata.normalize("NFKC", source)
        found = text.translate(_SPACED).split() if text.isascii() else _WORD.findall(text)
        joined = _JOINT.sub("", text)
        self.clean = SUSPECT.isdisjoint(found) and base.keys().isdisjoint(PROTECTED) and not denied_text(source) and \
            not (joined != source and denied_text(joined)) and not ("\\" in source and _ESCAPE.search(source)) and not any([
                name in found for name, v in base.items()
                if v.lib and v.kind in (LIB, BUILTIN) and v.lib.split(".", 1)[0] in ROOTS])
        if not self.clean:
            return
        self.late, self.calls = set(), {}
        if "\r" in text:
            text = _LINE_END.sub("\n", text)
        if "for" in found:
            self.late.update(lines_of(text, "for"))
        if ":=" in text:
            self.late.update(lines_of(text, ":="))
        for name in PRIMITIVES:
            for number in lines_of(text, name):
                self.calls[number] = self.calls.get(number, 0) + 1

    def passes(self, s, calls):
        """Whether the search would find nothing in s; calls is how many calls of primitives are known in it."""
        if not self.clean or not _plain(s):
            return False
        first, last = s.lineno, s.end_lineno
        if first == last:
            return first not in self.late and self.calls.get(first, 0) == calls
        lines = range(first, last + 1)
        return self.late.isdisjoint(lines) and sum([self.calls.get(i, 0) for i in lines]) == calls


def _plain(s):
    """Whether s is a statement that, comprehensions apart, binds only names that are not protected."""
    t = s.__class__
    if t is ast.Expr:
        return True
    if t is ast.Assign:
        return all([_bindable(x) for x in s.targets])
    if t is ast.AugAssign:
        return _bindable(s.target)
    if t is ast.Import or t is ast.ImportFrom:
        return all([(a.asname or a.name.split(".")[0]) not in PROTECTED for a in s.names])
    return False


def _bindable(target):
    t = target.__class__
    if t is ast.Name:
        return target.id not in PROTECTED
    if t is ast.Tuple or t is ast.List:
        return all([_bindable(x) for x in target.elts])
    return t is ast.Subscript
