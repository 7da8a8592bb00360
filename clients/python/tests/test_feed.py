"""The client against a real gRPC server that fails on request."""

import grpc
import pytest
from conftest import Servicer, encode, group

import verigraph
from verigraph import Feed, IntegrityError, errors
from verigraph.v1 import rollout_service_pb2 as pb

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def objects(count: int) -> list[bytes]:
    return [encode(group(), {"run": f"run{i}"}) for i in range(1, count + 1)]


def feed(address: str, sleeps: list[float] | None = None, **options) -> Feed:
    """A feed that notes its waits instead of waiting."""
    return Feed(address, _sleep=(sleeps if sleeps is not None else []).append, **options)


def test_batches_arrive_in_order_and_the_stream_ends_with_the_run(serve):
    servicer = Servicer(objects(3))
    with feed(serve(servicer)) as client:
        got = list(client.batches())
    assert [b.sequence for b in got] == [1, 2, 3]
    assert [b.metadata["run"] for b in got] == ["run1", "run2", "run3"]
    assert servicer.requests[0].cursor == "trainer"
    for b in got:
        b.check()


@pytest.mark.parametrize("chunks", [0, 1, 5, 150, 10_000])
def test_an_interrupted_transfer_goes_on_from_the_byte_it_reached(serve, chunks):
    servicer = Servicer(objects(2))
    per_batch = [len(list(servicer._chunks(s, 0))) for s in (1, 2)]
    servicer.faults = [(chunks, UNAVAILABLE), (1, UNAVAILABLE)]
    sleeps: list[float] = []
    with feed(serve(servicer), sleeps) as client:
        got = list(client.batches())
    assert [b.sequence for b in got] == [1, 2]
    resumed = servicer.requests[1]
    passed = min(chunks, sum(per_batch))
    if passed == 0:
        assert (resumed.from_sequence, resumed.offset) == (0, 0)
    elif passed < per_batch[0]:
        assert (resumed.from_sequence, resumed.offset) == (1, 64 * passed)
    elif passed < sum(per_batch):
        assert (resumed.from_sequence, resumed.offset) == (2, 64 * (passed - per_batch[0]))
    else:
        assert (resumed.from_sequence, resumed.offset) == (3, 0)
    assert len(sleeps) == 2


def test_progress_counts_every_byte_of_every_batch_once_even_over_an_interruption(serve):
    servicer = Servicer(objects(2))
    servicer.faults = [(3, UNAVAILABLE)]
    seen: list[tuple[int, int, int]] = []
    with feed(serve(servicer)) as client:
        list(client.batches(progress=lambda *now: seen.append(now)))
    for sequence, data in enumerate(servicer.objects, start=1):
        mine = [now for now in seen if now[0] == sequence]
        assert [received for _, received, _ in mine] == [min(64 * (i + 1), len(data)) for i in range(len(mine))]
        assert mine[-1] == (sequence, len(data), len(data))


def test_waiting_grows_and_progress_starts_it_anew(serve):
    servicer = Servicer(objects(1))
    servicer.faults = [(0, UNAVAILABLE)] * 4 + [(1, UNAVAILABLE), (0, UNAVAILABLE)]
    sleeps: list[float] = []
    with feed(serve(servicer), sleeps) as client:
        assert len(list(client.batches())) == 1
    assert sleeps == pytest.approx([0.1, 0.2, 0.4, 0.8, 0.1, 0.2], rel=0.21)


def test_a_server_that_stays_away_is_unavailable(serve):
    sleeps: list[float] = []
    with feed("127.0.0.1:1", sleeps, retry_seconds=1.0) as client:
        with pytest.raises(verigraph.Unavailable):
            list(client.batches())
        assert 1.0 <= sum(sleeps) < 3.0
        with pytest.raises(verigraph.Unavailable):
            client.status()


def corruptions():
    def flip(chunk):
        if chunk.offset == 64:
            chunk.data = bytes([chunk.data[0] ^ 1]) + chunk.data[1:]
        return chunk

    def skip(chunk):
        return None if chunk.offset == 64 else chunk

    def no_info(chunk):
        chunk.ClearField("info")
        return chunk

    def other(chunk):
        if chunk.offset == 64:
            chunk.sequence = 2
        return chunk

    def early(chunk):
        chunk.last = chunk.offset == 64
        return chunk

    def unfinished(chunk):
        return None if chunk.last else chunk

    def rows(chunk):
        if chunk.HasField("info"):
            chunk.info.rows += 1
        return chunk

    return {f.__name__: f for f in (flip, skip, no_info, other, early, unfinished, rows)}


