"""Trainer's client: receive batches of scored rollouts, check them, pad them, acknowledge them."""

from verigraph.arrays import pad_rows
from verigraph.batch import Batch
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
from verigraph.feed import Asked, Feed, Group, Ledger, Restored, SetAside, Status

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
