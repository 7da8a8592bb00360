"""Writes changed copies of JSON, Excel, Parquet and SQLite files, as perturb.go does for delimited text.

Standard input: {"kinds": [names], "numbers": [what the code spells], "texts": [the same], "files": [{"name", "path", "out": [one path per kind]}]}. Standard output:
{"changed": [names]}; a file that can't be read or written as what it calls itself is left out.
"""

import json
import os
import random
import resource
import sys

CODES = 12            # up to so many different whole numbers are taken for codes
MAX_BYTES = 32 << 20  # larger files count as not changeable


def number(x):
    return type(x) is int or type(x) is float and x == x and abs(x) != float("inf")


def like(old, new):
    """new as a number of old's type, with no more decimals than it had."""
    if type(old) is int:
        return round(new)
    text = repr(old)
    return float(round(new)) if old == int(old) else round(new, len(text.split(".")[1]) if "e" not in text else 12)


class Table:
    """Rows of cells. fixed are columns that may neither change nor be emptied nor stand twice (keys)."""

    def __init__(self, rows, fixed=()):
        self.rows, self.fixed = [list(r) for r in rows], set(fixed)
        self.width = max(map(len, self.rows), default=0)

    def columns(self):
        for c in range(self.width):
            if c not in self.fixed:
                at = [r for r in self.rows if c < len(r) and number(r[c])]
                values = [r[c] for r in at]
                whole = all(v == int(v) for v in values)
                codes = whole and (len(set(values)) <= CODES or all(1500 <= v <= 2200 for v in values))
                yield c, at, values, codes

    def values(self, rng):
        for c, at, values, codes in self.columns():
            dealt = rng.sample(values, len(values))
            for row, v, other in zip(at, values, dealt):
                if codes and len(values) > 1:
                    row[c] = other if rng.random() < 0.67 else v
                else:
                    row[c] = like(v, (v * (0.5 + 1.5 * rng.random()) + 1) * (60 if rng.random() < 0.02 else 1))

    def little(self, rng):
        for c, at, values, codes in self.columns():
            for i, row in enumerate(at):
                if not codes and (i == 0 or rng.random() < 0.05):
                    row[c] = like(row[c], row[c] * (1.02 + 0.05 * rng.random()))

    def keep(self, rng, n):
        self.rows = [self.rows[i] for i in sorted(rng.sample(range(len(self.rows)), min(n, len(self.rows))))]

    def thin(self, rng):
        self.keep(rng, max(2, len(self.rows) * 2 // 5))

    def few(self, rng):
        self.keep(rng, max(3, min(12, len(self.rows) // 10)))

    def order(self, rng):
        for c in range(self.width):
            at = [r for r in self.rows if c < len(r)]
            if c not in self.fixed:
                for row, cell in zip(at, rng.sample([r[c] for r in at], len(at))):
                    row[c] = cell

    def gaps(self, rng):
        out = []
        for row in self.rows:
            row = [None if c not in self.fixed and rng.random() < 0.1 else x for c, x in enumerate(row)]
            out.append(row)
            if not self.fixed and rng.random() < 0.1:
                out.append(list(row))
        self.rows = out

    def same(self, rng):
        """As many rows and columns, and no cell as before: drawn again, some more often, and scaled."""
        weights = [rng.random() ** 2 + 0.01 for _ in self.rows]
        for c, at, values, codes in list(self.columns()):
            factor = 1.1 + 0.4 * rng.random()
            rows = [r for r in self.rows if c < len(r)]
            drawn = rng.choices([r[c] for r in self.rows if c < len(r)], weights[:len(rows)], k=len(rows)) if rows else []
            for row, cell in zip(rows, drawn):
                row[c] = like(cell, cell * factor + 1) if number(cell) and not codes else cell

    def planted(self, rng):
        """One cell in four becomes what the code spells: of numbers in a column of numbers, else of texts."""
        for c in set(range(self.width)) - self.fixed:
            rows = [r for r in self.rows if c < len(r)]
            numbers = [r[c] for r in rows if number(r[c])]
            whole = all(type(v) is int for v in numbers)
            texts = [x for x in SPELT["texts"] if all(type(r[c]) in (str, type(None)) for r in rows)]
            fit = SPELT["numbers"] if 2 * len(numbers) >= len(rows) else texts
            for row in rows if fit else ():
                if rng.random() < 0.25:
                    chosen = rng.choice(fit)
                    row[c] = chosen if type(chosen) is str else round(chosen) if whole else float(chosen)


SPELT = {"numbers": [], "texts": []}
CHANGES = {"values": Table.values, "rows": Table.thin, "order": Table.order, "gaps": Table.gaps, "few": Table.few,
           "little": Table.little, "same": Table.same, "again": Table.same,
           "planted": Table.planted}


def changed(rows, kind, rng, fixed=()):
    t = Table(rows, fixed)
    if len(t.rows) > 1 or kind in ("values", "little", "same", "again", "planted"):
        CHANGES[kind](t, rng)
    return t.rows


def records(dicts, kind, rng):
    """The dicts of a list as rows; what is nested in them moves with its cell."""
    keys = list(dict.fromkeys(k for d in dicts for k in d))
    missing = object()
    rows = [[d.get(k, missing) for k in keys] for d in dicts]
    out = [{k: x for k, x in zip(keys, row) if x is not missing} for row in changed(rows, kind, rng)]
    if kind == "gaps":
        for d in out:
            d["added_column"] = rng.randrange(1000)
    return out


def document(x, kind, rng):
    if type(x) is list:
        x = [document(e, kind, rng) if type(e) in (list, dict) else e for e in x]
        if x and all(type(e) is dict for e in x):
            return records(x, kind, rng)
        if x and all(type(e) is list for e in x):
            return changed(x, kind, rng)
        return [row[0] for row in changed([[e] for e in x], kind, rng)]
    if type(x) is dict:
        x = {k: document(e, kind, rng) if type(e) in (list, dict) else e for k, e in x.items()}
        if len(x) > 1 and all(type(e) is dict for e in x.values()):
            keyed = records([{"\0key": k, **e} for k, e in x.items()], kind if kind != "order" else "values", rng)
            return {e.pop("\0key") or str(i): e for i, e in enumerate(keyed) if "\0key" in e}
        plain = [k for k, e in x.items() if number(e)]
        x.update(zip(plain, changed([[x[k] for k in plain]], kind, rng)[0]) if plain else ())
        return x
    return changed([[x]], kind, rng)[0][0]


def json_file(path, out, kind, rng):
    with open(path, encoding="utf-8-sig") as f:
        text = f.read()
    try:
        data = document(json.loads(text), kind, rng)
        text = json.dumps(data, ensure_ascii=False)
    except json.JSONDecodeError:  # one value a line
        lines = document([json.loads(line) for line in text.splitlines() if line.strip()], kind, rng)
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    with open(out, "w", encoding="utf-8") as f:
        f.write(text)


def excel_file(path, out, kind, rng):
    import openpyxl
    book, copy = openpyxl.load_workbook(path, data_only=True), openpyxl.Workbook()
    copy.remove(copy.active)
    for sheet in book.worksheets:
        rows = [list(r) for r in sheet.iter_rows(values_only=True)]
        head = rows[:1] if rows and not any(map(number, rows[0])) else []
        body = changed(rows[len(head):], kind, rng)
        if kind == "gaps":
            head, body = [h + ["added_column"] for h in head], [r + [rng.randrange(1000)] for r in body]
        to = copy.create_sheet(sheet.title)
        for row in head + body:
            to.append(row)
    copy.save(out)


def parquet_file(path, out, kind, rng):
    import pyarrow as pa
    import pyarrow.parquet as pq
    table = pq.read_table(path)
    body = changed(zip(*[c.to_pylist() for c in table.columns]), kind, rng)
    arrays = [pa.array([r[i] for r in body], f.type) for i, f in enumerate(table.schema)]
    schema = pa.schema([f.with_nullable(True) for f in table.schema], table.schema.metadata)
    copy = pa.Table.from_arrays(arrays, schema=schema)
    if kind == "gaps":
        copy = copy.append_column("added_column", pa.array([rng.randrange(1000) for _ in body], pa.int64()))
    pq.write_table(copy, out)


def sqlite_file(path, out, kind, rng):
    import sqlite3
    with open(path, "rb") as f, open(out, "wb") as g:
        g.write(f.read())
    db = sqlite3.connect(out)
    db.execute("PRAGMA foreign_keys = OFF")
    tables = [r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
    for name in tables:
        quoted = '"' + name.replace('"', '""') + '"'
        info = [c for c in db.execute("PRAGMA table_info(%s)" % quoted)]
        fixed = [i for i, c in enumerate(info) if c[5] or c[3] and kind == "gaps"]
        rows = changed(db.execute("SELECT * FROM %s" % quoted).fetchall(), kind, rng, fixed)
        db.execute("DELETE FROM %s" % quoted)
        db.executemany("INSERT OR IGNORE INTO %s VALUES (%s)" % (quoted, ", ".join("?" * len(info))), rows)
        if kind == "gaps":
            db.execute("ALTER TABLE %s ADD COLUMN added_column INTEGER DEFAULT 7" % quoted)
    db.commit()
    db.close()


FORMATS = {".json": json_file, ".jsonl": json_file, ".ndjson": json_file, ".geojson": json_file, ".xlsx": excel_file,
           ".parquet": parquet_file, ".pq": parquet_file, ".db": sqlite_file, ".sqlite": sqlite_file, ".sqlite3": sqlite_file}


def main():
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    request = json.load(sys.stdin)
    SPELT["numbers"], SPELT["texts"] = [float(x) for x in request["numbers"]], request["texts"]
    done = []
    for f in request["files"]:
        write = FORMATS[os.path.splitext(f["name"])[1].lower()]
        try:
            if os.path.getsize(f["path"]) > MAX_BYTES:
                continue
            for kind, out in zip(request["kinds"], f["out"]):
                write(f["path"], out, kind, random.Random(f["name"] + ":" + kind))
                os.chmod(out, 0o444)
        except Exception as e:  # of whatever library reads it: a file that is not what it calls itself
            print("%s: %s" % (f["name"], type(e).__name__), file=sys.stderr)
            continue
        done.append(f["name"])
    json.dump({"changed": done}, sys.stdout)


main()
