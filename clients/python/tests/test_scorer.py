"""The custom scorer's helper: what the function returned counts, and nothing else does."""

import json
import textwrap
import urllib.error
import urllib.request

import grpc
import pytest

import verigraph.scorer
from verigraph.v1 import reward_service_pb2 as pb
from verigraph.v1 import reward_service_pb2_grpc as rpc

SCORERS = """
    import os, time
    import verigraph.scorer
    from verigraph.scorer import Grade, Refused

    @verigraph.scorer
    def grade(item):
        print("a print must not reach the wire")
        match item.answer:
            case "loop":
                while True:
                    time.sleep(0.01)
            case "die":
                os._exit(3)
            case "raise":
                raise ZeroDivisionError("bug")
            case "refuse":
                raise Refused("no table")
            case "none":
                return None
            case "text":
                return "0.5"
            case "nan":
                return float("nan")
            case "high":
                return 1.5
            case "axes":
                return Grade(axes={"content": 1.0, "format": 0.5}, reason="fine")
            case "bool":
                return item.reference.answers["n"] == "1"
        return 0.5 if item.claims[0].structural else 0.0
"""


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    file = tmp_path_factory.mktemp("scorers") / "mine.py"
    file.write_text(textwrap.dedent(SCORERS))
    pool = verigraph.scorer.Pool(f"{file}:grade", workers=1, timeout=2.0)
    yield pool
    pool.close()


def request(answer):
    return {
        "version": 1,
        "prompt": {"id": "p", "question": "q", "data_source": "mine"},
        "reference": {"answers": [{"name": "n", "value": "1"}]},
        "answer": answer,
        "claims": [{"id": "c1", "kind": "atomic", "text": answer, "structural": True, "lexical": True}],
    }


def post(url, body):
    req = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(req) as resp:
            return resp.status, json.load(resp)
    except urllib.error.HTTPError as e:
        with e:
            return e.code, json.load(e)


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        ("x", 200, {"score": 0.5, "correct": None, "reason": "", "axes": {}}),
        ("bool", 200, {"score": 1.0, "correct": True, "reason": "", "axes": {}}),
        ("axes", 200, {"score": None, "correct": None, "reason": "fine", "axes": {"content": 1.0, "format": 0.5}}),
        ("refuse", 422, {"error": "no table"}),
        ("raise", 422, {"error": "ZeroDivisionError: bug"}),
        ("none", 422, None),
        ("text", 422, None),
        ("nan", 422, None),
        ("high", 422, None),
        ("die", 503, None),
        ("loop", 503, None),
    ],
)
def test_only_a_grade_that_the_function_returned_counts(pool, answer, status, body):
    with verigraph.scorer.serve_http(pool) as url:
        got = post(url, request(answer))
        assert got[0] == status, got
        if body is not None:
            assert got[1] == body
        assert post(url, request("x"))[0] == 200, "a killed worker is replaced"


def test_bad_requests_are_refused_before_the_function_sees_them(pool):
    with verigraph.scorer.serve_http(pool) as url:
        assert post(url, {"version": 2})[0] == 400
        assert post(url, [1])[0] == 400


def test_grpc_gives_the_same_grades(pool):
    with verigraph.scorer.serve_grpc(pool) as url, grpc.insecure_channel(url.removeprefix("grpc://")) as channel:
        stub = rpc.OutcomeScorerStub(channel)

        def ask(answer):
            req = pb.GradeRequest(answer=answer, claims=[pb.GradeClaim(id="c1", kind="atomic", structural=True)])
            req.prompt.answers.add(name="n", value="1")
            return stub.Grade(req)

        assert ask("x").score == 0.5
        assert ask("bool").correct
        assert not ask("axes").HasField("score")
        with pytest.raises(grpc.RpcError) as refused:
            ask("raise")
        assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        with pytest.raises(grpc.RpcError) as lost:
            ask("die")
        assert lost.value.code() == grpc.StatusCode.UNAVAILABLE


def test_decorated_functions_stay_callable():
    @verigraph.scorer
    def half(item):
        """Doc."""
        return 0.5

    assert half(None) == 0.5
    assert half.__name__ == "half"
    assert half.__doc__ == "Doc."
    assert half.grade(None) == verigraph.scorer.Grade(score=0.5)


def test_worker_that_does_not_start_is_an_error(tmp_path):
    (tmp_path / "broken.py").write_text("raise RuntimeError('no')\n")
    with pytest.raises(verigraph.scorer.Unavailable):
        verigraph.scorer.Pool(f"{tmp_path}/broken.py:grade", workers=1)
    with pytest.raises(ValueError, match="want FILE.py:NAME"):
        verigraph.scorer.load("grade")
