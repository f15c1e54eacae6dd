"""The errors of plans, data and operators, by whose fault they are; files, sinks and Spark have their own."""

from __future__ import annotations

from operators.errors import AggregateFailure, AggregateOverflow, OperatorBug, SchemaError
from punctuation.errors import Error, StreamError, StreamViolation


class PlanError(Error, ValueError):
    """Report that a plan cannot do what is asked of it, for example because nothing promises an attribute, and what to
    change.
    """


class CheckpointError(Error, ValueError):
    """Report that a run cannot go on from a checkpoint: it is damaged, or of another query, or of other files."""


class MemoryLimitError(Error, RuntimeError):
    """Report that a run needs more memory than its limit, which operator holds it, and what to change."""


class NotRunning(Error, RuntimeError):
    """Report that a run that was asked does not run, or does not answer."""

    def __init__(self, message: str, *, answers: bool = False) -> None:
        super().__init__(message)
        self.answers = answers
        """Whether a process is there all the same."""


__all__ = [
    "AggregateFailure",
    "AggregateOverflow",
    "CheckpointError",
    "Error",
    "MemoryLimitError",
    "NotRunning",
    "OperatorBug",
    "PlanError",
    "SchemaError",
    "StreamError",
    "StreamViolation",
]
