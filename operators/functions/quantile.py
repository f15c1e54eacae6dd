"""A quantile is one of the values: the least that at least a share q of them do not exceed, the nearest-rank rule.

Of n values in order it is the one with number ceil(q * n), the first for q = 0. So the median of an even number of
values is the lower of the two in the middle, and a quantile has the type of its argument, times among them.
"""

from __future__ import annotations

from fractions import Fraction

import attrs
import numpy as np
import pyarrow as pa

from operators.data.schema import Schema
from operators.functions.arguments import call, refuse
from operators.functions.bag import Bag
from operators.functions.function import OfOne
from operators.functions.order import FIRST, is_keyed, unkeyed
from operators.functions.protocol import Accumulator, Slots
from operators.functions.shares import percent, rounded_up, share_of


class _Ranked(OfOne):
    """A function whose result is one of the values, found in a bag of them."""

    __slots__ = ()
    invertible = True

    def _field(self, schema: Schema) -> pa.Field:
        field = super()._field(schema)
        if not is_keyed(field.type):
            instead = f"Write mode({self.argument}) for the most frequent value."
            raise refuse(self._where, field, "numbers or times are needed", instead)
        return field


@attrs.frozen
class Quantile(_Ranked):
    """Find the value below which a share of the values of an attribute lies; null when there is none, NaN if one is.

    Exact, from all values of the slot: see `Runs` for what that costs. A window merges nothing: it searches the sorted
    runs of its slices, at 64 steps for each of them.
    """

    q: float = attrs.field()
    name = "quantile"

    def __attrs_post_init__(self) -> None:
        share_of(self.q, where=self._where, zero=True)

    def output_name(self) -> str:
        """Return "p95_x" for q = 0.95, "p99_9_x" for 0.999."""
        return f"p{percent(self.q)}_{self.argument}"

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Bag(self._field(schema), AtShare(share_of(self.q, where=self._where, zero=True)))

    @property
    def _where(self) -> str:
        return call(self.name, self.argument, str(self.q))


@attrs.frozen
class Median(_Ranked):
    """Find the lower median of an attribute: the quantile at one half, with which it shares everything."""

    name = "median"

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Bag(self._field(schema), AtShare(Fraction(1, 2)))


@attrs.frozen
class AtShare:
    """Ask for the value at a share."""

    share: Fraction

    def answer(self, bag: Bag, slots: Slots) -> pa.Array:
        """Return one value of each slot, null of an empty one."""
        totals, undefined = bag.totals(slots)
        there = totals > 0
        ranks = np.where(there, np.maximum(rounded_up(self.share, totals), 1), 0)
        found = bag.runs.select(slots, ranks)
        return unkeyed(np.where(undefined, FIRST, found), there, bag.field.type)
