"""One batch: a Parquet object of complete scored groups."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from verigraph.arrays import Ragged, pad_rows
from verigraph.checks import problems
from verigraph.errors import CheckError, IntegrityError

SCHEMA_VERSION = "1"


class Batch:
    """A batch as it was delivered.

    sequence: its number in the run, from 1 (0 for a batch read from a file)
    metadata: the file's key-value metadata as text (schema_version, run, model, pad_token_id, ...)
    num_rows: rows, one per segment of a rollout
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
    def from_file(cls, path: str | Path, sequence: int = 0) -> "Batch":
        """Reads a batch from a Parquet file."""
        return cls(sequence, Path(path).read_bytes())

    @cached_property
    def table(self) -> pa.Table:
        """All columns, messages_json and graph_json included."""
        return self.read()

    def read(self, columns: Iterable[str] | None = None) -> pa.Table:
        """Reads some columns; a trainer needs none of the JSON ones."""
        return pq.read_table(pa.BufferReader(self._data), columns=None if columns is None else list(columns))

    def column(self, name: str) -> np.ndarray:
        """A flat column as [B] array in its own dtype; text becomes an object array."""
        return self.read([name]).column(0).to_numpy()

    def ragged(self, name: str) -> Ragged:
        """A list column as values and offsets, without copying row by row."""
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
        """Pads the batch for verl's padded contract; see pad_rows for keys, shapes and dtypes.

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


def ragged(column: pa.ChunkedArray) -> Ragged:
    """Values and offsets of a list column. A slice is honoured: offsets then start at 0 again."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # pyarrow before 17 keeps an empty column chunked
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    offsets = array.offsets.to_numpy().astype(np.int64)
    return Ragged(array.flatten().to_numpy(zero_copy_only=False), offsets - offsets[0])
