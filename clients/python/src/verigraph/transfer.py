"""Bytes over calls that may break: pieces are put together, checked, asked for again from where they ended.

Nothing leaves this module that is not whole: every piece is compared with its CRC-32 and every object with the
SHA-256 of its record.
"""

from __future__ import annotations

import hashlib
import random
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import grpc

from verigraph.batch import Batch
from verigraph.errors import FeedError, IntegrityError, from_rpc
from verigraph.v1 import rollout_service_pb2 as pb
from verigraph.wire import Group

# The server refuses pings that come more often than every 10 s.
_CHANNEL_OPTIONS = [
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.max_receive_message_length", 8 << 20),
]
_GROUPS = {
    pb.GROUP_STATUS_FINISHED: "finished",
    pb.GROUP_STATUS_FAILED: "failed",
    pb.GROUP_STATUS_REPLACED: "replaced",
}

Progress = Callable[[int, int, int], None]
"""Called with a batch's sequence number, the bytes received, and the bytes in all."""


def open_channel(endpoint: str, credentials: grpc.ChannelCredentials | None) -> grpc.Channel:
    """A channel to HOST:PORT, in the clear without credentials. Nothing is called yet."""
    # A proxy that the environment names for the outer world cannot reach this machine's loopback.
    host = endpoint.rpartition(":")[0].strip("[]")
    loopback = host in ("localhost", "::1") or host.startswith("127.")
    options = [*_CHANNEL_OPTIONS, ("grpc.enable_http_proxy", int(not loopback))]
    if credentials is None:
        return grpc.insecure_channel(endpoint, options=options)
    return grpc.secure_channel(endpoint, credentials, options=options)


class Retry:
    """Waits out an unreachable server: 0.1 s growing to 5 s, with jitter, as long as `budget` seconds.

    deadline: seconds that each call is given, where calls have a deadline. One that missed it is tried again
    as well, and its seconds are taken from the budget.
    """

    def __init__(self, budget: float, sleep: Callable[[float], None], deadline: float = 0.0):
        self._budget, self._sleep, self._deadline = budget, sleep, deadline
        self.reset()

    def reset(self) -> None:
        """Progress was made."""
        self._delay, self._spent = 0.1, 0.0

    def wait(self, error: grpc.RpcError | FeedError) -> None:
        """Sleeps before the next try. Raises the typed error if no try can help or the budget is spent."""
        typed = error if isinstance(error, FeedError) else from_rpc(error)
        late = self._deadline > 0 and typed.code is grpc.StatusCode.DEADLINE_EXCEEDED
        if late:
            self._spent += self._deadline
            typed = type(typed)(
                typed.code,
                f"no answer within {self._deadline:g} s, tried again for {self._budget:g} s: {typed.details}",
            )
        if not (late or typed.code is grpc.StatusCode.UNAVAILABLE) or self._spent >= self._budget:
            raise typed from (None if typed is error else error)
        self._sleep(self._delay * random.uniform(0.8, 1.2))
        self._spent += self._delay
        self._delay = min(self._delay * 2, 5.0)


@dataclass
class Assembly:
    """Puts the chunks of batches together. Between calls `sequence` and len(data) say where to resume."""

    sequence: int
    data: bytearray = field(default_factory=bytearray)
    info: pb.BatchInfo | None = None

    def add(self, chunk: pb.BatchChunk) -> bool:
        """Takes the next chunk; True when the batch is whole. Raises IntegrityError for any other chunk."""
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
        """Returns the batch and turns to the next one. Raises IntegrityError where the bytes are not the record's."""
        data, info, sequence = self.data, self.info, self.sequence
        self.sequence, self.data, self.info = sequence + 1, bytearray(), None
        if not _recorded(data, info):
            raise IntegrityError(
                f"batch {sequence}: {len(data)} bytes arrived that differ from the record "
                f"({info.size} bytes, sha256 {info.sha256})"
            )
        batch = Batch(sequence, data)
        if batch.num_rows != info.rows:
            raise IntegrityError(f"batch {sequence}: {batch.num_rows} rows, the record says {info.rows}")
        return batch


def stream(
    call: Callable[[int, int], grpc.Call], sequence: int, retry: Retry, progress: Progress | None
) -> Iterator[Batch]:
    """Batches from `sequence` on, until the server ends the run. call(sequence, offset) asks for the bytes from there.

    Raises IntegrityError for damage, and the typed error of a call once `retry` gives up.
    """
    assembly = Assembly(sequence)
    while True:
        chunks = call(assembly.sequence, len(assembly.data))
        try:
            for chunk in chunks:
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
            chunks.cancel()
        if assembly.data:
            raise IntegrityError(f"batch {assembly.sequence}: the stream ended inside it")
        return


def groups(chunks: Iterable[pb.GroupChunk]) -> Iterator[Group]:
    """Each group of a request as its last chunk comes. A call that breaks is not resumed.

    Raises IntegrityError for pieces that are damaged or do not follow each other.
    """
    data, first = bytearray(), None
    for chunk in chunks:
        if first is None:
            data, first = bytearray(), chunk
        if chunk.uid != first.uid or chunk.offset != len(data) or not _intact(chunk):
            raise IntegrityError(f"group {first.uid}: damaged at byte {len(data)}")
        data += chunk.data
        if chunk.last:
            yield _group(first, data)
            first = None


def _group(first: pb.GroupChunk, data: bytearray) -> Group:
    batch = None
    if first.status == pb.GROUP_STATUS_FINISHED:
        if not _recorded(data, first):
            raise IntegrityError(f"group {first.uid}: the bytes differ from their record")
        batch = Batch(0, data)
    return Group(first.uid, first.dispatch, _GROUPS.get(first.status, "failed"), first.reason, batch)


def _intact(chunk: pb.BatchChunk | pb.GroupChunk) -> bool:
    return zlib.crc32(chunk.data) == chunk.crc32


def _recorded(data: bytearray, record: pb.BatchInfo | pb.GroupChunk) -> bool:
    return len(data) == record.size and hashlib.sha256(data).hexdigest() == record.sha256
