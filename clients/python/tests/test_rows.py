"""What the verl adapters do without verl: order, counts, lost rollouts, settings, prompts."""

import json
import pickle

import grpc
import numpy as np
import pyarrow as pa
import pytest
from fake_service import FakeService

from verigraph import CheckError, InvalidArgument, LengthError
from verigraph.requests import GREEDY, Policy, RequestedPrompt, RolloutsFailed, Sampling
from verigraph.verl import rows, servers
from verigraph.verl.prompts import requested
from verigraph.verl.settings import Settings, SettingsError, get


def settings(**changes) -> Settings:
    known = {
        "endpoint": "x:1",
        "token": None,
        "tls": None,
        "servers": ("s:1",),
        "prompt_length": 4,
        "response_length": 8,
        "group_size": 3,
        "val_group_size": 1,
        "sampling": Sampling(1.0, 1.0, -1),
        "val_sampling": Sampling(0.0, 1.0, -1),
        "trainer_overlong": False,
        "min_valid": 2,
    }
    return Settings(**(known | changes))


def ask(service: FakeService, *uids: str, rollouts: int = 3) -> dict:
    wanted = [RequestedPrompt(uid=u, prompt_id=u, question="?", rollouts=rollouts) for u in uids]
    return {r.uid: r for r in service.request_groups(wanted, step=1)}


UIDS = ["a", "a", "a", "b", "b", "b"]


def test_rows_leave_in_the_order_of_the_request_whatever_came_first():
    order = ["b", "a", "a", "b", "a", "b"]
    table = rows.arrange(ask(FakeService(), "a", "b"), order, 99, 7)
    assert table["uid"].to_pylist() == order
    assert table["session_id"].to_pylist() == [0, 0, 1, 1, 2, 2]
    arrays = rows.padded(table, settings(), 99)
    assert arrays["responses"][:, 0].tolist() == [2000, 1000, 1010, 2010, 1020, 2020]
    assert arrays["prompts"].tolist()[:2] == [[99, 99, 101, 101], [99, 99, 99, 100]]
    assert arrays["rm_scores"].sum(axis=1).tolist() == [0, 0, 1, 1, 2, 2]


def test_a_lost_rollout_becomes_a_masked_row_that_does_not_move_the_baseline():
    service = FakeService()
    service.lost = {("a", 1)}
    table = rows.arrange(ask(service, "a", "b"), UIDS, 99, 7)
    arrays = rows.padded(table, settings(), 99)
    assert table.num_rows == 6
    assert arrays["response_mask"].sum(axis=1).tolist() == [1, 0, 3, 1, 2, 3]
    assert arrays["rm_scores"].sum(axis=1).tolist() == [0, 1, 2, 0, 1, 2]
    valid = arrays["rm_scores"].sum(axis=1)[[0, 2]]
    assert arrays["rm_scores"].sum(axis=1)[:3].mean() == valid.mean()
    assert arrays["rollout_log_probs"][1].tolist() == [0.0] * 8
    assert arrays["prompts"][1].tolist() == arrays["prompts"][0].tolist()
    assert table["policy_version_min"].to_pylist()[1] == 7
    assert table["reward_status"].to_pylist()[:3] == ["ok", "lost", "ok"]
    assert rows.table_metrics(table, 7)["rollout/lost"] == 1.0


def test_a_group_that_is_lost_whole_is_masked_and_all_lost_groups_stop_the_step():
    service = FakeService()
    service.failed = {"a": "set aside after 3 attempts"}
    table = rows.arrange(ask(service, "a", "b"), UIDS, 99, 7)
    arrays = rows.padded(table, settings(), 99)
    assert arrays["response_mask"][:3].sum() == 0
    assert arrays["rm_scores"][:3].sum() == 0
    service.failed["b"] = "no sandbox"
    with pytest.raises(RolloutsFailed, match="none of 2 groups was delivered; first: b: no sandbox"):
        rows.arrange(ask(service, "a", "b"), UIDS, 99, 7)


