from verigraph.v1 import rollout_service_pb2 as _rollout_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Rollout(_message.Message):
    __slots__ = ("trajectory_json", "answer", "response_tokens")
    TRAJECTORY_JSON_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    trajectory_json: bytes
    answer: str
    response_tokens: int
    def __init__(self, trajectory_json: _Optional[bytes] = ..., answer: _Optional[str] = ..., response_tokens: _Optional[int] = ...) -> None: ...

class ScoreRequest(_message.Message):
    __slots__ = ("id", "prompt", "reference_meta_json", "rollout")
    ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_META_JSON_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    id: str
    prompt: _rollout_service_pb2.Prompt
    reference_meta_json: bytes
    rollout: Rollout
    def __init__(self, id: _Optional[str] = ..., prompt: _Optional[_Union[_rollout_service_pb2.Prompt, _Mapping]] = ..., reference_meta_json: _Optional[bytes] = ..., rollout: _Optional[_Union[Rollout, _Mapping]] = ...) -> None: ...

class ScoreGroupRequest(_message.Message):
    __slots__ = ("id", "prompt", "reference_meta_json", "rollouts")
    ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_META_JSON_FIELD_NUMBER: _ClassVar[int]
    ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    prompt: _rollout_service_pb2.Prompt
    reference_meta_json: bytes
    rollouts: _containers.RepeatedCompositeFieldContainer[Rollout]
    def __init__(self, id: _Optional[str] = ..., prompt: _Optional[_Union[_rollout_service_pb2.Prompt, _Mapping]] = ..., reference_meta_json: _Optional[bytes] = ..., rollouts: _Optional[_Iterable[_Union[Rollout, _Mapping]]] = ...) -> None: ...

class RewardPart(_message.Message):
    __slots__ = ("term", "name", "turn", "value", "weight", "reason")
    TERM_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    term: str
    name: str
    turn: int
    value: float
    weight: float
    reason: str
    def __init__(self, term: _Optional[str] = ..., name: _Optional[str] = ..., turn: _Optional[int] = ..., value: _Optional[float] = ..., weight: _Optional[float] = ..., reason: _Optional[str] = ...) -> None: ...

class RewardVerdict(_message.Message):
    __slots__ = ("claim", "premises", "kind", "reason", "judge", "prompt_hash", "cached", "repaired")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    PREMISES_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    JUDGE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_HASH_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    REPAIRED_FIELD_NUMBER: _ClassVar[int]
    claim: str
    premises: _containers.RepeatedScalarFieldContainer[str]
    kind: str
    reason: str
    judge: str
    prompt_hash: str
    cached: bool
    repaired: bool
    def __init__(self, claim: _Optional[str] = ..., premises: _Optional[_Iterable[str]] = ..., kind: _Optional[str] = ..., reason: _Optional[str] = ..., judge: _Optional[str] = ..., prompt_hash: _Optional[str] = ..., cached: bool = ..., repaired: bool = ...) -> None: ...

class RolloutScore(_message.Message):
    __slots__ = ("status", "reason", "preset", "preset_hash", "method", "process", "infer", "outcome", "penalty", "score", "seq_reward", "overlong_reward", "reward", "acc", "correct", "parts", "turn_rewards", "verdicts", "edges")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PRESET_FIELD_NUMBER: _ClassVar[int]
    PRESET_HASH_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    INFER_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PENALTY_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SEQ_REWARD_FIELD_NUMBER: _ClassVar[int]
    OVERLONG_REWARD_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    ACC_FIELD_NUMBER: _ClassVar[int]
    CORRECT_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    TURN_REWARDS_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    status: str
    reason: str
    preset: str
    preset_hash: str
    method: str
    process: float
    infer: float
    outcome: float
    penalty: float
    score: float
    seq_reward: float
    overlong_reward: float
    reward: float
    acc: float
    correct: bool
    parts: _containers.RepeatedCompositeFieldContainer[RewardPart]
    turn_rewards: _containers.RepeatedScalarFieldContainer[float]
    verdicts: _containers.RepeatedCompositeFieldContainer[RewardVerdict]
    edges: int
    def __init__(self, status: _Optional[str] = ..., reason: _Optional[str] = ..., preset: _Optional[str] = ..., preset_hash: _Optional[str] = ..., method: _Optional[str] = ..., process: _Optional[float] = ..., infer: _Optional[float] = ..., outcome: _Optional[float] = ..., penalty: _Optional[float] = ..., score: _Optional[float] = ..., seq_reward: _Optional[float] = ..., overlong_reward: _Optional[float] = ..., reward: _Optional[float] = ..., acc: _Optional[float] = ..., correct: bool = ..., parts: _Optional[_Iterable[_Union[RewardPart, _Mapping]]] = ..., turn_rewards: _Optional[_Iterable[float]] = ..., verdicts: _Optional[_Iterable[_Union[RewardVerdict, _Mapping]]] = ..., edges: _Optional[int] = ...) -> None: ...

class ScoreResponse(_message.Message):
    __slots__ = ("id", "score")
    ID_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    id: str
    score: RolloutScore
    def __init__(self, id: _Optional[str] = ..., score: _Optional[_Union[RolloutScore, _Mapping]] = ...) -> None: ...

class ScoreGroupResponse(_message.Message):
    __slots__ = ("id", "scores")
    ID_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    id: str
    scores: _containers.RepeatedCompositeFieldContainer[RolloutScore]
    def __init__(self, id: _Optional[str] = ..., scores: _Optional[_Iterable[_Union[RolloutScore, _Mapping]]] = ...) -> None: ...

class GradeClaim(_message.Message):
    __slots__ = ("id", "kind", "text", "structural", "lexical")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    STRUCTURAL_FIELD_NUMBER: _ClassVar[int]
    LEXICAL_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    text: str
    structural: bool
    lexical: bool
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., text: _Optional[str] = ..., structural: bool = ..., lexical: bool = ...) -> None: ...

class GradeRequest(_message.Message):
    __slots__ = ("prompt", "reference_meta_json", "answer", "evidence", "claims", "termination")
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_META_JSON_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    TERMINATION_FIELD_NUMBER: _ClassVar[int]
    prompt: _rollout_service_pb2.Prompt
    reference_meta_json: bytes
    answer: str
    evidence: str
    claims: _containers.RepeatedCompositeFieldContainer[GradeClaim]
    termination: str
    def __init__(self, prompt: _Optional[_Union[_rollout_service_pb2.Prompt, _Mapping]] = ..., reference_meta_json: _Optional[bytes] = ..., answer: _Optional[str] = ..., evidence: _Optional[str] = ..., claims: _Optional[_Iterable[_Union[GradeClaim, _Mapping]]] = ..., termination: _Optional[str] = ...) -> None: ...

class GradeAxis(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: float
    def __init__(self, name: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...

class GradeResponse(_message.Message):
    __slots__ = ("score", "correct", "reason", "axes")
    SCORE_FIELD_NUMBER: _ClassVar[int]
    CORRECT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    score: float
    correct: bool
    reason: str
    axes: _containers.RepeatedCompositeFieldContainer[GradeAxis]
    def __init__(self, score: _Optional[float] = ..., correct: bool = ..., reason: _Optional[str] = ..., axes: _Optional[_Iterable[_Union[GradeAxis, _Mapping]]] = ...) -> None: ...
