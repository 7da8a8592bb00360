"""Request mode: the trainer hands over the prompts of a step and gets each group's rows as it finishes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from verigraph.errors import InvalidArgument, VerigraphError

if TYPE_CHECKING:
    from typing_extensions import Self

    from verigraph.batch import Batch
    from verigraph.wire import Status


@dataclass(frozen=True)
class DataFile:
    """One data file of a prompt. sha256: lower-case hex digest; size: bytes."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Sampling:
    """How one group is sampled; None leaves a value as the workers are configured.

    temperature: 0 (always the likeliest token) to 2
    top_p: above 0, at most 1
    top_k: -1 or 0 for all tokens
    max_tokens: of one turn; a worker's own bound stays where it is lower
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None


GREEDY = Sampling(temperature=0.0, top_p=1.0, top_k=-1)


@dataclass(frozen=True)
class RequestedPrompt:
    """One group that the trainer wants.

    uid: the trainer's key of the group, without an underscore; asking again for a uid replaces the earlier
        attempt
    rollouts: size of the group
    sampling: in place of the workers' configuration; the metadata of the rows states what was used
    answers: named sub-answers; answer_text: free text for a judge. They go to the reward side only.
    """

    uid: str
    prompt_id: str
    question: str
    rollouts: int
    data_source: str = ""
    files: tuple[DataFile, ...] = ()
    meta_json: str = ""
    answers: tuple[tuple[str, str], ...] = ()
    answer_text: str = ""
    sampling: Sampling = Sampling()
    validate: bool = False


@dataclass(frozen=True)
class GroupResult:
    """How one requested group ended.

    batch: its rows, session by session, under the service's own name of the group (uid column); None when too
        few of its rollouts got a reward
    reason: why there is no batch, or why rollouts are missing
    """

    uid: str
    batch: Batch | None
    reason: str = ""


class RolloutService(Protocol):
    """What the adapters need of the service. Calls may come from several threads.

    Policy versions never decrease within an incarnation; a restarted trainer starts a higher one.
    """

    def set_policy(
        self, version: int, endpoints: Sequence[str], *, incarnation: int = 0, paused: bool = False
    ) -> None:
        """Tells the workers which weights the endpoints (HOST:PORT or URLs) serve from now on."""

    def status(self) -> Status:
        """The run's ledger, and the policy version that was stated last."""

    def request_groups(self, prompts: Sequence[RequestedPrompt], *, step: int) -> Iterator[GroupResult]:
        """Yields every requested group once, in the order in which they end."""

    def close(self) -> None:
        """Ends all calls."""


class RolloutsFailed(VerigraphError):
    """Nothing that was requested could be delivered. `reasons` goes from uid to the service's reason."""

    def __init__(self, reasons: dict[str, str]):
        first = next(iter(reasons.items()), ("", "no group was requested"))
        super().__init__(f"none of {len(reasons)} groups was delivered; first: {first[0]}: {first[1]}")
        self.reasons = reasons

    def __reduce__(self) -> tuple:
        return type(self), (self.reasons,)


@dataclass
class Policy:
    """Calls set_policy whenever version or endpoints change, and only then. Threads may share it.

    A version that is behind is not stated again: threads of two steps may overlap, and so may processes, as
    the workers of verl's agent loops are.
    """

    service: RolloutService
    incarnation: int = 0
    _current: tuple[int, tuple[str, ...]] | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def update(self, version: int | None, endpoints: Sequence[str]) -> Self:
        """States which weights are served now; None leaves the version as it is."""
        with self._lock:
            known = self.service.status().policy_version if self._current is None and version is None else -1
            newest = max(known if version is None else version, -1 if self._current is None else self._current[0])
            wanted = (newest, tuple(endpoints))
            if wanted != self._current:
                self._current = (self._state(*wanted), wanted[1])
        return self

    def _state(self, version: int, endpoints: Sequence[str]) -> int:
        """Returns the version that holds afterwards: a later one if another process was faster."""
        try:
            self.service.set_policy(version, list(endpoints), incarnation=self.incarnation)
        except InvalidArgument:
            if (ahead := self.service.status().policy_version) <= version:
                raise
            return ahead
        return version
