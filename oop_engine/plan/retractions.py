"""Find streams that take back or replace tuples, and refuse operators that would count such tuples twice."""

from __future__ import annotations

from collections.abc import Sequence

from oop_engine.errors import PlanError
from operators.data.schema import Schema
from operators.protocol import Operator
from operators.retractions import Retracted, retracted


def after(operator: Operator, inputs: Sequence[tuple[Schema, Retracted | None]], label: str) -> Retracted | None:
    """Say what of an operator's output takes back other tuples; PlanError when it must not have those of its inputs."""
    found = next((some for _, some in inputs if some is not None), None)
    answer = retracted(operator, found, [schema for schema, _ in inputs])
    if found is not None and answer == "refused":
        raise PlanError(f"{label}: {found.why}.\n  {found.way}")
    if found is not None and answer == "unsaid":
        raise PlanError(
            f"{label} does not declare what it does with tuples that take back others; {found.why}.\n  {found.way}\n"
            "  If it can handle them, declare that by a method, retracted (operators.retractions)."
        )
    assert not isinstance(answer, str)
    return answer
