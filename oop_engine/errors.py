"""Whose fault an error is; all are an `Error`. Those of files, sinks, processes, Spark are beside what raises them."""

from __future__ import annotations

from operators.errors import AggregateFailure, AggregateOverflow, OperatorBug, SchemaError
from punctuation.errors import Error, StreamError, StreamViolation


class PlanError(Error, ValueError):
    """Say that a plan cannot do what is asked of it: nothing promises an attribute, an input is missing."""


__all__ = [
    "AggregateFailure",
    "AggregateOverflow",
    "Error",
    "OperatorBug",
    "PlanError",
    "SchemaError",
    "StreamError",
    "StreamViolation",
]