@pytest.mark.parametrize("name", corruptions())
def test_bytes_that_differ_from_the_record_never_become_a_batch(serve, name):
    servicer = Servicer(objects(1))
    servicer.corrupt = corruptions()[name]
    with feed(serve(servicer)) as client, pytest.raises(IntegrityError):
        list(client.batches())


def test_every_wire_code_has_its_own_error(serve):
    want = {
        "INVALID_ARGUMENT": verigraph.InvalidArgument,
        "UNAUTHENTICATED": verigraph.Unauthenticated,
        "NOT_FOUND": verigraph.NotFound,
        "FAILED_PRECONDITION": verigraph.FailedPrecondition,
        "RESOURCE_EXHAUSTED": verigraph.ResourceExhausted,
        "DATA_LOSS": verigraph.DataLoss,
        "DEADLINE_EXCEEDED": verigraph.DeadlineExceeded,
        "CANCELLED": verigraph.Cancelled,
        "INTERNAL": verigraph.InternalError,
        "UNIMPLEMENTED": verigraph.FeedError,
    }
    servicer = Servicer([])
    with feed(serve(servicer), retry_seconds=0.0) as client:
        for name, kind in want.items():
            code = grpc.StatusCode[name]
            servicer.unary_faults, servicer.faults = [code], [(0, code)]
            with pytest.raises(errors.FeedError) as caught:
                client.ack(1)
            assert type(caught.value) is kind
            assert caught.value.code is code
            assert caught.value.details.endswith("as asked")
            with pytest.raises(errors.FeedError) as caught:
                list(client.batches())
            assert type(caught.value) is kind


def test_acknowledging_is_repeated_until_it_arrives(serve):
    servicer = Servicer(objects(2))
    servicer.unary_faults = [UNAVAILABLE, UNAVAILABLE]
    with feed(serve(servicer), cursor="mine") as client:
        batch = next(client.batches())
        assert client.ack(batch, trainer_step=5) == 1
        assert client.ack(2, trainer_step=6) == 2
        assert client.ack(1, trainer_step=7) == 2
    assert servicer.acks[0] == pb.AckRequest(cursor="mine", sequence=1, trainer_step=5)


def test_a_call_that_misses_its_own_deadline_is_repeated_until_it_is_answered(serve):
    servicer = Servicer(objects(2))
    servicer.silent = 2
    sleeps: list[float] = []
    with feed(serve(servicer), sleeps, _call_seconds=0.5) as client:
        assert client.ack(2) == 2
    assert len(sleeps) >= 2
    assert servicer.acks[-1].sequence == 2


def test_a_server_that_never_answers_is_a_missed_deadline_that_says_how_long_it_was_tried(serve):
    servicer = Servicer([])
    servicer.silent = 1000
    sleeps: list[float] = []
    client = feed(serve(servicer), sleeps, retry_seconds=0.9, _call_seconds=0.3)
    with client, pytest.raises(verigraph.DeadlineExceeded, match=r"no answer within 0\.3 s, tried again for 0\.9 s"):
        client.ack(1)
    assert 1 <= len(sleeps) < 3, "the seconds of the calls count, and not only those between them"


def test_only_unacknowledged_batches_come_again(serve):
    servicer = Servicer(objects(3))
    with feed(serve(servicer)) as client:
        client.ack(2)
        assert [b.sequence for b in client.batches()] == [3]
        assert [b.sequence for b in client.batches(from_sequence=3)] == [3]


def test_leaving_the_loop_ends_the_call(serve):
    servicer = Servicer(objects(50))
    with feed(serve(servicer)) as client:
        stream = client.batches()
        next(stream)
        stream.close()
        assert servicer.cancelled.wait(10)


def test_the_token_is_sent_with_every_call(serve):
    address = serve(Servicer(objects(1), token="s3cret"))
    with feed(address, token="s3cret") as client:
        assert len(list(client.batches())) == 1
        assert client.ack(1) == 1
    with feed(address) as client, pytest.raises(verigraph.Unauthenticated):
        client.status()


def test_a_proxy_of_the_environment_is_not_used_for_loopback(serve, monkeypatch):
    address = serve(Servicer([]))
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    with feed(address, retry_seconds=1.0) as client:
        assert client.status().run == "r"


def test_status_has_the_whole_ledger(serve):
    with feed(serve(Servicer([]))) as client:
        got = client.status()
    assert got.ledger == verigraph.Ledger(28, 1, 2, 3, 4, 5, 6, 7)
    assert (got.run, got.prompts, got.backlog, got.batches_written, got.complete) == ("r", 9, 8, 3, True)
