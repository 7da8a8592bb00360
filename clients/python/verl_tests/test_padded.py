"""RemoteRolloutManager in the legacy trainer's own steps: build, union, reward, GRPO, loss, metrics."""

import asyncio
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import SERVERS, Replica, batch_of, created, trainer_config, version
from fake_service import FakeService
from verl import DataProto
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.metric_utils import compute_data_metrics, process_validation_metrics
from verl.trainer.ppo.ray_trainer import RayPPOTrainer, compute_advantage
from verl.utils.import_utils import load_class_from_fqn

from verigraph import LengthError
from verigraph.requests import RolloutsFailed
from verigraph.verl import RemoteRolloutManager
from verigraph.verl.settings import SettingsError

TRAINER = ("trainer.use_v1=False",) if version() >= (0, 9) else ()

REWARD = "reward" if version() >= (0, 7, 1) else "reward_model"


def manager_of(service: FakeService, llm_client, *more: str) -> RemoteRolloutManager:
    """Loaded by name and created as the trainer does it."""
    config = trainer_config("RemoteRolloutManager", *TRAINER, *more)
    fqn = config.actor_rollout_ref.rollout.agent.agent_loop_manager_class
    cls = load_class_from_fqn(fqn, "AgentLoopManager")
    assert cls is RemoteRolloutManager
    manager = created(cls, config, llm_client)
    manager.service = service
    return manager


def generate(manager: RemoteRolloutManager, uids: list[str]) -> tuple[DataProto, DataProto]:
    """The trainer's steps around generation; returns the united batch and what was generated."""
    batch = batch_of(uids)
    step = dict(batch.meta_info)
    wanted = RayPPOTrainer._get_gen_batch(SimpleNamespace(async_rollout_mode=True), batch)
    wanted.meta_info = step
    output = manager.generate_sequences(wanted.repeat(repeat_times=3, interleave=True))
    timing = output.meta_info.pop("timing")
    assert timing["agent_loop/slowest/generate_sequences"] > 0
    return batch.repeat(repeat_times=3, interleave=True).union(output), output


def with_rewards(batch: DataProto) -> DataProto:
    """As in fit: token_level_rewards from rm_scores."""
    batch.batch["token_level_scores"] = batch.batch["rm_scores"]
    batch.batch["token_level_rewards"] = batch.batch["token_level_scores"]
    return batch


def test_the_trainer_unites_our_rows_with_its_batch_in_order(llm_client):
    service = FakeService()
    batch, output = generate(manager_of(service, llm_client), ["a", "b"])
    assert len(batch) == 6
    assert batch.non_tensor_batch["uid"].tolist() == ["a"] * 3 + ["b"] * 3
    assert batch.batch["responses"][:, 0].tolist() == [1000, 1010, 1020, 2000, 2010, 2020]
    for name, shape, dtype in (
        ("prompts", (6, 4), torch.int64),
        ("responses", (6, 8), torch.int64),
        ("response_mask", (6, 8), torch.int64),
        ("input_ids", (6, 12), torch.int64),
        ("attention_mask", (6, 12), torch.int64),
        ("position_ids", (6, 12), torch.int64),
        ("rollout_log_probs", (6, 8), torch.float32),
        ("rm_scores", (6, 8), torch.float32),
    ):
        assert tuple(batch.batch[name].shape) == shape, name
        assert batch.batch[name].dtype == dtype, name
    assert batch.non_tensor_batch["multi_modal_inputs"].tolist() == [{}] * 6
    assert all(type(v) is int for v in batch.non_tensor_batch["min_global_steps"])
    for key in output.meta_info["reward_extra_keys"]:
        assert np.isfinite(batch.non_tensor_batch[key]).all()


def test_policy_version_and_addresses_are_set_before_the_request_and_on_every_change(llm_client):
    service = FakeService()
    manager = manager_of(service, llm_client)
    generate(manager, ["a"])
    generate(manager, ["b"])
    assert len(service.policies) == 1
    version, endpoints, incarnation = service.policies[0]
    assert (version, sorted(endpoints)) == (4, SERVERS)
    assert incarnation
    step, prompts = service.requests[0]
    assert step == 5
    assert [(p.uid, p.rollouts, p.data_source, p.answers) for p in prompts] == [
        ("a", 3, "dabench", (("m", "1"),))
    ]
    assert prompts[0].question.startswith("Question a?")


def test_verls_grpo_gives_a_lost_row_no_weight_and_its_siblings_the_same_mean(llm_client):
    whole = with_rewards(generate(manager_of(FakeService(), llm_client), ["a", "b"])[0])
    service = FakeService()
    service.lost = {("a", 1)}
    holed = with_rewards(generate(manager_of(service, llm_client), ["a", "b"])[0])
    for batch in (whole, holed):
        done = compute_advantage(batch, adv_estimator=core_algos.AdvantageEstimator.GRPO)
        advantages = done.batch["advantages"]
        assert torch.isfinite(advantages).all()
        assert (advantages[done.batch["response_mask"] == 0] == 0).all()
        means = advantages.sum(1) / done.batch["response_mask"].sum(1).clamp(min=1)
        assert abs(means[:3].sum()) < 1e-5, "the advantages of a group sum to 0"
    assert holed.batch["response_mask"][1].sum() == 0
    assert (holed.batch["advantages"][1] == 0).all()


