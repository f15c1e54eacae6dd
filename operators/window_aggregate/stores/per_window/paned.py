"""Panes: a sliding window is a sequence of tumbling panes, aggregated once, and a window over the panes' results.

`split` gives the two window specifications, `Costs` says when panes pay (thesis 6.2.1 and 6.2.3). `WindowAggregate`
keeps slices, the longest sub-windows that share all their windows: a pane or several panes in a row, never less, so
that where RANGE is no multiple of SLIDE there are at most as many of them as panes.
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


@attrs.frozen
class Costs:
    """Costs of one step, in any unit: a tuple into a pane, a result out of a pane, a result into a window, and without
    panes a tuple into a window (a, b, c and a' of Eq. 6.1 to 6.4).
    """

    tuple_in: float = 1.0
    pane_out: float = 1.0
    pane_in: float = 1.0
    tuple_in_window: float = 1.0

    def paned(self, window: SlidingWindow, *, tuples: float, groups: float, differential: bool) -> float:
        """Cost of a window with panes, for so many tuples a window and groups a pane (Eq. 6.1, 6.2)."""
        pane = gcd(window.size, window.slide)
        panes = window.size // pane
        moved = 2 * (window.slide // pane) if differential else panes
        return self.tuple_in * tuples / panes + self.pane_out * groups + self.pane_in * groups * moved

    def plain(self, window: SlidingWindow, *, tuples: float, differential: bool) -> float:
        """Cost of a window without panes (Eq. 6.3; 6.4 for a buffer that adds and subtracts single tuples)."""
        if differential:
            return 2 * self.tuple_in_window * window.slide * tuples / window.size
        return self.tuple_in_window * tuples

    def prefer_panes(self, window: SlidingWindow, *, tuples: float, groups: float, differential: bool = False) -> bool:
        """Return whether panes are cheaper; they are not for many groups a pane, or few panes a window.

        >>> Costs().prefer_panes(SlidingWindow("ts", size=60, slide=1), tuples=6e6, groups=1000)
        True
        >>> Costs().prefer_panes(SlidingWindow("ts", size=60, slide=60), tuples=6e6, groups=6e6)
        False
        """
        with_panes = self.paned(window, tuples=tuples, groups=groups, differential=differential)
        return with_panes < self.plain(window, tuples=tuples, differential=differential)
