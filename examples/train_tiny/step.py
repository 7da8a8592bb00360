"""One GRPO step on every batch of a feed, with the checks that a trainer can rely on.

Takes batches from VERIGRAPH_FEED and stops with an error where one of these does not hold:
  the log-probs that the rollout server stored are those that this model computes (to 1e-4);
  the loss is finite; tokens of mask 0 get no gradient; a step changes the model in the direction of the advantage.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import torch
from model import build, log_probs

import verigraph

TOLERANCE = 1e-4
CLIP_LOW, CLIP_HIGH = 0.2, 0.28  # DAPO's clip-higher


def advantages(batch: verigraph.Batch) -> np.ndarray:
    """[B] GRPO: (reward - group mean) / (group std + 1e-6), over one value per rollout of the group."""
    uid, reward = batch.column("uid").astype(str), batch.column("reward").astype(np.float64)
    out = np.zeros(len(reward))
    for group in np.unique(uid):
        rows = uid == group
        out[rows] = (reward[rows] - reward[rows].mean()) / (reward[rows].std(ddof=1) + 1e-6)
    return out


def train(model: torch.nn.Module, batch: verigraph.Batch) -> dict[str, float]:
    """One optimizer step; returns what was measured."""
    batch.check()
    longest = {n: int(batch.ragged(f"{n}_ids").lengths.max()) for n in ("prompt", "response")}
    arrays = batch.to_arrays(longest["prompt"], longest["response"])
    tensors = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}
    mask = tensors["response_mask"].bool()
    old = tensors["rollout_log_probs"]
    advantage = torch.from_numpy(advantages(batch)).float()[:, None].expand_as(old)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def now() -> torch.Tensor:
        every = log_probs(model, tensors["input_ids"], tensors["attention_mask"], tensors["position_ids"])
        return every[:, longest["prompt"] - 1 :]

    new = now()
    new.retain_grad()
    difference = (new - old)[mask].abs().max().item()
    ratio = (new - old).exp()
    clipped = ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)
    loss = -torch.min(ratio * advantage, clipped * advantage)[mask].mean()  # token-mean
    loss.backward()
    leaked = new.grad[~mask].abs().max().item()
    optimizer.step()
    with torch.no_grad():
        moved = ((now() - new.detach()) * advantage)[mask].mean().item()
    result = {
        "rows": batch.num_rows,
        "sampled_tokens": int(mask.sum()),
        "masked_response_tokens": int((tensors["attention_mask"][:, longest["prompt"] :].bool() & ~mask).sum()),
        "loss": loss.item(),
        "log_prob_difference": difference,
        "gradient_on_masked_tokens": leaked,
        "advantage_weighted_change": moved,
    }
    if difference > TOLERANCE:
        raise SystemExit(f"stored log-probs differ by {difference:g}: {result}")
    if not np.isfinite(result["loss"]) or leaked != 0.0 or moved <= 0.0:
        raise SystemExit(f"the step is broken: {result}")
    return result


def main() -> int:
    model = build()
    parameters = sum(p.numel() for p in model.parameters())
    print(f"model: {parameters} parameters", flush=True)
    results = []
    with verigraph.Feed(os.environ["VERIGRAPH_FEED"], token=os.environ.get("VERIGRAPH_TOKEN")) as feed:
        for step, batch in enumerate(feed.batches(), start=1):
            if step == 1:  # later batches were sampled before this step, by the model as it was
                results.append(train(model, batch))
                print(json.dumps(results[-1]), flush=True)
            feed.ack(batch, trainer_step=step)
    if not results:
        raise SystemExit("no batch came")
    if target := os.environ.get("TRAIN_TINY_JSON"):
        Path(target).write_text(json.dumps(results[0], indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
