"""One request: prompts of a step out, groups back, with everything that both managers do alike."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verigraph.metrics import log
from verigraph.requests import GroupResult, Policy, RequestedPrompt, RolloutService
from verigraph.verl import servers
from verigraph.verl.settings import Settings


@dataclass
class Stepper:
    """A connection to the service, with the policy's version kept up to date."""

    settings: Settings
    service: RolloutService
    policy: Policy
    track: Callable[[Mapping[str, float], int], Any] = log

    @classmethod
    def connect(cls, config: Any, service: RolloutService | None = None) -> Stepper:
        """Reads the configuration and connects. A restarted trainer is a new incarnation."""
        settings = Settings.of(config)
        if service is None:
            from verigraph.connect import rollout_service

            service = rollout_service(settings.endpoint, settings.token)
        return cls(settings, service, Policy(service, incarnation=_incarnation()))

    def run(
        self, manager: Any, prompts: Sequence[RequestedPrompt], step: int, validate: bool
    ) -> Iterator[GroupResult]:
        """Sets the policy if it changed, asks, and checks what the service states about every group."""
        version = servers.version(step, validate)
        self.policy.update(version, servers.addresses(manager, self.settings))
        for result in self.service.request_groups(prompts, step=step):
            if result.batch is not None:
                self.settings.check_metadata(result.batch.metadata, validate)
            yield result


def _incarnation() -> str:
    """The same in every process of one training job, another after a restart."""
    try:
        import ray
    except ImportError:
        return uuid.uuid4().hex
    return ray.get_runtime_context().get_job_id() if ray.is_initialized() else uuid.uuid4().hex
