"""The trainer's end of RolloutService."""

from __future__ import annotations

import hashlib
import random
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import grpc

from verigraph.batch import Batch
from verigraph.errors import FeedError, IntegrityError, from_rpc
from verigraph.v1 import rollout_service_pb2 as pb
from verigraph.v1.rollout_service_pb2_grpc import RolloutServiceStub

if TYPE_CHECKING:
    from typing_extensions import Self

Answer = TypeVar("Answer")

# The server refuses pings that come more often than every 10 s.
_CHANNEL_OPTIONS = [
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.max_receive_message_length", 8 << 20),
]
_CALL_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Ledger:
    """Rollouts by where they went; they add up to `dispatched`."""

    dispatched: int
    delivered: int
    filtered: int
    stale: int
    unscored: int
    failed: int
    set_aside: int
    in_flight: int


@dataclass(frozen=True)
class Status:
    """Progress of the run."""

    run: str
    prompts: int
    backlog: int
    ledger: Ledger
    batches_written: int
    batches_acknowledged: int
    complete: bool
    batches_committed: int = 0
    batches_dropped: int = 0
    unaccounted: int = 0
    delivered_per_second: float = 0.0
    unscored_share: float = 0.0
    reasons: dict[str, int] = field(default_factory=dict)
    ages: dict[int, int] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    policy_version: int = 0


@dataclass(frozen=True)
class Restored:
    """Where a restore left the trainer: the last batch of the checkpoint, and the batches taken back."""

    sequence: int
    dropped: tuple[int, ...]


@dataclass(frozen=True)
class Asked:
    """One group of a request. `prompt` is a verigraph.v1 Prompt message."""

    uid: str
    prompt: pb.Prompt
    rollouts: int


@dataclass(frozen=True)
class Group:
    """How a requested group ended: with its rows, or with a reason why there are none.

    uid: the trainer's name; dispatch: the rows' uid column; status: "finished", "failed" or "replaced"
    """

    uid: str
    dispatch: str
    status: str
    reason: str
    batch: Batch | None


@dataclass(frozen=True)
class SetAside:
    """A group that a person has to look at."""

    dispatch: str
    stage: str
    reason: str
    deliveries: int


_KINDS = {"train": pb.BATCH_KIND_TRAIN, "validate": pb.BATCH_KIND_VALIDATE, "all": pb.BATCH_KIND_ALL}
_MODES = {
    "": pb.RESTORE_MODE_UNSPECIFIED,
    "regenerate": pb.RESTORE_MODE_REGENERATE,
    "replay": pb.RESTORE_MODE_REPLAY,
}
_GROUPS = {
    pb.GROUP_STATUS_FINISHED: "finished",
    pb.GROUP_STATUS_FAILED: "failed",
    pb.GROUP_STATUS_REPLACED: "replaced",
}


