"""A file that Go wrote, read by pyarrow, pandas and DuckDB, holds what Go says it holds.

batch-delta.parquet is of the time when ids were delta-encoded; batch.parquet is as they are written now.
"""

import base64
import json
import math
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from verigraph import Batch
from verigraph.wire import LATER

DATA = Path(__file__).parent / "data"
either = pytest.mark.parametrize("name", ["batch.parquet", "batch-delta.parquet"])


def want() -> list[dict]:
    rows = json.loads((DATA / "batch.json").read_text(encoding="utf-8"))
    for r in rows:
        if r["routed_experts"] is not None:
            r["routed_experts"] = base64.b64decode(r["routed_experts"])
    return rows


def same(got, expected) -> bool:
    """Equality in which a JSON number stands for the float32 that prints so."""
    if isinstance(got, float) and isinstance(expected, int | float) and not isinstance(expected, bool):
        return np.float32(got).tobytes() == np.float32(expected).tobytes()
    if isinstance(expected, list):
        return len(got) == len(expected) and all(same(a, b) for a, b in zip(got, expected, strict=True))
    if isinstance(expected, dict):
        return got.keys() == expected.keys() and all(same(got[k], expected[k]) for k in expected)
    return type(got) is type(expected) and got == expected


@either
def test_pyarrow_reads_every_value_that_go_wrote(name: str):
    rows = Batch.from_file(DATA / name).table.to_pylist()
    expected = want()
    assert len(rows) == len(expected)
    for i, (got, line) in enumerate(zip(rows, expected, strict=True)):
        assert list(got) == [c for c in COLUMN_ORDER if c in got]
        assert set(COLUMN_ORDER) - set(got) <= (LATER if "delta" in name else set())
        for column in got:
            assert same(got[column], line[column]), (i, column, got[column], line[column])


COLUMN_ORDER = Batch.from_file(DATA / "batch.parquet").schema.names


@either
def test_pandas_reads_the_same_values(name: str):
    frame = pd.read_parquet(DATA / name)
    for i, line in enumerate(want()):
        for column, expected in line.items():
            if column in LATER and column not in frame:
                continue
            got = frame[column].iloc[i]
            if expected is None:
                assert got is None or (isinstance(got, float | np.floating) and math.isnan(got)), column
            elif isinstance(expected, list):
                assert same([dict(v) if isinstance(v, dict) else v.item() for v in got], expected), (i, column)
            else:
                assert same(got.item() if isinstance(got, np.generic) else got, expected), (i, column, got)


def test_null_and_empty_stay_apart():
    rows = Batch.from_file(DATA / "batch.parquet").table.to_pylist()
    assert rows[0]["routed_experts"] is None
    assert rows[1]["turn_rewards"] == []
    assert rows[0]["grounding_structural"] is None
    assert rows[1]["grounding_structural"] == pytest.approx(0.5)


def test_the_batch_passes_its_checks_and_pads():
    batch = Batch.from_file(DATA / "batch.parquet", sequence=4)
    batch.check()
    arrays = batch.to_arrays()
    assert arrays["input_ids"].shape == (5, 16 + 32)
    assert arrays["response_mask"].sum(axis=1).tolist() == [2, 0, 2, 2, 3]
    assert arrays["input_ids"][0, 13:16].tolist() == [0, 2**31 - 1, 5]
    assert arrays["rm_scores"][4, 5] == np.float32(-0.3)
    assert repr(batch) == "Batch(sequence=4, rows=5, run='run')"


@either
def test_duckdb_reads_the_same_values(name: str):
    result = duckdb.connect().execute("SELECT * FROM read_parquet(?)", [str(DATA / name)])
    names = [d[0] for d in result.description]
    assert names == [c for c in COLUMN_ORDER if c in names]
    assert set(COLUMN_ORDER) - set(names) <= (LATER if "delta" in name else set())
    rows = result.fetchall()
    expected = want()
    assert len(rows) == len(expected)
    for i, (row, line) in enumerate(zip(rows, expected, strict=True)):
        for column, got in zip(names, row, strict=True):
            assert same(got, line[column]), (i, column, got, line[column])
