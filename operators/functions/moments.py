"""Variance and standard deviation in float64, stable whatever the mean: Welford in a slot, Chan et al. across slots."""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Page
from operators.data.schema import Schema
from operators.functions.arguments import Float64s, floating, is_floating, is_whole, plain, refuse, result
from operators.functions.columns import StateColumns, frozen, present
from operators.functions.function import OfOne
from operators.functions.protocol import Accumulator, Slots
from operators.kernels.functions.moments import add_moments, combine_moments


@attrs.frozen
class _Spreading(OfOne):
    """A function of how far the values of an attribute are from their mean."""

    ddof: int = attrs.field(default=1, kw_only=True, validator=attrs.validators.in_((0, 1)))

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        field = self._field(schema)
        return Moments(field.name, field.type, self.name, self.ddof)

    def _field(self, schema: Schema) -> pa.Field:
        field = super()._field(schema)
        if is_whole(field.type) or is_floating(field.type):
            return field
        raise refuse(self._where, field, "numbers are needed", "Cast it to float64 before.")


@attrs.frozen
class Variance(_Spreading):
    """Compute the mean squared distance from the mean, over n - ddof; float64, null with ddof values or fewer.

    ddof = 1 estimates from a sample, ddof = 0 takes the values as all there are. Durations are refused: their variance
    is in squared units. The order of tuples and slices changes the last bits. Infinite where a squared distance is
    beyond float64 (values some 1e154 apart), NaN when a value is infinite or NaN. Cost: 24 bytes a slot.
    """

    name = "variance"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a float64 field; SchemaError for what is not a number."""
        self._field(schema)
        return pa.field(name, pa.float64())

    def _field(self, schema: Schema) -> pa.Field:
        field = super()._field(schema)
        if pa.types.is_duration(field.type):
            instead = f"Write stddev({self.argument}), a duration."
            raise refuse(self._where, field, "a variance of durations is in squared units", instead)
        return field


@attrs.frozen
class Stddev(_Spreading):
    """Compute the square root of the variance: float64, or a duration; as `Variance` in all else."""

    name = "stddev"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a float64 or duration field; SchemaError for what is neither number nor duration."""
        kind = self._field(schema).type
        return pa.field(name, kind if pa.types.is_duration(kind) else pa.float64())


@attrs.define(eq=False)
class Moments(StateColumns):
    """Hold the number of values, their mean and the sum of squared distances from it, a slot."""

    argument: str
    kind: pa.DataType
    of: str
    ddof: int
    _moments: Float64s = attrs.field(factory=lambda: np.zeros((0, 3), np.float64), init=False, metadata=memory.slots())

    def init(self, slots: Slots) -> None:
        self._moments[slots] = 0.0

    def update(self, slots: Slots, page: Page) -> None:
        slots, skipped = present(slots, page.valid(self.argument))
        self.nulls += skipped
        values = floating(plain(page, self.argument))
        add_moments(slots, values, self._moments)

    def combine(self, into: Slots, source: Slots) -> None:
        combine_moments(frozen(into), frozen(source), self._moments)

    def finalize(self, slots: Slots) -> pa.Array:
        number, _, squares = self._moments[slots].T
        there = number > self.ddof
        variance = squares / np.where(there, number - self.ddof, 1.0)
        if self.of == "variance":
            return result(variance, there, pa.float64())
        spread = np.sqrt(variance)
        if pa.types.is_duration(self.kind):
            return result(np.rint(np.where(there, spread, 0.0)).astype(np.int64), there, self.kind)
        return result(spread, there, pa.float64())

    def free(self, slots: Slots) -> None:
        pass