class Feed:
    """A named cursor on a run's batches. Use it as a context manager.

    endpoint: HOST:PORT
    cursor: name of the consumer; "trainer" drives the run's ledger
    token: bearer token, when the server asks for one
    credentials: TLS, e.g. grpc.ssl_channel_credentials(); None talks in the clear
    retry_seconds: how long an unreachable server is tried again before Unavailable is raised
    """

    def __init__(
        self,
        endpoint: str,
        cursor: str = "trainer",
        token: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        retry_seconds: float = 300.0,
        _sleep: Callable[[float], None] = time.sleep,
    ):
        self.cursor = cursor
        self._metadata = [("authorization", f"Bearer {token}")] if token else []
        self._retry_seconds = retry_seconds
        self._sleep = _sleep
        # A proxy that the environment names for the outer world cannot reach this machine's loopback.
        options = [*_CHANNEL_OPTIONS, ("grpc.enable_http_proxy", int(not _is_loopback(endpoint)))]
        if credentials is None:
            self._channel = grpc.insecure_channel(endpoint, options=options)
        else:
            self._channel = grpc.secure_channel(endpoint, credentials, options=options)
        self._stub = RolloutServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all calls."""
        self._channel.close()

    def batches(
        self,
        from_sequence: int = 0,
        progress: Callable[[int, int, int], None] | None = None,
        kind: str = "train",
        from_step: int | None = None,
    ) -> Iterator[Batch]:
        """Yields the batches that the cursor has not acknowledged, in order, and waits for new ones.

        Ends when the run is complete. An interrupted transfer goes on from the byte that it reached. Every
        piece is compared with its CRC-32 and every batch with the SHA-256 of its record (IntegrityError).
        Starts at `from_sequence` if given, or after what the checkpoint of `from_step` holds. `kind` is
        train, validate or all: validation batches come only to those who ask for them, with a cursor of
        their own. `progress` is called with (sequence, bytes received, bytes in all) as a batch arrives.
        """
        assembly = _Assembly(from_sequence)
        retry = Retry(self._retry_seconds, self._sleep)
        while True:
            request = pb.StreamBatchesRequest(
                cursor=self.cursor,
                from_sequence=assembly.sequence,
                offset=len(assembly.data),
                from_step=None if assembly.sequence else from_step,
                kind=_KINDS[kind],
            )
            call = self._stub.StreamBatches(request, metadata=self._metadata)
            try:
                for chunk in call:
                    retry.reset()
                    whole = assembly.add(chunk)
                    if progress is not None and assembly.info is not None:
                        progress(assembly.sequence, len(assembly.data), assembly.info.size)
                    if whole:
                        yield assembly.finish()
            except grpc.RpcError as error:
                retry.wait(error)
                continue
            finally:
                call.cancel()
            if assembly.data:
                raise IntegrityError(f"batch {assembly.sequence}: the stream ended inside it")
            return

    def submit(self, prompts: Sequence[pb.Prompt], *, final: bool = False) -> int:
        """Queues verigraph.v1 Prompt messages, all or none; returns how many were new.

        A prompt is known by its id, so that a repeat changes nothing. final: no more will come. Raises
        InvalidArgument with every problem of every prompt, ResourceExhausted for a full backlog and
        FailedPrecondition after the final ones.
        """
        request = pb.SubmitPromptsRequest(prompts=prompts, final=final)
        return self._unary(self._stub.SubmitPrompts, request).accepted

    def ack(self, batch: Batch | int, trainer_step: int = 0) -> int:
        """Acknowledges every batch up to this one; returns the cursor's acknowledged sequence afterwards."""
        sequence = batch if isinstance(batch, int) else batch.sequence
        request = pb.AckRequest(cursor=self.cursor, sequence=sequence, trainer_step=trainer_step)
        return self._unary(self._stub.Ack, request).acknowledged

    def commit(self, checkpoint_step: int) -> int:
        """Says that the checkpoint of a step is durable; returns the last batch that it holds.

        With the cursor "trainer" the batches up to it are freed: no restore can go back behind it.
        """
        request = pb.CommitRequest(cursor=self.cursor, checkpoint_step=checkpoint_step)
        return self._unary(self._stub.Commit, request).sequence

    def set_policy(
        self, version: int, incarnation: int = 0, endpoints: Sequence[str] = (), paused: bool = False
    ) -> None:
        """Says which policy version the trainer has now. Call it after the update, acknowledge before."""
        self._unary(self._stub.SetPolicy, _policy(version, incarnation, endpoints, paused))

    def restore(
        self,
        checkpoint_step: int,
        policy_version: int,
        incarnation: int,
        mode: str = "",
        endpoints: Sequence[str] = (),
    ) -> Restored:
        """Goes back to a checkpoint. Call it before `batches` after every restart of the trainer.

        mode: "regenerate" (batches with tokens of rolled-back policies are generated anew), "replay" (all
        are served again) or "" for the run's own. incarnation: higher than in the trainer's earlier life.
        """
        request = pb.RestoreRequest(
            checkpoint_step=checkpoint_step,
            policy_version=policy_version,
            incarnation=incarnation,
            mode=_MODES[mode],
            endpoints=endpoints,
        )
        answer = self._unary(self._stub.Restore, request)
        return Restored(answer.sequence, tuple(answer.dropped))

    def request(
        self,
        asked: Sequence[Asked],
        version: int | None = None,
        incarnation: int = 0,
        endpoints: Sequence[str] = (),
    ) -> Iterator[Group]:
        """Dispatches the groups of one step at once and yields each as it ends.

        Asking for a uid again replaces the earlier attempt, which is how a broken call is repeated: nothing
        is retried here. `version` and what follows are as in set_policy; without it the policy stays.
        """
        message = pb.RequestBatchRequest(
            prompts=[pb.RequestedPrompt(uid=a.uid, prompt=a.prompt, rollouts=a.rollouts) for a in asked],
            policy=None if version is None else _policy(version, incarnation, endpoints, False),
        )
        call = self._stub.RequestBatch(message, metadata=self._metadata)
        data, first = bytearray(), None
        try:
            for chunk in call:
                if first is None:
                    data, first = bytearray(), chunk
                if chunk.uid != first.uid or chunk.offset != len(data) or not _intact(chunk):
                    raise IntegrityError(f"group {first.uid}: damaged at byte {len(data)}")
                data += chunk.data
                if chunk.last:
                    yield _group(first, data)
                    first = None
        except grpc.RpcError as error:
            raise from_rpc(error) from error
        finally:
            call.cancel()

    def set_aside(self) -> list[SetAside]:
        """The groups that a person has to look at."""
        answer = self._unary(self._stub.ListSetAside, pb.ListSetAsideRequest())
        return [SetAside(g.dispatch, g.stage, g.reason, g.deliveries) for g in answer.groups]

    def requeue(self, dispatch: str) -> None:
        """Sends the prompt of one of them back into the line. Not repeated by itself."""
        try:
            self._stub.Requeue(
                pb.RequeueRequest(dispatch=dispatch), metadata=self._metadata, timeout=_CALL_TIMEOUT_S
            )
        except grpc.RpcError as error:
            raise from_rpc(error) from error

    def status(self) -> Status:
        """The run's ledger, progress and what each waiting thing waits for."""
        answer = self._unary(self._stub.GetStatus, pb.GetStatusRequest())
        ledger = Ledger(**{f: getattr(answer.ledger, f) for f in Ledger.__dataclass_fields__})
        special = {
            "ledger": ledger,
            "reasons": dict(answer.reasons),
            "ages": dict(answer.ages),
            "policy_version": answer.policy.version,
            "waiting": tuple(f"{w.count} {w.what} for: {w.reason}" for w in answer.waiting),
        }
        plain = {f: getattr(answer, f) for f in Status.__dataclass_fields__ if f not in special}
        return Status(**special, **plain)

    def _unary(self, method: Callable[..., Answer], request: object) -> Answer:
        """Every unary call here is idempotent, so that it can be repeated."""
        retry = Retry(self._retry_seconds, self._sleep)
        while True:
            try:
                return method(request, metadata=self._metadata, timeout=_CALL_TIMEOUT_S)
            except grpc.RpcError as error:
                retry.wait(error)


