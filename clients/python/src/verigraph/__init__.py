"""Trainer's client: receive batches of scored rollouts, check them, pad them, acknowledge them."""

from verigraph.batch import Batch, pad_rows
from verigraph.errors import (
    Cancelled,
    CheckError,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    FeedError,
    IntegrityError,
    InternalError,
    InvalidArgument,
    LengthError,
    NotFound,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    VerigraphError,
)
from verigraph.feed import Feed
from verigraph.wire import Asked, Group, Ledger, Restored, SetAside, Status

__version__ = "0.1.0"

__all__ = [
    "Asked",
    "Batch",
    "Cancelled",
    "CheckError",
    "DataLoss",
    "DeadlineExceeded",
    "FailedPrecondition",
    "Feed",
    "FeedError",
    "Group",
    "IntegrityError",
    "InternalError",
    "InvalidArgument",
    "Ledger",
    "LengthError",
    "NotFound",
    "ResourceExhausted",
    "Restored",
    "SetAside",
    "Status",
    "Unauthenticated",
    "Unavailable",
    "VerigraphError",
    "pad_rows",
]
