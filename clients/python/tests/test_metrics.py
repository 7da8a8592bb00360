"""Reward parts, ages and counts as trackers get them, and the dump layout."""

import json
import sys
import types

import grpc
import numpy as np
import pytest
from conftest import Servicer, encode, group, row
from fake_service import FakeService

from verigraph import Batch, Unavailable, dump, metrics
from verigraph.requests import Policy
from verigraph.verl.step import Stepper


def batch(**changes) -> Batch:
    rows = [
        row(reward=1.0, r_process=0.5, num_turns=2, policy_version_min=3, grounding_structural=0.5),
        row(session_id=1, reward=0.0, r_process=0.0, num_turns=4, policy_version_min=5),
        row(session_id=1, output_idx=1, reward=0.0, num_turns=4, policy_version_min=5),
        row(session_id=2, reward=9.0, reward_status="lost", loss_valid=False, response_mask=[0] * 5),
    ]
    return Batch(1, encode([r | changes for r in rows]))


def test_statistics_count_a_rollout_once_and_leave_out_those_without_a_reward():
    got = metrics.batch_metrics(batch(), policy_version=6)
    assert got["reward/reward/mean"] == 0.5
    assert got["reward/reward/max"] == 1.0
    assert got["reward/process/std"] == 0.25
    assert got["rollout/turns/mean"] == 3.0
    assert got["grounding/structural/mean"] == 0.5
    assert "grounding/replayed/mean" not in got
    assert (got["age/mean"], got["age/max"]) == (2.0, 3.0)
    assert (got["rollout/valid"], got["rollout/lost"]) == (2.0, 1.0)
    assert all(np.isfinite(v) for v in got.values())
    lost = metrics.batch_metrics(batch(reward_status="lost"))
    assert lost == {"rollout/valid": 0.0, "rollout/lost": 3.0}


def test_the_ledger_becomes_scalars():
    got = metrics.status_metrics(FakeService().status())
    assert got["ledger/filtered"] == 2.0
    assert got["ledger/batches_waiting"] == 2.0
    assert {k: v for k, v in got.items() if not k.startswith("ledger/")} == {
        "rollout/filtered/acc_1.00": 2.0,
        "rollout/stale/by_restore": 3.0,
        "age/batches/0": 4.0,
        "age/batches/2": 1.0,
    }
    assert len(got) == 17


def test_a_step_is_not_lost_for_want_of_its_statistics(caplog):
    service, seen = FakeService(), []
    stepper = Stepper(None, service, Policy(service), track=lambda values, step: seen.append((step, values)))
    stepper.track_run(4)
    service.status = lambda: (_ for _ in ()).throw(Unavailable(grpc.StatusCode.UNAVAILABLE, "gone"))
    stepper.track_run(5)
    assert [step for step, _ in seen] == [4]
    assert seen[0][1]["rollout/filtered/acc_1.00"] == 2.0
    assert "step 5: no statistics of the run: UNAVAILABLE: gone" in caplog.text


def test_trackers_are_used_only_when_the_program_uses_them(monkeypatch):
    sent = []
    wandb = types.SimpleNamespace(
        run=None, log=lambda values, step, commit: sent.append(("wandb", values, step, commit))
    )
    mlflow = types.SimpleNamespace(
        active_run=lambda: None, log_metrics=lambda values, step: sent.append(("mlflow", values, step))
    )
    for name in ("wandb", "mlflow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert metrics.log({"a": 1.0}, 3) == []
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    assert metrics.log({"a": 1.0}, 3) == []
    wandb.run, mlflow.active_run = object(), object
    assert metrics.log({"a": 1.0}, 3) == ["wandb", "mlflow"]
    assert sent == [("wandb", {"a": 1.0}, 3, False), ("mlflow", {"a": 1.0}, 3)]


MESSAGES = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "ü?"},
    {"role": "assistant", "content": "a"},
    {"role": "user", "content": "t"},
]


def test_a_dump_has_verls_keys_one_line_per_rollout_and_plain_json(tmp_path):
    data = encode([r | {"messages_json": json.dumps(MESSAGES)} for r in group()])
    (tmp_path / "b.parquet").write_bytes(data)
    assert dump.main([str(tmp_path / "b.parquet"), "--out", str(tmp_path / "d")]) == 0
    assert [p.name for p in (tmp_path / "d").iterdir()] == ["1.jsonl"]
    lines = [json.loads(t) for t in (tmp_path / "d" / "1.jsonl").read_text("utf-8").splitlines()]
    assert len(lines) == 2
    for line in lines:
        assert list(line)[:5] == ["input", "output", "gts", "score", "step"]
        assert line["input"] == "system\ns\nuser\nü?"
        assert line["output"] == "assistant\na\nuser\nt"
        assert (line["score"], line["step"], line["acc"]) == (0.5, 1, 0.0)


def test_a_dump_reads_a_feed_with_a_cursor_of_its_own_and_acknowledges_nothing(serve, tmp_path):
    servicer = Servicer([encode(group()), encode(group())])
    assert dump.main(["--feed", serve(servicer), "--out", str(tmp_path)]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1.jsonl", "2.jsonl"]
    assert servicer.requests[0].cursor == "dump"
    assert not servicer.acks


def test_a_dump_says_what_went_wrong(tmp_path, capsys):
    assert dump.main([str(tmp_path / "none.parquet"), "--out", str(tmp_path)]) == 1
    assert "none.parquet" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        dump.main(["--out", str(tmp_path)])
    assert caught.value.code == 2
