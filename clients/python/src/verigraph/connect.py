"""The rollout service of a HOST:PORT, for request mode."""

from __future__ import annotations

from verigraph.errors import VerigraphError
from verigraph.requests import RolloutService


def rollout_service(endpoint: str, token: str | None = None) -> RolloutService:
    """Connects to a service that speaks request mode."""
    raise VerigraphError(f"{endpoint}: this version of the protocol has no RequestBatch")
