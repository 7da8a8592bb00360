"""Which files an operation reads and writes."""

import re

from tables import *
from kinds import *
from values import V, mix

_SUFFIX = re.compile(r"[^\n]{1,250}\.(%s)$" % "|".join(DATA_SUFFIXES), re.I)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.I)
_READER_NAME = re.compile(r"(read|load|open|scan|imread|parse|import|from_file|connect)(_|$|[a-z])", re.I)
_NOT_READERS = words("""loads read_sql_names openpyxl parse_dates load_iris load_wine load_diabetes load_breast_cancer
    load_digits load_dataset parse_args""")


def base_name(path):
    path = path.replace("\\", "/")
    if path.startswith("file://"):
        path = path[7:]
    return path.rstrip("/").rsplit("/", 1)[-1] or path


def path_argument(args, kws, position=0):
    if len(args) > position:
        return args[position]
    for name in PATH_KEYWORDS:
        if name in kws:
            return kws[name]
    return None


def is_stream(v):
    """Not a path: an open file, a buffer or a value that was read already."""
    return v.kind in (FILE, OBJECT, DICT, GEN, INSTANCE, FUNCTION) or v.kind in TABULAR and v.kind != PANDAS


def read(m, v, result):
    """A reader is called on the path v; marks the statement and the result."""
    if v is None or is_stream(v):
        return result
    names = v.const if v.const is not None else v.items
    if names is None or any([_URL.match(x) and not x.startswith("file:") for x in names]):
        if v.kind in (LIST, SCALARS, TUPLE) and v.elems is not None and v.items is None:
            for e in v.elems:
                result = read(m, e, result)
            return result
        m.flags |= DYNAMIC
        result.flags |= DYNAMIC
        return result
    for x in names:
        name = base_name(x)
        if not name or name in (".", "..") or any([c in name for c in "*?["]):
            m.flags |= DYNAMIC
            result.flags |= DYNAMIC
        else:
            bit = m.file_bit(name)
            m.file_bits |= bit
            result.files |= bit
    return result


def listed(m, pattern, result):
    """The names of the files that match a pattern: they rest on those files and on no others."""
    if pattern is None or pattern.const is None:
        m.flags |= DYNAMIC
        result.flags |= DYNAMIC
        return result
    for x in pattern.const:
        name = base_name(x)
        bit = m.file_bit(PATTERN + (name if name.strip(".") != "" and "**" not in name else "*"))
        m.file_bits |= bit
        result.files |= bit
    return result


def write(m, v, sources):
    """Something is written to v: a path, an open file or a buffer."""
    if v is None:
        return
    if v.kind in (SCALAR, PATH):
        if v.const is None:
            m.dynamic_writes = True
        else:
            m.written |= {base_name(x) for x in v.const}
        return
    m.change(v, sources)
    if v.kind == ANY:
        m.dynamic_writes = True


def mode_of(args, kws, position=1):
    v = args[position] if len(args) > position else kws.get("mode")
    if v is None:
        return "r"
    return "".join(v.const) if v.const is not None else "rw"


def open_file(m, path, mode, values):
    out = mix(values, FILE)
    reads = "r" in mode or "+" in mode
    writes = any([c in mode for c in "wax+"])
    if writes:
        write(m, path, values)
        out.const = path.const if path is not None and path.kind in (SCALAR, PATH) else None
    else:
        # Only an open for writing has names to write to: reading from it is no write.
        out.kind = OBJECT
    if reads:
        read(m, path, out)
    return out


