"""The most frequent values of a slot, counted exactly; of equally frequent ones the smaller comes first.

A heavy hitter has at least a given share of all values of the slot: with no groups, of the window (query Q6-4 of the
thesis, section 6.2.4). Counts are added and subtracted, so a window follows from the one before it.
"""

from __future__ import annotations

from fractions import Fraction

import attrs
import numpy as np
import pyarrow as pa

from operators.data.page import Int64s
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.arguments import call, refuse
from operators.functions.bag import Bag
from operators.functions.function import OfOne
from operators.functions.order import is_ordered
from operators.functions.protocol import Accumulator, Slots
from operators.functions.shares import is_count, rounded_up, share_of
from operators.kernels.functions.selection import leading


class _Counted(OfOne):
    """A function that counts how often each value occurs."""

    __slots__ = ()
    invertible = True

    def _field(self, schema: Schema) -> pa.Field:
        field = super()._field(schema)
        if not is_ordered(field.type):
            instead = "Project it to numbers, times, text or binary before."
            raise refuse(self._where, field, "its values have no order", instead)
        return field


@attrs.frozen
class Mode(_Counted):
    """Find the most frequent value of an attribute, the smallest of several; null when there is none.

    Cost: see `Runs`, and merging them when a window is released.
    """

    name = "mode"

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Bag(self._field(schema), MostFrequent())


class _Listed(_Counted):
    """A function whose result is a list of values with their counts."""

    __slots__ = ()

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a field of lists of (value, count); SchemaError when values cannot be told apart."""
        return pa.field(name, listed(self._field(schema)), nullable=False)


@attrs.frozen
class TopK(_Listed):
    """List the k most frequent values of an attribute with their counts, most frequent first; empty when there is none.

    Cost: as for `Mode`.
    """

    k: int = attrs.field()
    name = "top_k"

    def __attrs_post_init__(self) -> None:
        if not is_count(self.k) or self.k < 1:
            raise SchemaError(f"{self._where}: k is {self.k}; it says how many values are listed.\n  Write 5, say.")

    def output_name(self) -> str:
        """Return "top_5_x" for k = 5."""
        return f"top_{self.k}_{self.argument}"

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Bag(self._field(schema), Leaders(self.k, Fraction(0)))

    @property
    def _where(self) -> str:
        return call(self.name, self.argument, str(self.k))


@attrs.frozen
class HeavyHitters(_Listed):
    """List the values that are at least a share of all of an attribute's values, with their counts, as `TopK` does.

    A share is the decimal as written: 0.05 is one in twenty. Nulls are not among the values. Cost: as for `Mode`.
    """

    share: float = attrs.field()
    name = "heavy_hitters"

    def __attrs_post_init__(self) -> None:
        share_of(self.share, where=self._where, zero=False)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        share = share_of(self.share, where=self._where, zero=False)
        return Bag(self._field(schema), Leaders(int(1 / share), share))

    @property
    def _where(self) -> str:
        return call(self.name, self.argument, str(self.share))


@attrs.frozen
class MostFrequent:
    """Ask for the value with the largest count."""

    def answer(self, bag: Bag, slots: Slots) -> pa.Array:
        """Return one value of each slot, null of an empty one."""
        numbers, keys, _ = _leaders(bag, slots, 1, Fraction(0))
        there = numbers > 0
        found = np.zeros(len(slots), np.int64)
        found[there] = keys
        return bag.values(found, there)


@attrs.frozen
class Leaders:
    """Ask for no more than `most` values with the largest counts, each at least a share of all."""

    most: int
    share: Fraction

    def answer(self, bag: Bag, slots: Slots) -> pa.Array:
        """Return a list of (value, count) of each slot."""
        numbers, keys, counts = _leaders(bag, slots, self.most, self.share)
        return list_of(bag.field, bag.values(keys, np.ones(len(keys), np.bool_)), counts, numbers)


def _leaders(bag: Bag, slots: Slots, most: int, share: Fraction) -> tuple[Int64s, Int64s, Int64s]:
    """Return how many values of each slot lead, and the keys and counts of all of them, slot by slot."""
    enough = np.ones(len(slots), np.int64) if share == 0 else rounded_up(share, bag.totals(slots)[0])
    numbers = np.zeros(len(slots), np.int64)
    found: list[tuple[Int64s, Int64s]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for merged in bag.runs.merged(slots):
        parts = slice(merged.first, merged.stop)
        longest = int(np.diff(merged.offsets).max(initial=0))
        wanted = max(1, min(most, longest))
        places = np.empty(wanted * (merged.stop - merged.first), np.int64)
        leading(merged.offsets, bag.order(merged), merged.counts, wanted, enough[parts], places, numbers[parts])
        kept = np.arange(wanted) < numbers[parts][:, None]
        chosen = places.reshape(-1, wanted)[kept]
        found.append((merged.keys[chosen], merged.counts[chosen]))
    keys, counts = zip(*found, strict=True)
    return numbers, np.concatenate(keys), np.concatenate(counts)


def listed(field: pa.Field) -> pa.ListType:
    """Return the type of lists of (value, count) of an attribute."""
    value = pa.field("value", field.type, metadata=field.metadata, nullable=False)
    return pa.list_(pa.struct([value, pa.field("count", pa.int64(), nullable=False)]))


def list_of(field: pa.Field, values: pa.Array, counts: Int64s, numbers: Int64s) -> pa.Array:
    """Make lists of (value, count), one for each of `numbers`, that of as many of them."""
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(numbers))).astype(np.int32)
    kind = listed(field)
    pairs = pa.StructArray.from_arrays([values, pa.array(counts)], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=kind)
