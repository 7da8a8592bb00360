"""to_arrays against a version written with plain loops."""

import numpy as np
import pyarrow as pa
import pytest
from conftest import encode, group, row, span

from verigraph import Batch, LengthError
from verigraph.batch import Ragged, pad_rows, ragged


def oracle(rows: list[dict], P: int, L: int, pad: int) -> dict[str, np.ndarray]:
    """The same arrays, element by element, from verl's written rules."""
    B = len(rows)
    out = {
        "input_ids": np.full((B, P + L), pad, np.int64),
        "attention_mask": np.zeros((B, P + L), np.int64),
        "position_ids": np.zeros((B, P + L), np.int64),
        "response_mask": np.zeros((B, L), np.int64),
        "rollout_log_probs": np.zeros((B, L), np.float32),
        "token_level_scores": np.zeros((B, L), np.float32),
    }
    for i, r in enumerate(rows):
        start = P - len(r["prompt_ids"])
        for j, token in enumerate(r["prompt_ids"] + r["response_ids"]):
            out["input_ids"][i, start + j] = token
            out["attention_mask"][i, start + j] = 1
            out["position_ids"][i, start + j] = j
        end = P + len(r["response_ids"])
        for j in range(end, P + L):
            out["position_ids"][i, j] = out["position_ids"][i, end - 1]
        for j, (m, lp) in enumerate(zip(r["response_mask"], r["rollout_log_probs"], strict=True)):
            out["response_mask"][i, j] = m
            out["rollout_log_probs"][i, j] = lp
        out["token_level_scores"][i, len(r["response_ids"]) - 1] = r["reward"]
    out["rm_scores"] = out["token_level_scores"]
    out["prompts"], out["responses"] = out["input_ids"][:, :P], out["input_ids"][:, P:]
    return out


def random_rows(seed: int) -> list[dict]:
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(int(rng.integers(1, 12))):
        n = int(rng.integers(1, 17))
        mask = rng.integers(0, 2, n)
        mask[-1] = 1
        rows.append(
            row(
                row_idx=i,
                session_id=i,
                prompt_ids=rng.integers(0, 150_000, rng.integers(1, 9)).tolist(),
                response_ids=rng.integers(0, 150_000, n).tolist(),
                response_mask=mask.tolist(),
                rollout_log_probs=(-rng.random(n).astype(np.float32) * mask).astype(np.float32).tolist(),
                spans=[span(j, j + 1, "sampled" if mask[j] else "template") for j in range(n)],
                reward=float(np.float32(rng.normal())),
            )
        )
    return rows


@pytest.mark.parametrize("seed", range(20))
def test_padded_arrays_equal_those_of_plain_loops(seed):
    rows = random_rows(seed)
    batch = Batch(1, encode(rows))
    batch.check()
    got, want = batch.to_arrays(), oracle(rows, 8, 16, 7)
    assert got.keys() == want.keys()
    for key, array in want.items():
        np.testing.assert_array_equal(got[key], array, err_msg=key, strict=True)


def test_lengths_and_padding_can_be_given():
    got = Batch(1, encode(group())).to_arrays(4, 6, pad_token_id=99)
    assert got["input_ids"].shape == (3, 10)
    assert got["input_ids"][0].tolist() == [99, 1, 2, 3, 11, 12, 13, 14, 15, 99]


def test_without_a_limit_the_longest_row_decides():
    rows = group()
    rows[1] |= {"prompt_ids": [1, 2, 3, 4]}
    got = Batch(1, encode(rows, {"prompt_length": "0", "response_length": "0"})).to_arrays()
    assert got["input_ids"].shape == (3, 9)


def test_rows_that_fill_the_shape_are_taken_and_longer_ones_refused():
    batch = Batch(1, encode(group()))
    assert batch.to_arrays(3, 5)["attention_mask"].all()
    with pytest.raises(
        LengthError, match=r"3 of 3 rows do not fit: row 0 has a prompt of 3 ids, prompt_length is 2"
    ):
        batch.to_arrays(2, 5)
    with pytest.raises(LengthError, match=r"row 0 has a response of 5 ids, response_length is 4"):
        batch.to_arrays(3, 4)


@pytest.mark.parametrize("name", ["prompt", "response"])
def test_an_empty_row_is_refused_and_never_puts_its_reward_at_the_end(name):
    rows = [row(), row(**{f"{name}_ids": []})]
    if name == "response":
        rows[1] |= {"response_mask": [], "rollout_log_probs": []}
    with pytest.raises(LengthError, match=f"row 1 has an empty {name}"):
        Batch(1, encode(rows)).to_arrays()


def test_the_two_score_arrays_do_not_share_memory():
    arrays = Batch(1, encode(group())).to_arrays()
    arrays["rm_scores"][:] = 0
    assert arrays["token_level_scores"].sum() == pytest.approx(1.5)


def test_a_sliced_column_keeps_its_rows():
    column = pa.chunked_array([pa.array([[1], [2, 3], [], [4, 5, 6]])])
    got = ragged(column.slice(1, 3))
    assert [got[i].tolist() for i in range(3)] == [[2, 3], [], [4, 5, 6]]
    assert got.offsets.tolist() == [0, 2, 2, 5]
    several = pa.chunked_array([pa.array([[1]]), pa.array([[2, 3]])])
    assert ragged(several).offsets.tolist() == [0, 1, 3]


def test_padding_needs_numpy_only():
    one = Ragged(np.array([5]), np.array([0, 1]))
    got = pad_rows(one, one, Ragged(np.array([1]), one.offsets), one, np.array([2.0], np.float32), 2, 2, 0)
    assert got["input_ids"].tolist() == [[0, 5, 5, 0]]
    assert got["rm_scores"].tolist() == [[2.0, 0.0]]


def test_the_reward_reaches_the_first_token_over_inner_zeros_of_the_mask():
    """The reward stands at the last response token, which was sampled; zeros of the mask before it are no ends."""
    good = row(
        response_ids=[11, 12, 13, 14],
        response_mask=[1, 0, 0, 1],
        rollout_log_probs=[-1.0, 0.0, 0.0, -1.0],
        spans=[span(0, 1), span(1, 3, "observation"), span(3, 4)],
        reward=2.0,
    )
    batch = Batch(1, encode([good]))
    batch.check()
    arrays = batch.to_arrays(prompt_length=4, response_length=8)
    scores, mask = arrays["token_level_scores"][0], arrays["response_mask"][0]
    assert scores.tolist() == [0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0]
    assert mask[np.flatnonzero(scores)].tolist() == [1]
    gamma, running, returns = 0.5, 0.0, np.zeros(8)
    for t in reversed(range(8)):
        if mask[t]:
            running = returns[t] = scores[t] + gamma * running
    assert returns.tolist() == [1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0]
