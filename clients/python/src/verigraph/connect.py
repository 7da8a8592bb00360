"""The rollout service of a HOST:PORT, for request mode."""

from __future__ import annotations

from verigraph.errors import VerigraphError
from verigraph.requests import RolloutService
from verigraph.v1.rollout_service_pb2_grpc import RolloutServiceStub


class RequestModeUnavailable(VerigraphError):
    """The generated protocol has no RequestBatch call; stream mode (Feed) works."""


def rollout_service(endpoint: str, token: str | None = None) -> RolloutService:
    """Connects to a service that speaks request mode.

    Raises RequestModeUnavailable before anything is generated. Until the call exists, hand a RolloutService
    of your own to the adapters' `service` attribute, or train in stream mode.
    """
    raise RequestModeUnavailable(
        f"{endpoint}: RolloutService of this version serves {_calls()}; request mode needs RequestBatch"
    )


def _calls() -> str:
    """The calls that the generated client knows."""
    methods = RolloutServiceStub.__init__.__code__.co_names
    return ", ".join(sorted(m for m in methods if m[:1].isupper() and not m.endswith(("Request", "Response"))))
