"""The geometric mean is the exponential of the mean of logarithms, whose sum carries its rounding error along."""

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
from operators.kernels.functions.sums import add_floating, combine_floating


@attrs.frozen
class GeometricMean(OfOne):
    """Compute the n-th root of the product of n values: float64; null when there is none.

    Zero when a value is zero; NaN when one is negative, or when zero meets infinity. Cost: 24 bytes a slot.
    """

    name = "geometric_mean"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a float64 field; SchemaError for what is not a number."""
        self._field(schema)
        return pa.field(name, pa.float64())

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Logarithms(self._field(schema).name)

    def _field(self, schema: Schema) -> pa.Field:
        field = super()._field(schema)
        if pa.types.is_duration(field.type):
            raise refuse(self._where, field, "a product of durations is no duration", "Divide it by a duration before.")
        if is_whole(field.type) or is_floating(field.type):
            return field
        raise refuse(self._where, field, "numbers are needed", "Cast it to float64 before.")


@attrs.define(eq=False)
class Logarithms(StateColumns):
    """Hold the sum of logarithms, what rounding lost, and the number of values, a slot."""

    argument: str
    _sums: Float64s = attrs.field(factory=lambda: np.zeros((0, 3), np.float64), init=False, metadata=memory.slots())

    def init(self, slots: Slots) -> None:
        self._sums[slots] = 0.0

    def update(self, slots: Slots, page: Page) -> None:
        slots, skipped = present(slots, page.valid(self.argument))
        self.nulls += skipped
        with np.errstate(divide="ignore", invalid="ignore"):
            add_floating(slots, frozen(np.log(floating(plain(page, self.argument)))), self._sums)

    def combine(self, into: Slots, source: Slots) -> None:
        combine_floating(frozen(into), frozen(source), self._sums)

    def finalize(self, slots: Slots) -> pa.Array:
        total, lost, number = self._sums[slots].T
        there = number > 0
        # An infinite sum, of a zero or of infinity, leaves no meaning in what rounding lost.
        total = np.where(np.isfinite(lost), total + np.where(np.isfinite(lost), lost, 0.0), total)
        return result(np.exp(total / np.where(there, number, 1.0)), there, pa.float64())

    def free(self, slots: Slots) -> None:
        pass
