"""The trainer's end of RolloutService."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import grpc

from verigraph.batch import Batch
from verigraph.errors import IntegrityError, from_rpc
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
        self, from_sequence: int = 0, progress: Callable[[int, int, int], None] | None = None
    ) -> Iterator[Batch]:
        """Yields the batches that the cursor has not acknowledged, in order, and waits for new ones.

        Ends when the run is complete. An interrupted transfer goes on from the byte that it reached. Every
        batch is compared with the SHA-256 of its record (IntegrityError). Starts at `from_sequence` if given.
        `progress` is called with (sequence, bytes received, bytes in all) as a batch arrives.
        """
        assembly = _Assembly(from_sequence)
        retry = _Retry(self._retry_seconds, self._sleep)
        while True:
            request = pb.StreamBatchesRequest(
                cursor=self.cursor, from_sequence=assembly.sequence, offset=len(assembly.data)
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

    def ack(self, batch: Batch | int, trainer_step: int = 0) -> int:
        """Acknowledges every batch up to this one; returns the cursor's acknowledged sequence afterwards."""
        sequence = batch if isinstance(batch, int) else batch.sequence
        request = pb.AckRequest(cursor=self.cursor, sequence=sequence, trainer_step=trainer_step)
        return self._unary(self._stub.Ack, request).acknowledged

    def set_policy(self, version: int, incarnation: str = "") -> None:
        """States the trainer's policy version: opens capacity, and makes groups that lag too far stale.

        Versions do not decrease within an incarnation; a trainer that restarts begins a new one.
        """
        self._unary(self._stub.SetPolicy, pb.SetPolicyRequest(version=version, incarnation=incarnation))

    def commit(self, checkpoint_step: int) -> int:
        """Says that the checkpoint of a step is safe; returns how many batches were freed by it."""
        return self._unary(self._stub.Commit, pb.CommitRequest(checkpoint_step=checkpoint_step)).freed

    def restore(self, checkpoint_step: int) -> int:
        """Moves the trainer's cursor back to what the checkpoint of a step had read; returns its position."""
        return self._unary(self._stub.Restore, pb.RestoreRequest(checkpoint_step=checkpoint_step)).acknowledged

    def status(self) -> Status:
        """The run's ledger and progress."""
        answer = self._unary(self._stub.GetStatus, pb.GetStatusRequest())
        ledger = Ledger(**{f: getattr(answer.ledger, f) for f in Ledger.__dataclass_fields__})
        plain = {f: getattr(answer, f) for f in Status.__dataclass_fields__ if f != "ledger"}
        return Status(ledger=ledger, **plain)

    def _unary(self, method: Callable[..., Answer], request: object) -> Answer:
        """Every unary call here is idempotent, so that it can be repeated."""
        retry = _Retry(self._retry_seconds, self._sleep)
        while True:
            try:
                return method(request, metadata=self._metadata, timeout=_CALL_TIMEOUT_S)
            except grpc.RpcError as error:
                retry.wait(error)


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
        if self.sequence == 0:  # the server chose where to start
            self.sequence = chunk.sequence
        if chunk.HasField("info"):
            self.info = chunk.info
        if chunk.sequence != self.sequence or chunk.offset != len(self.data) or self.info is None:
            raise IntegrityError(
                f"batch {self.sequence}: want byte {len(self.data)}, "
                f"got byte {chunk.offset} of batch {chunk.sequence}"
            )
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


class _Retry:
    """Waits out an unreachable server: 0.1 s growing to 5 s, with jitter, as long as `budget` seconds."""

    def __init__(self, budget: float, sleep: Callable[[float], None]):
        self._budget, self._sleep = budget, sleep
        self.reset()

    def reset(self) -> None:
        """Progress was made."""
        self._delay, self._spent = 0.1, 0.0

    def wait(self, error: grpc.RpcError) -> None:
        """Sleeps before the next try, or raises the typed error."""
        if error.code() is not grpc.StatusCode.UNAVAILABLE or self._spent >= self._budget:
            raise from_rpc(error) from error
        self._sleep(self._delay * random.uniform(0.8, 1.2))
        self._spent += self._delay
        self._delay = min(self._delay * 2, 5.0)
