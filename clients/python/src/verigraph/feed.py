"""The trainer's end of RolloutService."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import grpc

from verigraph.batch import Batch
from verigraph.errors import from_rpc
from verigraph.transfer import Progress, Retry, groups, open_channel, stream
from verigraph.v1 import rollout_service_pb2 as pb
from verigraph.v1.rollout_service_pb2_grpc import RolloutServiceStub
from verigraph.wire import Asked, Group, Restored, SetAside, Status

if TYPE_CHECKING:
    from typing_extensions import Self

Answer = TypeVar("Answer")

_CALL_TIMEOUT_S = 30.0
_KINDS = {"train": pb.BATCH_KIND_TRAIN, "validate": pb.BATCH_KIND_VALIDATE, "all": pb.BATCH_KIND_ALL}
_MODES = {
    "": pb.RESTORE_MODE_UNSPECIFIED,
    "regenerate": pb.RESTORE_MODE_REGENERATE,
    "replay": pb.RESTORE_MODE_REPLAY,
}


class Feed:
    """A named cursor on a run's batches. Use it as a context manager.

    endpoint: HOST:PORT
    cursor: name of the consumer; "trainer" drives the run's ledger
    token: bearer token, when the server asks for one
    credentials: TLS, e.g. grpc.ssl_channel_credentials(); None talks in the clear
    retry_seconds: how long an unreachable server is tried again before Unavailable is raised, and one that
        does not answer in time before DeadlineExceeded is
    """

    def __init__(
        self,
        endpoint: str,
        cursor: str = "trainer",
        token: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        retry_seconds: float = 300.0,
        _sleep: Callable[[float], None] = time.sleep,
        _call_seconds: float = _CALL_TIMEOUT_S,
    ):
        self.cursor = cursor
        self._metadata = [("authorization", f"Bearer {token}")] if token else []
        self._retry_seconds = retry_seconds
        self._sleep = _sleep
        self._call_seconds = _call_seconds
        self._channel = open_channel(endpoint, credentials)
        self._stub = RolloutServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all calls."""
        self._channel.close()

    def batches(
        self,
        from_sequence: int = 0,
        progress: Progress | None = None,
        kind: str = "train",
        from_step: int | None = None,
    ) -> Iterator[Batch]:
        """Yields the batches that the cursor has not acknowledged, in order, and waits for new ones.

        Ends when the run is complete. An interrupted transfer goes on from the byte that it reached. Every
        piece is compared with its CRC-32 and every batch with the SHA-256 of its record (IntegrityError).
        Starts at `from_sequence` if given, or after what the checkpoint of `from_step` holds. `kind` is
        train, validate or all: validation batches come only to those who ask for them, with a cursor of
        their own. `progress` is called with (sequence, bytes received, bytes in all) as a batch arrives.
        """

        def call(sequence: int, offset: int) -> grpc.Call:
            request = pb.StreamBatchesRequest(
                cursor=self.cursor,
                from_sequence=sequence,
                offset=offset,
                from_step=None if sequence else from_step,
                kind=_KINDS[kind],
            )
            return self._stub.StreamBatches(request, metadata=self._metadata)

        return stream(call, from_sequence, Retry(self._retry_seconds, self._sleep), progress)

    def submit(self, prompts: Sequence[pb.Prompt], *, final: bool = False) -> int:
        """Queues verigraph.v1 Prompt messages, all or none; returns how many were new.

        A prompt is known by its id, so that a repeat changes nothing. final: no more will come. Raises
        InvalidArgument with every problem of every prompt, ResourceExhausted for a full backlog and
        FailedPrecondition after the final ones.
        """
        request = pb.SubmitPromptsRequest(prompts=prompts, final=final)
        return self._unary(self._stub.SubmitPrompts, request).accepted

    def ack(self, batch: Batch | int, trainer_step: int = 0) -> int:
        """Acknowledges every batch up to this one; returns the cursor's acknowledged sequence afterwards."""
        sequence = batch if isinstance(batch, int) else batch.sequence
        request = pb.AckRequest(cursor=self.cursor, sequence=sequence, trainer_step=trainer_step)
        return self._unary(self._stub.Ack, request).acknowledged

    def commit(self, checkpoint_step: int) -> int:
        """Says that the checkpoint of a step is durable; returns the last batch that it holds.

        With the cursor "trainer" the batches up to it are freed: no restore can go back behind it.
        """
        request = pb.CommitRequest(cursor=self.cursor, checkpoint_step=checkpoint_step)
        return self._unary(self._stub.Commit, request).sequence

    def set_policy(
        self, version: int, incarnation: int = 0, endpoints: Sequence[str] = (), paused: bool = False
    ) -> None:
        """Says which policy version the trainer has now. Call it after the update, acknowledge before."""
        self._unary(self._stub.SetPolicy, _policy(version, incarnation, endpoints, paused))

    def restore(
        self,
        checkpoint_step: int,
        policy_version: int,
        incarnation: int,
        mode: str = "",
        endpoints: Sequence[str] = (),
    ) -> Restored:
        """Goes back to a checkpoint. Call it before `batches` after every restart of the trainer.

        mode: "regenerate" (batches with tokens of rolled-back policies are generated anew), "replay" (all
        are served again) or "" for the run's own. incarnation: higher than in the trainer's earlier life.
        """
        request = pb.RestoreRequest(
            checkpoint_step=checkpoint_step,
            policy_version=policy_version,
            incarnation=incarnation,
            mode=_MODES[mode],
            endpoints=endpoints,
        )
        answer = self._unary(self._stub.Restore, request)
        return Restored(answer.sequence, tuple(answer.dropped))

    def request(
        self,
        asked: Sequence[Asked],
        version: int | None = None,
        incarnation: int = 0,
        endpoints: Sequence[str] = (),
    ) -> Iterator[Group]:
        """Dispatches the groups of one step at once and yields each as it ends.

        Asking for a uid again replaces the earlier attempt, which is how a broken call is repeated: nothing
        is retried here. `version` and what follows are as in set_policy; without it the policy stays.
        """
        message = pb.RequestBatchRequest(
            prompts=[pb.RequestedPrompt(uid=a.uid, prompt=a.prompt, rollouts=a.rollouts) for a in asked],
            policy=None if version is None else _policy(version, incarnation, endpoints, False),
        )
        call = self._stub.RequestBatch(message, metadata=self._metadata)
        try:
            yield from groups(call)
        except grpc.RpcError as error:
            raise from_rpc(error) from error
        finally:
            call.cancel()

    def set_aside(self) -> list[SetAside]:
        """The groups that a person has to look at."""
        answer = self._unary(self._stub.ListSetAside, pb.ListSetAsideRequest())
        return [SetAside(g.dispatch, g.stage, g.reason, g.deliveries) for g in answer.groups]

    def requeue(self, dispatch: str) -> None:
        """Sends the prompt of one of them back into the line. Not repeated by itself."""
        try:
            self._stub.Requeue(
                pb.RequeueRequest(dispatch=dispatch), metadata=self._metadata, timeout=self._call_seconds
            )
        except grpc.RpcError as error:
            raise from_rpc(error) from error

    def status(self) -> Status:
        """The run's ledger, progress and what each waiting thing waits for."""
        return Status.of(self._unary(self._stub.GetStatus, pb.GetStatusRequest()))

    def _unary(self, method: Callable[..., Answer], request: object) -> Answer:
        """Every unary call here is idempotent, so that it can be repeated."""
        retry = Retry(self._retry_seconds, self._sleep, self._call_seconds)
        while True:
            try:
                return method(request, metadata=self._metadata, timeout=self._call_seconds)
            except grpc.RpcError as error:
                retry.wait(error)


def _policy(
    version: int, incarnation: int, endpoints: Sequence[str], paused: bool
) -> pb.SetPolicyRequest:
    return pb.SetPolicyRequest(version=version, incarnation=incarnation, endpoints=endpoints, paused=paused)
