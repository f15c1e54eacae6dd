"""Find streams that take back or replace tuples, and settle them for operators that need the tuples that stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from oop_engine.errors import PlanError
from operators.data.schema import Schema
from operators.expression import Column
from operators.plan_facts import together
from operators.protocol import Operator
from operators.retractions import Retracted, Settles, retracted
from operators.rows.filter import Filter
from operators.streams.settle import Settle

_REMARK: Final = (
    "results leave when a promise says that nothing changes them any more; what reads them counts each once"
)


@attrs.frozen
class Behind:
    """Hold how an operator treats inputs some of whose tuples take back or replace others."""

    retracted: Retracted | None = None
    """What of its output takes back other tuples."""
    unsettled: frozenset[int] = frozenset()
    """The inputs of which it needs the tuples that stand."""


def after(operator: Operator, inputs: Sequence[tuple[Schema, Retracted | None]], label: str) -> Behind:
    """Say what of an operator's output takes back other tuples, or which inputs have to settle before it.

    PlanError when it must not have the tuples that an input takes back, and nothing tells which of them stand.
    """
    schemas = [schema for schema, _ in inputs]
    some = {port: found for port, (_, found) in enumerate(inputs) if found is not None}
    found = next(iter(some.values()), None)
    answer = retracted(operator, found, schemas)
    if found is not None and len({other.settles for other in some.values()}) > 1:
        answer = "refused"
    if found is None or not isinstance(answer, str):
        assert not isinstance(answer, str)
        return Behind(answer)
    keys = together(operator, schemas).keys
    for port, other in list(some.items()):
        if other.settles is not None and keys and other.settles.apart in keys[port]:
            del some[port]
    for other in some.values():
        if other.settles is not None:
            continue
        if answer == "refused":
            raise PlanError(f"{label}: {other.why}.\n  {other.way}")
        raise PlanError(
            f"{label} does not declare what it does with tuples that take back others; {other.why}.\n  {other.way}\n"
            "  If it can handle them, declare that by a method, retracted (operators.retractions)."
        )
    return Behind(None, frozenset(some))


def settling(settles: Settles) -> Iterator[tuple[Operator, str, str]]:
    """Yield the operators, with labels and remarks, that make of changes the tuples that stand."""
    if settles.change == "firings":
        (name,) = settles.names
        yield Filter(Column(name)), f"keep what is {name}", "early results are left out: the final one replaces them"
        return
    if settles.change == "revisions":
        # Start-up: few windows are given again.
        from operators.window_aggregate.early.refine import Refine

        yield Refine(settles.by), "take back what the next result replaces", ""
    yield Settle(), "settle: leave out what was taken back", _REMARK
