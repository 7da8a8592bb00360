"""Other values of the same type, and other contents of the same kind of file.

Each kind leaves something alone that another changes, so that what no kind moves depends on nothing.
"""

import copy
import csv
import inspect
import io
import json
import os
import pickle
import random
import re
import sqlite3
import types

import numpy as np
import pandas as pd

# Files can go away besides: what lists a directory depends on that.
FILE_KINDS = ("gone",)
KINDS = ("numbers", "rows", "texts", "element", "shape", "signs", "empty", "sorted", "whole", "gaps", "columns", "nested",
         "names", "ties", "large")
# Names that the data of the case go by: the columns of its tables.
NAMES = []
# How often a kind is tried at most: these have few ways to change a value.
TIMES = {"signs": 1, "empty": 1, "sorted": 2, "whole": 1, "gaps": 2, "nested": 1, "names": 1, "ties": 1, "large": 1}


def value(v, kind, seed):
    """A perturbed copy of v."""
    return _Change(kind, seed).value(v, 0)


class _Change:
    def __init__(self, kind, seed):
        self.kind, self.seed = kind, seed
        self.rng = random.Random("%s %s" % (kind, seed))

    def value(self, v, depth):
        t = type(v)
        if depth > 4:
            return v
        if t is bool or isinstance(v, np.bool_):
            return t(not v) if self.kind in ("numbers", "element", "empty") else v
        if t in (int, float, complex) or isinstance(v, np.number):
            return self.number(v, t)
        if t is str:
            return self.text(v, depth)
        if t is bytes:
            return self.text(v.decode("latin-1"), depth).encode("latin-1", "replace")
        if isinstance(v, pd.DataFrame):
            return self.frame(v)
        if isinstance(v, pd.Series):
            out = self.frame(v.to_frame("v"))["v"]
            out.name = v.name
            return out
        if isinstance(v, pd.MultiIndex):
            return v
        if isinstance(v, pd.Index):
            new = self.column(pd.Series(v), 0)
            return pd.Index(new, name=v.name)
        if isinstance(v, np.ndarray):
            return self.array(v)
        if isinstance(v, (pd.Timestamp, pd.Timedelta)) and v is not pd.NaT:
            return v + pd.Timedelta(days=self.rng.randint(1, 40)) if self.kind == "numbers" else v
        if t in (list, tuple, set, frozenset) or t.__name__ == "deque":
            return self.sequence(v, t, depth)
        if isinstance(v, dict):
            return self.mapping(v, depth)
        if isinstance(v, types.FunctionType):
            return self.function(v)
        if isinstance(v, (types.ModuleType, type, types.BuiltinFunctionType)) or v is None:
            return v
        if t.__name__ == "Claim":
            return self.claim(v)
        if isinstance(v, sqlite3.Connection):
            return self.connection(v)
        if isinstance(v, pd.ExcelFile):
            return pd.ExcelFile(self.workbook({name: v.parse(name) for name in v.sheet_names}))
        return self.instance(v, depth)

    def function(self, f):
        """Another function: what f gives, changed."""
        if self.kind not in ("numbers", "texts", "element") or inspect.iscoroutinefunction(f) or inspect.isgeneratorfunction(f):
            return f

        def other(*args, **named):
            return self.value(f(*args, **named), 0)
        return other

    def claim(self, v):
        out = copy.copy(v)
        if self.kind in ("numbers", "texts"):
            out.text += "q"
        return out

    def connection(self, v):
        out = sqlite3.connect(":memory:")
        v.backup(out)
        tables(self, out)
        return out

    def workbook(self, sheets):
        out = io.BytesIO()
        with pd.ExcelWriter(out, engine="openpyxl") as w:
            for name, t in sheets.items():
                self.frame(t).to_excel(w, sheet_name=name, index=False)
        return out

    def number(self, v, t):
        if self.kind == "numbers":
            return t(v * 1.3 + self.rng.choice((1, 2, 3)))
        if self.kind == "signs":
            return t(-v - 1)
        if self.kind == "empty":
            return t(0)
        if self.kind == "element":
            return t(v + self.rng.choice((1, 5)))
        if self.kind == "large":
            return t(v * 1000 + 7)
        if self.kind == "gaps" and isinstance(v, float):
            return t("nan")
        return v

    def text(self, v, depth):
        if self.kind == "texts":
            return v + "q" if self.rng.random() < 0.5 else "q" + v
        if self.kind == "element":
            return re.sub(r"\d", lambda m: str((int(m.group()) + 3) % 10), v) if re.search(r"\d", v) else v.swapcase()
        if self.kind == "rows" and not depth:
            return v[:-1]
        if self.kind == "names" and not depth and NAMES:
            return NAMES[0]
        return "" if self.kind == "empty" else v

    def frame(self, v):
        if self.kind == "empty":
            return v.iloc[:0].copy()
        if v.shape[0] == 0 and self.kind != "shape":
            return v
        if self.kind == "rows":
            keep = [i for i in range(len(v)) if self.rng.random() < 0.6] or [0]
            return v.iloc[keep].copy() if len(v) > 1 else v
        out = v.copy(deep=True)
        if self.kind == "shape":
            if v.shape[1] > 1 or self.rng.random() < 0.5:
                out["added"] = range(len(out))
            return pd.concat([out, out.iloc[:1]]) if self.rng.random() < 0.5 else out
        if self.kind == "columns":
            return self.columns(out)
        if self.kind == "whole":
            # Tables without gaps and of one length go together.
            v = out = out.iloc[:12].copy()
        some = self.rng.randrange(max(1, v.shape[1]))
        for i in range(v.shape[1]):
            if self.kind != "element" or i == some:
                new = self.column(v.iloc[:, i], i)
                out.isetitem(i, pd.Series(new.to_numpy(), index=out.index))
        return out

    def columns(self, v):
        """Fewer columns, the same in another order, or under other names."""
        way = self.rng.randrange(4)
        if way == 0:
            return v.select_dtypes("number")
        if way == 1:
            return v.iloc[:, :-1]
        if way == 2:
            return v.iloc[:, ::-1]
        v.columns = [c + "q" if isinstance(c, str) and self.rng.random() < 0.5 else c for c in v.columns]
        return v

    def column(self, s, i):
        kind = s.dtype.kind if isinstance(s.dtype, np.dtype) else "O"
        r = np.random.default_rng(self.rng.randrange(1 << 30))
        if self.kind == "element":
            order = r.permutation(len(s))
            return pd.Series(s.to_numpy()[order], index=s.index)
        if self.kind == "sorted":
            return pd.Series(s.sort_values(ascending=self.seed % 2 == 0 or i % 2 == 0).to_numpy(), index=s.index)
        if self.kind == "ties":
            return pd.Series([s.iloc[0]] * len(s), index=s.index, dtype=s.dtype)
        if self.kind == "whole":
            return s.fillna(r.random() * 9) if kind == "f" else s
        if kind == "b":
            return ~s if self.kind in ("numbers", "signs") else s
        if kind in "if":
            if self.kind == "gaps":
                return s.mask(r.random(len(s)) < 0.3) if kind == "f" else s
            if self.kind == "large":
                return s * 1000 + 7
            if self.kind == "numbers":
                f = s * (0.5 + r.random(len(s)) * 1.5) + 1
                return f if kind == "f" else f.round().astype(s.dtype)
            if self.kind == "signs":
                return -s - 1
            return s
        if kind == "M":
            return s + pd.Timedelta(days=int(r.integers(1, 50))) if self.kind == "numbers" else s
        if kind == "O" and self.kind == "texts" and not pd.api.types.is_numeric_dtype(s.dtype):
            hit = r.random(len(s)) < 0.5
            if len(hit):
                hit[0] = True
            return pd.Series([x + "q" if h and isinstance(x, str) else x for x, h in zip(s, hit)], index=s.index, dtype=s.dtype)
        if kind == "O" and self.kind == "numbers" and not isinstance(s.dtype, pd.StringDtype):
            return pd.Series([self.value(x, 3) for x in s], index=s.index, dtype=s.dtype)
        return s

    def array(self, v):
        if v.ndim == 0 or v.size == 0:
            return v
        if self.kind == "empty":
            return np.zeros_like(v) if v.dtype.kind in "if" else v
        if self.kind == "rows":
            return v[: max(1, v.shape[0] - 1)].copy()
        out = v.copy()
        if self.kind in ("sorted", "ties", "large", "gaps") and v.dtype.kind in "if":
            flat = self.column(pd.Series(v.reshape(-1)), 0).to_numpy()
            return flat.astype(v.dtype).reshape(v.shape)
        if self.kind == "element":
            flat = out.reshape(-1)
            flat[self.rng.randrange(flat.size)] = self.value(flat[0].item() if hasattr(flat[0], "item") else flat[0], 3)
        elif self.kind in ("numbers", "signs") and v.dtype.kind in "if":
            r = np.random.default_rng(self.rng.randrange(1 << 30))
            new = v * (0.5 + r.random(v.shape)) + 1 if self.kind == "numbers" else -v - 1
            out[...] = new
        elif self.kind == "numbers" and v.dtype.kind == "b":
            out = ~v
        elif v.dtype.hasobject:
            out[...] = np.array([self.value(x, 3) for x in v.reshape(-1)], dtype=object).reshape(v.shape)
        return out

    def sequence(self, v, t, depth):
        items = list(v)
        if self.kind == "rows":
            if depth and items and not isinstance(items[-1], (pd.DataFrame, dict, list)):
                return v
            items = items[:-1]
        elif self.kind == "empty" and not depth:
            items = []
        elif self.kind == "shape":
            items = items + items[:1] if t is not set else items
        elif self.kind == "columns":
            items = items[::-1]
        elif self.kind == "sorted":
            items = sorted(items, reverse=self.seed % 2 == 1)
        elif self.kind == "names":
            items = NAMES[:2] if NAMES and not depth and not any(isinstance(x, (pd.DataFrame, dict, list)) for x in items) else items
        elif self.kind == "nested" and not depth:
            items = [x if isinstance(x, (list, dict, pd.DataFrame)) else [x] for x in items]
        elif self.kind == "element" and items:
            i = self.rng.randrange(len(items))
            items[i] = self.value(items[i], depth + 1)
        else:
            items = [self.value(x, depth + 1) for x in items]
        if hasattr(v, "_fields"):
            return t(*items) if len(items) == len(v) else v
        return t(items)

    def mapping(self, v, depth):
        out = copy.copy(v)
        keys = list(v)
        if self.kind == "rows" and keys and not depth:
            del out[keys[-1]]
            return out
        if self.kind == "empty" and not depth:
            out.clear()
            return out
        if self.kind == "shape" and not depth:
            out["added"] = v[keys[0]] if keys else 1
            return out
        if self.kind == "columns" and not depth:
            out.clear()
            if self.rng.random() < 0.5:
                out.update((k, v[k]) for k in keys[::-1])
            else:
                out.update((k + "q" if isinstance(k, str) else k, v[k]) for k in keys)
            return out
        if self.kind == "names" and not depth:
            out.update((name, v[keys[0]] if keys else 1) for name in NAMES if name not in v)
            return out
        if self.kind == "nested" and not depth:
            out.update((k, {}) for k in keys if not isinstance(v[k], (list, dict, pd.DataFrame)))
            return out
        chosen = [self.rng.choice(keys)] if keys and self.kind == "element" else keys
        for k in chosen:
            out[k] = self.value(v[k], depth + 1)
        if callable(getattr(v, "default_factory", None)):
            out.default_factory = self.value(v.default_factory, depth + 1)
        return out

    def instance(self, v, depth):
        state = getattr(v, "__dict__", None)
        if not state or type(v).__module__.split(".")[0] in ("matplotlib", "_io", "io", "sqlite3", "zipfile", "csv"):
            return v
        out = copy.copy(v)
        for name, x in state.items():
            if not (isinstance(x, str) and type(v).__module__ != "__main__"):
                new = self.value(x, depth + 1)
                if new is not x:
                    object.__setattr__(out, name, new)
        return out


