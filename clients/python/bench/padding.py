"""How long it takes from the bytes of a batch to padded arrays: 512 rows of 10,000 tokens.

python clients/python/bench/padding.py [ROWS TOKENS]
"""

import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from builders import encode, row

from verigraph import Batch
from verigraph.verl import rows as verl_rows


def batch_bytes(rows: int, tokens: int) -> bytes:
    """Prompts of 1,000 ids, responses of the rest, one fifth of it masked; random ids and log-probs."""
    rng = np.random.default_rng(0)
    n = tokens - 1000
    mask = (np.arange(n) % 5 != 0).astype(np.int8)
    mask[-1] = 1
    made = []
    for i in range(rows):
        log_probs = (rng.standard_exponential(n) * -mask).astype(np.float32)
        made.append(
            row(
                row_idx=i,
                uid=f"g{i // 8}-0",
                session_id=i % 8,
                prompt_ids=rng.integers(0, 150_000, 1000).astype(np.int32),
                response_ids=rng.integers(0, 150_000, n).astype(np.int32),
                response_mask=mask,
                rollout_log_probs=log_probs,
                spans=[],
            )
        )
    return encode(made, {"prompt_length": "1024", "response_length": "10240"})


def best(function, tries: int = 5) -> float:
    seconds = []
    for _ in range(tries):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    rows, tokens = (int(a) for a in sys.argv[1:3]) if len(sys.argv) > 2 else (512, 10_000)
    data = batch_bytes(rows, tokens)
    print(f"{rows} rows x {tokens} tokens, {len(data) / 2**20:.0f} MiB, pyarrow {pa.__version__}, numpy {np.__version__}")
    print(f"bytes to padded arrays: {best(lambda: Batch(1, data).to_arrays()):.2f} s")
    batch = Batch(1, data)
    print(f"columns of the verl contract read: {best(lambda: verl_rows.table_of(batch)):.2f} s")


if __name__ == "__main__":
    main()
