"""Gaps are the distances between neighbours when the values of a slot stand in order: how regular something comes.

They are those of the values, not of their arrival: a slot's values are kept as a bag and set in order at the end, so
disorder changes nothing. n values have n - 1 gaps; equal values have gaps of 0.
"""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data.page import Int64s
from operators.data.schema import Schema
from operators.functions.arguments import refuse, result
from operators.functions.bag import Bag
from operators.functions.function import OfOne
from operators.functions.protocol import Accumulator, Slots
from operators.functions.runs import Merged


class _Spaced(OfOne):
    """A function of the gaps between the values of an attribute, which a bag holds."""

    __slots__ = ()
    invertible = True

    def _field(self, schema: Schema) -> pa.Field:
        field = super()._field(schema)
        if pa.types.is_integer(field.type) or pa.types.is_duration(field.type) or pa.types.is_timestamp(field.type):
            return field
        instead = "Cast it to a timestamp or an integer before."
        raise refuse(self._where, field, "integers or times are needed", instead)


@attrs.frozen
class MeanGap(_Spaced):
    """Average the gaps of an attribute: (largest - least) / (n - 1), null with fewer than two values.

    A duration for times, rounded to its unit, half to even, else float64. Cost: as for `Mode`.
    """

    name = "mean_gap"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a field of duration or float64; SchemaError for what is neither integer nor time."""
        return pa.field(name, _distance(self._field(schema).type))

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Bag(self._field(schema), Means())


@attrs.frozen
class GapVariation(_Spaced):
    """Compute the coefficient of variation of the gaps of an attribute: their standard deviation over their mean.

    0 for what comes like clockwork, about 1 for what comes at random (Poisson), more for bursts. Null with fewer than
    two gaps, or where all values are equal. Cost: as for `Mode`.
    """

    name = "gap_variation"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a float64 field; SchemaError for what is neither integer nor time."""
        self._field(schema)
        return pa.field(name, pa.float64())

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Bag(self._field(schema), Variations())


@attrs.frozen
class Means:
    """Ask for the mean gap."""

    def answer(self, bag: Bag, slots: Slots) -> pa.Array:
        """Return one mean of each slot, null of one with fewer than two values."""
        kind = _distance(bag.field.type)
        values = np.zeros(len(slots), np.float64 if kind == pa.float64() else np.int64)
        there = np.zeros(len(slots), np.bool_)
        for merged in bag.runs.merged(slots):
            found, gaps, extents = _extents(merged)
            some = gaps > 0
            found, gaps, extents = found[some], gaps[some], extents[some]
            there[found] = True
            values[found] = _divided(extents, gaps) if kind == pa.float64() else _nearest(extents, gaps)
        return result(values, there, kind)


@attrs.frozen
class Variations:
    """Ask for the coefficient of variation of the gaps."""

    def answer(self, bag: Bag, slots: Slots) -> pa.Array:
        """Return one coefficient of each slot, null of one with fewer than two gaps or with a mean of 0."""
        values, there = np.zeros(len(slots)), np.zeros(len(slots), np.bool_)
        for merged in bag.runs.merged(slots):
            found, gaps, extents = _extents(merged)
            if not len(found):
                continue
            starts = merged.offsets[:-1][found - merged.first]
            different = np.diff(merged.offsets)[found - merged.first]
            means = np.where(extents > 0, extents / np.maximum(gaps, 1), 1.0)
            keys = merged.keys[: int(merged.offsets[-1])].view(np.uint64)
            strayed = np.zeros(len(keys))
            strayed[1:] = (keys[1:] - keys[:-1]).astype(np.float64)
            strayed = np.square(strayed / np.repeat(means, different) - 1.0)
            # The first key of a slot ends no gap; equal values are as far from the mean as it is large.
            strayed[starts] = 0.0
            sums = np.add.reduceat(strayed, starts) + (gaps - (different - 1))
            some = (gaps > 1) & (extents > 0)
            there[found[some]] = True
            values[found[some]] = np.sqrt(sums[some] / gaps[some])
        return result(values, there, pa.float64())


def _extents(merged: Merged) -> tuple[Int64s, Int64s, npt.NDArray[np.uint64]]:
    """Return the places of slots that have a value, how many gaps each has, and the distance from first to last."""
    used = int(merged.offsets[-1])
    counted = np.concatenate([np.zeros(1, np.int64), np.cumsum(merged.counts[:used])])
    filled = np.flatnonzero(np.diff(merged.offsets))
    starts, stops = merged.offsets[:-1][filled], merged.offsets[1:][filled]
    keys = merged.keys.view(np.uint64)
    return merged.first + filled, counted[stops] - counted[starts] - 1, keys[stops - 1] - keys[starts]


def _divided(over: npt.NDArray[np.uint64], under: Int64s) -> npt.NDArray[np.float64]:
    """Divide to the nearest float64, also what has more than 53 bits."""
    found = over / under
    for wide in np.flatnonzero(over >= np.uint64(2**53)).tolist():
        found[wide] = int(over[wide]) / int(under[wide])
    return found


def _nearest(over: npt.NDArray[np.uint64], under: Int64s) -> Int64s:
    """Divide to the nearest integer, half to even; capped where a duration cannot hold it."""
    by = under.astype(np.uint64)
    whole, rest = np.divmod(over, by)
    up = (rest > by - rest) | ((rest == by - rest) & (whole % np.uint64(2) == 1))
    return np.minimum(whole + up, np.uint64(2**63 - 1)).astype(np.int64)


def _distance(kind: pa.DataType) -> pa.DataType:
    """Return the type of distances between values of a type."""
    if pa.types.is_integer(kind):
        return pa.float64()
    return pa.duration(kind.unit)
