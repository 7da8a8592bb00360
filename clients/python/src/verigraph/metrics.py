"""What a batch says about training: reward parts, ages, filtered counts; logged to W&B and MLflow if in use."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from verigraph.batch import Batch
    from verigraph.wire import Status

REWARD_PARTS = (
    "acc",
    "score",
    "seq_reward",
    "seq_final_reward",
    "overlong_reward",
    "r_process",
    "r_infer",
    "r_outcome",
    "r_penalty",
)
"""Columns that every row has and that are never null or NaN: verl's dense reward_extra_info."""

GROUNDING = ("grounding_structural", "grounding_replayed", "grounding_lexical", "grounding_supported")

_NO_NAME = re.compile(r"[^\w.-]")  # MLflow takes few characters in a name

_MEANS = {
    "turns": "num_turns",
    "tool_calls": "tool_calls",
    "tool_errors": "tool_errors",
    "preempted": "num_preempted",
    "seconds/generate": "t_generate_s",
    "seconds/tool": "t_tool_s",
    "seconds/score": "t_score_s",
}


def batch_metrics(batch: Batch, policy_version: int | None = None) -> dict[str, float]:
    """Scalars of one batch; see column_metrics."""
    return column_metrics(batch.column, policy_version)


def column_metrics(column: Callable[[str], np.ndarray], policy_version: int | None) -> dict[str, float]:
    """Scalars over B rows; column(name) gives a [B] array in the dtype of verigraph.wire.COLUMNS.

    Statistics take one value per rollout, and only rollouts with a reward:

    reward/<part>/{mean,std,min,max}, grounding/<part>/mean (over the rollouts where the part ran),
    rollout/{turns,tool_calls,tool_errors,preempted}/mean, rollout/seconds/{generate,tool,score}/mean in seconds,
    rollout/{valid,lost} counts, and, given the trainer's policy_version, age/{mean,max}: how many versions
    ago the oldest token of a rollout was sampled.
    """
    first = column("output_idx") == 0
    valid = first & (column("reward_status") == "ok")
    out = {"rollout/valid": float(valid.sum()), "rollout/lost": float((first & ~valid).sum())}
    if not valid.any():
        return out
    for part in ("reward", *REWARD_PARTS):
        values = column(part)[valid].astype(np.float64)
        for how in ("mean", "std", "min", "max"):
            out[f"reward/{part.removeprefix('r_')}/{how}"] = float(getattr(values, how)())
    for part in GROUNDING:
        values = column(part)[valid].astype(np.float64)
        if (known := values[~np.isnan(values)]).size:
            out[f"grounding/{part.removeprefix('grounding_')}/mean"] = float(known.mean())
    for name, source in _MEANS.items():
        out[f"rollout/{name}/mean"] = float(column(source)[valid].mean(dtype=np.float64))
    if policy_version is not None:
        age = policy_version - column("policy_version_min")[valid]
        out["age/mean"], out["age/max"] = float(age.mean()), float(age.max())
    return out


def status_metrics(status: Status) -> dict[str, float]:
    """Scalars of the whole run so far.

    ledger/<where> for every place a rollout can be; ledger/{backlog,batches_waiting,unaccounted,
    delivered_per_second,unscored_share}; rollout/<outcome>/<reason> counts rollouts that were not delivered
    (rollout/filtered/acc_1.00: filtered since acc was 1.00 in the whole group); age/batches/<n> counts
    training batches that were n policy versions old when they were trained.
    """
    out = {f"ledger/{k}": float(v) for k, v in vars(status.ledger).items()}
    out["ledger/batches_waiting"] = float(status.batches_written - status.batches_acknowledged)
    for name in ("backlog", "unaccounted", "delivered_per_second", "unscored_share"):
        out[f"ledger/{name}"] = float(getattr(status, name))
    for reason, count in status.reasons.items():
        outcome, _, detail = reason.partition(" ")
        if detail:  # without one it is the ledger's own number
            out[f"rollout/{outcome}/{_NO_NAME.sub('_', detail)}"] = float(count)
    for age, count in status.ages.items():
        out[f"age/batches/{age}"] = float(count)
    return out


def log(metrics: Mapping[str, float], step: int) -> list[str]:
    """Sends scalars to every tracker that this process already uses; returns their names.

    W&B and MLflow are used only when the program has imported them and has an active run: a client
    library must not start one. W&B gets the values without a commit, so that they land in the same step
    as the trainer's own.
    """
    sent = []
    wandb = sys.modules.get("wandb")
    if wandb is not None and getattr(wandb, "run", None) is not None:
        wandb.log(dict(metrics), step=step, commit=False)
        sent.append("wandb")
    mlflow = sys.modules.get("mlflow")
    if mlflow is not None and mlflow.active_run() is not None:
        mlflow.log_metrics(dict(metrics), step=step)
        sent.append("mlflow")
    return sent
