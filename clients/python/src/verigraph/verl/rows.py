"""Rows of several groups, put into the order of a request. Arrow and numpy only; no torch.

Invariant of the padded contract: as many rows leave as were asked for, in the order in which they were
asked for, whatever was lost on the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from verigraph.batch import Batch, pad_rows, ragged
from verigraph.metrics import GROUNDING, REWARD_PARTS, column_metrics
from verigraph.requests import GroupResult, RolloutsFailed
from verigraph.verl.settings import Settings, SettingsError
from verigraph.wire import COLUMNS

TOKENS = ("prompt_ids", "response_ids", "response_mask", "rollout_log_probs")
_COUNTS = ("num_turns", "tool_calls", "tool_errors", "num_preempted")
_TIMES = {"generate_sequences": "t_generate_s", "tool_calls": "t_tool_s", "compute_score": "t_score_s"}
READ = (
    "uid",
    "session_id",
    "output_idx",
    "rollout_id",
    *TOKENS,
    "reward",
    *REWARD_PARTS,
    *GROUNDING,
    "reward_status",
    "loss_valid",
    *_COUNTS,
    "policy_version_min",
    "policy_version_max",
    "termination_reason",
    *_TIMES.values(),
)
_SCHEMA = pa.schema([(name, COLUMNS[name]) for name in READ])


def table_of(batch: Batch) -> pa.Table:
    """The columns that training reads; the JSON ones stay on disk."""
    return batch.read(READ).cast(_SCHEMA)


def sessions(uids: Sequence[str]) -> np.ndarray:
    """[B] int64: which sample of its group each requested row is, i.e. the how-many-eth row with its uid."""
    seen: dict[str, int] = {}
    out = np.empty(len(uids), np.int64)
    for i, uid in enumerate(uids):
        out[i] = seen.get(uid, 0)
        seen[uid] = int(out[i]) + 1
    return out


def arrange(
    results: Mapping[str, GroupResult], uids: Sequence[str], pad_token_id: int, policy_version: int
) -> pa.Table:
    """One row per requested row, in its order.

    A lost rollout becomes a row of mask 0 that carries the mean reward of its valid siblings, so that the
    group's baseline does not move; its own advantage is masked. A group that was lost whole has reward 0
    on all of its masked rows: nothing of it is trained. Raises RolloutsFailed when no group came, and
    SettingsError for rollouts of several segments.
    """
    found = [_named(table_of(r.batch), uid) for uid, r in results.items() if r.batch is not None]
    if not found:
        raise RolloutsFailed({uid: r.reason or "lost" for uid, r in results.items()})
    table = pa.concat_tables(found)
    _refuse_segments(table)
    # What the service fills in for a lost rollout comes through as it is; what it leaves out is filled here.
    keys = zip(table["uid"].to_pylist(), table["session_id"].to_pylist(), strict=True)
    at = {key: i for i, key in enumerate(keys)}
    order, fillers = np.empty(len(uids), np.int64), []
    for i, key in enumerate(zip(uids, sessions(uids).tolist(), strict=True)):
        if key in at:
            order[i] = at[key]
            continue
        order[i] = table.num_rows + len(fillers)
        fillers.append(_filler(table, *key, pad_token_id, policy_version))
    if fillers:
        table = pa.concat_tables([table, pa.Table.from_pylist(fillers, _SCHEMA)])
    return table.take(order)


def _named(table: pa.Table, uid: str) -> pa.Table:
    """The rows under the trainer's name of their group; the service's own is the dispatch."""
    at = table.schema.get_field_index("uid")
    return table.set_column(at, _SCHEMA.field("uid"), pa.array([uid] * table.num_rows, COLUMNS["uid"]))


def _refuse_segments(table: pa.Table) -> None:
    later = np.flatnonzero(table["output_idx"].to_numpy() > 0)
    if later.size:
        name = table["rollout_id"][int(later[0])].as_py()
        problem = (
            f"rollout {name} has several rows: the padded contract takes one per rollout; switch the "
            "service's compress off, or use RemoteRolloutManagerTQ"
        )
        raise SettingsError([problem])


def _filler(table: pa.Table, uid: str, session: int, pad_token_id: int, version: int) -> dict:
    rows = np.flatnonzero(table["uid"].to_numpy(zero_copy_only=False) == uid)
    valid = rows[table["loss_valid"].to_numpy(zero_copy_only=False)[rows].astype(bool)]
    row = dict.fromkeys(READ, 0) | dict.fromkeys(GROUNDING) | {
        "uid": uid,
        "session_id": session,
        "rollout_id": f"lost/{uid}/{session}",
        "prompt_ids": table["prompt_ids"][int(rows[0])].as_py() if rows.size else [pad_token_id],
        "response_ids": [pad_token_id],
        "response_mask": [0],
        "rollout_log_probs": [0.0],
        "reward_status": "lost",
        "loss_valid": False,
        "termination_reason": "lost",
        "policy_version_min": version,
        "policy_version_max": version,
    }
    if valid.size:
        for name in ("reward", *REWARD_PARTS):
            row[name] = float(table[name].to_numpy()[valid].mean(dtype=np.float64))
    return row


def padded(table: pa.Table, settings: Settings, pad_token_id: int) -> dict[str, np.ndarray]:
    """Padded arrays [B, P + L] int64 and [B, L] float32; see verigraph.batch.pad_rows. LengthError for a row that does not fit."""
    return pad_rows(
        *(ragged(table[name]) for name in TOKENS),
        table["reward"].to_numpy(),
        settings.prompt_length,
        settings.response_length,
        pad_token_id,
    )


def extras(table: pa.Table) -> dict[str, np.ndarray]:
    """Dense reward_extra_info: [B] float64 each, never NaN."""
    return {name: table[name].to_numpy().astype(np.float64) for name in REWARD_PARTS}


def row_metrics(table: pa.Table) -> list[dict[str, float]]:
    """AgentLoopMetrics of every row: seconds per stage and preemptions."""
    columns = {key: table[name].to_pylist() for key, name in _TIMES.items()}
    columns["num_preempted"] = table["num_preempted"].to_pylist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def timing(table: pa.Table) -> dict[str, float]:
    """verl's agent_loop/* timing keys, the slowest rollout's own included."""
    out: dict[str, float] = {}
    seconds = {key: table[name].to_numpy().astype(np.float64) for key, name in _TIMES.items()}
    columns = seconds | {"num_preempted": table["num_preempted"].to_numpy().astype(np.float64)}
    for key, values in columns.items():
        for how in ("min", "max", "mean"):
            out[f"agent_loop/{key}/{how}"] = float(getattr(values, how)())
    slowest = int(np.argmax(sum(seconds.values())))
    for key, values in columns.items():
        out[f"agent_loop/slowest/{key}"] = float(values[slowest])
    for key, name in (("prompt_length", "prompt_ids"), ("response_length", "response_ids")):
        out[f"agent_loop/slowest/{key}"] = float(ragged(table[name]).lengths[slowest])
    return out


def table_metrics(table: pa.Table, policy_version: int) -> dict[str, float]:
    """verigraph.metrics.column_metrics of arranged rows."""
    return column_metrics(lambda name: table[name].to_numpy(), policy_version)
