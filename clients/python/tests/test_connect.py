"""Request mode over a real gRPC server that fails on request."""

import hashlib
import zlib
from collections.abc import Iterator

import grpc
import pytest
from conftest import encode, group

import verigraph
from verigraph.connect import Connection, rollout_service
from verigraph.requests import DataFile, RequestedPrompt, Sampling
from verigraph.v1 import rollout_service_pb2 as pb
from verigraph.v1.rollout_service_pb2_grpc import RolloutServiceServicer

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


class Rollouts(RolloutServiceServicer):
    """Answers every group with the same two rows, the last one first.

    failed: uid to reason; faults: one per call, how many chunks pass and then a code
    """

    def __init__(self, chunk: int = 1000):
        self.chunk = chunk
        self.failed: dict[str, str] = {}
        self.replaced: set[str] = set()
        self.faults: list[tuple[int, grpc.StatusCode]] = []
        self.refuses: list[grpc.StatusCode] = []
        self.requests: list[pb.RequestBatchRequest] = []
        self.policies: list[pb.SetPolicyRequest] = []
        self.corrupt = lambda chunk: chunk

    def SetPolicy(self, request, context) -> pb.SetPolicyResponse:
        if self.refuses:
            context.abort(self.refuses.pop(0), "as asked")
        self.policies.append(request)
        return pb.SetPolicyResponse()

    def RequestBatch(self, request, context) -> Iterator[pb.GroupChunk]:
        self.requests.append(request)
        passing, code = self.faults.pop(0) if self.faults else (None, None)
        for p in reversed(request.prompts):
            for chunk in self.chunks(p.uid):
                if passing == 0:
                    context.abort(code, "as asked")
                passing = None if passing is None else passing - 1
                if (sent := self.corrupt(chunk)) is not None:
                    yield sent
        if code is not None:
            context.abort(code, "as asked")

    def chunks(self, uid: str) -> Iterator[pb.GroupChunk]:
        first = pb.GroupChunk(uid=uid, dispatch=f"d-{uid}-0", last=True)
        if uid in self.failed or uid in self.replaced:
            status = pb.GROUP_STATUS_FAILED if uid in self.failed else pb.GROUP_STATUS_REPLACED
            first.status, first.reason = status, self.failed.get(uid, "asked for again")
            yield first
            return
        data = encode(group(), {"run": uid})
        for at in range(0, len(data), self.chunk):
            part = data[at : at + self.chunk]
            chunk = pb.GroupChunk(uid=uid, dispatch=first.dispatch, status=pb.GROUP_STATUS_FINISHED)
            if at == 0:
                chunk.size, chunk.sha256, chunk.rows = len(data), hashlib.sha256(data).hexdigest(), 2
            chunk.offset, chunk.data, chunk.crc32 = at, part, zlib.crc32(part)
            chunk.last = at + len(part) == len(data)
            yield chunk


def prompt(uid: str, **changes) -> RequestedPrompt:
    return RequestedPrompt(**({"uid": uid, "prompt_id": "p", "question": "Q?", "rollouts": 2} | changes))


def connect(address: str, sleeps: list[float] | None = None, **options) -> Connection:
    """A connection that notes its waits instead of waiting."""
    return Connection(address, _sleep=(sleeps if sleeps is not None else []).append, **options)


@pytest.mark.parametrize("chunk", [100, 1000, 1 << 20])
def test_every_group_comes_once_in_the_order_in_which_they_end(serve, chunk):
    servicer = Rollouts(chunk)
    servicer.failed, servicer.replaced = {"b": "1 of 2 members has a reward"}, {"a"}
    with connect(serve(servicer)) as service:
        got = list(service.request_groups([prompt(u) for u in "abcd"], step=3))
    assert [r.uid for r in got] == ["d", "c", "b", "a"]
    assert [r.batch and r.batch.metadata["run"] for r in got] == ["d", "c", None, None]
    assert [r.reason for r in got] == ["", "", "1 of 2 members has a reward", "asked for again"]
    for r in got[:2]:
        r.batch.check()


