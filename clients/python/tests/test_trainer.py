"""The trainer command, in process, against a real gRPC server."""

import json

import pytest
from conftest import Servicer, encode, group

from verigraph import dump, trainer


def test_every_batch_is_checked_padded_and_acknowledged(serve, tmp_path, capsys):
    servicer = Servicer([encode(group()), encode(group())])
    report = tmp_path / "report.json"
    assert trainer.main(["--feed", serve(servicer), "--json", str(report)]) == 0
    assert [(a.sequence, a.trainer_step) for a in servicer.acks] == [(1, 1), (2, 2)]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("batch 1: 1 groups, 2 rollouts, input_ids [3, 24], 12 sampled tokens")
    assert lines[2].startswith("total: 2 batches, 2 groups, 4 rollouts, 6 rows, 24 sampled tokens")
    got = json.loads(report.read_text())
    assert (got["batches"], got["rows"], got["acknowledged"], got["failure"]) == (2, 6, 2, None)


def test_the_mean_reward_counts_every_rollout_once():
    rows = group()
    rows[0]["reward"], rows[1]["reward"], rows[2]["reward"] = 1.0, 0.0, 0.0
    line = trainer.consume(trainer.Batch(1, encode(rows)), None, None)
    assert line["reward_mean"] == 0.5


def test_a_failed_check_ends_with_1_and_acknowledges_nothing_after_it(serve, tmp_path, capsys):
    bad = group()
    bad[1] |= {"uid": "a_0"}
    servicer = Servicer([encode(group()), encode(bad), encode(group())])
    report = tmp_path / "report.json"
    assert trainer.main(["--feed", serve(servicer), "--json", str(report)]) == 1
    assert [a.sequence for a in servicer.acks] == [1]
    assert "CheckError: batch 2:" in capsys.readouterr().err
    assert json.loads(report.read_text())["failure"].startswith("CheckError: batch 2:")


def test_the_feed_and_token_come_from_the_environment(serve, monkeypatch, capsys):
    address = serve(Servicer([encode(group())], token="s3cret"))
    monkeypatch.setenv("VERIGRAPH_FEED", address)
    monkeypatch.setenv("VERIGRAPH_TOKEN", "s3cret")
    assert trainer.main([]) == 0
    monkeypatch.setenv("VERIGRAPH_TOKEN", "other")
    assert trainer.main([]) == 1
    assert "s3cret" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("args", [[], ["--feed", "x:1", "--prompt-length", "0"], ["--feed", "x:1", "--what"]])
def test_wrong_usage_ends_with_2(args, monkeypatch, capsys):
    monkeypatch.delenv("VERIGRAPH_FEED", raising=False)
    with pytest.raises(SystemExit) as caught:
        trainer.main(args)
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (["--token-env", "NO_SUCH"], "--token-env: NO_SUCH is not in the environment"),
        (["--token-file", "/no/such"], "--token-file: /no/such: No such file"),
        (["--token-file", "EMPTY"], "is empty"),
        (["--ca", "/no/such.pem"], "--ca: /no/such.pem is no file that can be read"),
        (["--key", "EMPTY"], "--cert and --key go together"),
    ],
)
@pytest.mark.parametrize("command", [trainer, dump])
def test_a_wrong_connection_flag_is_named_before_anything_is_called(command, flags, what, tmp_path, capsys):
    empty = tmp_path / "empty"
    empty.write_text("\n")
    flags = [str(empty) if f == "EMPTY" else f for f in flags]
    out = ["--out", str(tmp_path / "out")] if command is dump else []
    with pytest.raises(SystemExit) as caught:
        command.main(["--feed", "127.0.0.1:1", *out, *flags])
    assert caught.value.code == 2
    assert what in capsys.readouterr().err
