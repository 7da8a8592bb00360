"""What must hold in every batch, vectorised over the rows. Each check returns sentences about what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from verigraph.wire import COLUMNS, LATER, OPTIONAL, REWARDS

if TYPE_CHECKING:
    from verigraph.batch import Batch


def problems(batch: Batch) -> list[str]:
    """Every broken promise of a batch. Later checks need the earlier ones, so that they run in stages."""
    for stage in ((_schema,), (_nulls,), (_groups, _lengths), (_tokens, _spans, _rewards)):
        if found := [line for check in stage for line in check(batch)]:
            return found
    return []


def _schema(batch: Batch) -> list[str]:
    names = batch.schema.names
    found = [f"no column {name}" for name in COLUMNS if name not in names and name not in LATER]
    found += [f"unknown column {name}" for name in names if name not in COLUMNS]
    for name, want in COLUMNS.items():
        if name in names and not same_type(batch.schema.field(name).type, want):
            found.append(f"column {name} is {batch.schema.field(name).type}, want {want}")
    for key in ("run", "model", "pad_token_id", "prompt_length", "response_length", "overlong_owner"):
        if key not in batch.metadata:
            found.append(f"no {key} in the metadata")
    if not batch.num_rows:
        found.append("no rows")
    return found


def _nulls(batch: Batch) -> list[str]:
    found = []
    for name in COLUMNS:
        if name in OPTIONAL or name in ("messages_json", "graph_json"):
            continue
        column = batch.read([name]).column(0)
        if column.null_count:
            found.append(f"null in {name}")
        elif pa.types.is_list(column.type) and any(c.flatten().null_count for c in column.chunks):
            found.append(f"null inside a list of {name}")
    return found


def _groups(batch: Batch) -> list[str]:
    found = []
    uid = batch.column("uid").astype(str)
    if bad := sorted({u for u in uid if "_" in u or not u}):
        found.append(f"uid {str(bad[0])!r} is empty or has an underscore")
    new = np.flatnonzero(np.r_[True, uid[1:] != uid[:-1]])
    if len(new) != len(set(uid)):
        found.append("the rows of a group do not stand together")
    step = np.diff(batch.column("row_idx").astype(np.int64))
    if (bad := np.flatnonzero((uid[1:] == uid[:-1]) & (step != 1))).size:
        found.append(f"row {bad[0] + 1}: row_idx has a gap within the group")
    return found + _order(uid, batch.column("session_id"), batch.column("output_idx"))


def _order(uid: np.ndarray, session: np.ndarray, output: np.ndarray) -> list[str]:
    """Within a group samples ascend, within a rollout segments count from 0."""
    same_group = uid[1:] == uid[:-1]
    same_rollout = same_group & (session[1:] == session[:-1])
    want = np.where(same_rollout, output[:-1] + 1, 0)
    bad = np.flatnonzero(np.r_[output[0] != 0, output[1:] != want])
    found = [f"row {bad[0]}: output_idx {output[bad[0]]} is out of order"] if bad.size else []
    back = np.flatnonzero(same_group & (session[1:] < session[:-1]))
    if back.size:
        found.append(f"row {back[0] + 1}: session_id {session[back[0] + 1]} is out of order")
    return found


def _lengths(batch: Batch) -> list[str]:
    prompt, response = batch.ragged("prompt_ids").lengths, batch.ragged("response_ids").lengths
    found = []
    for name in ("response_mask", "rollout_log_probs"):
        bad = np.flatnonzero(batch.ragged(name).lengths != response)
        if bad.size:
            row = bad[0]
            found.append(
                f"row {row}: {batch.ragged(name).lengths[row]} in {name}, {response[row]} response_ids"
            )
    for what, lengths in (("prompt", prompt), ("response", response)):
        if (empty := np.flatnonzero(lengths == 0)).size:
            found.append(f"row {empty[0]}: empty {what}")
        limit = int(batch.metadata[f"{what}_length"])
        if limit and (long := np.flatnonzero(lengths > limit)).size:
            found.append(f"row {long[0]}: {what} of {lengths[long[0]]} ids, limit {limit}")
    return found


def _tokens(batch: Batch) -> list[str]:
    mask, log_probs = batch.ragged("response_mask"), batch.ragged("rollout_log_probs")
    valid = batch.column("loss_valid").astype(bool)
    row_of = np.repeat(np.arange(batch.num_rows), mask.lengths)
    found = []

    def report(bad_tokens: np.ndarray, text: str) -> None:
        at = np.flatnonzero(bad_tokens)
        if at.size:
            found.append(f"row {row_of[at[0]]}: {text}")

    report((mask.values != 0) & (mask.values != 1), "a mask value is neither 0 nor 1")
    report((mask.values == 1) & ~valid[row_of], "mask 1 where loss_valid is false")
    report(~np.isfinite(log_probs.values), "a log-prob is not finite")
    report(log_probs.values <= -9999, "a log-prob is the engine's clamp")
    report((mask.values == 0) & (log_probs.values != 0), "a masked log-prob is not 0.0")
    ends = mask.values[mask.offsets[1:] - 1] == 1
    if (bad := np.flatnonzero(valid & ~ends)).size:
        found.append(f"row {bad[0]}: the mask does not end with 1")
    return found


def _spans(batch: Batch) -> list[str]:
    """Spans cover the response without gaps, and exactly the sampled ones have mask 1."""
    column = batch.read(["spans"]).column(0).combine_chunks()
    offsets = column.offsets.to_numpy().astype(np.int64)
    offsets -= offsets[0]
    flat = column.flatten()
    start, end = (flat.field(k).to_numpy().astype(np.int64) for k in ("start", "end"))
    row_of = np.repeat(np.arange(batch.num_rows), np.diff(offsets))
    mask = batch.ragged("response_mask")
    first = np.zeros(len(start), bool)
    first[offsets[:-1][np.diff(offsets) > 0]] = True
    want = np.where(first, 0, np.r_[0, end[:-1]])
    broken = (start != want) | (end <= start)
    covered = np.zeros(batch.num_rows, np.int64)
    np.maximum.at(covered, row_of, end)
    bad = np.flatnonzero(
        (covered != mask.lengths) | (np.bincount(row_of[broken], minlength=batch.num_rows) > 0)
    )
    if bad.size:
        return [f"row {bad[0]}: spans do not cover the response"]
    sampled = np.repeat(flat.field("kind").to_numpy(zero_copy_only=False) == "sampled", end - start)
    wrong = np.flatnonzero(sampled != (mask.values == 1))
    if wrong.size:
        row = np.searchsorted(mask.offsets, wrong[0], side="right") - 1
        return [f"row {row}: spans and mask disagree"]
    return []


def _rewards(batch: Batch) -> list[str]:
    found = []
    for name in REWARDS:
        if not np.isfinite(batch.column(name)).all():
            found.append(f"{name} is not finite")
    if not np.isfinite(batch.ragged("turn_rewards").values).all():
        found.append("turn_rewards are not finite")
    uid, session, reward = batch.column("uid"), batch.column("session_id"), batch.column("reward")
    same = (uid[1:] == uid[:-1]) & (session[1:] == session[:-1])
    if (bad := np.flatnonzero(same & (reward[1:] != reward[:-1]))).size:
        found.append(f"row {bad[0] + 1}: reward differs within one rollout")
    valid, ok = batch.column("loss_valid").astype(bool), batch.column("reward_status") == "ok"
    if (bad := np.flatnonzero(valid != ok)).size:
        found.append(f"row {bad[0]}: loss_valid and reward_status disagree")
    if (batch.column("policy_version_min") > batch.column("policy_version_max")).any():
        found.append("policy_version_min is above policy_version_max")
    return found


def same_type(got: pa.DataType, want: pa.DataType) -> bool:
    """Equal but for the names and nullability of list elements, which differ between writers."""
    if pa.types.is_list(want):
        return pa.types.is_list(got) and same_type(got.value_type, want.value_type)
    if pa.types.is_struct(want):
        return (
            pa.types.is_struct(got)
            and [f.name for f in got] == [f.name for f in want]
            and all(same_type(a.type, b.type) for a, b in zip(got, want, strict=True))
        )
    return got == want