def test_a_prompt_reaches_the_service_whole(serve):
    servicer = Rollouts()
    asked = prompt(
        "u",
        data_source="dabench",
        files=(DataFile("t.csv", "ab", 3),),
        meta_json='{"k": "ü"}',
        answers=(("m", "1"),),
        answer_text="free",
        validate=True,
    )
    with connect(serve(servicer)) as service:
        list(service.request_groups([asked], step=1))
    assert servicer.requests == [
        pb.RequestBatchRequest(
            prompts=[
                pb.RequestedPrompt(
                    uid="u",
                    rollouts=2,
                    prompt=pb.Prompt(
                        id="p",
                        question="Q?",
                        data_source="dabench",
                        files=[pb.DataFile(name="t.csv", sha256="ab", size=3)],
                        meta_json='{"k": "ü"}'.encode(),
                        answers=[pb.NamedAnswer(name="m", value="1")],
                        answer_text="free",
                        validate=True,
                        sampling=pb.Sampling(),
                    ),
                )
            ]
        )
    ]


def test_after_a_broken_stream_only_the_groups_that_did_not_come_are_asked_for_again(serve):
    servicer = Rollouts(1 << 20)
    servicer.faults = [(0, UNAVAILABLE), (1, UNAVAILABLE), (2, UNAVAILABLE)]
    sleeps: list[float] = []
    with connect(serve(servicer), sleeps) as service:
        got = [r.uid for r in service.request_groups([prompt(u) for u in "abcd"], step=1)]
    assert got == ["d", "c", "b", "a"]
    asked = [[p.uid for p in r.prompts] for r in servicer.requests]
    assert asked == [["a", "b", "c", "d"], ["a", "b", "c", "d"], ["a", "b", "c"], ["a"]]
    assert sleeps == pytest.approx([0.1, 0.1, 0.1], rel=0.9)


def test_a_service_that_stays_away_is_unavailable():
    with connect("127.0.0.1:1", retry_seconds=1.0) as service:
        with pytest.raises(verigraph.Unavailable):
            list(service.request_groups([prompt("a")], step=1))
        with pytest.raises(verigraph.Unavailable):
            service.set_policy(1, ["s:1"])


@pytest.mark.parametrize(
    ("code", "kind"),
    [("INVALID_ARGUMENT", verigraph.InvalidArgument), ("UNIMPLEMENTED", verigraph.errors.FeedError)],
)
def test_what_the_service_refuses_has_its_own_error_and_is_not_repeated(serve, code, kind):
    servicer = Rollouts()
    servicer.faults, servicer.refuses = [(0, grpc.StatusCode[code])], [grpc.StatusCode[code]]
    with connect(serve(servicer)) as service:
        with pytest.raises(kind, match="as asked"):
            list(service.request_groups([prompt("a")], step=1))
        with pytest.raises(kind, match="as asked"):
            service.set_policy(1, [])
    assert len(servicer.requests) == 1


def test_damaged_rows_never_become_a_group(serve):
    def flip(chunk):
        chunk.data = bytes([chunk.data[0] ^ 1]) + chunk.data[1:]
        return chunk

    for corrupt in (flip, lambda chunk: None, lambda chunk: None if chunk.offset == 1000 else chunk):
        servicer = Rollouts()
        servicer.corrupt = corrupt
        with connect(serve(servicer)) as service, pytest.raises(verigraph.IntegrityError):
            list(service.request_groups([prompt("a")], step=1))


def test_the_policy_is_stated_with_hosts_and_ports(serve):
    servicer = Rollouts()
    with connect(serve(servicer)) as service:
        service.set_policy(4, ["10.0.0.1:80", "http://[::1]:8000/"], incarnation=1_700_000_000_000, paused=True)
    assert servicer.policies == [
        pb.SetPolicyRequest(
            version=4, incarnation=1_700_000_000_000, endpoints=["10.0.0.1:80", "[::1]:8000"], paused=True
        )
    ]


def test_a_zero_of_the_sampling_is_sent_and_what_is_left_out_is_not(serve):
    servicer = Rollouts()
    with connect(serve(servicer)) as service:
        asked = [prompt("a"), prompt("b", sampling=Sampling(temperature=0.0, max_tokens=5))]
        list(service.request_groups(asked, step=1))
    plain, greedy = (p.prompt.sampling for p in servicer.requests[0].prompts)
    assert plain == pb.Sampling()
    assert greedy == pb.Sampling(temperature=0.0, max_tokens=5)
    assert greedy.HasField("temperature")
    assert not greedy.HasField("top_p")


def test_repeated_groups_are_refused_before_anything_is_generated(serve):
    servicer = Rollouts()
    service = rollout_service(serve(servicer))
    with pytest.raises(ValueError, match="a uid is requested twice"):
        list(service.request_groups([prompt("a"), prompt("a")], step=1))
    service.close()
    assert servicer.requests == []