def file(path, kind, seed):
    """Rewrites a data file in place, or removes it."""
    if kind == "gone":
        os.remove(path)
        return
    with open(path, "rb") as f:
        data = f.read()
    name = path.rsplit(".", 1)[-1].lower()
    change = _Change(kind, seed)
    if name in ("csv", "tsv"):
        new = table(change, data)
    elif name == "json":
        new = json.dumps(change.value(json.loads(data), 0 if kind == "rows" else 1)).encode()
    elif name in ("pkl", "pickle"):
        new = pickle.dumps(change.value(pickle.loads(data), 0))
    elif name == "xlsx":
        sheets = pd.read_excel(io.BytesIO(data), sheet_name=None)
        new = change.workbook(sheets).getvalue()
    elif name == "db":
        return database(change, path)
    elif name == "npy":
        out = io.BytesIO()
        np.save(out, change.value(np.load(io.BytesIO(data)), 0))
        new = out.getvalue()
    elif name == "parquet":
        out = io.BytesIO()
        change.frame(pd.read_parquet(io.BytesIO(data))).to_parquet(out)
        new = out.getvalue()
    else:
        new = plain(change, data.decode("utf-8")).encode()
    with open(path, "wb") as f:
        f.write(new)
    return None


_NUMBER = re.compile(r"\s*-?\d+(\.\d+)?\s*")


