"""What crosses the wire, in Python's terms: the columns of a batch, and the service's answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from verigraph.v1 import rollout_service_pb2 as pb

if TYPE_CHECKING:
    from verigraph.batch import Batch

_I32, _I64, _F32, _TEXT = pa.int32(), pa.int64(), pa.float32(), pa.string()

SPAN = pa.struct([(k, _TEXT if k == "kind" else _I32) for k in ("start", "end", "kind", "turn")]
                 + [("policy_version", _I64), ("policy_version_end", _I64)])  # fmt: skip
"""A stretch of response ids [start, end): sampled, or observed, in which turn and under which weights."""

REWARDS = (
    *("reward", "score", "acc", "seq_reward", "seq_final_reward", "overlong_reward"),
    *("r_process", "r_infer", "r_outcome", "r_penalty"),
)
"""Reward columns: float32, never null or NaN."""

_GROUNDING = tuple(f"grounding_{part}" for part in ("structural", "replayed", "lexical", "supported"))

COLUMNS: dict[str, pa.DataType] = {
    name: kind
    for kind, names in (
        (_I32, "row_idx"),
        (_TEXT, "uid"),
        (_I32, "session_id output_idx"),
        (_TEXT, "rollout_id"),
        (_I32, "attempt"),
        (_TEXT, "trace_id data_source prompt_id"),
        (pa.bool_(), "validate"),
        (pa.list_(_I32), "prompt_ids response_ids"),
        (pa.list_(pa.int8()), "response_mask"),
        (pa.list_(_F32), "rollout_log_probs"),
        (pa.list_(SPAN), "spans"),
        (_F32, " ".join(REWARDS)),
        (pa.list_(_F32), "turn_rewards"),
        (_F32, " ".join(_GROUNDING)),
        (_TEXT, "reward_status"),
        (pa.bool_(), "loss_valid"),
        (pa.binary(), "routed_experts"),
        (_I32, "num_turns tool_calls tool_errors num_preempted"),
        (_I64, "policy_version_min policy_version_max"),
        (_TEXT, "termination_reason"),
        (_F32, "t_generate_s t_tool_s t_score_s"),
        (_TEXT, "messages_json graph_json"),
    )
    for name in names.split()
}
"""The columns of a batch, one row per segment of a rollout, in the order in which dataset.Row writes them."""

OPTIONAL = {*_GROUNDING, "routed_experts", "trace_id"}
"""Columns that may be null: a part of the grounding that did not run, experts of a dense model, a trace that nobody kept."""

LATER = {"trace_id"}
"""Columns that earlier files of this schema version lack."""


@dataclass(frozen=True)
class Ledger:
    """Counts of rollouts by where they went; the other seven add up to `dispatched`.

    in_flight is counted from open leases and not by subtraction, so that Status.unaccounted can differ from 0.
    """

    dispatched: int
    delivered: int
    filtered: int
    stale: int
    unscored: int
    failed: int
    set_aside: int
    in_flight: int


@dataclass(frozen=True)
class Status:
    """Progress of the run, as RolloutService.GetStatus states it.

    prompts, backlog: prompts submitted so far, and those not admitted yet
    batches_written, _acknowledged, _committed, _dropped: counts over the run
    complete: nothing more will come
    unaccounted: rollouts that the ledger cannot place; 0 unless something is wrong
    delivered_per_second: rollouts; unscored_share: of the ended rollouts, 0 to 1
    reasons: rollouts that were not delivered, by outcome and reason
    ages: training batches by how many policy versions old they were
    waiting: sentences of what waits for what
    """

    run: str
    prompts: int
    backlog: int
    ledger: Ledger
    batches_written: int
    batches_acknowledged: int
    complete: bool
    batches_committed: int = 0
    batches_dropped: int = 0
    unaccounted: int = 0
    delivered_per_second: float = 0.0
    unscored_share: float = 0.0
    reasons: dict[str, int] = field(default_factory=dict)
    ages: dict[int, int] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    policy_version: int = 0

    @classmethod
    def of(cls, answer: pb.GetStatusResponse) -> Status:
        """The message in Python's terms."""
        special = {
            "ledger": Ledger(**{f: getattr(answer.ledger, f) for f in Ledger.__dataclass_fields__}),
            "reasons": dict(answer.reasons),
            "ages": dict(answer.ages),
            "policy_version": answer.policy.version,
            "waiting": tuple(f"{w.count} {w.what} for: {w.reason}" for w in answer.waiting),
        }
        return cls(**special, **{f: getattr(answer, f) for f in cls.__dataclass_fields__ if f not in special})


@dataclass(frozen=True)
class Restored:
    """Where a restore left the trainer.

    sequence: number of the last batch that the checkpoint holds; dropped: numbers of the batches taken back
    """

    sequence: int
    dropped: tuple[int, ...]


@dataclass(frozen=True)
class Asked:
    """One group of a request: the trainer's uid, a verigraph.v1 Prompt message, and how many rollouts."""

    uid: str
    prompt: pb.Prompt
    rollouts: int


@dataclass(frozen=True)
class Group:
    """How a requested group ended: with its rows, or with a reason why there are none.

    uid: the trainer's name; dispatch: the rows' uid column; status: "finished", "failed" or "replaced"
    """

    uid: str
    dispatch: str
    status: str
    reason: str
    batch: Batch | None


@dataclass(frozen=True)
class SetAside:
    """A group that a person has to look at: its dispatch, the stage and reason of its end, times delivered."""

    dispatch: str
    stage: str
    reason: str
    deliveries: int
