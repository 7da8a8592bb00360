"""Rows and batches made in memory, as another writer would make them."""

import io

import pyarrow as pa
import pyarrow.parquet as pq

from verigraph.wire import COLUMNS

METADATA = {
    "schema_version": "1",
    "run": "run",
    "model": "model",
    "pad_token_id": "7",
    "prompt_length": "8",
    "response_length": "16",
    "overlong_owner": "none",
}


def row(**columns) -> dict:
    """One good row: three prompt ids, five response ids of which four were sampled."""
    good = {
        "row_idx": 0,
        "uid": "a-0",
        "session_id": 0,
        "output_idx": 0,
        "rollout_id": "run/a-0/0",
        "data_source": "dabench",
        "prompt_id": "a",
        "prompt_ids": [1, 2, 3],
        "response_ids": [11, 12, 13, 14, 15],
        "response_mask": [1, 1, 0, 1, 1],
        "rollout_log_probs": [-1.0, -2.0, 0.0, -3.0, -4.0],
        "spans": [span(0, 2), span(2, 3, "observation"), span(3, 5)],
        "turn_rewards": [],
        "reward": 0.5,
        "reward_status": "ok",
        "loss_valid": True,
        "termination_reason": "submitted",
        "messages_json": "[]",
        "graph_json": "{}",
        "routed_experts": None,
        "trace_id": None,
    }
    for name, kind in COLUMNS.items():
        if name not in good:
            good[name] = None if name.startswith("grounding_") else pa.scalar(0).cast(kind).as_py()
    return good | columns


def span(start: int, end: int, kind: str = "sampled") -> dict:
    return {
        "start": start,
        "end": end,
        "kind": kind,
        "turn": 0,
        "policy_version": 1,
        "policy_version_end": 1,
    }


def group() -> list[dict]:
    """Two rollouts of one group; the second has two segments."""
    rows = [row(), row(session_id=1), row(session_id=1, output_idx=1)]
    return [r | {"row_idx": i} for i, r in enumerate(rows)]


def encode(rows: list[dict], metadata: dict[str, str] | None = None, drop: str | None = None) -> bytes:
    """A Parquet object of rows, as another writer would make it."""
    schema = pa.schema([pa.field(name, kind) for name, kind in COLUMNS.items()])
    table = pa.Table.from_pylist(rows, schema).replace_schema_metadata(METADATA | (metadata or {}))
    if drop:
        table = table.drop_columns([drop])
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()
