"""What a value is: its kind for the evidence graph, its type, its shape and a short text.

Invariant: describing a value costs little, whatever its size, and never fails. No library is
imported here; a library that made the value is in sys.modules.
"""
import sys

LIST_ITEMS = 100
NAME_CHARS = 60
HEAP_TYPE = 1 << 9  # types made at run time; the interpreter's own static ones can't be forged
_flags = type.__dict__["__flags__"].__get__  # past what a metaclass says


def is_claim(value):
    """Set by the runner, which knows the claims."""
    return False


def cut(text, limit):
    return text if len(text) <= limit else text[:limit - 1] + "…"


def short_type(value):
    return cut(type(value).__name__, NAME_CHARS)


def type_name(value):
    kind = type(value)
    module, name = getattr(kind, "__module__", ""), getattr(kind, "__qualname__", "")
    if not isinstance(module, str) or not isinstance(name, str):
        return "object"
    # A class that the session's code made is named as such, whatever module it claims to be from.
    if module != "__main__" and _flags(kind) & HEAP_TYPE and not _stands_in(module, name, kind):
        module = "__main__"
    return cut(name if module == "builtins" else f"{module}.{name}", 2 * NAME_CHARS)


def _stands_in(module, name, kind):
    """Whether the module holds the class under its name."""
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is kind


def _family(value):
    """The library that the value's type comes from."""
    module = getattr(type(value), "__module__", "")
    return module.partition(".")[0] if isinstance(module, str) else ""


def kind_of(value, depth=0):
    """One of the kinds of the evidence package."""
    if is_claim(value):
        return "claim"
    if value is None:
        return "none"
    exact = type(value)
    if exact is bool:
        return "boolean"
    if exact in (int, float, complex):
        return "number"
    if exact is str:
        return "string"
    if exact in (list, tuple, set, frozenset, dict):
        return _kind_of_container(value, depth)
    family = _family(value)
    if family in ("decimal", "fractions"):
        return "number"
    if family == "datetime":
        return "date"
    if family == "numpy":
        return _kind_of_numpy(value, depth)
    if family == "pandas":
        return _kind_of_pandas(value, depth)
    if family in ("pyarrow", "polars", "scipy") and hasattr(exact, "shape"):
        return "table"
    if isinstance(value, (tuple, list, dict, set)) and depth < 3:
        return _kind_of_container(value, depth)
    return "other"


def _kind_of_container(value, depth):
    if len(value) > LIST_ITEMS:
        return "table"
    if depth >= 4:
        return "other"
    found = "list"
    items = value
    if isinstance(value, dict):
        items = [x for pair in value.items() for x in pair]
    for item in items:
        kind = kind_of(item, depth + 1)
        if kind in ("claim", "table"):
            return kind
        if kind == "other":
            found = "other"
    return found


def _kind_of_numpy(value, depth):
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return "other"
    if isinstance(value, (numpy.generic, numpy.ndarray)):
        if isinstance(value, numpy.ndarray) and value.ndim:
            if value.size > LIST_ITEMS:
                return "table"
            return _kind_of_container(value.ravel().tolist(), depth) if value.dtype.kind == "O" else "list"
        code = value.dtype.kind
        if code == "b":
            return "boolean"
        if code in "iufc":
            return "number"
        if code in "US":
            return "string"
        if code in "mM":
            return "date"
        if code == "O" and depth < 4:
            return kind_of(value.item(), depth + 1)
    return "other"


def _kind_of_pandas(value, depth):
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return "other"
    if value is pandas.NA:
        return "none"
    if value is pandas.NaT or isinstance(value, (pandas.Timestamp, pandas.Timedelta, pandas.Period, pandas.DateOffset)):
        return "date"
    if isinstance(value, pandas.Interval):
        return "list"
    if isinstance(value, pandas.DataFrame):
        return "table"
    if isinstance(value, (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray)):
        return "table" if len(value) > LIST_ITEMS else _kind_of_container(list(value), depth)
    return "other"


def repr_of(value, kind, limit):
    """repr(value), never long to make: big things are named by type and size."""
    try:
        if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 4000:
            return f"<int of {value.bit_length()} bits>"
        if isinstance(value, (str, bytes)) and len(value) > 4 * limit:
            return cut(repr(value[:limit]), limit)
        if kind == "table" or (kind == "other" and shape_of(value).startswith("(")):
            return cut(f"<{type_name(value)} {shape_of(value)}>", limit)
        return cut(repr(value), limit)
    except Exception as exc:
        return f"<repr failed: {short_type(exc)}>"


def shape_of(value):
    try:
        if _family(value) in ("numpy", "pandas", "pyarrow", "polars", "scipy"):
            shape = getattr(value, "shape", None)
            if isinstance(shape, tuple):
                return cut(str(tuple(int(n) for n in shape)), NAME_CHARS) if shape else ""
        if type(value) in (list, tuple, set, frozenset, dict, bytes, bytearray, range):
            return str(len(value))
    except Exception:
        pass
    return ""
