"""Typed errors: one class per wire code, and one each for damaged, broken and over-long batches.

All of them survive pickling, since Ray carries them from worker to trainer.
"""

import grpc


class VerigraphError(Exception):
    """Base of everything this package raises on purpose."""


class FeedError(VerigraphError):
    """The server answered with an error. `code` is its grpc.StatusCode, `details` its text."""

    def __init__(self, code: grpc.StatusCode, details: str):
        super().__init__(f"{code.name}: {details}")
        self.code = code
        self.details = details

    def __reduce__(self) -> tuple:
        return type(self), (self.code, self.details)


class InvalidArgument(FeedError):
    """The request can never succeed, e.g. an acknowledgement of a batch that does not exist."""


class Unauthenticated(FeedError):
    """The token is missing or wrong."""


class NotFound(FeedError):
    """The batch does not exist and never will."""


class FailedPrecondition(FeedError):
    """The batch is acknowledged, the run takes no more prompts, or a later incarnation of the trainer spoke."""


class ResourceExhausted(FeedError):
    """The server's backlog is full; try again later."""


class DataLoss(FeedError):
    """The stored batch is gone or has changed."""


class Unavailable(FeedError):
    """The server could not be reached within the retry time."""


class DeadlineExceeded(FeedError):
    """The call took too long."""


class Cancelled(FeedError):
    """The call was cancelled."""


class InternalError(FeedError):
    """The server failed in a way it has no better name for."""


_BY_CODE = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.DATA_LOSS: DataLoss,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.INTERNAL: InternalError,
}


def from_rpc(error: grpc.RpcError) -> FeedError:
    """The typed form of a gRPC error; a code without a class of its own gives a plain FeedError."""
    code = error.code()
    return _BY_CODE.get(code, FeedError)(code, error.details() or "")


class IntegrityError(VerigraphError):
    """The bytes that arrived are not the bytes that the batch's record promises."""


class CheckError(VerigraphError, ValueError):
    """A batch breaks its contract. `problems` lists every way in which it does."""

    def __init__(self, sequence: int, problems: list[str]):
        super().__init__(f"batch {sequence}: " + "; ".join(problems))
        self.sequence = sequence
        self.problems = problems

    def __reduce__(self) -> tuple:
        return type(self), (self.sequence, self.problems)


class LengthError(VerigraphError, ValueError):
    """Rows are longer than the padded shape. Nothing is ever cut."""
