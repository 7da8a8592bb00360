"""Padding of ragged rows into verl's tensors. Pure numpy over (values, offsets): no Arrow, no torch."""

from dataclasses import dataclass

import numpy as np

from verigraph.errors import LengthError


@dataclass(frozen=True)
class Ragged:
    """B rows of different lengths: row i is values[offsets[i]:offsets[i + 1]].

    values: [N]; offsets: [B + 1] int64, from 0 to N.
    """

    values: np.ndarray
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """[B] int64."""
        return np.diff(self.offsets)

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.offsets[row] : self.offsets[row + 1]]


def pad_rows(
    prompts: Ragged,
    responses: Ragged,
    mask: Ragged,
    log_probs: Ragged,
    reward: np.ndarray,
    prompt_length: int,
    response_length: int,
    pad_token_id: int,
) -> dict[str, np.ndarray]:
    """Pads B rows to P = prompt_length and L = response_length.

    Prompts are padded on the left, responses on the right. `reward` is [B] float32. Returns
      input_ids           [B, P + L] int64
      prompts, responses  [B, P], [B, L] int64, views of input_ids
      attention_mask      [B, P + L] int64, 1 on every real token, tool output included
      position_ids        [B, P + L] int64, 0 on the left padding
      response_mask       [B, L] int64, 1 on sampled tokens: the loss mask
      rollout_log_probs   [B, L] float32, 0.0 where the mask is 0
      token_level_scores  [B, L] float32, the reward at the last real response token, else 0
      rm_scores           an independent copy of token_level_scores
    The layout is that of verl's DataProto after generation (verl/experimental/agent_loop/agent_loop.py).
    Raises LengthError for a row that does not fit, or has no prompt or no response.
    """
    _refuse_lengths("prompt", prompts.lengths, prompt_length)
    _refuse_lengths("response", responses.lengths, response_length)
    batch, width = len(reward), prompt_length + response_length
    in_prompt = np.arange(prompt_length) >= (prompt_length - prompts.lengths)[:, None]
    in_response = np.arange(response_length) < responses.lengths[:, None]

    input_ids = np.full((batch, width), pad_token_id, np.int64)
    input_ids[:, :prompt_length][in_prompt] = prompts.values
    input_ids[:, prompt_length:][in_response] = responses.values
    attention_mask = np.concatenate([in_prompt, in_response], axis=1).astype(np.int64)
    response_mask = np.zeros((batch, response_length), np.int64)
    response_mask[in_response] = mask.values
    rollout_log_probs = np.zeros((batch, response_length), np.float32)
    rollout_log_probs[in_response] = log_probs.values
    scores = np.zeros((batch, response_length), np.float32)
    scores[np.arange(batch), responses.lengths - 1] = reward
    return {
        "input_ids": input_ids,
        "prompts": input_ids[:, :prompt_length],
        "responses": input_ids[:, prompt_length:],
        "attention_mask": attention_mask,
        "position_ids": np.clip(attention_mask.cumsum(axis=1) - 1, 0, None),
        "response_mask": response_mask,
        "rollout_log_probs": rollout_log_probs,
        "token_level_scores": scores,
        "rm_scores": scores.copy(),
    }


def _refuse_lengths(what: str, lengths: np.ndarray, limit: int) -> None:
    """An empty row would put the reward at index -1, a long one would be cut: both are refused."""
    long = np.flatnonzero(lengths > limit)
    if long.size:
        row = long[0]
        raise LengthError(
            f"{long.size} of {lengths.size} rows do not fit: row {row} has a {what} of {lengths[row]} ids, "
            f"{what}_length is {limit}"
        )
    empty = np.flatnonzero(lengths == 0)
    if empty.size:
        raise LengthError(f"row {empty[0]} has an empty {what}")
