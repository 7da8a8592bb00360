"""One request: prompts of a step out, groups back, with everything that both managers do alike."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from verigraph.errors import FeedError
from verigraph.metrics import log, status_metrics
from verigraph.requests import GroupResult, Policy, RequestedPrompt, RolloutService
from verigraph.verl import servers
from verigraph.verl.settings import Settings, SettingsError, get

logger = logging.getLogger(__name__)


@dataclass
class Stepper:
    """A connection to the service, with the policy's version kept up to date."""

    settings: Settings
    service: RolloutService
    policy: Policy
    track: Callable[[Mapping[str, float], int], Any] = log

    @classmethod
    def connect(cls, config: Any, service: RolloutService | None = None) -> Stepper:
        """Reads the configuration and connects. A restarted trainer is a higher incarnation."""
        settings = Settings.of(config)
        if get(config, "algorithm.adv_estimator") == "reinforce_plus_plus":
            _check_returns()
        if service is None:
            from verigraph.connect import rollout_service, tls

            secured = None if settings.tls is None else tls(**settings.tls)
            service = rollout_service(settings.endpoint, settings.token, secured)
        return cls(settings, service, Policy(service, incarnation=incarnation(config)))

    def run(
        self, manager: Any, prompts: Sequence[RequestedPrompt], step: int, validate: bool
    ) -> Iterator[GroupResult]:
        """Sets the policy if it changed, asks, and checks what the service states about every group."""
        version = servers.version(step, validate) if step >= 0 else None  # verl did not say
        self.policy.update(version, servers.addresses(manager, self.settings))
        asked = {p.uid: p.sampling for p in prompts}
        for result in self.service.request_groups(prompts, step=step):
            if result.batch is not None:
                self.settings.check_metadata(result.batch.metadata, asked[result.uid])
            yield result

    def track_run(self, step: int) -> None:
        """Logs the ledger, filtered counts and ages. A step is never lost for want of its statistics."""
        try:
            self.track(status_metrics(self.service.status()), step)
        except FeedError as error:
            logger.warning("step %d: no statistics of the run: %s", step, error)


def _check_returns() -> None:
    """Raises SettingsError where the installed verl's reward-to-go ends at tokens that were not sampled.

    Before 0.9 the running return of REINFORCE++ is 0 from every observation on, backwards, so that no turn but the
    last one earns anything.
    """
    import torch
    from verl.trainer.ppo.core_algos import compute_reinforce_plus_plus_outcome_advantage as estimate

    rewards, mask = torch.tensor([[0.0, 0.0, 0.0, 2.0]]), torch.tensor([[1.0, 0.0, 0.0, 1.0]])
    _, returns = estimate(rewards, mask, config=SimpleNamespace(gamma=0.5))
    if returns[0, 0].item() != 1.0:
        problem = "adv_estimator=reinforce_plus_plus of this verl gives no reward to what stands before an observation"
        raise SettingsError([f"{problem}: use verl 0.9 or later, or grpo"])


def incarnation(config: Any) -> int:
    """The same in every process of one training job, higher after a restart.

    remote_rollout.incarnation, else the start of the Ray job, else now, in milliseconds since 1970.
    """
    if (given := get(config, "remote_rollout.incarnation")) is not None:
        return int(given)
    try:
        import ray
        from ray._private import state
    except ImportError:
        return time.time_ns() // 1_000_000
    if ray.is_initialized():
        job = ray.get_runtime_context().get_job_id()
        for known in state.jobs():
            if known["JobID"] == job:
                return int(known["StartTime"])
    return time.time_ns() // 1_000_000
