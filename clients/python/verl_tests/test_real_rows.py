"""Rows of a real run through verl's own code: overlong rule, GRPO, fallback loop, dataset, dump viewer."""

import asyncio
import json
import os
from importlib import resources
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import objects, trainer_config, verls_overlong
from fake_service import FakeService
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.ray_trainer import compute_advantage

from verigraph import dump
from verigraph.requests import RolloutsFailed
from verigraph.verl import RemoteAgentLoop


def test_verls_grpo_gives_finite_advantages_to_the_rows_of_a_real_run(real_batch):
    arrays = real_batch.to_arrays()
    proto = DataProto.from_dict(
        tensors={k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in arrays.items()}
        | {"token_level_rewards": torch.from_numpy(arrays["rm_scores"])},
        non_tensors={"uid": objects(real_batch.column("uid").tolist())},
    )
    done = compute_advantage(proto, adv_estimator=core_algos.AdvantageEstimator.GRPO)
    advantages, mask = done.batch["advantages"], done.batch["response_mask"]
    assert torch.isfinite(advantages).all()
    assert (advantages[mask == 0] == 0).all()
    assert advantages.abs().max() > 0.1


def test_our_overlong_reward_is_verls(real_batch):
    assert real_batch.metadata["overlong_owner"] == "reward"
    shaped = real_batch.column("overlong_reward")
    assert (shaped < 0).any()
    assert (shaped == 0).any()
    arrays = real_batch.to_arrays()
    batch = DataProto.from_dict(
        tensors={
            k: torch.from_numpy(np.ascontiguousarray(arrays[k])) for k in ("responses", "attention_mask")
        }
    )
    assert verls_overlong(batch, 1000, 400) == pytest.approx(shaped.tolist(), abs=1e-6)
    assert real_batch.column("reward") == pytest.approx(real_batch.column("seq_reward") + shaped, abs=1e-6)


class Loop(RemoteAgentLoop):
    """RemoteAgentLoop without verl's constructor, which wants a tokenizer of a known model."""

    def __init__(self, config, service):
        self.config, self.service = config, service
        self.server_manager = SimpleNamespace(_load_balancer=None)


def test_the_fallback_loop_returns_verls_output_and_asks_again_for_a_lost_rollout():
    config = trainer_config("RemoteRolloutManager", "+remote_rollout.servers=[s:1]")
    service = FakeService()
    row = {"uid": "u_1", "raw_prompt": [{"role": "user", "content": "q"}], "global_steps": 3}
    output = asyncio.run(Loop(config, service).run({}, **row))
    assert (output.response_ids, output.response_mask) == ([1000, 1001], [0, 1])
    assert output.response_logprobs == [0.0, -0.5]
    assert output.reward_score == 0.0
    as_dict = output.as_dict()
    assert as_dict["rm_scores"].tolist() == [0.0, 0.0]
    assert as_dict["extra_fields"]["reward_extra_info"]["seq_final_reward"] == 0.0
    assert as_dict["extra_fields"]["min_global_steps"] == 2
    assert as_dict["num_turns"] == 1
    uid = service.requests[0][1][0].uid
    assert uid.startswith("u-1-")
    answers = iter([True, False])
    plain = service.request_groups

    def flaky(prompts, *, step):
        if next(answers):
            service.failed = {prompts[0].uid: "lost"}
        yield from plain(prompts, step=step)

    service.request_groups = flaky
    assert asyncio.run(Loop(config, service).run({}, **row)).response_ids == [1000, 1001]
    service.request_groups = plain
    service.request_groups = lambda prompts, *, step: iter(())
    with pytest.raises(RolloutsFailed):
        asyncio.run(Loop(config, service).run({}, **row))


def test_the_fallback_loop_is_registered_by_the_shipped_file():
    entries = OmegaConf.load(resources.files("verigraph.verl") / "agent_loop.yaml")
    assert [dict(e) for e in entries] == [{"name": "verigraph", "_target_": "verigraph.verl.RemoteAgentLoop"}]
    from hydra.utils import get_class

    assert get_class(entries[0]["_target_"]) is RemoteAgentLoop


def test_verls_dataset_reads_the_parquet_of_our_import(tmp_path):
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast
    from verl.utils.dataset.rl_dataset import RLHFDataset

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_file(os.environ["VERIGRAPH_TOKENIZER"])
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    config = OmegaConf.create(
        {
            "cache_dir": str(tmp_path),
            "max_prompt_length": 4096,
            "filter_overlong_prompts": True,
            "filter_overlong_prompts_workers": 1,
        }
    )
    data = RLHFDataset(os.environ["VERIGRAPH_PROMPTS"], tokenizer, config)
    assert len(data) == 3
    row = data[0]
    from verigraph.verl.prompts import requested

    got = requested(row, uid="u", rollouts=2)
    assert got.data_source == "dabench"
    assert got.answers
    assert got.files
    assert got.question in row["raw_prompt"][-1]["content"]


def test_verls_viewer_layout_is_what_the_dump_writes(real_batch, tmp_path):
    path = dump.write(real_batch, tmp_path, step=7)
    assert path.name == "7.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    want = {"input", "output", "gts", "score", "step"}  # RayPPOTrainer._dump_generations
    assert all(want <= set(line) for line in lines)
    assert all(line["step"] == 7 and "<code_interpreter>" in line["output"] for line in lines)
    assert sorted(lines, key=lambda line: line["score"], reverse=True)


def test_reward_parts_reach_wandb_and_mlflow(real_batch, tmp_path, monkeypatch):
    import mlflow
    import wandb

    from verigraph import metrics

    values = metrics.batch_metrics(real_batch, policy_version=1)
    monkeypatch.setenv("WANDB_MODE", "offline")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    run = wandb.init(dir=tmp_path, project="t", settings=wandb.Settings(console="off"))
    with mlflow.start_run() as active:
        assert metrics.log(values, 3) == ["wandb", "mlflow"]
    run.log({"trainer": 1.0}, step=3)
    run.finish()
    wandb.teardown()  # its service has written everything only when it has ended
    written = b"".join(f.read_bytes() for f in tmp_path.glob("wandb/offline-run-*/*.wandb"))
    for name in values:
        assert name.encode() in written, name
    assert repr(values["reward/reward/mean"]).encode() in written
    stored = mlflow.MlflowClient().get_run(active.info.run_id).data.metrics
    assert stored["age/max"] == values["age/max"]
