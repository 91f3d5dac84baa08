"""What can go wrong between a caller and a Paddock server. A bad rollout is no error: it is a Result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


class PaddockError(Exception):
    """Everything this package raises on purpose, save for ValueError and TimeoutError about a caller's arguments."""


class ApiError(PaddockError):
    """The server understood and refused. ``code`` is stable; the message is for people."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        issues: Sequence[tuple[str, str]] = (),
        retry_after_s: float | None = None,
    ) -> None:
        # The detail of some refusals already says where.
        where = "; ".join(f"{path}: {message}" for path, message in issues if message not in detail)
        super().__init__(f"{detail} ({where})" if where else detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.issues = tuple(issues)
        """Where a request is wrong: pairs of path and message."""
        self.retry_after_s = retry_after_s
        """What the server asked to wait before the next try."""


class ConnectionLost(PaddockError, ConnectionError):
    """No answer, or half of one, for longer than the client's patience."""


class NotFinished(PaddockError, TimeoutError):
    """The caller's time is up; the rollout goes on and can be waited for again by its id."""

    def __init__(self, rollout_id: str, timeout_s: float) -> None:
        super().__init__(f"{rollout_id} is not finished after {timeout_s:g} s; it goes on")
        self.rollout_id = rollout_id


class Untrainable(PaddockError):
    """A rollout of which no training row may be made, with the reasons."""

    def __init__(self, rollout_id: str, reasons: Sequence[str]) -> None:
        super().__init__(f"no row can be made of {rollout_id}: {'; '.join(reasons)}")
        self.rollout_id = rollout_id
        self.reasons = tuple(reasons)


class NothingToTrain(PaddockError):
    """Not one rollout of a batch has a token to train on. A step on it would do nothing, and say nothing."""

    def __init__(self, skipped: Sequence[Untrainable]) -> None:
        super().__init__(f"none of the {len(skipped)} rollouts can be trained on: {count_reasons(skipped)}")
        self.skipped = tuple(skipped)


def count_reasons(skipped: Sequence[Untrainable]) -> str:
    """Each reason once, the commonest first, with how many rollouts it keeps out."""
    counts = Counter(reason for rollout in skipped for reason in rollout.reasons)
    return "; ".join(f"{count} × {reason}" for reason, count in counts.most_common(5))


class BrokenSample(PaddockError):
    """A sample whose lists do not belong together; training on it would shift every later token."""