def test_verls_policy_loss_is_finite_and_blind_to_masked_tokens(llm_client):
    batch = with_rewards(generate(manager_of(FakeService(), llm_client), ["a", "b"])[0])
    batch = compute_advantage(batch, adv_estimator=core_algos.AdvantageEstimator.GRPO)
    old = batch.batch["rollout_log_probs"]
    new = (old + 0.1).requires_grad_()
    from verl.utils.config import omega_conf_to_dataclass

    actor = omega_conf_to_dataclass(
        trainer_config(
            "RemoteRolloutManager", *TRAINER, "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1"
        ).actor_rollout_ref.actor
    )
    mask = batch.batch["response_mask"]
    loss, *_ = core_algos.compute_policy_loss_vanilla(
        old, new, batch.batch["advantages"], mask, "token-mean", actor
    )
    assert math.isfinite(loss.item())
    loss.backward()
    assert (new.grad[mask == 0] == 0).all()
    assert (new.grad[mask == 1] != 0).any()


def test_verls_metrics_read_our_rows(llm_client):
    batch = with_rewards(generate(manager_of(FakeService(), llm_client), ["a", "b"])[0])
    batch = compute_advantage(batch, adv_estimator=core_algos.AdvantageEstimator.GRPO)
    got = compute_data_metrics(batch, use_critic=False)
    assert got["critic/score/mean"] == pytest.approx(1.0)
    assert got["num_turns/max"] == 3
    assert got["response_length/max"] == 4
    assert got["tool_call_counts/max"] == 2


def test_verls_validation_metrics_take_the_reward_parts(llm_client):
    batch, output = generate(manager_of(FakeService(), llm_client), ["a", "b"])
    infos = {k: batch.non_tensor_batch[k].tolist() for k in output.meta_info["reward_extra_keys"]}
    got = process_validation_metrics(["dabench"] * 6, batch.non_tensor_batch["uid"].tolist(), infos)
    assert got["dabench"]["acc"]["mean@3"] == pytest.approx(1 / 3)


@pytest.mark.skipif(version() >= (0, 7, 1), reason="from 0.7.1 on the trainer syncs weights itself")
def test_weights_are_synced_around_every_generation(llm_client):
    generate(manager_of(FakeService(), llm_client), ["a"])
    assert [r.calls[-2:] for r in Replica.started] == [["wake_up", "sleep"]] * 2


@pytest.mark.skipif(version() < (0, 7, 1), reason="0.7.0 has synchronous managers only")
def test_the_manager_can_be_awaited_and_leaves_the_loop_free(llm_client):
    manager = manager_of(FakeService(), llm_client)
    manager.stepper  # noqa: B018 - connects here, where Ray may block
    wanted = batch_of(["a"]).repeat(repeat_times=3, interleave=True)

    async def run():
        ticks = 0
        task = asyncio.create_task(_awaited(manager, wanted))
        while not task.done():
            await asyncio.sleep(0)
            ticks += 1
        return await task, ticks

    output, ticks = asyncio.run(run())
    assert len(output) == 3
    assert ticks > 1


async def _awaited(manager, wanted):
    return await manager.generate_sequences(wanted)


def test_a_batch_without_uid_is_grouped_by_row_order(llm_client):
    manager = manager_of(FakeService(), llm_client)
    wanted = batch_of(["a", "b"])
    wanted.pop(non_tensor_batch_keys=["uid"])
    output = manager.generate_sequences(wanted.repeat(repeat_times=3, interleave=True))
    assert output.batch["responses"][:, 0].tolist() == [1000, 1010, 1020, 2000, 2010, 2020]
    with pytest.raises(SettingsError, match=r"no multiple of rollout\.n"):
        manager.generate_sequences(wanted)


def test_impossible_contracts_stop_with_the_setting_to_change(llm_client):
    cases = [
        (FakeService(), ["a_0"], (), SettingsError, "underscore"),
        (FakeService({"overlong_owner": "reward"}), ["a"], ("overlong",), SettingsError, "two owners"),
        (
            FakeService(),
            ["a"],
            ("actor_rollout_ref.rollout.response_length=2",),
            LengthError,
            "response_length is 2",
        ),
        (
            FakeService({"temperature": "1"}),
            ["a"],
            ("actor_rollout_ref.rollout.temperature=0.5",),
            SettingsError,
            "temperature",
        ),
    ]
    several = FakeService()
    several.segments = 2
    cases.append((several, ["a"], (), SettingsError, "compress"))
    failed = FakeService()
    failed.failed = {"a": "no sandbox"}
    cases.append((failed, ["a"], (), RolloutsFailed, "no sandbox"))
    for service, uids, more, kind, words in cases:
        overrides = []
        for m in more:
            overrides += (
                [f"+{REWARD}.reward_kwargs.overlong_buffer_cfg.enable=True"] if m == "overlong" else [m]
            )
        manager = manager_of(service, llm_client, *overrides)
        with pytest.raises(kind, match=words):
            generate(manager, uids)


def test_an_estimator_that_stops_at_observations_is_refused(llm_client):
    manager = manager_of(FakeService(), llm_client, "algorithm.adv_estimator=reinforce_plus_plus")
    if version() < (0, 9):
        with pytest.raises(SettingsError, match="before an observation"):
            generate(manager, ["a"])
        return
    rewards, mask = torch.tensor([[0.0, 0.0, 0.0, 2.0]]), torch.tensor([[1, 0, 0, 1]])
    _, returns = core_algos.compute_reinforce_plus_plus_outcome_advantage(
        rewards, mask, config=SimpleNamespace(gamma=0.5)
    )
    assert returns.tolist() == [[1.0, 0.0, 0.0, 2.0]]
    assert len(generate(manager, ["a"])[0]) == 3


def test_a_reward_model_beside_our_rewards_is_refused(llm_client):
    manager = manager_of(
        FakeService(),
        llm_client,
        "reward.reward_model.enable=True" if version() >= (0, 7, 1) else "reward_model.enable=True",
    )
    with pytest.raises(SettingsError, match="rewards come with the rollouts"):
        generate(manager, ["a"])
