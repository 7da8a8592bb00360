"""Writes batches in the layout of verl's rollout dumps, so that its viewers open them.

python -m verigraph.dump --out DIR (--feed HOST:PORT | FILE.parquet ...) [--cursor NAME]

DIR/<step>.jsonl has one line per rollout: input, output, gts, score, step (verl's own keys, of trainer.rollout_data_dir)
and every reward part, uid, rollout_id, num_turns, termination_reason, policy versions. step is the batch's
sequence number; gts is null, since reference answers never leave the reward side. Reading a feed does not
acknowledge anything. --token-env, --token-file, --tls, --ca, --cert and --key are those of verigraph.trainer. Exit codes: 0 done, 1 a failed call or file, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from verigraph.access import add_flags, open_feed
from verigraph.batch import Batch
from verigraph.errors import VerigraphError
from verigraph.feed import Feed
from verigraph.metrics import REWARD_PARTS

_KEPT = (
    "uid",
    "session_id",
    "rollout_id",
    "data_source",
    "prompt_id",
    "reward_status",
    "num_turns",
    "tool_calls",
    "tool_errors",
    "termination_reason",
    "policy_version_min",
    "policy_version_max",
)


def lines(batch: Batch, step: int) -> Iterator[dict]:
    """One dict per rollout. The conversation is that of the rollout's first row."""
    names = ("output_idx", "reward", "messages_json", *REWARD_PARTS, *_KEPT)
    for row in batch.read(names).to_pylist():
        if row["output_idx"]:
            continue
        prompt, answer = _split(json.loads(row["messages_json"] or "[]"))
        yield {
            "input": prompt,
            "output": answer,
            "gts": None,
            "score": row["reward"],
            "step": step,
            **{name: row[name] for name in (*REWARD_PARTS, *_KEPT) if name != "score"},
        }


def _split(messages: list[dict]) -> tuple[str, str]:
    """What stands before the first assistant message, and everything from it on."""
    first = next((i for i, m in enumerate(messages) if m.get("role") == "assistant"), len(messages))
    return _text(messages[:first]), _text(messages[first:])


def _text(messages: list[dict]) -> str:
    return "\n".join(f"{m.get('role')}\n{m.get('content')}" for m in messages)


def write(batch: Batch, directory: Path, step: int) -> Path:
    """Writes DIR/<step>.jsonl whole or not at all."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{step}.jsonl"
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as out:
        for line in lines(batch, step):
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
    part.replace(path)
    return path


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="verigraph.dump", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE.parquet")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    parser.add_argument("--feed", metavar="HOST:PORT")
    parser.add_argument("--cursor", default="dump", help="a cursor of its own reads from the first batch on")
    add_flags(parser)
    args = parser.parse_args(argv)
    if bool(args.files) == bool(args.feed):
        parser.error("either files or --feed HOST:PORT")
    feed = open_feed(parser, args) if args.feed else None
    try:
        for step, batch in _batches(args.files, feed):
            print(write(batch, args.out, step), flush=True)
    except (VerigraphError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _batches(files: Sequence[str], feed: Feed | None) -> Iterator[tuple[int, Batch]]:
    if feed is None:
        for step, path in enumerate(files, start=1):
            yield step, Batch.from_file(path, sequence=step)
        return
    with feed:
        for batch in feed.batches():
            yield batch.sequence, batch


if __name__ == "__main__":
    sys.exit(main())
