"""Where verl's own inference servers listen, and which weights they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from verigraph.verl.settings import Settings, SettingsError


def addresses(manager: Any, settings: Settings) -> Sequence[str]:
    """HOST:PORT of every server of the policy.

    0.7: the manager has server_addresses. 0.8 and later: the keys of the load balancer behind llm_client
    are the addresses (verl/workers/rollout/llm_server.py). Raises SettingsError where there are none.
    """
    if settings.servers:
        return settings.servers
    if found := getattr(manager, "server_addresses", None):
        return list(found)
    balancer = getattr(getattr(manager, "llm_client", None), "_load_balancer", None)
    if balancer is None:
        raise SettingsError(["no server addresses: verl gave none, and remote_rollout.servers is not set"])
    import ray

    return list(ray.get(balancer.get_all_servers.remote()))


def version(step: int, validate: bool) -> int:
    """The policy version that the servers hold at a step.

    verl counts training steps from 1 and syncs weights at the end of each, so that step k samples from
    version k - 1; validation at step k runs after its update (verl/trainer/ppo/v1/trainer_base.py).
    """
    return max(step if validate else step - 1, 0)
