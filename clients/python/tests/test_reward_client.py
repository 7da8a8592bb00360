"""verl's reward function against a fake RewardService; the real one is tested on the Go side."""

from concurrent import futures

import grpc
import pytest

from verigraph.reward_client import RewardClient, Unscored, compute_score, make_prompt, make_rollout
from verigraph.v1 import reward_service_pb2 as pb
from verigraph.v1 import reward_service_pb2_grpc as rpc


class Fake(rpc.RewardServiceServicer):
    def __init__(self):
        self.last = None

    def Score(self, request, context):
        self.last = request
        if ("authorization", "Bearer t") not in [(m.key, m.value) for m in context.invocation_metadata()]:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no")
        if request.rollout.answer == "broken":
            return pb.ScoreResponse(score=pb.RolloutScore(status="unscored", reason="judge is down"))
        return pb.ScoreResponse(
            score=pb.RolloutScore(status="ok", reward=0.5, acc=1, outcome=1, process=0, infer=0, penalty=-0.5)
        )

    def ScoreGroup(self, request, context):
        return pb.ScoreGroupResponse(scores=[pb.RolloutScore(status="ok", reward=i) for i, _ in enumerate(request.rollouts)])


@pytest.fixture
def served():
    server = grpc.server(futures.ThreadPoolExecutor(2))
    fake = Fake()
    rpc.add_RewardServiceServicer_to_server(fake, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with RewardClient(f"127.0.0.1:{port}", token="t", timeout=20) as client:
        yield client, fake
    server.stop(grace=None).wait()


def test_reward_function_returns_verls_fields(served):
    client, fake = served
    extra = {"id": 7, "question": "q", "meta": {"qtype": "FactChecking"}}
    got = compute_score("tablebench", "@answer[1]", {"answer": 1}, extra, client=client)
    assert got["score"] == 0.5
    assert got["acc"] == 1
    assert got["r_penalty"] == -0.5
    assert fake.last.prompt.id == "7"
    assert fake.last.prompt.answers[0].value == "1"
    assert fake.last.prompt.meta_json == b'{"qtype": "FactChecking"}'
    assert fake.last.rollout.answer == "@answer[1]"


def test_rollout_without_a_reward_raises_and_is_never_a_number(served):
    with pytest.raises(Unscored, match="unscored: judge is down"):
        compute_score("x", "broken", "text", client=served[0])


def test_stored_trajectories_are_sent_with_their_evidence():
    assert make_rollout("x", {"trajectory_json": '{"a": 1}'}).trajectory_json == b'{"a": 1}'
    assert make_rollout("x", {"response_tokens": 9}).response_tokens == 9
    assert make_prompt("s", [["a", 1], ["b", "2"]]).answers[1].name == "b"
    assert make_prompt("s", "free").answer_text == "free"


def test_groups_come_back_in_their_order(served):
    scores = served[0].score_group(make_prompt("s", "t"), [make_rollout("a"), make_rollout("b")])
    assert [s.reward for s in scores] == [0, 1]
