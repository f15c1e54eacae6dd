"""Panes: a sliding window is a sequence of tumbling panes, aggregated once, and a window over the panes' results.

`split` gives the two window specifications; when panes pay, `operators.window_aggregate.strategy.Costs` says.
`WindowAggregate` keeps slices, the longest sub-windows that share all their windows: a pane or several panes in a row,
never less, so that where RANGE is no multiple of SLIDE there are at most as many of them as panes.
"""

from __future__ import annotations

from math import gcd
from typing import Final

import attrs

from operators.errors import SchemaError
from operators.functions import count, max, min, sum
from operators.functions.protocol import AggregateFunction
from operators.window import SlidingWindow
from operators.window_aggregate.stores.per_window.wid import WID


def split(window: SlidingWindow, *, pane_id: str = WID) -> tuple[SlidingWindow, SlidingWindow]:
    """Return the windows of the pane-level and of the window-level sub-query (PLQ, WLQ; Fig 6-14).

    Panes are as long as the greatest common divisor of RANGE and SLIDE; the WLQ's window goes over their ids, from the
    origin of the PLQ, not from the first pane there is (docs/semantics.md row 14).

    >>> split(SlidingWindow("ts", size=9, slide=6, origin=1))  # doctest: +NORMALIZE_WHITESPACE
    (SlidingWindow(wattr='ts', size=3, slide=3, origin=1, partial=True),
     SlidingWindow(wattr='wid', size=3, slide=2, origin=0, partial=True))
    """
    pane = gcd(window.size, window.slide)
    plq = SlidingWindow(window.wattr, size=pane, slide=pane, origin=window.origin)
    wlq = SlidingWindow(pane_id, size=window.size // pane, slide=window.slide // pane, partial=window.partial)
    return plq, wlq


@attrs.frozen
class Sub:
    """The functions that panes compute, and those over the panes' results: F = S({L}) (thesis 6.2.2.2)."""

    panes: tuple[AggregateFunction, ...]
    windows: tuple[AggregateFunction, ...]


def sub_aggregates(function: AggregateFunction, names: tuple[str, ...]) -> Sub:
    """Return a function's sub- and super-aggregates; `names` are those of the pane results, one a sub-aggregate.

    An average's windows give a sum and a number, to be divided. SchemaError for functions that panes compute only with
    states larger than results: a median needs its panes' values, which slices hold and a sub-query does not give.

    >>> sub_aggregates(count(), ("n",))
    Sub(panes=(Count(argument=None),), windows=(Sum(argument='n'),))
    """
    argument = function.arguments[0] if function.arguments else None
    match function.name:
        case "count":
            return Sub((function,), (sum(names[0]),))
        case "sum":
            return Sub((function,), (sum(names[0]),))
        case "max":
            return Sub((function,), (max(names[0]),))
        case "min":
            return Sub((function,), (min(names[0]),))
        case "avg" if argument is not None:
            return Sub((sum(argument), count(argument)), (sum(names[0]), sum(names[1])))
        case _:
            raise SchemaError(
                f"{function.output_name()}: a pane's result does not tell what a window needs of it.\n"
                "  Aggregate the window itself; its slices share their states as panes share results."
            )


SUBS: Final = {"count": 1, "sum": 1, "max": 1, "min": 1, "avg": 2}
"""Number of sub-aggregates of each function that has them."""
