"""Running totals, and windows as differences of two, of any accumulator that can take away what it has combined."""

from __future__ import annotations

import attrs
import numpy as np

from operators.data.page import Int64s
from operators.functions.protocol import Accumulator, Slots, Subtractable, Totalling


def totalling(accumulator: Accumulator) -> Totalling | None:
    """Return a maker of running totals: the accumulator, or its verbs one after the other; None without them."""
    if not isinstance(accumulator, Subtractable):
        return None
    return accumulator if isinstance(accumulator, Totalling) else Stepwise(accumulator, accumulator)


@attrs.frozen(eq=False)
class Stepwise:
    """Make totals and differences by init, combine and subtract."""

    accumulator: Accumulator
    subtractable: Subtractable

    def accumulate(self, into: Slots, source: Slots, before: int) -> None:
        self.accumulator.init(into)
        self.accumulator.combine(*running(into, source, before))

    def difference(self, into: Slots, later: Slots, earlier: Slots) -> None:
        self.accumulator.init(into)
        self.accumulator.combine(into, later)
        known = earlier >= 0
        self.subtractable.subtract(into[known], earlier[known])

    def between(self, later: Slots, earlier: Slots) -> Int64s | None:
        return None


def running(into: Slots, source: Slots, before: int) -> tuple[Slots, Slots]:
    """List what is to be combined into empty slots, and from where, so that they become the totals of `source` so far.

    >>> running(np.array([7, 8], np.int32), np.array([1, 2], np.int32), -1)[1].tolist()
    [1, 7, 2]
    """
    earlier = np.append(np.int32(before), into)[: len(into)]
    pairs = np.repeat(into, 2), np.column_stack((earlier, source)).ravel()
    return pairs if before >= 0 else (pairs[0][1:], pairs[1][1:])
