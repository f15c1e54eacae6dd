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
from operators.functions.arguments import argument, call, refuse
from operators.functions.bag import Bag
from operators.functions.order import FIRST, is_keyed, unkeyed
from operators.functions.protocol import Accumulator, Slots
from operators.functions.shares import percent, rounded_up, share_of


@attrs.frozen
class Quantile:
    """Find the value below which a share of the values of an attribute lies; null when there is none, NaN if one is.

    Exact, from all values of the slot: see `Runs` for what that costs. A window merges nothing: it searches the sorted
    runs of its slices, at 64 steps for each of them.
    """

    argument: str
    q: float = attrs.field()
    name: str = attrs.field(default="quantile", init=False, repr=False)
    invertible: bool = attrs.field(default=True, init=False, repr=False)
    commutative: bool = attrs.field(default=True, init=False, repr=False)
    arrival_order: bool = attrs.field(default=False, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        share_of(self.q, where=self._where, zero=True)

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.argument,)

    def output_name(self) -> str:
        """Return "p95_x" for q = 0.95, "p99_9_x" for 0.999."""
        return f"p{percent(self.q)}_{self.argument}"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a field of the argument's type; SchemaError for what is neither number nor time."""
        return _ranked(schema, self.argument, self._where).with_name(name).with_nullable(True)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        share = share_of(self.q, where=self._where, zero=True)
        return Bag(_ranked(schema, self.argument, self._where), AtShare(share))

    @property
    def _where(self) -> str:
        return call(self.name, self.argument, str(self.q))


@attrs.frozen
class Median:
    """Find the lower median of an attribute: the quantile at one half, with which it shares everything."""

    argument: str
    name: str = attrs.field(default="median", init=False, repr=False)
    invertible: bool = attrs.field(default=True, init=False, repr=False)
    commutative: bool = attrs.field(default=True, init=False, repr=False)
    arrival_order: bool = attrs.field(default=False, init=False, repr=False)

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.argument,)

    def output_name(self) -> str:
        """Return "median_x"."""
        return f"median_{self.argument}"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a field of the argument's type; SchemaError for what is neither number nor time."""
        where = call(self.name, self.argument)
        return _ranked(schema, self.argument, where).with_name(name).with_nullable(True)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Bag(_ranked(schema, self.argument, call(self.name, self.argument)), AtShare(Fraction(1, 2)))


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


def _ranked(schema: Schema, name: str, where: str) -> pa.Field:
    field = argument(schema, name, where=where)
    if not is_keyed(field.type):
        raise refuse(where, field, "numbers or times are needed", f"Write mode({name}) for the most frequent value.")
    return field
