"""Adapters for verl, imported on first use so that the rest of the package needs neither verl nor torch.

RemoteRolloutManager    padded DataProto contract: verl 0.7, 0.8, 0.9 with trainer.use_v1=False
RemoteRolloutManagerTQ  TransferQueue contract: verl 0.9 and later
RemoteAgentLoop         one rollout per call inside verl's own managers: every version and mode

Name a manager with +actor_rollout_ref.rollout.agent.agent_loop_manager_class=verigraph.verl.<class>.
"""

from __future__ import annotations

from importlib import import_module

_HOMES = {
    "RemoteRolloutManager": "verigraph.verl.manager",
    "RemoteRolloutManagerTQ": "verigraph.verl.manager_tq",
    "RemoteAgentLoop": "verigraph.verl.agent_loop",
}

__all__ = ["RemoteAgentLoop", "RemoteRolloutManager", "RemoteRolloutManagerTQ"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
