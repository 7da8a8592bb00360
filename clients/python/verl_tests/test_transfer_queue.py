"""RemoteRolloutManagerTQ through the real TransferQueue and verl's replay buffer, DAPO filter included."""

import math

import numpy as np
import pytest
import torch
import transfer_queue as tq
from conftest import SERVERS, batch_of, trainer_config
from fake_service import FakeService
from verl import DataProto
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories
from verl.utils import tensordict_utils as tu
from verl.utils.import_utils import load_class_from_fqn

from verigraph.verl import RemoteRolloutManagerTQ


@pytest.fixture(scope="module")
def queue(ray_cluster):
    tq.init()
    yield
    tq.close()


@pytest.fixture
def line(queue, llm_client):
    """A manager created as TaskRunnerV1 creates it, and a clean partition."""

    def make(service: FakeService, *more: str) -> RemoteRolloutManagerTQ:
        config = trainer_config("RemoteRolloutManagerTQ", *more)
        cls = load_class_from_fqn(config.actor_rollout_ref.rollout.agent.agent_loop_manager_class)
        manager = cls.create(
            config=config, llm_client=llm_client, teacher_client=None, reward_loop_worker_handles=None
        )
        manager.service = service
        return manager

    yield make
    for partition, keys in (tq.kv_list() or {}).items():
        if keys:
            tq.kv_clear(keys=list(keys), partition_id=partition)


def submit(manager: RemoteRolloutManagerTQ, uids: list[str], validate: bool = False):
    """The trainer's own steps: register the prompts as pending, then hand them over."""
    batch = tu.get_tensordict(dict(batch_of(uids).non_tensor_batch))
    tu.assign_non_tensor_data(batch, "global_steps", 5)
    if validate:
        tu.assign_non_tensor_data(batch, "validate", True)
    partition = "val" if validate else "train"
    tags = [{"is_prompt": True, "status": "pending", "global_steps": 5} for _ in uids]
    tq.kv_batch_put(keys=list(batch["uid"]), partition_id=partition, tags=tags)
    return manager.generate_sequences(batch)


def handed_over(manager: RemoteRolloutManagerTQ, uids: list[str], validate: bool = False) -> None:
    """submit, and the end of what it began."""
    thread = submit(manager, uids, validate)
    thread.join(600)
    assert not thread.is_alive(), "the groups did not end within ten minutes"


def buffer(kind=ReplayBuffer, mode="sync", **more):
    return kind(
        trainer_mode=mode,
        trainer_config=None,
        max_off_policy_threshold=8,
        max_off_policy_strategy="drop",
        sampler_kwargs={},
        poll_interval=0.01,
        **more,
    )


def read(meta, *fields):
    return tq.kv_batch_get(keys=meta.keys, partition_id=meta.partition_id, select_fields=list(fields))


def test_rows_go_through_the_queue_and_come_out_of_the_replay_buffer(line):
    service = FakeService()
    handed_over(line(service), ["a", "b"])
    meta, _ = buffer().sample(global_steps=5, partition_id="train", batch_size=2)
    assert sorted(meta.keys) == ["a_0_0", "a_1_0", "a_2_0", "b_0_0", "b_1_0", "b_2_0"]
    for tag in meta.tags:
        assert np.array([tag["min_global_steps"], tag["max_global_steps"]], dtype=int).tolist() == [4, 5]
        assert tag["status"] == "success"
        assert tag["seq_len"] == tag["prompt_len"] + tag["response_len"]
    data = read(
        meta, "prompts", "responses", "response_mask", "rollout_log_probs", "rm_scores", "position_ids"
    )
    lengths = data["responses"].offsets().diff().tolist()
    for i, key in enumerate(meta.keys):
        uid, session, _ = key.split("_")
        assert lengths[i] == int(session) + 2
        assert data["responses"][i].tolist()[0] == 1000 * (1 + "ab".index(uid)) + 10 * int(session)
        assert data["rm_scores"][i].sum().item() == float(session)
        assert data["rollout_log_probs"][i].dtype == torch.float32
        assert data["responses"][i].dtype == torch.int64
        assert data["position_ids"][i].tolist() == list(range(len(data["position_ids"][i])))
    more = read(
        meta, "uid", "extra_fields", "num_turns", "reward_model", "data_source", "raw_prompt", "metrics"
    )
    assert list(more["data_source"]) == ["dabench"] * 6
    info = [getattr(v, "data", v)["reward_extra_info"] for v in list(more["extra_fields"])]
    assert all(type(value) is float for one in info for value in one.values())
    assert service.policies[0][0] == 4
    assert sorted(service.policies[0][1]) == SERVERS


