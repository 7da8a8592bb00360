from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BatchKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BATCH_KIND_UNSPECIFIED: _ClassVar[BatchKind]
    BATCH_KIND_TRAIN: _ClassVar[BatchKind]
    BATCH_KIND_VALIDATE: _ClassVar[BatchKind]
    BATCH_KIND_ALL: _ClassVar[BatchKind]

class RestoreMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESTORE_MODE_UNSPECIFIED: _ClassVar[RestoreMode]
    RESTORE_MODE_REGENERATE: _ClassVar[RestoreMode]
    RESTORE_MODE_REPLAY: _ClassVar[RestoreMode]

class GroupStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GROUP_STATUS_UNSPECIFIED: _ClassVar[GroupStatus]
    GROUP_STATUS_FINISHED: _ClassVar[GroupStatus]
    GROUP_STATUS_FAILED: _ClassVar[GroupStatus]
    GROUP_STATUS_REPLACED: _ClassVar[GroupStatus]
BATCH_KIND_UNSPECIFIED: BatchKind
BATCH_KIND_TRAIN: BatchKind
BATCH_KIND_VALIDATE: BatchKind
BATCH_KIND_ALL: BatchKind
RESTORE_MODE_UNSPECIFIED: RestoreMode
RESTORE_MODE_REGENERATE: RestoreMode
RESTORE_MODE_REPLAY: RestoreMode
GROUP_STATUS_UNSPECIFIED: GroupStatus
GROUP_STATUS_FINISHED: GroupStatus
GROUP_STATUS_FAILED: GroupStatus
GROUP_STATUS_REPLACED: GroupStatus

