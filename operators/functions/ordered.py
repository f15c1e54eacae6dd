"""A function that is not commutative is over its tuples in the order of the windowing attribute, ties by arrival.

An operator that aggregates out-of-order pages for it keeps tuples until a promise makes their order certain (Scotty,
TODS 2021, Fig 4), or refuses it. Numbers of arrival are the exception: over them, every stream is in order. Functions
of the order of arrival, such as first and last, are commutative: their states tell when their tuples arrived.
"""

from __future__ import annotations

from collections.abc import Mapping

from operators.data.schema import ROW_NUM
from operators.errors import SchemaError
from operators.functions.protocol import AggregateFunction
from operators.window import PartitionedWindow, Window


def ordered(function: AggregateFunction) -> bool:
    """Return whether a function is over its tuples in the order of the windowing attribute."""
    return not function.commutative


def by_arrival(window: Window) -> bool:
    """Return whether windows are over numbers of arrival, so that tuples come in order."""
    return isinstance(window, PartitionedWindow) or window.wattr == ROW_NUM


def refuse_ordered(functions: Mapping[str, AggregateFunction], window: Window, where: str) -> None:
    """Check that no function needs an order that is not that of arrival; SchemaError names the first that does."""
    if by_arrival(window):
        return
    for name, function in functions.items():
        if ordered(function):
            raise SchemaError(
                f"{where}: {name} ({function.name}) is not commutative, so it is over tuples in the order of"
                f" {window.wattr}, which is lost here: tuples are aggregated as they arrive.\n"
                '  Write strategy="slicing" or strategy="buffer", which keep tuples until their order is certain;'
                " or declare it commutative, if it is."
            )
