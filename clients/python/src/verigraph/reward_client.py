"""Client of RewardService, and a reward function in verl's form.

verl's configuration:

    custom_reward_function.path: .../verigraph/reward_client.py
    custom_reward_function.name: compute_score

The server's address and token come from VERIGRAPH_REWARD and VERIGRAPH_REWARD_TOKEN. For a server with TLS
VERIGRAPH_REWARD_CA names the PEM file of its authority; where it asks for a client certificate,
VERIGRAPH_REWARD_CERT and VERIGRAPH_REWARD_KEY name that.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc

from verigraph.v1 import reward_service_pb2 as pb
from verigraph.v1 import reward_service_pb2_grpc as rpc
from verigraph.v1 import rollout_service_pb2 as rollout_pb

MAX_MESSAGE = 64 << 20


class Unscored(Exception):
    """A judge gave no verdict on a rollout. It has no reward: leave it out of the group's statistics and the loss."""


class RewardClient:
    """Scores rollouts. Safe for use from many threads; close it.

    credentials: TLS, e.g. grpc.ssl_channel_credentials(); None talks in the clear
    timeout: seconds that one call may take

    A call that fails raises grpc.RpcError.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        timeout: float = 600.0,
        credentials: grpc.ChannelCredentials | None = None,
    ):
        self.timeout = timeout
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        options = [("grpc.max_send_message_length", MAX_MESSAGE), ("grpc.max_receive_message_length", MAX_MESSAGE)]
        if credentials is None:
            self._channel = grpc.insecure_channel(address, options=options)
        else:
            self._channel = grpc.secure_channel(address, credentials, options=options)
        self._stub = rpc.RewardServiceStub(self._channel)

    def close(self) -> None:
        """Ends all calls."""
        self._channel.close()

    def __enter__(self) -> RewardClient:  # noqa: PYI034  Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def score(self, prompt: rollout_pb.Prompt, rollout: pb.Rollout) -> pb.RolloutScore:
        """One rollout's score; status says whether there is one."""
        request = pb.ScoreRequest(prompt=prompt, rollout=rollout)
        return self._stub.Score(request, timeout=self.timeout, metadata=self._metadata).score

    def score_group(self, prompt: rollout_pb.Prompt, rollouts: Sequence[pb.Rollout]) -> list[pb.RolloutScore]:
        """The scores of one prompt's rollouts, in their order."""
        request = pb.ScoreGroupRequest(prompt=prompt, rollouts=rollouts)
        return list(self._stub.ScoreGroup(request, timeout=self.timeout, metadata=self._metadata).scores)


def make_prompt(data_source: str, ground_truth: Any, extra_info: Mapping[str, Any] | None = None) -> rollout_pb.Prompt:
    """The prompt that a score is asked for.

    ground_truth: {name: value}, [[name, value], ...], or a text for a judge
    extra_info: verl's column of that name, of which id (or index), question and meta are read
    """
    extra = dict(extra_info or {})
    prompt = rollout_pb.Prompt(
        id=str(extra.get("id", extra.get("index", "prompt"))),
        question=str(extra.get("question", "")),
        data_source=data_source,
    )
    if extra.get("meta"):
        prompt.meta_json = json.dumps(extra["meta"]).encode()
    pairs = ground_truth.items() if isinstance(ground_truth, Mapping) else ground_truth
    if isinstance(ground_truth, str):
        prompt.answer_text = ground_truth
    else:
        for name, value in pairs:
            prompt.answers.add(name=str(name), value=str(value))
    return prompt


def make_rollout(solution: str, extra_info: Mapping[str, Any] | None = None) -> pb.Rollout:
    """A stored trajectory in extra_info["trajectory_json"] is scored with its evidence; else the answer alone.

    extra_info["response_tokens"] counts for the overlong rule.
    """
    stored = (extra_info or {}).get("trajectory_json")
    if stored:
        return pb.Rollout(trajectory_json=stored.encode() if isinstance(stored, str) else bytes(stored))
    return pb.Rollout(answer=solution, response_tokens=int((extra_info or {}).get("response_tokens", 0)))


_client: RewardClient | None = None
_lock = threading.Lock()


def _shared() -> RewardClient:
    global _client
    with _lock:
        if _client is None:
            _client = RewardClient(
                os.environ["VERIGRAPH_REWARD"], os.environ.get("VERIGRAPH_REWARD_TOKEN"), credentials=_credentials()
            )
        return _client


def _credentials() -> grpc.ChannelCredentials | None:
    ca, cert, key = (_pem(name) for name in ("VERIGRAPH_REWARD_CA", "VERIGRAPH_REWARD_CERT", "VERIGRAPH_REWARD_KEY"))
    if (cert is None) != (key is None) or (cert and not ca):
        raise ValueError("VERIGRAPH_REWARD_CERT and VERIGRAPH_REWARD_KEY go together, and with VERIGRAPH_REWARD_CA")
    return grpc.ssl_channel_credentials(ca, key, cert) if ca else None


def _pem(name: str) -> bytes | None:
    path = os.environ.get(name)
    return Path(path).read_bytes() if path else None


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    client: RewardClient | None = None,
) -> dict[str, Any]:
    """verl's reward function (verl/trainer/ppo/reward.py): {"score": ..., "acc": ..., and the terms}, floats.

    Arguments as verl passes them; see make_prompt and make_rollout for what is read.

    Raises Unscored where there is no reward, since any number here would enter the group's baseline.
    """
    score = (client or _shared()).score(
        make_prompt(data_source, ground_truth, extra_info), make_rollout(solution_str, extra_info)
    )
    if score.status != "ok":
        raise Unscored(f"{score.status}: {score.reason}")
    return {
        "score": score.reward,
        "acc": score.acc,
        "seq_reward": score.seq_reward,
        "r_process": score.process,
        "r_infer": score.infer,
        "r_outcome": score.outcome,
        "r_penalty": score.penalty,
        "method": score.method,
    }