class DataFile(_message.Message):
    __slots__ = ("name", "sha256", "size")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    name: str
    sha256: str
    size: int
    def __init__(self, name: _Optional[str] = ..., sha256: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class NamedAnswer(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Prompt(_message.Message):
    __slots__ = ("id", "question", "files", "data_source", "meta_json", "answers", "answer_text", "validate", "priority", "sampling")
    ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    DATA_SOURCE_FIELD_NUMBER: _ClassVar[int]
    META_JSON_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    ANSWER_TEXT_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    id: str
    question: str
    files: _containers.RepeatedCompositeFieldContainer[DataFile]
    data_source: str
    meta_json: bytes
    answers: _containers.RepeatedCompositeFieldContainer[NamedAnswer]
    answer_text: str
    validate: bool
    priority: int
    sampling: Sampling
    def __init__(self, id: _Optional[str] = ..., question: _Optional[str] = ..., files: _Optional[_Iterable[_Union[DataFile, _Mapping]]] = ..., data_source: _Optional[str] = ..., meta_json: _Optional[bytes] = ..., answers: _Optional[_Iterable[_Union[NamedAnswer, _Mapping]]] = ..., answer_text: _Optional[str] = ..., validate: bool = ..., priority: _Optional[int] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ...) -> None: ...

class Sampling(_message.Message):
    __slots__ = ("temperature", "top_p", "top_k", "n", "max_tokens")
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    temperature: float
    top_p: float
    top_k: int
    n: int
    max_tokens: int
    def __init__(self, temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., top_k: _Optional[int] = ..., n: _Optional[int] = ..., max_tokens: _Optional[int] = ...) -> None: ...

class SubmitPromptsRequest(_message.Message):
    __slots__ = ("prompts", "final")
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    prompts: _containers.RepeatedCompositeFieldContainer[Prompt]
    final: bool
    def __init__(self, prompts: _Optional[_Iterable[_Union[Prompt, _Mapping]]] = ..., final: bool = ...) -> None: ...

class SubmitPromptsResponse(_message.Message):
    __slots__ = ("accepted",)
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    accepted: int
    def __init__(self, accepted: _Optional[int] = ...) -> None: ...

class StreamBatchesRequest(_message.Message):
    __slots__ = ("cursor", "from_sequence", "offset", "from_step", "kind")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FROM_STEP_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    from_sequence: int
    offset: int
    from_step: int
    kind: BatchKind
    def __init__(self, cursor: _Optional[str] = ..., from_sequence: _Optional[int] = ..., offset: _Optional[int] = ..., from_step: _Optional[int] = ..., kind: _Optional[_Union[BatchKind, str]] = ...) -> None: ...

class BatchInfo(_message.Message):
    __slots__ = ("sequence", "object", "size", "sha256", "groups", "rollouts", "rows", "policy_version_min", "policy_version_max", "epoch", "validate", "policy_version")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    object: str
    size: int
    sha256: str
    groups: int
    rollouts: int
    rows: int
    policy_version_min: int
    policy_version_max: int
    epoch: int
    validate: bool
    policy_version: int
    def __init__(self, sequence: _Optional[int] = ..., object: _Optional[str] = ..., size: _Optional[int] = ..., sha256: _Optional[str] = ..., groups: _Optional[int] = ..., rollouts: _Optional[int] = ..., rows: _Optional[int] = ..., policy_version_min: _Optional[int] = ..., policy_version_max: _Optional[int] = ..., epoch: _Optional[int] = ..., validate: bool = ..., policy_version: _Optional[int] = ...) -> None: ...

class BatchChunk(_message.Message):
    __slots__ = ("sequence", "offset", "data", "info", "last", "crc32")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    offset: int
    data: bytes
    info: BatchInfo
    last: bool
    crc32: int
    def __init__(self, sequence: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., info: _Optional[_Union[BatchInfo, _Mapping]] = ..., last: bool = ..., crc32: _Optional[int] = ...) -> None: ...

class AckRequest(_message.Message):
    __slots__ = ("cursor", "sequence", "trainer_step")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TRAINER_STEP_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    sequence: int
    trainer_step: int
    def __init__(self, cursor: _Optional[str] = ..., sequence: _Optional[int] = ..., trainer_step: _Optional[int] = ...) -> None: ...

class AckResponse(_message.Message):
    __slots__ = ("acknowledged",)
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    acknowledged: int
    def __init__(self, acknowledged: _Optional[int] = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("cursor", "checkpoint_step")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_STEP_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    checkpoint_step: int
    def __init__(self, cursor: _Optional[str] = ..., checkpoint_step: _Optional[int] = ...) -> None: ...

class CommitResponse(_message.Message):
    __slots__ = ("sequence", "freed")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    FREED_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    freed: int
    def __init__(self, sequence: _Optional[int] = ..., freed: _Optional[int] = ...) -> None: ...

class SetPolicyRequest(_message.Message):
    __slots__ = ("version", "incarnation", "endpoints", "paused")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    version: int
    incarnation: int
    endpoints: _containers.RepeatedScalarFieldContainer[str]
    paused: bool
    def __init__(self, version: _Optional[int] = ..., incarnation: _Optional[int] = ..., endpoints: _Optional[_Iterable[str]] = ..., paused: bool = ...) -> None: ...

class SetPolicyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RestoreRequest(_message.Message):
    __slots__ = ("checkpoint_step", "policy_version", "incarnation", "mode", "endpoints")
    CHECKPOINT_STEP_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    checkpoint_step: int
    policy_version: int
    incarnation: int
    mode: RestoreMode
    endpoints: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, checkpoint_step: _Optional[int] = ..., policy_version: _Optional[int] = ..., incarnation: _Optional[int] = ..., mode: _Optional[_Union[RestoreMode, str]] = ..., endpoints: _Optional[_Iterable[str]] = ...) -> None: ...

class RestoreResponse(_message.Message):
    __slots__ = ("sequence", "dropped")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    dropped: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, sequence: _Optional[int] = ..., dropped: _Optional[_Iterable[int]] = ...) -> None: ...

class RequestedPrompt(_message.Message):
    __slots__ = ("uid", "prompt", "rollouts")
    UID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    uid: str
    prompt: Prompt
    rollouts: int
    def __init__(self, uid: _Optional[str] = ..., prompt: _Optional[_Union[Prompt, _Mapping]] = ..., rollouts: _Optional[int] = ...) -> None: ...

class RequestBatchRequest(_message.Message):
    __slots__ = ("prompts", "policy")
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    prompts: _containers.RepeatedCompositeFieldContainer[RequestedPrompt]
    policy: SetPolicyRequest
    def __init__(self, prompts: _Optional[_Iterable[_Union[RequestedPrompt, _Mapping]]] = ..., policy: _Optional[_Union[SetPolicyRequest, _Mapping]] = ...) -> None: ...

class GroupChunk(_message.Message):
    __slots__ = ("uid", "status", "reason", "dispatch", "size", "sha256", "rows", "offset", "data", "crc32", "last")
    UID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    uid: str
    status: GroupStatus
    reason: str
    dispatch: str
    size: int
    sha256: str
    rows: int
    offset: int
    data: bytes
    crc32: int
    last: bool
    def __init__(self, uid: _Optional[str] = ..., status: _Optional[_Union[GroupStatus, str]] = ..., reason: _Optional[str] = ..., dispatch: _Optional[str] = ..., size: _Optional[int] = ..., sha256: _Optional[str] = ..., rows: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., crc32: _Optional[int] = ..., last: bool = ...) -> None: ...

class ListSetAsideRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSetAsideResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[SetAsideGroup]
    def __init__(self, groups: _Optional[_Iterable[_Union[SetAsideGroup, _Mapping]]] = ...) -> None: ...

class SetAsideGroup(_message.Message):
    __slots__ = ("dispatch", "stage", "reason", "deliveries")
    DISPATCH_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    dispatch: str
    stage: str
    reason: str
    deliveries: int
    def __init__(self, dispatch: _Optional[str] = ..., stage: _Optional[str] = ..., reason: _Optional[str] = ..., deliveries: _Optional[int] = ...) -> None: ...

class RequeueRequest(_message.Message):
    __slots__ = ("dispatch",)
    DISPATCH_FIELD_NUMBER: _ClassVar[int]
    dispatch: str
    def __init__(self, dispatch: _Optional[str] = ...) -> None: ...

class RequeueResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Ledger(_message.Message):
    __slots__ = ("dispatched", "delivered", "filtered", "stale", "unscored", "failed", "set_aside", "in_flight")
    DISPATCHED_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    FILTERED_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    UNSCORED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    dispatched: int
    delivered: int
    filtered: int
    stale: int
    unscored: int
    failed: int
    set_aside: int
    in_flight: int
    def __init__(self, dispatched: _Optional[int] = ..., delivered: _Optional[int] = ..., filtered: _Optional[int] = ..., stale: _Optional[int] = ..., unscored: _Optional[int] = ..., failed: _Optional[int] = ..., set_aside: _Optional[int] = ..., in_flight: _Optional[int] = ...) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("run", "prompts", "backlog", "ledger", "batches_written", "batches_acknowledged", "complete", "batches_committed", "batches_dropped", "policy", "reasons", "lengths", "ages", "delivered_per_second", "unscored_share", "rounds_used_up", "waiting", "unaccounted")
    class ReasonsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class AgesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    RUN_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    BATCHES_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    BATCHES_ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    BATCHES_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    BATCHES_DROPPED_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    AGES_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    UNSCORED_SHARE_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_USED_UP_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    UNACCOUNTED_FIELD_NUMBER: _ClassVar[int]
    run: str
    prompts: int
    backlog: int
    ledger: Ledger
    batches_written: int
    batches_acknowledged: int
    complete: bool
    batches_committed: int
    batches_dropped: int
    policy: SetPolicyRequest
    reasons: _containers.ScalarMap[str, int]
    lengths: _containers.RepeatedCompositeFieldContainer[LengthClass]
    ages: _containers.ScalarMap[int, int]
    delivered_per_second: float
    unscored_share: float
    rounds_used_up: int
    waiting: _containers.RepeatedCompositeFieldContainer[Waiting]
    unaccounted: int
    def __init__(self, run: _Optional[str] = ..., prompts: _Optional[int] = ..., backlog: _Optional[int] = ..., ledger: _Optional[_Union[Ledger, _Mapping]] = ..., batches_written: _Optional[int] = ..., batches_acknowledged: _Optional[int] = ..., complete: bool = ..., batches_committed: _Optional[int] = ..., batches_dropped: _Optional[int] = ..., policy: _Optional[_Union[SetPolicyRequest, _Mapping]] = ..., reasons: _Optional[_Mapping[str, int]] = ..., lengths: _Optional[_Iterable[_Union[LengthClass, _Mapping]]] = ..., ages: _Optional[_Mapping[int, int]] = ..., delivered_per_second: _Optional[float] = ..., unscored_share: _Optional[float] = ..., rounds_used_up: _Optional[int] = ..., waiting: _Optional[_Iterable[_Union[Waiting, _Mapping]]] = ..., unaccounted: _Optional[int] = ...) -> None: ...

class LengthClass(_message.Message):
    __slots__ = ("up_to", "outcomes")
    class OutcomesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    UP_TO_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    up_to: int
    outcomes: _containers.ScalarMap[str, int]
    def __init__(self, up_to: _Optional[int] = ..., outcomes: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Waiting(_message.Message):
    __slots__ = ("what", "count", "reason")
    WHAT_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    what: str
    count: int
    reason: str
    def __init__(self, what: _Optional[str] = ..., count: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...
