"""Runs coding-agent rollouts on a Paddock server and hands back results and training rows."""

from .aio import AsyncClient
from .client import Batch, Client, Conversation, Group, Rows, rows
from .conversations import AsyncConversation, ConversationState
from .errors import ApiError, BrokenSample, ConnectionLost, NotFinished, NothingToTrain, PaddockError, Untrainable
from .model import (
    BatchSummary,
    Certificate,
    CommandResult,
    Event,
    Failure,
    GroupSummary,
    Member,
    Result,
    Sample,
    TokenSums,
    Transcript,
    Turn,
)
from .row import AsyncRows, Row
from .runs import AsyncBatch, AsyncGroup
from .task import Endpoint, Task, TaskFile

__all__ = [
    "ApiError",
    "AsyncBatch",
    "AsyncClient",
    "AsyncConversation",
    "AsyncGroup",
    "AsyncRows",
    "Batch",
    "BatchSummary",
    "BrokenSample",
    "Certificate",
    "Client",
    "CommandResult",
    "ConnectionLost",
    "Conversation",
    "ConversationState",
    "Endpoint",
    "Event",
    "Failure",
    "Group",
    "GroupSummary",
    "Member",
    "NotFinished",
    "NothingToTrain",
    "PaddockError",
    "Result",
    "Row",
    "Rows",
    "Sample",
    "Task",
    "TaskFile",
    "TokenSums",
    "Transcript",
    "Turn",
    "Untrainable",
    "rows",
]

__version__ = "1.0.0"