def test_rows_that_are_asked_for_again_as_padding_get_samples_of_their_own():
    uids = ["a", "b", "a"]
    assert rows.sessions(uids).tolist() == [0, 0, 1]
    table = rows.arrange(ask(FakeService(), "a", "b", rollouts=2), uids, 99, 0)
    assert table["session_id"].to_pylist() == [0, 0, 1]


def test_several_rows_of_a_rollout_are_refused_with_the_setting_to_change():
    service = FakeService()
    service.segments = 2
    with pytest.raises(SettingsError, match=r"run/b/0 has several rows.*switch the service's compress off"):
        rows.arrange(ask(service, "a", "b"), UIDS, 99, 7)


def test_over_length_rows_are_refused_and_never_cut():
    table = rows.arrange(ask(FakeService(), "a", "b"), UIDS, 99, 7)
    with pytest.raises(LengthError, match="response of 4 ids, response_length is 3"):
        rows.padded(table, settings(response_length=3), 99)
    with pytest.raises(LengthError, match="prompt of 2 ids, prompt_length is 1"):
        rows.padded(table, settings(prompt_length=1), 99)


def test_reward_parts_are_dense_and_timing_has_the_slowest_rollout():
    service = FakeService()
    service.lost = {("b", 2)}
    table = rows.arrange(ask(service, "a", "b"), UIDS, 99, 7)
    extras = rows.extras(table)
    assert set(extras) >= {"acc", "score", "seq_reward", "seq_final_reward", "r_process"}
    for values in extras.values():
        assert values.dtype == np.float64
        assert values.shape == (6,)
        assert np.isfinite(values).all()
    timing = rows.timing(table)
    assert timing["agent_loop/generate_sequences/max"] == 3.0
    assert timing["agent_loop/slowest/generate_sequences"] == 3.0
    assert timing["agent_loop/slowest/response_length"] == 4.0
    assert timing["agent_loop/tool_calls/min"] == 0.0
    assert isinstance(table["policy_version_min"].to_pylist()[0], int)
    assert table.schema.field("policy_version_max").type == pa.int64()


@pytest.mark.parametrize("uid", ["", "a_0", "_"])
def test_a_uid_with_an_underscore_is_refused(uid):
    with pytest.raises(SettingsError, match="verl splits keys"):
        requested({"raw_prompt": [{"role": "user", "content": "q"}]}, uid=uid, rollouts=1)


def test_a_prompt_of_our_import_comes_back_as_it_was():
    task = {"id": "7", "question": "Q?", "answer": [["a", "1"], ["b", "x [y]"]], "meta": {"k": "ü"}}
    extra = {
        "task_json": json.dumps(task),
        "files_json": '[{"name": "t.csv", "sha256": "ab", "size": 3}]',
        "index": 0,
    }
    row = {"extra_info": extra, "data_source": "d", "__do_sample__": False}
    got = requested(row, uid="u", rollouts=2, validate=True, sampling=Sampling(0.6))
    assert (got.prompt_id, got.question, got.data_source) == ("7", "Q?", "d")
    assert got.answers == (("a", "1"), ("b", "x [y]"))
    assert got.files[0].name == "t.csv"
    assert got.sampling == Sampling(0.6)
    assert got.validate
    assert requested(row, uid="u", rollouts=2, sampling=Sampling(0.6)).sampling == GREEDY, "one baseline row"
    assert json.loads(got.meta_json) == {"k": "ü"}
    task["answer"] = {"text": "free"}
    extra["task_json"] = json.dumps(task)
    assert requested({"extra_info": extra}, uid="u", rollouts=1).answer_text == "free"


