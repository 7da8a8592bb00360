"""RemoteAgentLoop: one rollout per call, inside verl's own agent loop workers, in every version and mode.

Register it with actor_rollout_ref.rollout.agent.agent_loop_config_path=FILE, a YAML list with
`- {name: verigraph, _target_: verigraph.verl.RemoteAgentLoop}`, and select it with
rollout.agent.default_agent_loop=verigraph or the dataset column agent_name.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, ClassVar

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from verigraph.batch import ragged
from verigraph.requests import RolloutService, RolloutsFailed, Sampling
from verigraph.verl import rows
from verigraph.verl.prompts import requested
from verigraph.verl.settings import SettingsError
from verigraph.verl.step import Stepper

_TRIES = 3


class RemoteAgentLoop(AgentLoopBase):
    """Asks the service for a group of one and returns it; verl pads, scores nothing, and queues.

    Every call is a group of its own, since verl 0.7 and 0.8 give a uid but no session. A rollout that is
    lost is asked for again, and after three tries raises: trouble of the infrastructure is never a reward.
    """

    service: RolloutService | None = None
    _steppers: ClassVar[dict[str, Stepper]] = {}  # one connection per process and endpoint

    def _stepper(self) -> Stepper:
        from verigraph.verl.settings import get

        key = str(get(self.config, "remote_rollout.endpoint", ""))
        if key not in self._steppers or self.service is not None:
            self._steppers[key] = Stepper.connect(self.config, self.service)
        return self._steppers[key]

    @property
    def llm_client(self) -> Any:
        """Where the server addresses come from; verl calls it server_manager here."""
        return self.server_manager

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """One rollout as AgentLoopOutput: exact ids, mask, log-probs, reward and dense reward parts.

        Sampled as sampling_params say, which are verl's for training or validation.
        """
        known = {k: sampling_params[k] for k in ("temperature", "top_p", "top_k") if k in sampling_params}
        return await asyncio.get_running_loop().run_in_executor(
            None, self._run, dict(kwargs), Sampling(**known)
        )

    def _run(self, row: dict[str, Any], sampling: Sampling) -> AgentLoopOutput:
        stepper = self._stepper()
        step = int(row.get("global_steps", -1))
        base = str(row.get("uid") or "row").replace("_", "-")
        reasons: dict[str, str] = {}
        for _ in range(_TRIES):
            wanted = requested(row, uid=f"{base}-{uuid.uuid4().hex[:12]}", rollouts=1, sampling=sampling)
            for result in stepper.run(self, [wanted], step, bool(row.get("validate", False))):
                if result.batch is not None and (output := _output(result.batch, stepper)) is not None:
                    return output
                reasons[result.uid] = result.reason or "lost"
        raise RolloutsFailed(reasons)


def _output(batch, stepper: Stepper) -> AgentLoopOutput | None:
    """The only row of a batch, or None when it carries no reward."""
    table = rows.table_of(batch)
    if table.num_rows != 1:
        raise SettingsError([f"one row per rollout is needed, got {table.num_rows}: switch compress off"])
    values = table.select([n for n in rows.READ if n not in rows.TOKENS]).to_pylist()[0]
    if not values["loss_valid"]:
        return None
    prompt, response, mask, log_probs = (ragged(table[name])[0].tolist() for name in rows.TOKENS)
    rows.padded(table, stepper.settings, 0)  # refuses what verl would cut
    return AgentLoopOutput(
        prompt_ids=prompt,
        response_ids=response,
        response_mask=mask,
        response_logprobs=log_probs,
        reward_score=values["reward"],
        num_turns=values["num_turns"],
        metrics=AgentLoopMetrics(**rows.row_metrics(table)[0]),
        extra_fields={
            "reward_extra_info": {k: float(v[0]) for k, v in rows.extras(table).items()},
            "min_global_steps": values["policy_version_min"],
            "max_global_steps": values["policy_version_max"],
            "turn_scores": [],
            "tool_rewards": [],
        },
    )