def test_verls_grpo_over_the_queue_takes_one_value_per_rollout(line):
    service = FakeService()
    service.segments = 2
    handed_over(line(service), ["a", "b"])
    meta, _ = buffer().sample(global_steps=5, partition_id="train", batch_size=2)
    assert len(meta.keys) == 12
    data = read(meta, "uid", "response_mask", "rm_scores")
    padded = {k: data[k].to_padded_tensor(padding=0) for k in ("response_mask", "rm_scores")}
    proto = DataProto.from_dict(
        tensors={"response_mask": padded["response_mask"], "token_level_rewards": padded["rm_scores"]},
        non_tensors={"uid": np.array(list(data["uid"]), dtype=object)},
    )
    done = compute_advantage_for_multi_trajectories(
        proto, meta.keys, adv_estimator=core_algos.AdvantageEstimator.GRPO
    )
    advantage = {
        key: done.batch["advantages"][i].abs().max().item()
        * np.sign(done.batch["advantages"][i].sum().item())
        for i, key in enumerate(meta.keys)
    }
    assert advantage["a_0_0"] == pytest.approx(-1, abs=1e-4)
    assert advantage["a_2_1"] == pytest.approx(1, abs=1e-4)
    assert advantage["a_2_0"] == advantage["a_2_1"]
    assert all(math.isfinite(v) for v in advantage.values())


def test_a_lost_rollout_is_left_out_and_a_lost_group_is_a_failure(line):
    service = FakeService()
    service.lost = {("a", 1), ("b", 0), ("b", 1)}
    service.failed = {"c": "no sandbox"}
    handed_over(line(service), ["a", "b", "c", "d"])
    tags = tq.kv_list("train")["train"]
    assert {u: tags[u]["status"] for u in "abcd"} == {
        "a": "finished",
        "b": "failure",
        "c": "failure",
        "d": "finished",
    }
    assert all(tags[u]["is_prompt"] and tags[u]["global_steps"] == 5 for u in "abcd"), "the tags were merged"
    assert sorted(k for k in tags if "_" in k) == ["a_0_0", "a_2_0", "d_0_0", "d_1_0", "d_2_0"]
    meta, _ = buffer(ReplayBufferAsync, "separate_async", refill_fn=lambda n: None).sample(
        global_steps=5, partition_id="train", batch_size=2
    )
    assert {k.split("_")[0] for k in meta.keys} == {"a", "d"}


def test_verls_dapo_filter_evicts_groups_whose_metric_does_not_vary(line):
    service = FakeService()
    manager = line(service)
    refills = []

    def refill(count: int) -> None:
        names = [f"r{len(refills)}x{i}" for i in range(count)]
        refills.append(names)
        service.flat = set()
        handed_over(manager, names)

    plain = service.row
    service.flat = {"a"}
    service.row = lambda p, *rest: plain(p, *rest) | ({"acc": 1.0} if p.uid in service.flat else {})
    handed_over(manager, ["a", "b"])
    meta, metrics = buffer(
        filter_groups_metric="acc",
        refill_fn=refill,
        train_batch_size=2,
        gen_batch_size=1,
        max_inflight_gen_batches=2,
    ).sample(global_steps=5, partition_id="train", batch_size=2)
    uids = {k.split("_")[0] for k in meta.keys}
    assert "a" not in uids
    assert len(uids) == 2
    assert metrics["training/filter_groups/evicted_samples"] == 1
    assert refills


def test_validation_asks_for_its_own_group_size_in_its_own_partition(line):
    service = FakeService()
    manager = line(service, "actor_rollout_ref.rollout.val_kwargs.n=2")
    handed_over(manager, ["a"], validate=True)
    meta, _ = buffer().sample(global_steps=5, partition_id="val", batch_size=1)
    assert sorted(meta.keys) == ["a_0_0", "a_1_0"]
    assert service.requests[0][1][0].validate
    assert service.policies[0][0] == 5


def test_an_error_of_the_service_closes_every_group_and_is_raised_by_the_next_call(line):
    service = FakeService()
    service.error = ConnectionError("gone")
    manager = line(service)
    handed_over(manager, ["a", "b"])
    tags = tq.kv_list("train")["train"]
    assert (tags["a"]["status"], tags["b"]["status"]) == ("failure", "finished")
    with pytest.raises(ConnectionError, match="gone"):
        submit(manager, ["c"])
    service.error = None
    handed_over(manager, ["d"])
    assert tq.kv_list("train")["train"]["d"]["status"] == "finished"


def test_a_repeated_uid_is_asked_for_again(line):
    service = FakeService()
    service.failed = {"a": "first time"}
    manager = line(service)
    handed_over(manager, ["a"])
    service.failed = {}
    handed_over(manager, ["a"])
    tags = tq.kv_list("train")["train"]
    assert tags["a"]["status"] == "finished"
    assert len(service.requests) == 2