def library(m, path, args, kws, values):
    """The result of a library call that reads or writes a file; None when the path is neither."""
    last = path.rsplit(".", 1)[-1]
    root = path.split(".", 1)[0]
    if path in OPENERS and not (root in ("zipfile", "tarfile") and is_stream(args[0] if args else V(SCALAR))):
        return open_file(m, path_argument(args, kws), mode_of(args, kws), values)
    if path in DIRECTORY_READERS:
        if root == "glob":
            return listed(m, args[0] if args else kws.get("pathname"), mix(values, ANY))
        if path in STATUS_READERS:
            return read(m, args[0] if args else None, mix(values, ANY))
        m.flags |= DYNAMIC
        return mix_dynamic(values)
    if path in WRITER_PATHS:
        position = WRITER_PATHS[path]
        target = args[position] if len(args) > position else path_argument([], kws)
        for v in values:
            m.sink(v)
        if path == "pandas.ExcelWriter":
            write(m, target, values)
            out = mix(values, FILE)
            out.const = target.const if target is not None and target.kind in (SCALAR, PATH) else None
            return out
        if position == 9:
            return mix(values, FILE, 0, 0)
        write(m, target, values)
        out = mix(values, ANY)
        if path in READER_PATHS:
            read(m, args[0] if args else None, out)
        return out
    if path in READER_PATHS or root in ("pandas", "polars", "geopandas", "pyarrow", "modin", "dask", "vaex") and \
            (last.startswith("read_") or last.startswith("scan_")):
        out = mix(values, ANY)
        target = path_argument(args, kws)
        if last.startswith("read_sql"):
            target = args[1] if len(args) > 1 else kws.get("con")
        elif target is None and values:
            target = values[0]
        for v in values:
            if v.kind == FILE or v.kind == OBJECT:
                out.holds |= v.own | v.holds
        read(m, target, out)
        if path in ("sqlite3.connect", "duckdb.connect", "sqlalchemy.create_engine"):
            out.kind = FILE
            out.const = target.const if target is not None else None
        elif last in PANDAS_FRAME_READERS and root in ("pandas", "geopandas"):
            sheet = kws.get("sheet_name")
            if not FRAME_READER_BREAKERS & set(kws) and (sheet is None or sheet.const is not None):
                out.kind = FRAME
        elif last in ("ExcelFile", "ZipFile", "HDFStore", "File", "load_workbook"):
            out.kind = OBJECT
        return out
    if last in _NOT_READERS:
        return None
    # A library function that the tables don't know, given what looks like a file's name.
    hit = None
    for v in values:
        names = v.const if v.const is not None else v.items
        if v.kind in (SCALAR, PATH, SCALARS) and names and any([_SUFFIX.match(x) for x in names]) and \
                root not in ("re", "math", "pathlib", "os", "logging", "string", "fnmatch", "json", "warnings"):
            hit = read(m, v, hit or mix(values, ANY))
    if hit is not None:
        return hit
    if _READER_NAME.match(last) and last not in ("loads",) and root not in ("json", "pickle", "yaml", "tomllib", "csv", "copy", "importlib"):
        target = path_argument(args, kws)
        if target is not None and target.kind in (SCALAR, PATH, ANY) and target.const is None:
            m.flags |= DYNAMIC
            return mix_dynamic(values)
    return None


def mix_dynamic(values):
    out = mix(values, ANY)
    out.flags |= DYNAMIC
    return out


def method(m, v, name, args, kws, n):
    """The result of a method that reads or writes a file; None when it is an ordinary one."""
    values = [v] + args + list(kws.values())
    if v.kind == PATH or name in READER_METHODS and v.kind == ANY:
        if name in ("read_text", "read_bytes"):
            return read(m, v if v.kind == PATH else V(ANY), mix(values, SCALAR))
        if name == "open":
            return open_file(m, v, mode_of(args, kws, 0), values)
        if name == "stat" and v.kind == PATH:
            return read(m, v, mix(values, ANY))
        if name in ("glob", "rglob"):
            return listed(m, args[0] if args else kws.get("pattern"), mix(values, GEN))
        if name in ("iterdir", "stat", "walk"):
            m.flags |= DYNAMIC
            out = mix_dynamic(values)
            out.kind = GEN
            return out
        if name in ("write_text", "write_bytes", "touch", "unlink", "rename", "replace", "mkdir", "rmdir"):
            for x in values:
                m.sink(x)
            write(m, v, values)
            return mix(values, SCALAR)
        return None
    if v.kind in (SCALAR, LIST, SCALARS, DICT, SET, TUPLE):
        return None
    if name in WRITER_METHODS:
        target = path_argument(args, kws)
        if target is None and name not in ("touch", "unlink"):
            return None
        if name == "save" and v.kind not in (OBJECT, ANY):
            target = target
        if name == "to_string" and not args and "buf" not in kws:
            return None
        if name in ("to_html", "to_latex", "to_markdown", "to_string", "to_json", "to_csv") and target.kind == SCALAR \
                and target.const is None and not args and not any([k in kws for k in PATH_KEYWORDS]):
            return None
        for x in values:
            m.sink(x)
        write(m, target, values)
        return mix(values, SCALAR)
    if name == "to_sql":
        target = args[1] if len(args) > 1 else kws.get("con")
        for x in values:
            m.sink(x)
        write(m, target, values)
        return mix(values, SCALAR)
    if name == "open" and v.kind == ANY:
        return open_file(m, V(ANY), mode_of(args, kws, 0), values)
    if name.startswith("read_") and v.kind in (ANY, OBJECT) and args:
        return read(m, args[0], mix(values, ANY))
    return None
