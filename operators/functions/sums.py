"""Whole numbers add up exactly, whatever their order; floating sums carry their rounding error along to the end.

In whatever order and slices n floating numbers come, their sum is off by half a unit in the last place, and by
(n * 1.2e-16) squared of the sum of their magnitudes: a million have the same sum to the last bit or two unless they
cancel to less than 1e-4 of their magnitudes. A sum on the way that is beyond 1.8e308 is infinite and stays so; whether
there is one may depend on the order.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Bools, Int64s, Page, tick_column
from operators.data.schema import Schema, is_ip
from operators.errors import AggregateOverflow
from operators.functions.arguments import (
    Float64s,
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
from operators.functions.count import Counts
from operators.functions.function import OfOne
from operators.functions.protocol import Accumulator, RunningTotals, Slots, Step, stepwise, summed
from operators.functions.sharing import SubtractableView, view
from operators.functions.total_counts import TotalCounts
from operators.functions.totalling import Stepwise
from operators.functions.totals import FEW, NO_ROWS, Rows, Words
from operators.kernels.functions.sums import BLOCK, add_floating, clear, combine_floating, combine_floating_blocks

Of: TypeAlias = Literal["sum", "avg"]
NO_VALUES = frozen(np.empty(0, np.int64))
EXACT = 1 << 53
"""Every whole number up to here is a float64."""


class _Adding(OfOne):
    """A function of the sum of an attribute."""

    __slots__ = ()
    invertible = True

    @property
    def of(self) -> Of:
        """Return the name as accumulators take it."""
        return "avg" if self.name == "avg" else "sum"

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        field = self._field(schema)
        if is_floating(field.type):
            return FloatingTotals(field.name, self.of)
        return WholeTotals(field.name, field.type, self.of)

    def _field(self, schema: Schema) -> pa.Field:
        field = super()._field(schema)
        if is_whole(field.type) or is_floating(field.type):
            return field
        name = self.argument
        if is_point_in_time(field.type):
            instead = f"Write min({name}) or max({name}), or take {self.name} of a duration between two times."
            raise refuse(self._where, field, "points in time do not add up", instead)
        instead = "Count its values instead." if is_ip(field) else "Cast it to int64 or float64 before."
        raise refuse(self._where, field, "numbers, truth values or durations are needed", instead)


@attrs.frozen
class Sum(_Adding):
    """Add the values of an attribute: int64 for integers and truth values, float64, or a duration.

    Null when there is no value; AggregateOverflow at `finalize` when an exact sum does not fit 64 bits. Sums of whole
    numbers do not depend on any order. Those of floating ones are compensated: two orders differ by a unit in the last
    place, or by (n * 1.2e-16) squared of the sum of the n magnitudes, where they cancel to less than that. They are
    infinite or NaN when a sum on the way is beyond 1.8e308, although others might bring it back.
    Cost: 24 bytes a slot; for whole numbers 8 where there are many slots, and 24 more where a sum has outgrown 44 bits.
    """

    name = "sum"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return an int64, float64 or duration field; SchemaError for what does not add up."""
        kind = self._field(schema).type
        if pa.types.is_duration(kind):
            return pa.field(name, kind)
        return pa.field(name, pa.float64() if is_floating(kind) else pa.int64())


