"""The rollout service of a HOST:PORT, for request mode."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import grpc

from verigraph.access import tls
from verigraph.errors import IntegrityError, Unavailable
from verigraph.feed import Feed
from verigraph.requests import GroupResult, RequestedPrompt, RolloutService
from verigraph.transfer import Retry
from verigraph.v1 import rollout_service_pb2 as pb
from verigraph.wire import Asked, Status

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Connection", "host_port", "rollout_service", "tls"]

logger = logging.getLogger(__name__)


class Connection:
    """A RolloutService over gRPC. Calls may come from several threads.

    endpoint, token, credentials: as for Feed
    retry_seconds: how long an unreachable server is tried again before Unavailable is raised

    A request whose stream breaks is made anew for the groups that have not come yet: each is generated
    again from its prompt, and comes once.
    """

    def __init__(
        self,
        endpoint: str,
        token: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        retry_seconds: float = 300.0,
        _sleep: Callable[[float], None] = time.sleep,
    ):
        self._feed = Feed(
            endpoint, token=token, credentials=credentials, retry_seconds=retry_seconds, _sleep=_sleep
        )
        self._retry_seconds, self._sleep = retry_seconds, _sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def set_policy(
        self, version: int, endpoints: Sequence[str], *, incarnation: int = 0, paused: bool = False
    ) -> None:
        """Raises FailedPrecondition when a later incarnation of the trainer has spoken."""
        self._feed.set_policy(version, incarnation, [host_port(e) for e in endpoints], paused)

    def status(self) -> Status:
        """The run's ledger, and the policy version that was stated last."""
        return self._feed.status()

    def request_groups(self, prompts: Sequence[RequestedPrompt], *, step: int) -> Iterator[GroupResult]:
        """Every group once, as they end. The step only names the request in the log.

        Raises ValueError where a uid is asked for twice, IntegrityError for damage or a group that never came,
        Unavailable once the server was away for retry_seconds.
        """
        waiting = {p.uid: _asked(p) for p in prompts}
        if len(waiting) != len(prompts):
            raise ValueError(f"step {step}: a uid is requested twice")
        retry = Retry(self._retry_seconds, self._sleep)
        while waiting:
            try:
                for group in self._feed.request(list(waiting.values())):
                    retry.reset()
                    del waiting[group.uid]
                    yield GroupResult(group.uid, group.batch, group.reason)
            except Unavailable as error:
                logger.warning("step %d: %d groups are asked for again: %s", step, len(waiting), error)
                retry.wait(error)
            else:
                if waiting:
                    raise IntegrityError(f"step {step}: the stream ended without {len(waiting)} of its groups")

    def close(self) -> None:
        """Ends all calls."""
        self._feed.close()


def rollout_service(
    endpoint: str, token: str | None = None, credentials: grpc.ChannelCredentials | None = None
) -> RolloutService:
    """Connects to a service; nothing is called yet."""
    return Connection(endpoint, token, credentials)


def host_port(address: str) -> str:
    """HOST:PORT of an address or URL."""
    return urlsplit(address).netloc if "://" in address else address


def _asked(p: RequestedPrompt) -> Asked:
    prompt = pb.Prompt(
        id=p.prompt_id,
        question=p.question,
        files=[pb.DataFile(name=f.name, sha256=f.sha256, size=f.size) for f in p.files],
        data_source=p.data_source,
        meta_json=p.meta_json.encode(),
        answers=[pb.NamedAnswer(name=name, value=value) for name, value in p.answers],
        answer_text=p.answer_text,
        validate=p.validate,
        # None is left out of the message, a zero is not.
        sampling=pb.Sampling(**asdict(p.sampling)),
    )
    return Asked(p.uid, prompt, p.rollouts)
