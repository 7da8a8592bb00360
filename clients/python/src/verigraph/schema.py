"""The columns of a batch, as dataset.Row writes them."""

from __future__ import annotations

import pyarrow as pa

SPAN = pa.struct(
    [
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("kind", pa.string()),
        ("turn", pa.int32()),
        ("policy_version", pa.int64()),
        ("policy_version_end", pa.int64()),
    ]
)

REWARDS = (
    "reward",
    "score",
    "acc",
    "seq_reward",
    "seq_final_reward",
    "overlong_reward",
    "r_process",
    "r_infer",
    "r_outcome",
    "r_penalty",
)

COLUMNS = (
    {
        "row_idx": pa.int32(),
        "uid": pa.string(),
        "session_id": pa.int32(),
        "output_idx": pa.int32(),
        "rollout_id": pa.string(),
        "attempt": pa.int32(),
        "data_source": pa.string(),
        "prompt_id": pa.string(),
        "validate": pa.bool_(),
        "prompt_ids": pa.list_(pa.int32()),
        "response_ids": pa.list_(pa.int32()),
        "response_mask": pa.list_(pa.int8()),
        "rollout_log_probs": pa.list_(pa.float32()),
        "spans": pa.list_(SPAN),
    }
    | {name: pa.float32() for name in REWARDS}
    | {
        "turn_rewards": pa.list_(pa.float32()),
        "grounding_structural": pa.float32(),
        "grounding_replayed": pa.float32(),
        "grounding_lexical": pa.float32(),
        "grounding_supported": pa.float32(),
        "reward_status": pa.string(),
        "loss_valid": pa.bool_(),
        "routed_experts": pa.binary(),
        "num_turns": pa.int32(),
        "tool_calls": pa.int32(),
        "tool_errors": pa.int32(),
        "num_preempted": pa.int32(),
        "policy_version_min": pa.int64(),
        "policy_version_max": pa.int64(),
        "termination_reason": pa.string(),
        "t_generate_s": pa.float32(),
        "t_tool_s": pa.float32(),
        "t_score_s": pa.float32(),
        "messages_json": pa.string(),
        "graph_json": pa.string(),
    }
)
OPTIONAL = {
    "grounding_structural",
    "grounding_replayed",
    "grounding_lexical",
    "grounding_supported",
    "routed_experts",
}


def same_type(got: pa.DataType, want: pa.DataType) -> bool:
    """Equal but for the names and nullability of list elements, which differ between writers."""
    if pa.types.is_list(want):
        return pa.types.is_list(got) and same_type(got.value_type, want.value_type)
    if pa.types.is_struct(want):
        return (
            pa.types.is_struct(got)
            and [f.name for f in got] == [f.name for f in want]
            and all(same_type(a.type, b.type) for a, b in zip(got, want, strict=True))
        )
    return got == want