@attrs.frozen
class Avg(_Adding):
    """Divide the sum of an attribute by the number of its values: float64, or a duration.

    The sum of whole numbers is exact, so that the quotient is rounded once (a duration to the nearest tick, ties to
    even). Null when there is no value. The rounding of floating sums holds for it too. Cost: as for the sum.
    """

    name = "avg"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a float64 or duration field; SchemaError for what does not add up."""
        kind = self._field(schema).type
        return pa.field(name, kind if pa.types.is_duration(kind) else pa.float64())


@attrs.define
class Sums(memory.Stateful):
    """Sums as they are saved: low limb, high limb and number of values of each slot."""

    sums: Int64s = attrs.field(default=NO_ROWS, metadata=memory.array())


@attrs.define(eq=False)
class WholeTotals(StateColumns):
    """Hold an exact sum and the number of values a slot: 24 bytes while there are few slots, 8 where there are many."""

    argument: str
    kind: pa.DataType
    of: Of
    _held: Rows | Words = attrs.field(factory=Rows, init=False, metadata=memory.counted())
    _form: None = attrs.field(
        init=False, default=None, metadata=memory.form(Sums, "become", lambda own: Sums(own.all()))
    )
    _signed: bool = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._signed = not pa.types.is_uint64(self.kind)

    def reserve(self, capacity: int) -> None:
        if capacity > FEW and isinstance(self._held, Rows):
            self._held = Words.of(self._held.all())
        self._held.reserve(capacity)

    def init(self, slots: Slots) -> None:
        self._held.clear(slots)

    def update(self, slots: Slots, page: Page) -> None:
        slots, skipped = present(slots, page.valid(self.argument))
        self.nulls += skipped
        self._held.add(slots, whole(plain(page, self.argument)), signed=self._signed)

    def step(self, slots: Slots, page: Page | None, step: Step) -> Int64s | None:
        if not self.steps(page):
            return stepwise(self, slots, page, step)
        found = self.stepped(slots, page, step)
        return None if found is None else self._plain(self.of, *found)

    def run_totals(self, slots: Slots, page: Page | None, running: RunningTotals) -> Int64s | None:
        if self.of != "sum" or not self.steps(page):
            return summed(self, self, slots, page, running)
        found = self.ran(slots, page, running)
        return None if found is None else found[0]

    def steps(self, page: Page | None) -> bool:
        """Return whether a page and what is behind it are one step: few slots, and values that are all there."""
        return isinstance(self._held, Rows) and (page is None or not plain(page, self.argument).null_count)

    def stepped(self, slots: Slots, page: Page | None, step: Step) -> tuple[Int64s, Int64s] | None:
        """Do such a step, and give what `Rows.step` gives."""
        assert isinstance(self._held, Rows)
        return self._held.step(slots, self._values(page), step, signed=self._signed)

    def ran(self, slots: Slots, page: Page | None, running: RunningTotals) -> tuple[Int64s, Int64s] | None:
        """Do such a step with running totals, and give what `Rows.run` gives."""
        assert isinstance(self._held, Rows)
        return self._held.run(slots, self._values(page), running, signed=self._signed)

    def _values(self, page: Page | None) -> Int64s:
        return NO_VALUES if page is None else whole(plain(page, self.argument))

    def numbers(self, slots: Slots) -> Int64s:
        """Return how many values each slot has."""
        return self._held.numbers(slots)

    def combine(self, into: Slots, source: Slots) -> None:
        self._held.combine(into, source)

    def clear_blocks(self, blocks: Slots) -> None:
        self._held.clear_blocks(blocks)

    def combine_blocks(self, into: Slots, source: Slots) -> None:
        self._held.combine_blocks(into, source)

    def subtract(self, into: Slots, source: Slots) -> None:
        self._held.subtract(into, source)

    def accumulate(self, into: Slots, source: Slots, before: int) -> None:
        self._totalling.accumulate(into, source, before)

    def difference(self, into: Slots, later: Slots, earlier: Slots) -> None:
        self._totalling.difference(into, later, earlier)

    def between(self, later: Slots, earlier: Slots) -> Int64s | None:
        return self.between_of(self.of, later, earlier)

    def between_of(self, of: Of, later: Slots, earlier: Slots) -> Int64s | None:
        """Return the sums or the averages of differences, as `Totalling.between` does."""
        found = self._held.differences(later, earlier) if isinstance(self._held, Rows) else None
        return None if found is None else self._plain(of, *found)

    def bits(self, slots: Slots) -> Int64s | None:
        return self.bits_of(self.of, slots)

    def bits_of(self, of: Of, slots: Slots) -> Int64s | None:
        """Return the sums or the averages of slots, as `Plain.bits` does."""
        if of == "sum":
            low, _, full, wide = self._held.sums(slots)
            return low if full and wide < 0 else None
        low, high, number = self._held.limbs(slots)
        return self._plain(of, low, number) if ((number > 0) & (high == low >> np.int64(63))).all() else None

    def _plain(self, of: Of, low: Int64s, number: Int64s) -> Int64s | None:
        """Return sums that fit 64 bits, or their averages, as bits; None where these are no quotient of floats."""
        if of == "sum":
            return low
        if pa.types.is_duration(self.kind) or not ((low >= -EXACT) & (low <= EXACT)).all():
            return None
        return (low / number).view(np.int64)

    @property
    def _totalling(self) -> Rows | Stepwise:
        return self._held if isinstance(self._held, Rows) else Stepwise(self, self)

    def finalize(self, slots: Slots) -> pa.Array:
        return self.answer(self.of, slots)

    def answer(self, of: Of, slots: Slots) -> pa.Array:
        """Return the sum or the average of each slot."""
        if of == "avg":
            low, high, number = self._held.limbs(slots)
            fits, there = high == low >> np.int64(63), number > 0
            averages = _average_ticks if pa.types.is_duration(self.kind) else _average
            kind = self.kind if pa.types.is_duration(self.kind) else pa.float64()
            return result(averages(low, high, np.where(there, number, 1), fits), there, kind)
        low, there, full, wide = self._held.sums(slots)
        if wide >= 0:
            one, high, _ = self._held.limbs(slots[wide : wide + 1])
            raise _overflow(f"sum({self.argument})", _total(one[0], high[0]), int(slots[wide]))
        kind = self.kind if pa.types.is_duration(self.kind) else pa.int64()
        return tick_column(low, kind) if full else result(low, there, kind)

    def free(self, slots: Slots) -> None:
        self._held.free(slots)

    def view_of(self, owner: Accumulator) -> Accumulator | None:
        """Return an accumulator that answers from another total of the same attribute."""
        if not isinstance(owner, WholeTotals) or (owner.argument, owner.kind) != (self.argument, self.kind):
            return None
        return owner._answering(self.of)

    def counts(self, count: Accumulator, *, before: bool) -> tuple[Accumulator, Accumulator] | None:
        """Return a count and this sum that share one memory; None where the count is of something else."""
        if not isinstance(count, Counts) or count.partial is not None or count.argument not in (None, self.argument):
            return None
        counts = TotalCounts(self, of_tuples=count.argument is None, leads=before)
        if not before:
            return counts, self
        own = self._answering(self.of)
        return counts, Following(own.owner, own.answer, own.bits, own.between, counts)

    def _answering(self, of: Of) -> SubtractableView:
        return SubtractableView(self, partial(self.answer, of), partial(self.bits_of, of), partial(self.between_of, of))

    def all(self) -> Int64s:
        """Return low limb, high limb and number of values of all slots."""
        return self._held.all()

    def become(self, saved: Sums) -> None:
        """Take over what a state has."""
        rows = saved.sums
        self._held = Words.of(rows) if len(rows) > FEW else Rows(rows)


@attrs.define
class _Skipped(Sums):
    """Sums, and how many tuples were skipped for a null."""

    nulls: int = attrs.field(default=0, metadata=memory.integer(least=0))


@attrs.define(eq=False)
class Following(SubtractableView):
    """Answer as a sum from the memory that the count before it tells all; in a state it stands here."""

    counts: TotalCounts
    _form: None = attrs.field(
        init=False,
        default=None,
        metadata=memory.form(
            _Skipped, "_become", lambda own: _Skipped(own.counts.totals.all(), own.counts.totals.nulls)
        ),
    )

    def _become(self, saved: _Skipped) -> None:
        totals = self.counts.totals
        totals.become(saved)
        totals.nulls = saved.nulls
        self.counts.settle()


@attrs.define(eq=False)
class FloatingTotals(StateColumns):
    """Hold a floating sum, what rounding lost, and the number of values, a slot."""

    argument: str
    of: Of
    _sums: Float64s = attrs.field(factory=lambda: np.zeros((0, 3), np.float64), init=False, metadata=memory.slots())

    def init(self, slots: Slots) -> None:
        clear(frozen(slots), self._sums)

    def update(self, slots: Slots, page: Page) -> None:
        slots, skipped = present(slots, page.valid(self.argument))
        self.nulls += skipped
        values = floating(plain(page, self.argument))
        add_floating(slots, values, self._sums)

    def combine(self, into: Slots, source: Slots) -> None:
        combine_floating(frozen(into), frozen(source), self._sums)

    def clear_blocks(self, blocks: Slots) -> None:
        self._sums.reshape(-1, BLOCK, 3)[blocks] = 0

    def combine_blocks(self, into: Slots, source: Slots) -> None:
        combine_floating_blocks(frozen(into), frozen(source), self._sums)

    def finalize(self, slots: Slots) -> pa.Array:
        return self.answer(self.of, slots)

    def answer(self, of: Of, slots: Slots) -> pa.Array:
        """Return the sum or the average of each slot."""
        return result(*self._values(of, slots), pa.float64())

    def bits(self, slots: Slots) -> Int64s | None:
        return self.bits_of(self.of, slots)

    def bits_of(self, of: Of, slots: Slots) -> Int64s | None:
        """Return the sums or the averages of slots, as `Plain.bits` does."""
        values, there = self._values(of, slots)
        return values.view(np.int64) if there.all() else None

    def _values(self, of: Of, slots: Slots) -> tuple[Float64s, Bools]:
        """Return the sum or the average of each slot, and whether there is one."""
        total, lost, number = self._sums[slots].T
        there = number > 0
        # An infinite sum leaves no meaning in what rounding lost.
        total = np.where(np.isfinite(lost), total + np.where(np.isfinite(lost), lost, 0.0), total)
        return total / np.where(there, number, 1.0) if of == "avg" else total, there

    def free(self, slots: Slots) -> None:
        pass

    def view_of(self, owner: Accumulator) -> Accumulator | None:
        """Return an accumulator that answers from another total of the same attribute."""
        if not isinstance(owner, FloatingTotals) or owner.argument != self.argument:
            return None
        return view(owner, partial(owner.answer, self.of), bits=partial(owner.bits_of, self.of))


def _total(low: np.int64, high: np.int64) -> int:
    return (int(high) << 64) + (int(low) & ((1 << 64) - 1))


def _average(low: Int64s, high: Int64s, number: Int64s, fits: Bools) -> Float64s:
    averages = low / number
    # Only up to 53 bits is the quotient of two float64 that of the whole numbers; Python divides longer ones.
    for i in np.flatnonzero(~(fits & (low >= -EXACT) & (low <= EXACT))):
        averages[i] = _total(low[i], high[i]) / int(number[i])
    return averages


def _average_ticks(low: Int64s, high: Int64s, number: Int64s, fits: Bools) -> Int64s:
    ticks, rest = np.divmod(low, number)
    ticks += (rest > number - rest) | ((rest == number - rest) & (ticks % 2 == 1))
    for i in np.flatnonzero(~fits):
        tick, left = divmod(_total(low[i], high[i]), int(number[i]))
        ticks[i] = tick + (2 * left + tick % 2 > int(number[i]))
    return ticks


def _overflow(where: str, total: int, slot: int) -> AggregateOverflow:
    error = AggregateOverflow(
        f"{where}: the exact total of a group is {total}, which does not fit 64 bits.\n"
        "  Sum a float64 copy of the attribute, or write avg."
    )
    error.slot = slot
    return error
