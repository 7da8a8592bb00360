"""A servicer that misbehaves on request."""

import hashlib
import io
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent import futures

import grpc
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import encode, group, row, span  # noqa: F401 - tests import them from here

from verigraph.v1 import rollout_service_pb2 as pb
from verigraph.v1.rollout_service_pb2_grpc import RolloutServiceServicer, add_RolloutServiceServicer_to_server


class Servicer(RolloutServiceServicer):
    """A feed over a list of objects. `faults` are taken one per stream: how many chunks pass, then a code."""

    def __init__(self, objects: list[bytes], chunk: int = 64, token: str | None = None):
        self.objects = objects
        self.chunk = chunk
        self.token = token
        self.faults: list[tuple[int, grpc.StatusCode]] = []
        self.corrupt: Callable[[pb.BatchChunk], pb.BatchChunk | None] = lambda c: c
        self.requests: list[pb.StreamBatchesRequest] = []
        self.acks: list[pb.AckRequest] = []
        self.cursors: dict[str, int] = {}
        self.unary_faults: list[grpc.StatusCode] = []
        self.silent = 0  # how many calls get no answer
        self.cancelled = threading.Event()

    def StreamBatches(self, request, context) -> Iterator[pb.BatchChunk]:
        context.add_callback(self.cancelled.set)
        self._authorize(context)
        self.requests.append(request)
        allowed, code = self.faults.pop(0) if self.faults else (None, None)
        first = request.from_sequence or self.cursors.get(request.cursor, 0) + 1
        for sequence in range(first, len(self.objects) + 1):
            offset = request.offset if sequence == request.from_sequence else 0
            for chunk in self._chunks(sequence, offset):
                if allowed == 0:
                    context.abort(code, "as asked")
                allowed = None if allowed is None else allowed - 1
                if (sent := self.corrupt(chunk)) is not None:
                    yield sent
        if allowed is not None:
            context.abort(code, "as asked")

    def _chunks(self, sequence: int, offset: int) -> Iterator[pb.BatchChunk]:
        data = self.objects[sequence - 1]
        info = pb.BatchInfo(
            sequence=sequence, size=len(data), sha256=hashlib.sha256(data).hexdigest(), rows=rows_of(data)
        )
        while True:
            part = data[offset : offset + self.chunk]
            last = offset + len(part) == len(data)
            yield pb.BatchChunk(
                sequence=sequence, offset=offset, data=part, info=info, last=last, crc32=zlib.crc32(part)
            )
            if last:
                return
            offset, info = offset + len(part), None

    def Ack(self, request, context) -> pb.AckResponse:
        self._authorize(context)
        self._fail(context)
        self.acks.append(request)
        self.cursors[request.cursor] = max(request.sequence, self.cursors.get(request.cursor, 0))
        return pb.AckResponse(acknowledged=self.cursors[request.cursor])

    def GetStatus(self, request, context) -> pb.GetStatusResponse:
        self._authorize(context)
        self._fail(context)
        ledger = pb.Ledger(
            dispatched=28, delivered=1, filtered=2, stale=3, unscored=4, failed=5, set_aside=6, in_flight=7
        )
        return pb.GetStatusResponse(
            run="r", prompts=9, backlog=8, ledger=ledger, batches_written=3, complete=True
        )

    def _fail(self, context) -> None:
        if self.silent:
            self.silent -= 1
            over = threading.Event()
            if context.add_callback(over.set):
                over.wait(60)
        if self.unary_faults:
            context.abort(self.unary_faults.pop(0), "as asked")

    def _authorize(self, context) -> None:
        sent = dict(context.invocation_metadata()).get("authorization")
        if self.token and sent != f"Bearer {self.token}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")


def rows_of(data: bytes) -> int:
    try:
        return pq.ParquetFile(io.BytesIO(data)).metadata.num_rows
    except pa.ArrowInvalid:
        return 0


@pytest.fixture
def serve():
    """Serves a servicer on a free port and returns its address."""
    servers = []

    def start(servicer: Servicer) -> str:
        server = grpc.server(futures.ThreadPoolExecutor(4))
        add_RolloutServiceServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        servers.append(server)
        return f"127.0.0.1:{port}"

    yield start
    for server in servers:
        server.stop(None).wait()
