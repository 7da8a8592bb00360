"""Requests two groups and a greedy validation as verl's managers do, then trains on the run's own batches.

Prints the rows that came, and how each group was sampled.
"""

import json
import os
import sys

from verigraph import Feed
from verigraph.connect import rollout_service
from verigraph.requests import GREEDY, DataFile, Policy, RequestedPrompt, Sampling
from verigraph.verl import rows

policy, data_file, task = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
endpoint = os.environ["VERIGRAPH_FEED"]
wanted = [
    RequestedPrompt(
        uid=uid,
        prompt_id=task["id"],
        question=task["question"],
        rollouts=n,
        data_source="dabench",
        files=(DataFile(**data_file),),
        answers=tuple((k, v) for k, v in task["answers"]),
        sampling=sampling,
        validate=n == 1,
    )
    for uid, n, sampling in (
        ("g1", 2, Sampling()),
        ("g2", 3, Sampling(temperature=0.5, top_p=0.9, top_k=7, max_tokens=2000)),
        ("val", 1, GREEDY),
    )
]
service = rollout_service(endpoint)
stated = Policy(service, incarnation=1)
out, sampled = [], {}
for step in (1, 2):  # the second asks for the same uids again
    stated.update(6 + step, [policy])
    results = {r.uid: r for r in service.request_groups(wanted, step=step)}
    for r in results.values():
        assert r.batch is not None, r.reason
        r.batch.check()
        sampled[r.uid] = [r.batch.metadata[k] for k in ("temperature", "top_p", "top_k", "max_tokens")]
        assert set(r.batch.column("validate")) == {r.uid == "val"}
    table = rows.arrange(results, ["g2", "g1", "val", "g2", "g1", "g2"], 0, 6 + step)
    columns = ("uid", "session_id", "reward_status", "acc", "policy_version_min", "policy_version_max")
    out.append(table.select(columns).to_pylist())
service.close()
print(json.dumps({"rows": out, "sampled": sampled}))
with Feed(endpoint) as feed:
    for batch in feed.batches():
        feed.ack(batch)
