"""Every promise of a batch, broken one at a time."""

import math

import pytest
from conftest import encode, group, row, span

from verigraph import Batch, CheckError, IntegrityError


def test_a_good_batch_passes():
    Batch(1, encode(group())).check()


def test_a_row_without_a_reward_has_mask_zero_and_passes():
    rows = group()
    rows[0] |= {
        "loss_valid": False,
        "reward_status": "lost",
        "response_ids": [7],
        "response_mask": [0],
        "rollout_log_probs": [0.0],
        "spans": [span(0, 1, "template")],
    }
    Batch(1, encode(rows)).check()


BROKEN = {
    "underscore in uid": (0, {"uid": "a_0"}, "uid 'a_0' is empty or has an underscore"),
    "empty uid": (0, {"uid": ""}, "uid '' is empty"),
    "torn group": (1, {"uid": "b-0", "output_idx": 0}, "the rows of a group do not stand together"),
    "row numbers": (2, {"row_idx": 1}, "row 2: row_idx has a gap within the group"),
    "missing segment": (2, {"output_idx": 2}, "row 2: output_idx 2 is out of order"),
    "first segment missing": (0, {"output_idx": 1}, "row 0: output_idx 1 is out of order"),
    "repeated sample": (2, {"session_id": 0, "output_idx": 0}, "row 2: session_id 0 is out of order"),
    "short mask": (1, {"response_mask": [1]}, "row 1: 1 in response_mask, 5 response_ids"),
    "long log-probs": (1, {"rollout_log_probs": [0.0] * 6}, "row 1: 6 in rollout_log_probs, 5 response_ids"),
    "empty prompt": (1, {"prompt_ids": []}, "row 1: empty prompt"),
    "empty response": (
        1,
        {"response_ids": [], "response_mask": [], "rollout_log_probs": [], "spans": []},
        "row 1: empty response",
    ),
    "over the limit": (1, {"prompt_ids": [1] * 9}, "row 1: prompt of 9 ids, limit 8"),
    "mask ends with 0": (
        1,
        {"response_mask": [1, 1, 0, 1, 0], "rollout_log_probs": [-1.0, -1.0, 0.0, -1.0, 0.0]},
        "row 1: the mask does not end with 1",
    ),
    "mask of 2": (1, {"response_mask": [1, 2, 0, 1, 1]}, "row 1: a mask value is neither 0 nor 1"),
    "trained row without a reward": (
        1,
        {"loss_valid": False, "reward_status": "lost"},
        "row 1: mask 1 where loss_valid is false",
    ),
    "NaN log-prob": (
        1,
        {"rollout_log_probs": [math.nan, -1.0, 0.0, -1.0, -1.0]},
        "row 1: a log-prob is not finite",
    ),
    "infinite log-prob": (
        1,
        {"rollout_log_probs": [-math.inf, -1.0, 0.0, -1.0, -1.0]},
        "row 1: a log-prob is not finite",
    ),
    "clamped log-prob": (
        1,
        {"rollout_log_probs": [-9999.0, -1.0, 0.0, -1.0, -1.0]},
        "row 1: a log-prob is the engine's clamp",
    ),
    "masked log-prob": (
        1,
        {"rollout_log_probs": [-1.0, -1.0, -1.0, -1.0, -1.0]},
        "row 1: a masked log-prob is not 0.0",
    ),
    "span gap": (1, {"spans": [span(0, 2), span(3, 5)]}, "row 1: spans do not cover the response"),
    "spans end early": (1, {"spans": [span(0, 2), span(2, 3, "template")]}, "row 1: spans do not cover"),
    "empty span": (1, {"spans": [span(0, 0), span(0, 5)]}, "row 1: spans do not cover the response"),
    "no spans": (1, {"spans": []}, "row 1: spans do not cover the response"),
    "spans against the mask": (1, {"spans": [span(0, 5)]}, "row 1: spans and mask disagree"),
    "NaN reward": (0, {"reward": math.nan}, "reward is not finite"),
    "infinite term": (1, {"r_infer": math.inf}, "r_infer is not finite"),
    "NaN turn reward": (1, {"turn_rewards": [math.nan]}, "turn_rewards are not finite"),
    "two rewards in one rollout": (2, {"reward": 0.25}, "row 2: reward differs within one rollout"),
    "status against loss_valid": (
        0,
        {"reward_status": "unscored"},
        "row 0: loss_valid and reward_status disagree",
    ),
    "versions": (0, {"policy_version_min": 2, "policy_version_max": 1}, "policy_version_min is above"),
    "null": (1, {"reward": None}, "null in reward"),
    "null list": (1, {"response_mask": None}, "null in response_mask"),
    "null in a list": (1, {"response_ids": [11, None, 13, 14, 15]}, "null inside a list of response_ids"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_named(name):
    at, change, want = BROKEN[name]
    rows = group()
    rows[at] = rows[at] | change
    with pytest.raises(CheckError) as caught:
        Batch(3, encode(rows)).check()
    assert any(want in line for line in caught.value.problems), caught.value.problems
    assert str(caught.value).startswith("batch 3: ")


def test_several_problems_are_named_at_once():
    rows = group()
    rows[0] |= {"reward": math.nan}
    rows[1] |= {"rollout_log_probs": [-1.0, -1.0, -1.0, -1.0, -1.0]}
    with pytest.raises(CheckError) as caught:
        Batch(1, encode(rows)).check()
    assert len(caught.value.problems) == 2


def test_columns_are_the_documented_ones():
    with pytest.raises(CheckError, match="no column rollout_log_probs"):
        Batch(1, encode(group(), drop="rollout_log_probs")).check()


def test_a_batch_without_rows_is_refused():
    with pytest.raises(CheckError, match="no rows"):
        Batch(1, encode([])).check()


def test_a_file_of_another_schema_version_or_no_parquet_at_all_is_refused():
    with pytest.raises(IntegrityError, match="schema_version 2, want 1"):
        Batch(1, encode([row()], {"schema_version": "2"}))
    with pytest.raises(IntegrityError, match="no Parquet file"):
        Batch(1, b"not parquet at all")
