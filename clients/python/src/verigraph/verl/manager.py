"""RemoteRolloutManager: verl's padded DataProto contract (0.7, 0.8, and 0.9 with trainer.use_v1=False)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import numpy as np
import torch
from verl import DataProto
from verl.experimental.agent_loop import AgentLoopManager

from verigraph.requests import RequestedPrompt, RolloutService, Sampling
from verigraph.verl import rows, servers
from verigraph.verl.prompts import requested
from verigraph.verl.settings import SettingsError
from verigraph.verl.step import Stepper

try:
    from verl.utils.ray_utils import auto_await
except ImportError:  # 0.7.0 has synchronous managers only

    def auto_await(method):
        """Leaves the method as it is."""
        return method


class _NoWorkers:
    """Keeps verl's servers and starts no agent loop workers: the rollouts run elsewhere.

    verl before 0.7.1 calls this from the constructor and ignores the result; later ones await it.
    """

    def _init_agent_loop_workers(self):
        self.agent_loop_workers = []
        return _done()


class _done:
    """Awaitable that is ready at once, and harmless where nobody awaits it."""

    def __await__(self):
        return iter(())


class RemoteRolloutManager(_NoWorkers, AgentLoopManager):
    """Hands the prompts of a step to the rollout service and returns the padded batch.

    Construction follows the installed verl: __init__(config, worker_group, ...) in 0.7.0, create(...) from
    0.7.1 on. `service` replaces the connection, for tests.
    """

    service: RolloutService | None = None
    _stepper: Stepper | None = None

    @property
    def stepper(self) -> Stepper:
        """The connection, made at first use. Raises SettingsError where the configuration cannot work."""
        if self._stepper is None:
            self._stepper = Stepper.connect(self.config, self.service)
        return self._stepper

    @auto_await
    async def generate_sequences(self, prompts: DataProto) -> DataProto:
        """[B] rows in, already repeated, the same [B] rows out with tensors and extras.

        Callable and awaitable, as verl's own is; the event loop stays free while the rollouts run.
        """
        return await asyncio.get_running_loop().run_in_executor(None, self._generate, prompts)

    def _generate(self, prompts: DataProto) -> DataProto:
        stepper, columns = self.stepper, prompts.non_tensor_batch
        step = int(prompts.meta_info.get("global_steps", -1))
        validate = bool(prompts.meta_info.get("validate", False))
        uids = _uids(columns, len(prompts), stepper.settings.group_size)
        wanted = _groups(columns, uids, validate, stepper.settings.sampling_of(validate))
        results = {r.uid: r for r in stepper.run(self, wanted, step, validate)}
        pad = _pad_token_id(self, results)
        version = servers.version(step, validate)
        table = rows.arrange(results, uids, pad, version)
        if not validate:
            stepper.track(rows.table_metrics(table, version), step)
            stepper.track_run(step)
        return _proto(table, rows.padded(table, stepper.settings, pad), columns, len(prompts))


if hasattr(AgentLoopManager, "wake_up"):  # 0.7.0: synchronous, and weights are synced by wake_up

    def _between_syncs(self: RemoteRolloutManager, prompts: DataProto) -> DataProto:
        self.wake_up()
        try:
            return self._generate(prompts)
        finally:
            self.sleep()

    RemoteRolloutManager.generate_sequences = _between_syncs


def _uids(columns: dict[str, np.ndarray], count: int, group_size: int) -> list[str]:
    """The uid of every row. Recipes that set it after generation are grouped by row order."""
    if "uid" in columns:
        return [str(u) for u in columns["uid"]]
    if count % group_size:
        raise SettingsError([f"{count} rows without uid are no multiple of rollout.n = {group_size}"])
    return [f"row-{i // group_size}" for i in range(count)]


def _groups(
    columns: dict[str, np.ndarray], uids: list[str], validate: bool, sampling: Sampling
) -> list[RequestedPrompt]:
    """One request per uid, as large as the uid has rows (validation batches repeat some rows as padding)."""
    sizes = Counter(uids)
    first = {uid: i for i, uid in reversed(list(enumerate(uids)))}
    out = []
    for uid, n in sizes.items():
        row = {name: values[first[uid]] for name, values in columns.items()}
        out.append(requested(row, uid=uid, rollouts=n, validate=validate, sampling=sampling))
    return out


def _pad_token_id(manager: Any, results: dict) -> int:
    """As the rows' metadata states it; the model's tokenizer is the same one."""
    for r in results.values():
        if r.batch is not None:
            return int(r.batch.metadata["pad_token_id"])
    return 0


def _proto(table, arrays: dict[str, np.ndarray], columns: dict[str, np.ndarray], count: int) -> DataProto:
    """DataProto as verl's own manager returns it (verl/experimental/agent_loop/agent_loop.py)."""
    names = (
        "prompts",
        "responses",
        "response_mask",
        "input_ids",
        "attention_mask",
        "position_ids",
        "rollout_log_probs",
        "rm_scores",
    )
    extras = rows.extras(table)
    other = {
        "__num_turns__": table["num_turns"].to_numpy().astype(np.int32),
        "tool_call_counts": table["tool_calls"].to_numpy().astype(np.int32),
        "multi_modal_inputs": _objects([{} for _ in range(count)]),
        "min_global_steps": _objects(table["policy_version_min"].to_pylist()),
        "max_global_steps": _objects(table["policy_version_max"].to_pylist()),
        "termination_reason": _objects(table["termination_reason"].to_pylist()),
        **extras,
    }
    if "raw_prompt" in columns:
        other["raw_prompt"] = columns["raw_prompt"]
    return DataProto.from_dict(
        tensors={name: torch.from_numpy(np.ascontiguousarray(arrays[name])) for name in names},
        non_tensors=other,
        meta_info={"timing": rows.timing(table), "reward_extra_keys": list(extras)},
    )


def _objects(values: list) -> np.ndarray:
    out = np.empty(len(values), object)
    out[:] = values
    return out
