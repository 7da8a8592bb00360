"""A trainer that may be killed at any moment: kill_test.go does so.

Usage: killed_trainer.py DIR ENDPOINT... Its checkpoint DIR/checkpoint.json holds step, version and every batch that it has
trained on; what it did after the checkpoint dies with it. Prints a line per batch.
"""

import itertools
import json
import os
import sys
from pathlib import Path

from verigraph import Feed
from verigraph.errors import DeadlineExceeded, Unavailable

where, endpoints = Path(sys.argv[1]), itertools.cycle(sys.argv[2:])


def load(name, default):
    path = where / name
    return json.loads(path.read_text()) if path.exists() else default


def save(name, value):
    draft = where / (name + ".draft")
    with draft.open("w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(where / name)


lives = load("lives.json", 0) + 1
save("lives.json", lives)
now = load("checkpoint.json", {"step": 0, "version": 0, "seen": []})
feed = Feed(next(endpoints), retry_seconds=0)


def insist(call):
    """Asks the servers in turn until the one that leads answers."""
    global feed
    while True:
        try:
            return call(feed)
        except (Unavailable, DeadlineExceeded):  # not led, or a server whose broker has no quorum
            feed.close()
            feed = Feed(next(endpoints), retry_seconds=0.2)


def one_batch(at):
    for batch in at.batches():
        batch.check()
        return batch
    return None


insist(lambda f: f.restore(now["step"], now["version"], lives))
while (batch := insist(one_batch)) is not None:
    groups, sampled = {}, {}
    for row in batch.read(["uid", "rollout_id", "response_mask"]).to_pylist():
        groups.setdefault(row["uid"], []).append(row["rollout_id"])
        sampled[row["rollout_id"]] = sampled.get(row["rollout_id"], 0) + sum(row["response_mask"])
    now["seen"].append({"sequence": batch.sequence, "groups": groups, "sampled": sampled})
    now["step"] += 1
    insist(lambda f: f.ack(batch, now["step"]))
    now["version"] += 1
    insist(lambda f: f.set_policy(now["version"], lives))
    if now["step"] % 3 == 0:
        save("checkpoint.json", now)
    if now["step"] % 9 == 0:
        insist(lambda f: f.commit(now["step"]))
    print(f"trained {batch.sequence}", flush=True)
save("checkpoint.json", now)
print("complete", flush=True)
