"""The adapters inside an installed verl, on the CPU: its real configuration, Ray and TransferQueue."""

import asyncio
import os
from importlib import resources
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import ray
import torch
import verl
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from verl import DataProto

from verigraph import Batch

SERVERS = ["10.0.0.1:8000", "10.0.0.2:8000"]


def trainer_config(manager: str, *more: str):
    """verl's own ppo_trainer configuration with the options that docs/trainer.md names."""
    directory = str(resources.files("verl.trainer") / "config")
    overrides = [
        "+remote_rollout.endpoint=127.0.0.1:1",
        f"+actor_rollout_ref.rollout.agent.agent_loop_manager_class=verigraph.verl.{manager}",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
        "actor_rollout_ref.rollout.n=3",
        "actor_rollout_ref.rollout.prompt_length=4",
        "actor_rollout_ref.rollout.response_length=8",
        "algorithm.adv_estimator=grpo",
        *more,
    ]
    with initialize_config_dir(directory, version_base=None):
        return compose("ppo_trainer", overrides=overrides)


@pytest.fixture(scope="session")
def ray_cluster():
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()


class Client:
    """verl's LLMServerClient, as far as a manager looks into it."""

    def __init__(self, balancer):
        self._load_balancer = balancer


@pytest.fixture
def llm_client(ray_cluster):
    """A client with verl's real load balancer actor over two addresses; 0.7 has none."""
    if version() < (0, 8):
        return None
    return Client(balancer_of(dict.fromkeys(SERVERS)))


class Replica:
    """A server of verl 0.7, which its manager starts itself."""

    started: ClassVar[list] = []

    def __init__(self, replica_rank: int, **_: object):
        self._server_handle, self._server_address = None, SERVERS[replica_rank]
        self.calls = []
        self.started.append(self)

    async def init_hybrid(self, worker_group) -> None:
        self.calls.append("init")

    async def wake_up(self) -> None:
        self.calls.append("wake_up")

    async def sleep(self) -> None:
        self.calls.append("sleep")


def created(cls: type, config, llm_client):
    """A manager made as the trainer of the installed version makes it."""
    if version() >= (0, 8):
        return cls.create(
            config=config, llm_client=llm_client, teacher_client=None, reward_loop_worker_handles=None
        )
    cls = type(cls.__name__, (cls,), {"rollout_replica_class": Replica})
    Replica.started = []
    workers = SimpleNamespace(world_size=len(SERVERS))
    if version() >= (0, 7, 1):
        return cls.create(
            config=config, worker_group=workers, rollout_resource_pool=None, reward_loop_worker_handles=None
        )
    return cls(config=config, worker_group=workers, rm_resource_pool=None)


def version() -> tuple[int, ...]:
    return tuple(int(n) for n in verl.__version__.split(".")[:3])


def balancer_of(servers: dict):
    try:
        from verl.workers.rollout.router import get_router_handle
    except ImportError:  # 0.8
        from verl.workers.rollout.llm_server import GlobalRequestLoadBalancer

        return GlobalRequestLoadBalancer.remote(servers)
    return get_router_handle(servers)


def batch_of(uids: list[str]) -> DataProto:
    """A training batch as RayPPOTrainer.fit builds it, before it is repeated."""
    columns = {
        "uid": uids,
        "data_source": ["dabench"] * len(uids),
        "reward_model": [{"style": "rule", "ground_truth": "@m[1]"} for _ in uids],
        "extra_info": [{"index": i} for i, _ in enumerate(uids)],
        "raw_prompt": [[{"role": "user", "content": f"Question {u}?"}] for u in uids],
        "index": list(range(len(uids))),
    }
    data = DataProto.from_dict(
        tensors={"dummy_tensor": torch.zeros(len(uids), 1, dtype=torch.uint8)},  # as RLHFDataset adds it
        non_tensors={k: objects(v) for k, v in columns.items()},
    )
    data.meta_info["global_steps"] = 5
    return data


def objects(values: list) -> np.ndarray:
    out = np.empty(len(values), object)
    out[:] = values
    return out


def verls_overlong(batch: DataProto, max_length: int, buffer: int) -> list[float]:
    """What verl's DAPORewardManager adds for length to each row that it is given."""
    from verl.experimental.reward_loop.reward_manager.dapo import DAPORewardManager

    rule = {"enable": True, "len": buffer, "penalty_factor": 1.0, "log": True}
    config = {"reward": {"reward_kwargs": {"max_resp_len": max_length, "overlong_buffer_cfg": rule}}}
    tokenizer = SimpleNamespace(decode=lambda ids, skip_special_tokens: "")
    manager = DAPORewardManager(
        config=OmegaConf.create(config), tokenizer=tokenizer, compute_score=lambda **_: 0.0
    )
    rows = [
        DataProto.from_dict(
            tensors={k: batch.batch[k][i : i + 1] for k in ("responses", "attention_mask")},
            non_tensors={
                "data_source": objects(["x"]),
                "reward_model": objects([{"ground_truth": ""}]),
                "extra_info": objects([{}]),
            },
        )
        for i in range(len(batch))
    ]

    async def run() -> list[dict]:
        manager.loop = asyncio.get_running_loop()
        return [await manager.run_single(row) for row in rows]

    return [float(r["reward_extra_info"]["overlong_reward"]) for r in asyncio.run(run())]


@pytest.fixture(scope="session")
def real_batch() -> Batch:
    """A batch of a real run: DABench questions, overlong shaping owned by the reward server."""
    return Batch.from_file(os.environ["VERIGRAPH_BATCH"])