def test_a_prompt_of_another_dataset_is_its_user_message_and_ground_truth():
    row = {
        "raw_prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "Q?"}],
        "reward_model": {"style": "rule", "ground_truth": "@a[[1, 2]] and @b[x]"},
        "extra_info": {"index": 3},
    }
    got = requested(row, uid="u", rollouts=1)
    assert (got.prompt_id, got.answers) == ("3", (("a", "[1, 2]"), ("b", "x")))
    assert got.question == "Q?\n\nState the answers as @a[value], @b[value]."
    row["reward_model"] = {"style": "rule", "ground_truth": 5}
    assert requested(row, uid="u", rollouts=1).answers == (("answer", "5"),)
    row["reward_model"] = {"style": "llm_judge", "ground_truth": "text"}
    assert requested(row, uid="u", rollouts=1).answer_text == "text"
    assert requested(row, uid="u", rollouts=1).question == "Q?"
    row["reward_model"] = {"style": "rule", "ground_truth": "@a[1"}
    with pytest.raises(SettingsError, match="never closed"):
        requested(row, uid="u", rollouts=1)
    row["reward_model"] = {}
    row["raw_prompt"] = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    with pytest.raises(SettingsError, match="exactly one user message"):
        requested(row, uid="u", rollouts=1)


CONFIG = {
    "remote_rollout": {"endpoint": "h:1", "servers": ["s:1"]},
    "actor_rollout_ref": {
        "rollout": {"prompt_length": 4, "response_length": 8, "n": 3, "temperature": 0.7, "val_kwargs": {"n": 2}}
    },
}


def test_settings_are_read_from_the_trainers_configuration():
    block = CONFIG["remote_rollout"] | {"token_env": "T"}
    got = Settings.of(CONFIG | {"remote_rollout": block}, env={"T": "secret"})
    assert (got.endpoint, got.token, got.servers) == ("h:1", "secret", ("s:1",))
    assert (got.group_size, got.val_group_size) == (3, 2)
    assert got.sampling_of(validate=False) == Sampling(0.7, 1.0, -1)
    assert got.sampling_of(validate=True) == GREEDY, "verl's default validation"
    assert not got.trainer_overlong
    assert get(CONFIG, "a.b.c", 5) == 5


def test_credentials_come_from_files_and_are_not_printed(tmp_path):
    for name in ("token", "ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).write_text(f" secret of {name}\n")
    files = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}
    block = {"endpoint": "h:1", "token_file": str(tmp_path / "token"), **files}
    got = Settings.of(CONFIG | {"remote_rollout": block}, env={"VERIGRAPH_TOKEN": "other"})
    assert (got.token, got.tls) == ("secret of token", files)
    assert "secret" not in repr(got)
    assert Settings.of(CONFIG | {"remote_rollout": {"endpoint": "h:1", "tls": True}}, env={}).tls == {}
    assert Settings.of(CONFIG, env={"T": "t"}).tls is None


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"token": "x"}, "would be logged"),
        ({"token_file": "/nowhere"}, "token_file: /nowhere: No such file"),
        ({"token_env": "T"}, "T is not in the environment"),
        ({"ca": "/nowhere"}, "remote_rollout.ca: /nowhere"),
        ({"cert": __file__}, "go together"),
    ],
)
def test_credentials_that_are_not_there_are_named(block, words):
    with pytest.raises(SettingsError, match=words):
        Settings.of(CONFIG | {"remote_rollout": {"endpoint": "h:1", **block}}, env={})


def test_impossible_settings_are_all_named():
    broken = {
        "reward_model": {"enable": True},
        "algorithm": {"adv_estimator": "remax"},
        "actor_rollout_ref": {"rollout": {"response_length": 8}},
    }
    with pytest.raises(SettingsError) as caught:
        Settings.of(broken)
    assert len(caught.value.problems) == 4
    assert "remote_rollout.endpoint" in str(caught.value)
    assert "prompt_length must be positive" in str(caught.value)


