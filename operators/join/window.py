"""The window of a join says which ticks of one input go with a tick of the other: an interval that never moves back.

From that alone follows all that a join may do: a tuple whose interval lies below what the other input has promised has
met all its partners; it need not be stored, and what is stored can go. RANGE on an input says how long its own tuples
stay (thesis 3.2 and Fig 7-1's rules; the bands printed in 5.2.1 and 7.1 have the ranges swapped).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Protocol, runtime_checkable

import attrs
import numpy as np

from operators.data.page import Bools, Int64s
from operators.kernels.ticks import LIMIT
from operators.window.protocol import check_ticks


class JoinWindow(Protocol):
    """The condition on the windowing attributes of both inputs; port 0 is the left, port 1 the right."""

    @property
    def attributes(self) -> tuple[str, str]:
        """Return the windowing attribute of each input."""
        ...

    @property
    def span(self) -> int:
        """Return how many ticks of the other input an interval covers at most."""
        ...

    def partners(self, ticks: Int64s, port: int) -> tuple[Int64s, Int64s]:
        """Return for ticks of one input, shape (n,), the first and the last tick of the other that go with them.

        Neither falls while ticks rise, but for ticks that go with none: there the last is below the first.
        """
        ...

    def settled(self, bound: int, port: int) -> int:
        """Return v such that exactly the tuples with ticks below v have no partner at or above `bound` in the other."""
        ...

    def reach(self, bound: int, port: int) -> int:
        """Return the last tick of the other input that goes with a tick of at most `bound`; for bounds far off too."""
        ...

    def exact(self, left: Int64s, right: Int64s) -> Bools | None:
        """Return which pairs of ticks within each other's intervals go together, shape (n,); None when all do."""
        ...


def check_window(window: JoinWindow) -> None:
    """Check that something is a join window; TypeError with what to write instead."""
    if not all(hasattr(window, name) for name in ("attributes", "partners", "settled", "reach", "exact")):
        raise TypeError(
            f"a join needs a join window, not {window!r};\n"
            '  write e.g. Band("ts", "ts", left=120, right=180), SameWindow("ts", "ts", size=300) or WidJoin(...)'
        )


def unsettled(window: JoinWindow, bound: int, port: int) -> int:
    """Return the least promise of the other input that settles all tuples of a port below a bound.

    - `window`: the join window.
    - `bound`, `port`: a tick, and the input whose tuples below it shall have no partner to come.

    >>> unsettled(Band("ts", "ts", left=3, right=2), 10, 0)
    12
    """
    ticks = range(bound, window.reach(bound, port) + 2)
    return bound + bisect_left(ticks, bound, key=lambda tick: window.settled(tick, port))


@attrs.frozen
class Near:
    """Say when two tuples of one input are so near that one of the other input might meet both.

    They are in one cell of `size` ticks, counted from `origin`; or in cells beside one another, and at most `distance`
    ticks apart.
    """

    size: int
    origin: int = 0
    distance: int = 0


@runtime_checkable
class KnowsNear(Protocol):
    """A join window that says which tuples of one input may have a partner in common."""

    def near(self) -> Near:
        """Return when two tuples of one input are that near."""
        ...


@attrs.frozen
class Band:
    """Sliding windows: a left tuple stays `left` ticks, a right one `right` ticks: l - right < r < l + left.

    Open on both sides, so that tuples exactly a range apart do not meet, as in Eq. 5.19 and 5.20; `closed` lets them
    meet. Source: thesis 5.2.1, 7.1; docs/semantics.md row 22.

    >>> [v.tolist() for v in Band("ts", "ts", left=3, right=2).partners(np.array([10]), 0)]
    [[9], [12]]
    """

    left_attribute: str
    right_attribute: str
    left: int = attrs.field(kw_only=True)
    right: int = attrs.field(kw_only=True)
    closed: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for name, value, attribute in (
            ("left", self.left, self.left_attribute),
            ("right", self.right, self.right_attribute),
        ):
            if not (self.closed and value == 0):
                check_ticks(attribute, **{f"RANGE of the {name} input": value})

    @property
    def attributes(self) -> tuple[str, str]:
        return self.left_attribute, self.right_attribute

    @property
    def span(self) -> int:
        return self.left + self.right + 1

    def partners(self, ticks: Int64s, port: int) -> tuple[Int64s, Int64s]:
        own, other = self._steps(port)
        return ticks - other, ticks + own

    def settled(self, bound: int, port: int) -> int:
        return bound - self._steps(port)[0]

    def reach(self, bound: int, port: int) -> int:
        return bound + self._steps(port)[0]

    def exact(self, left: Int64s, right: Int64s) -> Bools | None:
        return None

    def near(self) -> Near:
        distance = sum(self._steps(0))
        return Near(distance + 1, distance=distance)

    def _steps(self, port: int) -> tuple[int, int]:
        """Return how far a tuple reaches up by its own range, and down by the other's."""
        inside = 0 if self.closed else 1
        own, other = (self.left, self.right) if port == 0 else (self.right, self.left)
        return own - inside, other - inside


@attrs.frozen
class SameWindow:
    """Tumbling windows of `size` ticks from `origin` on: two tuples meet when they are in the same one.

    floor((l - origin) / size) = floor((r - origin) / size), on negative ticks too (thesis 5.2.1, Fig 7-2 with both
    sides of its comparisons in windows; docs/semantics.md rows 29 and 30).

    >>> [v.tolist() for v in SameWindow("ts", "ts", size=5).partners(np.array([7, -1]), 0)]
    [[5, -5], [9, -1]]
    """

    left_attribute: str
    right_attribute: str
    size: int = attrs.field(kw_only=True)
    origin: int = attrs.field(default=0, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for attribute in self.attributes:
            check_ticks(attribute, RANGE=self.size, origin=self.origin)

    @property
    def attributes(self) -> tuple[str, str]:
        return self.left_attribute, self.right_attribute

    @property
    def span(self) -> int:
        return self.size

    def partners(self, ticks: Int64s, port: int) -> tuple[Int64s, Int64s]:
        first = ticks - (ticks - self.origin) % self.size
        return first, first + (self.size - 1)

    def settled(self, bound: int, port: int) -> int:
        return bound - (bound - self.origin) % self.size

    def reach(self, bound: int, port: int) -> int:
        return self.settled(bound, port) + self.size - 1

    def near(self) -> Near:
        return Near(self.size, self.origin)

    def exact(self, left: Int64s, right: Int64s) -> Bools | None:
        return None


def usable(ticks: Int64s) -> Bools | None:
    """Return which ticks are within the range of windowing attributes, shape (n,); None when all are."""
    if len(ticks) == 0 or (int(ticks.min()) > -LIMIT and int(ticks.max()) < LIMIT):
        return None
    return np.asarray((ticks > -LIMIT) & (ticks < LIMIT))
