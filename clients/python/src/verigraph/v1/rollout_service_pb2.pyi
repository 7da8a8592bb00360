from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

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
    __slots__ = ("id", "question", "files", "data_source", "meta_json", "answers", "answer_text", "validate")
    ID_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    DATA_SOURCE_FIELD_NUMBER: _ClassVar[int]
    META_JSON_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    ANSWER_TEXT_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_FIELD_NUMBER: _ClassVar[int]
    id: str
    question: str
    files: _containers.RepeatedCompositeFieldContainer[DataFile]
    data_source: str
    meta_json: bytes
    answers: _containers.RepeatedCompositeFieldContainer[NamedAnswer]
    answer_text: str
    validate: bool
    def __init__(self, id: _Optional[str] = ..., question: _Optional[str] = ..., files: _Optional[_Iterable[_Union[DataFile, _Mapping]]] = ..., data_source: _Optional[str] = ..., meta_json: _Optional[bytes] = ..., answers: _Optional[_Iterable[_Union[NamedAnswer, _Mapping]]] = ..., answer_text: _Optional[str] = ..., validate: bool = ...) -> None: ...

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
    __slots__ = ("cursor", "from_sequence", "offset")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    from_sequence: int
    offset: int
    def __init__(self, cursor: _Optional[str] = ..., from_sequence: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class BatchInfo(_message.Message):
    __slots__ = ("sequence", "object", "size", "sha256", "groups", "rollouts", "rows", "policy_version_min", "policy_version_max", "epoch")
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
    def __init__(self, sequence: _Optional[int] = ..., object: _Optional[str] = ..., size: _Optional[int] = ..., sha256: _Optional[str] = ..., groups: _Optional[int] = ..., rollouts: _Optional[int] = ..., rows: _Optional[int] = ..., policy_version_min: _Optional[int] = ..., policy_version_max: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class BatchChunk(_message.Message):
    __slots__ = ("sequence", "offset", "data", "info", "last")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    offset: int
    data: bytes
    info: BatchInfo
    last: bool
    def __init__(self, sequence: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., info: _Optional[_Union[BatchInfo, _Mapping]] = ..., last: bool = ...) -> None: ...

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
    __slots__ = ("run", "prompts", "backlog", "ledger", "batches_written", "batches_acknowledged", "complete", "policy_version", "policy_incarnation", "committed_step", "closed_by_reason", "filtered_by_value")
    class ClosedByReasonEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class FilteredByValueEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    RUN_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    BATCHES_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    BATCHES_ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_STEP_FIELD_NUMBER: _ClassVar[int]
    CLOSED_BY_REASON_FIELD_NUMBER: _ClassVar[int]
    FILTERED_BY_VALUE_FIELD_NUMBER: _ClassVar[int]
    run: str
    prompts: int
    backlog: int
    ledger: Ledger
    batches_written: int
    batches_acknowledged: int
    complete: bool
    policy_version: int
    policy_incarnation: str
    committed_step: int
    closed_by_reason: _containers.ScalarMap[str, int]
    filtered_by_value: _containers.ScalarMap[str, int]
    def __init__(self, run: _Optional[str] = ..., prompts: _Optional[int] = ..., backlog: _Optional[int] = ..., ledger: _Optional[_Union[Ledger, _Mapping]] = ..., batches_written: _Optional[int] = ..., batches_acknowledged: _Optional[int] = ..., complete: bool = ..., policy_version: _Optional[int] = ..., policy_incarnation: _Optional[str] = ..., committed_step: _Optional[int] = ..., closed_by_reason: _Optional[_Mapping[str, int]] = ..., filtered_by_value: _Optional[_Mapping[str, int]] = ...) -> None: ...

class SetPolicyRequest(_message.Message):
    __slots__ = ("version", "incarnation")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    version: int
    incarnation: str
    def __init__(self, version: _Optional[int] = ..., incarnation: _Optional[str] = ...) -> None: ...

class SetPolicyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("checkpoint_step",)
    CHECKPOINT_STEP_FIELD_NUMBER: _ClassVar[int]
    checkpoint_step: int
    def __init__(self, checkpoint_step: _Optional[int] = ...) -> None: ...

class CommitResponse(_message.Message):
    __slots__ = ("freed",)
    FREED_FIELD_NUMBER: _ClassVar[int]
    freed: int
    def __init__(self, freed: _Optional[int] = ...) -> None: ...

class RestoreRequest(_message.Message):
    __slots__ = ("checkpoint_step",)
    CHECKPOINT_STEP_FIELD_NUMBER: _ClassVar[int]
    checkpoint_step: int
    def __init__(self, checkpoint_step: _Optional[int] = ...) -> None: ...

class RestoreResponse(_message.Message):
    __slots__ = ("acknowledged",)
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    acknowledged: int
    def __init__(self, acknowledged: _Optional[int] = ...) -> None: ...

class ListSetAsideRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

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

class ListSetAsideResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[SetAsideGroup]
    def __init__(self, groups: _Optional[_Iterable[_Union[SetAsideGroup, _Mapping]]] = ...) -> None: ...

class RequeueRequest(_message.Message):
    __slots__ = ("dispatch",)
    DISPATCH_FIELD_NUMBER: _ClassVar[int]
    dispatch: str
    def __init__(self, dispatch: _Optional[str] = ...) -> None: ...

class RequeueResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
