"""The centre of mass is the mean of x weighted by w: sum(w * x) / sum(w), exact and rounded once for whole numbers."""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Bools, Int64s, Page
from operators.data.schema import Schema
from operators.errors import AggregateOverflow
from operators.functions.arguments import (
    Float64s,
    argument,
    call,
    floating,
    is_floating,
    is_point_in_time,
    is_whole,
    plain,
    refuse,
    result,
    whole,
)
from operators.functions.columns import StateColumns, frozen, present
from operators.functions.function import Function
from operators.functions.protocol import Accumulator, Slots
from operators.functions.sums import EXACT
from operators.kernels.functions.mass import (
    add_floating_mass,
    add_whole_mass,
    combine_floating_mass,
    combine_whole_mass,
    subtract_whole_mass,
)
from operators.kernels.functions.sums import SIGNED, UNSIGNED
from operators.kernels.ticks import FOREVER


@attrs.frozen
class CentreOfMass(Function):
    """Average an attribute, each value as often as its weight says: float64, or a duration.

    Tuples with a null in either are skipped. Null when there is no tuple or the weights add up to zero. Of whole values
    and weights the sums are exact and the quotient is rounded once (a duration to the nearest tick, ties to even).
    Cost: 48 bytes a slot, 40 for floating numbers.
    """

    value: str
    weight: str
    name = "centre_of_mass"
    invertible = True

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.value, self.weight)

    def output_name(self) -> str:
        """Return "centre_of_mass_x_w"."""
        return f"centre_of_mass_{self.value}_{self.weight}"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a float64 or duration field; SchemaError for what does not add up."""
        kind = self._fields(schema)[0].type
        return pa.field(name, kind if pa.types.is_duration(kind) else pa.float64())

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        value, weight = self._fields(schema)
        exact = is_whole(value.type) and is_whole(weight.type)
        return WholeMass(value, weight) if exact else FloatingMass(value, weight)

    def _fields(self, schema: Schema) -> tuple[pa.Field, pa.Field]:
        where = call(self.name, self.value, self.weight)
        value, weight = (argument(schema, name, where=where) for name in self.arguments)
        for field in (value, weight):
            if is_point_in_time(field.type):
                instead = "Subtract a time from it before: durations have a mean."
                raise refuse(where, field, "points in time do not add up", instead)
            if not (is_whole(field.type) or is_floating(field.type)):
                why = "numbers, truth values or durations are needed"
                raise refuse(where, field, why, "Cast it to int64 or float64 before.")
        return value, weight


@attrs.define(eq=False)
class WholeMass(StateColumns):
    """Hold exact sums of products and of weights, and the number of values, a slot."""

    value: pa.Field
    weight: pa.Field
    _mass: Int64s = attrs.field(factory=lambda: np.zeros((0, 6), np.int64), init=False, metadata=memory.slots())

    def init(self, slots: Slots) -> None:
        self._mass[slots] = 0

    def update(self, slots: Slots, page: Page) -> None:
        slots, skipped = _both(slots, page, self.value, self.weight)
        self.nulls += skipped
        signs = [UNSIGNED if pa.types.is_uint64(f.type) else SIGNED for f in (self.value, self.weight)]
        values, weights = (whole(plain(page, f.name)) for f in (self.value, self.weight))
        add_whole_mass(slots, values, signs[0], weights, signs[1], self._mass)

    def combine(self, into: Slots, source: Slots) -> None:
        combine_whole_mass(frozen(into), frozen(source), self._mass)

    def subtract(self, into: Slots, source: Slots) -> None:
        subtract_whole_mass(frozen(into), frozen(source), self._mass)

    def finalize(self, slots: Slots) -> pa.Array:
        low, middle, high, weight, over, number = self._mass[slots].T
        there = (number > 0) & ((weight != 0) | (over != 0))
        short = (middle == low >> np.int64(63)) & (high == middle >> np.int64(63)) & (over == weight >> np.int64(63))
        for word in (low, weight):
            short &= (word >= -EXACT) & (word <= EXACT)
        ticks = pa.types.is_duration(self.value.type)
        # Adding zero makes 0.0 of the -0.0 that zero over a negative weight is.
        means = np.zeros(len(slots), np.int64) if ticks else low / np.where(there & short, weight, 1) + 0.0
        # Only up to 53 bits is the quotient of two float64 that of the whole numbers; Python divides longer ones.
        for i in np.flatnonzero(there if ticks else there & ~short):
            product = (int(high[i]) << 128) + (_unsigned(middle[i]) << 64) + _unsigned(low[i])
            weights = (int(over[i]) << 64) + _unsigned(weight[i])
            mean = _nearest(product, weights) if ticks else product / weights + 0.0
            if ticks and not -FOREVER <= mean <= FOREVER:
                raise self._overflow(mean, int(slots[i]))
            means[i] = mean
        return result(means, there, self.value.type if ticks else pa.float64())

    def free(self, slots: Slots) -> None:
        pass

    def _overflow(self, mean: float, slot: int) -> AggregateOverflow:
        error = AggregateOverflow(
            f"{call('centre_of_mass', self.value.name, self.weight.name)}: the exact mean of a group is {mean}, which "
            "does not fit 64 bits.\n  Weights of both signs can do that; use weights that are not negative."
        )
        error.slot = slot
        return error


@attrs.define(eq=False)
class FloatingMass(StateColumns):
    """Hold sums of products and of weights with what rounding lost of them, and the number of values, a slot."""

    value: pa.Field
    weight: pa.Field
    _mass: Float64s = attrs.field(factory=lambda: np.zeros((0, 5), np.float64), init=False, metadata=memory.slots())

    def init(self, slots: Slots) -> None:
        self._mass[slots] = 0.0

    def update(self, slots: Slots, page: Page) -> None:
        slots, skipped = _both(slots, page, self.value, self.weight)
        self.nulls += skipped
        values, weights = (floating(plain(page, f.name)) for f in (self.value, self.weight))
        with np.errstate(over="ignore", invalid="ignore"):
            add_floating_mass(slots, frozen(values * weights), weights, self._mass)

    def combine(self, into: Slots, source: Slots) -> None:
        combine_floating_mass(frozen(into), frozen(source), self._mass)

    def finalize(self, slots: Slots) -> pa.Array:
        product, lost, weight, weight_lost, number = self._mass[slots].T
        with np.errstate(over="ignore", invalid="ignore"):
            product, weight = _whole_sum(product, lost), _whole_sum(weight, weight_lost)
            there = (number > 0) & (weight != 0)
            means = product / np.where(there, weight, 1.0)
        if pa.types.is_duration(self.value.type):
            return result(np.rint(np.where(there, means, 0.0)).astype(np.int64), there, self.value.type)
        return result(means, there, pa.float64())

    def free(self, slots: Slots) -> None:
        pass


def _both(slots: Slots, page: Page, value: pa.Field, weight: pa.Field) -> tuple[Slots, int]:
    valid: Bools | None = page.valid(value.name)
    there = page.valid(weight.name)
    valid = there if valid is None else valid if there is None else valid & there
    return present(slots, valid)


def _whole_sum(total: Float64s, lost: Float64s) -> Float64s:
    # An infinite sum leaves no meaning in what rounding lost.
    return np.where(np.isfinite(lost), total + np.where(np.isfinite(lost), lost, 0.0), total)


def _unsigned(word: np.int64) -> int:
    return int(word) & ((1 << 64) - 1)


def _nearest(over: int, under: int) -> int:
    """Divide whole numbers, rounding to the nearest, ties to even."""
    if under < 0:
        over, under = -over, -under
    ticks, left = divmod(over, under)
    return ticks + (2 * left + ticks % 2 > under)
