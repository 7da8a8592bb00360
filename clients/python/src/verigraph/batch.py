"""One batch: a Parquet object of complete scored groups, and its padding into verl's arrays. No torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from verigraph.checks import problems
from verigraph.errors import CheckError, IntegrityError, LengthError

SCHEMA_VERSION = "1"


class Batch:
    """A batch as it was delivered.

    sequence: its number in the run, from 1 (0 for a batch read from a file)
    metadata: the file's key-value metadata as text (schema_version, run, model, pad_token_id, ...)
    num_rows: B, one row per segment of a rollout
    schema: the columns' Arrow types; verigraph.wire.COLUMNS in a batch that passes check

    Raises IntegrityError for bytes that are no Parquet file of this schema version.
    """

    def __init__(self, sequence: int, data: bytes | bytearray | memoryview | pa.Buffer):
        self.sequence = sequence
        self._data = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
        try:
            file = pq.ParquetFile(pa.BufferReader(self._data))
        except pa.ArrowInvalid as error:
            raise IntegrityError(f"batch {sequence}: no Parquet file: {error}") from error
        raw = file.metadata.metadata or {}
        self.metadata = {k.decode(): v.decode() for k, v in raw.items() if k != b"ARROW:schema"}
        self.schema = file.schema_arrow
        self.num_rows = file.metadata.num_rows
        if (version := self.metadata.get("schema_version")) != SCHEMA_VERSION:
            raise IntegrityError(f"batch {sequence}: schema_version {version}, want {SCHEMA_VERSION}")

    @classmethod
    def from_file(cls, path: str | Path, sequence: int = 0) -> Batch:
        """Reads a batch from a Parquet file. Raises IntegrityError for another file, OSError for none."""
        return cls(sequence, Path(path).read_bytes())

    @cached_property
    def table(self) -> pa.Table:
        """All columns, messages_json and graph_json included."""
        return self.read()

    def read(self, columns: Iterable[str] | None = None) -> pa.Table:
        """Reads some columns, or all, of the [B] rows; a trainer needs none of the JSON ones."""
        return pq.read_table(pa.BufferReader(self._data), columns=None if columns is None else list(columns))

    def column(self, name: str) -> np.ndarray:
        """A flat column as [B] array in its own dtype; text becomes an object array."""
        return self.read([name]).column(0).to_numpy()

    def ragged(self, name: str) -> Ragged:
        """A list column as values [N] in its own dtype and offsets [B + 1] int64, without copying row by row."""
        return ragged(self.read([name]).column(0))

    def check(self) -> None:
        """Raises CheckError with every way in which the batch breaks its contract.

        Checked: columns and types, whole groups in one piece, equal lengths of ids, mask and log-probs,
        a mask that ends with 1 (all 0 where loss_valid is false), finite log-probs that are 0.0 where
        masked, spans that cover the response, finite rewards that agree within a rollout, limits.
        """
        if found := problems(self):
            raise CheckError(self.sequence, found)

    def to_arrays(
        self,
        prompt_length: int | None = None,
        response_length: int | None = None,
        pad_token_id: int | None = None,
    ) -> dict[str, np.ndarray]:
        """Pads the B rows for verl's padded contract: [B, P + L] int64 and [B, L] float32; see pad_rows for each key.

        What is left out comes from the batch's metadata; where that states no limit, the longest row
        decides. Raises LengthError for rows that do not fit.
        """
        prompts, responses = self.ragged("prompt_ids"), self.ragged("response_ids")
        return pad_rows(
            prompts,
            responses,
            self.ragged("response_mask"),
            self.ragged("rollout_log_probs"),
            self.column("reward"),
            self._length("prompt_length", prompt_length, prompts),
            self._length("response_length", response_length, responses),
            int(self.metadata["pad_token_id"]) if pad_token_id is None else pad_token_id,
        )

    def _length(self, key: str, given: int | None, rows: Ragged) -> int:
        if given is not None:
            return given
        return int(self.metadata[key]) or int(rows.lengths.max(initial=1))

    def __repr__(self) -> str:
        return f"Batch(sequence={self.sequence}, rows={self.num_rows}, run={self.metadata.get('run')!r})"


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


def ragged(column: pa.ChunkedArray) -> Ragged:
    """Values [N] in the column's own dtype and offsets [B + 1] int64 of a list column of B rows.

    A slice is honoured: offsets then start at 0 again.
    """
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # pyarrow before 17 keeps an empty column chunked
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    offsets = array.offsets.to_numpy().astype(np.int64)
    return Ragged(array.flatten().to_numpy(zero_copy_only=False), offsets - offsets[0])


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