def _policy(
    version: int, incarnation: int, endpoints: Sequence[str], paused: bool
) -> pb.SetPolicyRequest:
    return pb.SetPolicyRequest(version=version, incarnation=incarnation, endpoints=endpoints, paused=paused)


def _intact(chunk: pb.BatchChunk | pb.GroupChunk) -> bool:
    return zlib.crc32(chunk.data) == chunk.crc32


def _group(first: pb.GroupChunk, data: bytearray) -> Group:
    batch = None
    if first.status == pb.GROUP_STATUS_FINISHED:
        if len(data) != first.size or hashlib.sha256(data).hexdigest() != first.sha256:
            raise IntegrityError(f"group {first.uid}: the bytes differ from their record")
        batch = Batch(0, data)
    return Group(first.uid, first.dispatch, _GROUPS.get(first.status, "failed"), first.reason, batch)


def _is_loopback(endpoint: str) -> bool:
    host = endpoint.rpartition(":")[0].strip("[]")
    return host in ("localhost", "::1") or host.startswith("127.")


@dataclass
class _Assembly:
    """Puts chunks back together. Between calls `sequence` and len(data) say where to resume."""

    sequence: int
    data: bytearray = field(default_factory=bytearray)
    info: pb.BatchInfo | None = None

    def add(self, chunk: pb.BatchChunk) -> bool:
        """Takes the next chunk; True when the batch is whole."""
        if not self.data and chunk.sequence > self.sequence:
            # The server chose where to start, or left out batches of another kind or that were taken back.
            self.sequence = chunk.sequence
        if chunk.HasField("info"):
            self.info = chunk.info
        if chunk.sequence != self.sequence or chunk.offset != len(self.data) or self.info is None:
            raise IntegrityError(
                f"batch {self.sequence}: want byte {len(self.data)}, "
                f"got byte {chunk.offset} of batch {chunk.sequence}"
            )
        if not _intact(chunk):
            raise IntegrityError(f"batch {self.sequence}: the piece at byte {chunk.offset} is damaged")
        self.data += chunk.data
        return chunk.last

    def finish(self) -> Batch:
        """Checks and returns the batch, and turns to the next one."""
        data, info, sequence = self.data, self.info, self.sequence
        self.sequence, self.data, self.info = sequence + 1, bytearray(), None
        if len(data) != info.size or hashlib.sha256(data).hexdigest() != info.sha256:
            raise IntegrityError(
                f"batch {sequence}: {len(data)} bytes arrived that differ from the record "
                f"({info.size} bytes, sha256 {info.sha256})"
            )
        batch = Batch(sequence, data)
        if batch.num_rows != info.rows:
            raise IntegrityError(f"batch {sequence}: {batch.num_rows} rows, the record says {info.rows}")
        return batch


class Retry:
    """Waits out an unreachable server: 0.1 s growing to 5 s, with jitter, as long as `budget` seconds."""

    def __init__(self, budget: float, sleep: Callable[[float], None]):
        self._budget, self._sleep = budget, sleep
        self.reset()

    def reset(self) -> None:
        """Progress was made."""
        self._delay, self._spent = 0.1, 0.0

    def wait(self, error: grpc.RpcError | FeedError) -> None:
        """Sleeps before the next try, or raises the typed error."""
        typed = error if isinstance(error, FeedError) else from_rpc(error)
        if typed.code is not grpc.StatusCode.UNAVAILABLE or self._spent >= self._budget:
            raise typed from (None if typed is error else error)
        self._sleep(self._delay * random.uniform(0.8, 1.2))
        self._spent += self._delay
        self._delay = min(self._delay * 2, 5.0)