def cell(change, text, weight):
    if _NUMBER.fullmatch(text):
        v = float(text)
        if change.kind == "numbers":
            v = v * (0.5 + 1.5 * change.rng.random()) + (40 * v if change.rng.random() < 0.03 else 1)
        elif change.kind == "signs":
            v = -v - 1
        elif change.kind == "large":
            v = v * 1000 + 7
        else:
            return text
        return str(round(v)) if "." not in text else "%.*f" % (max(2, len(text.strip().split(".")[1])), v)
    if change.kind == "texts" and text and weight:
        return text + "q"
    return text


def table(change, data):
    text = data.decode("latin-1")
    first = text.split("\n", 1)[0]
    comma = max(",;\t|", key=first.count)
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=comma))
    head, body = rows[:1], rows[1:]
    rng = change.rng
    if change.kind == "rows":
        body = [r for r in body if rng.random() < 0.55] or body[:1]
    elif change.kind == "empty":
        body = []
    elif change.kind == "element":
        width = max(map(len, body), default=0)
        for c in range(width):
            at = [i for i, r in enumerate(body) if c < len(r)]
            values = [body[i][c] for i in at]
            rng.shuffle(values)
            for i, x in zip(at, values):
                body[i][c] = x
    elif change.kind in ("sorted", "ties", "whole", "gaps", "columns"):
        frame = pd.read_csv(io.BytesIO(data), sep=comma, encoding="latin-1")
        return change.frame(frame).to_csv(index=False, sep=comma, lineterminator="\n").encode("latin-1")
    elif change.kind == "shape":
        head = [r + ["added"] for r in head]
        body = [[x if rng.random() > 0.1 else "" for x in r] + [str(rng.randrange(100))] for r in body]
        body += body[: max(1, len(body) // 8)]
    else:
        body = [[cell(change, x, rng.random() < 0.5) for x in r] for r in body]
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=comma, lineterminator="\n").writerows(head + body)
    return out.getvalue().encode("latin-1")


def plain(change, text):
    rng = change.rng
    if change.kind in ("numbers", "signs", "element"):
        return re.sub(r"\d+", lambda m: str(int(m.group()) + rng.randrange(1, 9)), text)
    if change.kind == "rows":
        lines = text.splitlines(True)
        return "".join(lines[:-1]) if len(lines) > 1 else text[:-1]
    if change.kind == "texts":
        return re.sub(r"\b(?<![<&/])([a-z]{4,})\b(?![^<]*>)", lambda m: m.group() + "q", text)
    return text + text.splitlines(True)[-1] if text and "<" not in text else text


def database(change, path):
    con = sqlite3.connect(path)
    tables(change, con)
    con.close()


def tables(change, con):
    names = [r[0] for r in con.execute("select name from sqlite_master where type = 'table'")]
    for name in names:
        t = change.frame(pd.read_sql("select * from " + name, con))
        t.to_sql(name, con, index=False, if_exists="replace")
    con.commit()
