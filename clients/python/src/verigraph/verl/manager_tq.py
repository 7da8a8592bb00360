"""RemoteRolloutManagerTQ: verl's TransferQueue contract (0.9 and later).

Invariant: every prompt key that generate_sequences takes gets exactly one terminal status, and gets it
after all of its rows; verl's replay buffer samples a group as soon as it sees one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import transfer_queue as tq
from tensordict import NonTensorData, TensorDict
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from verigraph.batch import ragged
from verigraph.metrics import REWARD_PARTS
from verigraph.requests import GroupResult, RolloutService
from verigraph.verl import rows, servers
from verigraph.verl.manager import _NoWorkers
from verigraph.verl.prompts import requested
from verigraph.verl.step import Stepper

logger = logging.getLogger(__name__)


class RemoteRolloutManagerTQ(_NoWorkers, AgentLoopManagerTQ):
    """Hands prompts to the rollout service; rows go to TransferQueue as their groups finish.

    Lost rollouts are left out, since groups may differ in size; a group with fewer than min_valid (2)
    rewarded rollouts ends as "failure" without rows. An error of the service ends the open groups as
    failures and is raised by the next call. `service` replaces the connection, for tests.
    """

    service: RolloutService | None = None
    _stepper: Stepper | None = None
    _error: BaseException | None = None

    @property
    def stepper(self) -> Stepper:
        """The connection, made at first use. Raises SettingsError where the configuration cannot work."""
        if self._stepper is None:
            self._stepper = Stepper.connect(self.config, self.service)
        return self._stepper

    def generate_sequences(self, prompts: TensorDict) -> threading.Thread:
        """Takes [P] prompts (not repeated) and returns at once. The thread ends with the last group."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        table = _rows_of(prompts)
        validate = bool(table[0].get("validate", False)) if table else False
        for row in table:
            row.pop("validate", None)
        step = int(table[0]["global_steps"])
        settings = self.stepper.settings
        size = settings.val_group_size if validate else settings.group_size
        wanted = [
            requested(
                r,
                uid=str(r["uid"]),
                rollouts=int(r.pop("__rollout_n__", size)),
                validate=validate,
                sampling=settings.sampling_of(validate),
            )
            for r in table
        ]
        for row in table:
            row.pop("__do_sample__", None)
        partition = "val" if validate else "train"
        keys = [r["uid"] for r in table]
        tq.kv_batch_put(keys=keys, partition_id=partition, tags=[{"status": "running"} for _ in keys])
        thread = threading.Thread(
            target=self._collect,
            args=({r["uid"]: r for r in table}, wanted, step, validate, partition),
            name=f"verigraph-step-{step}",
            daemon=True,
        )
        thread.start()
        return thread

    def _collect(self, open_rows: dict[str, dict], wanted: list, step: int, validate: bool, partition: str):
        """Puts every group and its status; whatever happens, no group stays open."""
        sizes = {w.uid: w.rollouts for w in wanted}
        try:
            for result in self.stepper.run(self, wanted, step, validate):
                if result.uid in open_rows:
                    put_group(self, result, open_rows[result.uid], sizes[result.uid], step, partition)
                    del open_rows[result.uid]
            if not validate:
                self.stepper.track_run(step)
        except BaseException as error:  # handed to the next call, after the groups are closed
            logger.exception("request of step %d failed", step)
            self._error = error
        for uid in open_rows:
            _end(uid, partition, "failure")


def put_group(manager: Any, result: GroupResult, row: dict, size: int, step: int, partition: str) -> None:
    """Writes one group: its rows first, its status last."""
    fields, keys, tags = [], [], []
    if result.batch is not None:
        table = rows.table_of(result.batch)
        table = table.filter(table["loss_valid"])
        members = len(set(table["session_id"].to_pylist()))
        settings = manager.stepper.settings
        if members >= min(settings.min_valid, size) and members > 0:
            fields, keys, tags = rows_of_group(table, row)
        if partition == "train" and table.num_rows:
            metrics = rows.table_metrics(table, servers.version(step, validate=False))
            manager.stepper.track(metrics, step)
    if fields:
        tq.kv_batch_put(
            keys=keys, partition_id=partition, fields=list_of_dict_to_tensordict(fields), tags=tags
        )
    else:
        logger.warning("group %s is lost: %s", result.uid, result.reason or "too few rewarded rollouts")
    _end(row["uid"], partition, "finished" if fields else "failure")


def _end(uid: str, partition: str, status: str) -> None:
    tq.kv_put(key=uid, partition_id=partition, tag={"status": status})


def rows_of_group(table, row: Mapping[str, Any]) -> tuple[list[dict], list[str], list[dict]]:
    """Fields, keys and tags of a group's rows, ragged: int64 ids and masks, float32 log-probs and scores.

    The keys of all rows are equal, as list_of_dict_to_tensordict wants it.
    """
    token_columns = [ragged(table[name]) for name in rows.TOKENS]
    extras, seconds = rows.extras(table), rows.row_metrics(table)
    fields, keys, tags = [], [], []
    plain = table.select([n for n in rows.READ if n not in rows.TOKENS]).to_pylist()
    for i, values in enumerate(plain):
        prompt, response, mask, log_probs = (torch.from_numpy(_copy(c[i])) for c in token_columns)
        log_probs = log_probs.to(torch.float32)
        ids = torch.cat([prompt, response])
        scores = torch.zeros(len(response), dtype=torch.float32)
        scores[-1] = values["reward"]
        low, high = values["policy_version_min"], values["policy_version_max"]
        fields.append(
            {
                **row,
                "session_id": values["session_id"],
                "prompts": prompt,
                "responses": response,
                "response_mask": mask,
                "loss_mask": mask.clone(),
                "input_ids": ids,
                "position_ids": torch.arange(len(ids), dtype=torch.int64),
                "rollout_log_probs": log_probs,
                "rm_scores": scores,
                "num_turns": values["num_turns"],
                "metrics": seconds[i],
                "multi_modal_inputs": {},
                "extra_fields": {
                    "reward_extra_info": {name: float(extras[name][i]) for name in REWARD_PARTS},
                    "min_global_steps": low,
                    "max_global_steps": high,
                    "termination_reason": values["termination_reason"],
                    "rollout_id": values["rollout_id"],
                    "tool_call_counts": values["tool_calls"],
                },
            }
        )
        keys.append(f"{row['uid']}_{values['session_id']}_{values['output_idx']}")
        tags.append(
            {
                "status": "success",
                "prompt_len": len(prompt),
                "response_len": len(response),
                "seq_len": len(ids),
                "global_steps": row["global_steps"],
                "min_global_steps": low,
                "max_global_steps": high,
            }
        )
    return fields, keys, tags


def _copy(values: np.ndarray) -> np.ndarray:
    """int64 ids and masks, float32 log-probs, owned and writable."""
    return values.astype(np.float32 if values.dtype.kind == "f" else np.int64, copy=True)


def _rows_of(prompts: TensorDict) -> list[dict[str, Any]]:
    """One plain dict per prompt; values that hold for the whole batch are repeated."""
    out: list[dict[str, Any]] = [{} for _ in range(len(prompts))]
    for key, value in prompts.items():
        for i, row in enumerate(out):
            if isinstance(value, torch.Tensor):
                row[key] = value[i]
            elif isinstance(value, NonTensorData):
                row[key] = value.data
            else:
                item = value[i]
                row[key] = item.data if isinstance(item, NonTensorData) else item
    return out
