"""Whose fault an error is, in one place: every class a user may want to catch."""

from __future__ import annotations

from operators.errors import AggregateOverflow, OperatorBug, SchemaError
from punctuation.errors import StreamError, StreamViolation


class PlanError(ValueError):
    """Say that a plan cannot do what is asked of it: nothing promises an attribute, an input is missing."""


__all__ = ["AggregateOverflow", "OperatorBug", "PlanError", "SchemaError", "StreamError", "StreamViolation"]
