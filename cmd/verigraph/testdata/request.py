"""Requests two groups as verl's managers do, then trains on the run's own batches; prints what came."""

import json
import os
import sys

from verigraph import Feed
from verigraph.connect import rollout_service
from verigraph.requests import DataFile, Policy, RequestedPrompt
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
    )
    for uid, n in (("g1", 2), ("g2", 3))
]
service = rollout_service(endpoint)
stated = Policy(service, incarnation=1)
out = []
for step in (1, 2):  # the second asks for the same uids again
    stated.update(6 + step, [policy])
    results = {r.uid: r for r in service.request_groups(wanted, step=step)}
    for r in results.values():
        assert r.batch is not None, r.reason
        r.batch.check()
    table = rows.arrange(results, ["g2", "g1", "g2", "g1", "g2"], 0, 6 + step)
    columns = ("uid", "session_id", "reward_status", "acc", "policy_version_min", "policy_version_max")
    out.append(table.select(columns).to_pylist())
service.close()
print(json.dumps(out))
with Feed(endpoint) as feed:
    for batch in feed.batches():
        feed.ack(batch)
