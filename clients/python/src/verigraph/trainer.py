"""Acts as a trainer: takes every batch, checks it, pads it, acknowledges it.

python -m verigraph.trainer --feed HOST:PORT [--prompt-length N --response-length N] [--json FILE]
                         [--cursor NAME] [connection flags]

The bearer token, if any, comes from VERIGRAPH_TOKEN, or from where --token-env or --token-file say; --tls, --ca,
--cert and --key are for a service with TLS. Exit codes: 0 done, 1 a failed check or call,
2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from verigraph.access import add_flags, open_feed
from verigraph.batch import Batch
from verigraph.errors import VerigraphError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    parser = _parser()
    args = parser.parse_args(argv)
    if not args.feed:
        parser.error("--feed HOST:PORT or VERIGRAPH_FEED is needed")
    connection = open_feed(parser, args)
    started = time.monotonic()
    batches: list[dict] = []
    failure = None
    try:
        with connection as feed:
            for step, batch in enumerate(feed.batches(), start=1):
                line = consume(batch, args.prompt_length, args.response_length)
                line["acknowledged"] = feed.ack(batch, step)
                batches.append(line)
                print(_describe(line), flush=True)
    except VerigraphError as error:
        failure = f"{type(error).__name__}: {error}"
        print(failure, file=sys.stderr)
    total = summarize(batches, time.monotonic() - started, failure)
    print(
        f"total: {total['batches']} batches, {total['groups']} groups, {total['rollouts']} rollouts, "
        f"{total['rows']} rows, {total['sampled_tokens']} sampled tokens, "
        f"acknowledged up to {total['acknowledged']}, {total['seconds']:.1f} s"
    )
    if args.json:
        Path(args.json).write_text(json.dumps(total, indent=2) + "\n", encoding="utf-8")
    return 1 if failure else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="verigraph.trainer", description=__doc__.splitlines()[0])
    parser.add_argument("--feed", default=os.environ.get("VERIGRAPH_FEED"), metavar="HOST:PORT")
    parser.add_argument("--cursor", default="trainer")
    parser.add_argument("--prompt-length", type=_positive, metavar="N", help="default: the batch's own limit")
    parser.add_argument(
        "--response-length", type=_positive, metavar="N", help="default: the batch's own limit"
    )
    parser.add_argument("--json", metavar="FILE", help="write the totals there")
    add_flags(parser)
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


def consume(batch: Batch, prompt_length: int | None, response_length: int | None) -> dict:
    """Checks a batch, pads it, and measures what a trainer would log.

    Raises CheckError for a batch that breaks its contract, LengthError for rows that do not fit.
    """
    batch.check()
    arrays = batch.to_arrays(prompt_length, response_length)
    uid, session = batch.column("uid").astype(str), batch.column("session_id")
    first_rows = batch.column("output_idx") == 0
    return {
        "sequence": batch.sequence,
        "groups": len(set(uid)),
        "rollouts": len(set(zip(uid, session.tolist(), strict=True))),
        "rows": batch.num_rows,
        "shape": list(arrays["input_ids"].shape),
        "sampled_tokens": int(arrays["response_mask"].sum()),
        # One value per rollout: a rollout of several rows must not count several times.
        "reward_mean": float(np.mean(batch.column("reward")[first_rows], dtype=np.float64)),
        "policy_version_min": int(batch.column("policy_version_min").min()),
        "policy_version_max": int(batch.column("policy_version_max").max()),
    }


def _describe(line: dict) -> str:
    rows, width = line["shape"]
    return (
        f"batch {line['sequence']}: {line['groups']} groups, {line['rollouts']} rollouts, "
        f"input_ids [{rows}, {width}], {line['sampled_tokens']} sampled tokens, "
        f"mean reward {line['reward_mean']:.4f}, acknowledged"
    )


def summarize(batches: list[dict], seconds: float, failure: str | None) -> dict:
    """Totals over all batches, as written by --json. seconds: how long all of it took."""
    total = {key: sum(b[key] for b in batches) for key in ("groups", "rollouts", "rows", "sampled_tokens")}
    weighted = sum(b["reward_mean"] * b["rollouts"] for b in batches)
    return {
        "batches": len(batches),
        **total,
        "reward_mean": weighted / total["rollouts"] if batches else None,
        "acknowledged": batches[-1]["acknowledged"] if batches else 0,
        "seconds": seconds,
        "failure": failure,
        "per_batch": batches,
    }


if __name__ == "__main__":
    sys.exit(main())