@pytest.mark.parametrize(
    ("metadata", "trainer", "words"),
    [
        ({"overlong_owner": "reward", "temperature": "1"}, True, "has two owners"),
        ({"overlong_owner": "trainer", "temperature": "1"}, True, "has no owner"),
        ({"overlong_owner": "none", "temperature": "0.7"}, False, "sampled at temperature 0.7, 1 was asked for"),
        ({"overlong_owner": "none"}, False, "sampled at temperature nan"),
    ],
)
def test_what_the_rows_say_is_compared_with_the_trainers_settings(metadata, trainer, words):
    with pytest.raises(SettingsError, match=words):
        settings(trainer_overlong=trainer).check_metadata(metadata, Sampling(1.0))
    settings().check_metadata({"overlong_owner": "reward", "temperature": "0"}, GREEDY)
    settings().check_metadata({"overlong_owner": "reward", "temperature": "0.3"}, Sampling())


@pytest.mark.parametrize("path", ["reward", "reward_model"])
def test_overlong_shaping_of_the_trainer_is_seen_in_every_version(path):
    config = CONFIG | {path: {"reward_kwargs": {"overlong_buffer_cfg": {"enable": True}}}}
    assert Settings.of(config, env={}).trainer_overlong


def test_the_policy_is_set_on_every_change_and_only_then():
    service = FakeService()
    policy = Policy(service, incarnation=3)
    for version, endpoints in [(0, ["a"]), (0, ["a"]), (1, ["a"]), (1, ["a", "b"]), (1, ["a", "b"]), (0, ["a", "b"])]:
        policy.update(version, endpoints)
    assert service.policies == [(0, ["a"], 3), (1, ["a"], 3), (1, ["a", "b"], 3)]


def test_a_version_that_is_not_known_stays_as_it_is():
    service = FakeService()
    service.version = 7
    policy = Policy(service)
    policy.update(None, ["a"]).update(None, ["a"]).update(None, ["b"]).update(9, ["b"]).update(None, ["c"])
    assert service.policies == [(7, ["a"], 0), (7, ["b"], 0), (9, ["b"], 0), (9, ["c"], 0)]


def test_another_process_of_the_trainer_may_be_ahead():
    service = FakeService()
    service.version = 6

    def refuse(version, endpoints, *, incarnation):
        if version < service.version:
            raise InvalidArgument(grpc.StatusCode.INVALID_ARGUMENT, f"policy version {version} after 6")
        raise InvalidArgument(grpc.StatusCode.INVALID_ARGUMENT, "endpoint matches no pattern")

    service.set_policy = refuse
    policy = Policy(service)
    policy.update(5, ["a"])
    policy.update(6, ["a"])  # which the other one stated
    with pytest.raises(InvalidArgument, match="matches no pattern"):
        policy.update(7, ["a"])


@pytest.mark.parametrize(
    "error",
    [
        InvalidArgument(grpc.StatusCode.INVALID_ARGUMENT, "d"),
        CheckError(3, ["a", "b"]),
        LengthError("long"),
        RolloutsFailed({"u": "lost"}),
        SettingsError(["a", "b"]),
    ],
)
def test_errors_survive_the_way_from_a_ray_worker_to_the_trainer(error):
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("step", "validate", "version"), [(1, False, 0), (5, False, 4), (5, True, 5), (0, True, 0), (-1, False, 0)]
)
def test_a_step_samples_from_the_version_before_it(step, validate, version):
    assert servers.version(step, validate) == version


def test_without_servers_the_message_says_what_to_set():
    with pytest.raises(SettingsError, match=r"remote_rollout\.servers"):
        servers.addresses(object(), settings(servers=()))
    manager = type("M", (), {"server_addresses": ["x:1"]})()
    assert servers.addresses(manager, settings(servers=())) == ["x:1"]


def test_an_incarnation_is_configured_or_the_time_of_the_start():
    from verigraph.verl.step import incarnation

    assert incarnation({"remote_rollout": {"incarnation": 7}}) == 7
    first = incarnation({})
    assert first > 1_600_000_000_000
    assert incarnation({}) >= first
