"""An aggregate function says what is computed; its accumulator holds one state per slot, in columns.

A slot is whatever the caller lets it be: a window of a group, a slice of a window. It costs one entry of each column.
The verbs are init, update, combine, finalize; and subtract, where what was combined can be taken away again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.protocol import State, StateValue

Slots: TypeAlias = npt.NDArray[np.int32]


@runtime_checkable
class Accumulator(Protocol):
    """The state columns of one aggregate over one input; entry i belongs to slot i.

    A slot must be given to `init` before its first use and again after `free`. Every tuple is given to `update` once.
    """

    @property
    def nbytes(self) -> int:
        """Return how many bytes are held, reserved or used."""
        ...

    @property
    def nulls(self) -> int:
        """Return how many tuples of a slot were skipped so far because an argument was null."""
        ...

    def reserve(self, capacity: int) -> None:
        """Make room for slots 0 <= i < capacity and keep what is held; amortised doubling is the caller's affair."""
        ...

    def init(self, slots: Slots) -> None:
        """Set the identity element in these slots."""
        ...

    def update(self, slots: Slots, page: Page) -> None:
        """Add each tuple to its slot, shape (n,), -1 for none; where an argument is null it is skipped and counted."""
        ...

    def combine(self, into: Slots, source: Slots) -> None:
        """Set self[into[j]] to self[into[j]] (+) self[source[j]], for each j in order; `into` may repeat."""
        ...

    def finalize(self, slots: Slots) -> pa.Array:
        """Return one result per slot, of the output type; change nothing. AggregateOverflow when one does not fit."""
        ...

    def free(self, slots: Slots) -> None:
        """Forget what these slots hold; a freed slot may be freed again."""
        ...

    def state(self) -> State:
        """Return all that is remembered, copied, as arrays, record batches and scalars."""
        ...

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Become the accumulator whose `state` this was; called on a fresh one of the same function and schema."""
        ...


@runtime_checkable
class Subtractable(Protocol):
    """An accumulator whose combining can be undone exactly, to the bit.

    Whether it can depends on the function and on the types of its arguments: whole sums can, floating ones cannot. So
    ask the accumulator that a function makes over a schema, by isinstance.
    """

    def subtract(self, into: Slots, source: Slots) -> None:
        """Set self[into[j]] to self[into[j]] (-) self[source[j]], for each j in order; `into` may repeat.

        The subtracted part must have been combined into the slot, or updated there, before; so a slot that is taken
        from itself is empty.
        """
        ...


@runtime_checkable
class Totalling(Protocol):
    """A subtractable accumulator that makes running totals, and differences of two, in one step each.

    The slots that are written need no `init`, and are none of those that are read.
    """

    def accumulate(self, into: Slots, source: Slots, before: int) -> None:
        """Set self[into[j]] to self[before] (+) self[source[0]] (+) ... (+) self[source[j]]; `before` -1 is nothing."""
        ...

    def difference(self, into: Slots, later: Slots, earlier: Slots) -> None:
        """Set self[into[j]] to self[later[j]] (-) self[earlier[j]], which is a part of it, or -1 for nothing."""
        ...

    def between(self, later: Slots, earlier: Slots) -> Int64s | None:
        """Return the results of these differences without slots for them, as the 64 bits of their type.

        None where one is null or does not fit, and where they are not made in this way: then by slots.
        """
        ...


@runtime_checkable
class Blockwise(Protocol):
    """An accumulator that combines blocks of slots: block b has the slots 64 b <= slot < 64 (b + 1).

    Slots in which there is nothing are empty: to combine with one changes nothing.
    """

    def clear_blocks(self, blocks: Slots) -> None:
        """Do what `free` and then `init` do to all slots of these blocks."""
        ...

    def combine_blocks(self, into: Slots, source: Slots) -> None:
        """Do what `combine` does to each slot of block into[j] and its like of block source[j], for each j in order."""
        ...


@runtime_checkable
class BlockSubtractable(Blockwise, Subtractable, Protocol):
    """An accumulator that takes blocks of slots away; a slot is empty once all that was combined into it is gone."""

    def subtract_blocks(self, into: Slots, source: Slots) -> None:
        """Do what `subtract` does to each slot of block into[j] and its like of block source[j], for each j in order.

        Of empty slots nothing is taken.
        """
        ...


@runtime_checkable
class Plain(Protocol):
    """An accumulator whose results are numbers or times of 64 bits."""

    def bits(self, slots: Slots) -> Int64s | None:
        """Return what `finalize` does as the 64 bits of its type; None where one of them is null, or does not fit."""
        ...


@runtime_checkable
class Stepping(Protocol):
    """A plain accumulator that handles a page and the promises in it in one call."""

    def step(self, slots: Slots, page: Page | None, step: Step) -> Int64s | None:
        """Do as `stepwise` does."""
        ...


class Step(NamedTuple):
    """Say what is to be done with slots behind an update: the slots of results, and so on; see `stepwise`."""

    results: Slots
    into: Slots
    source: Slots
    gone: Slots


def stepwise(accumulator: Accumulator, slots: Slots, page: Page | None, step: Step) -> Int64s | None:
    """Update slots by a page, combine `source` into `into` with empty results, give their bits, and clear what is gone.

    None where the results have to be finalized; they are in their slots.
    """
    if page is not None:
        accumulator.update(slots, page)
    bits = None
    if len(step.results):
        accumulator.init(step.results)
    if len(step.into):
        accumulator.combine(step.into, step.source)
    if len(step.results) and isinstance(accumulator, Plain):
        bits = accumulator.bits(step.results)
    if len(step.gone):
        accumulator.free(step.gone)
        accumulator.init(step.gone)
    return bits


class RunningTotals(NamedTuple):
    """Say what is to be done with running totals behind an update; see `summed`.

    Their slots `totals` are those up to each of `slices`, with what is `before` (-1: nothing), and results are what is
    left of `later` without `earlier`.
    """

    slices: Slots
    totals: Slots
    before: int
    later: Slots
    earlier: Slots
    gone: Slots


@runtime_checkable
class Summing(Protocol):
    """A totalling accumulator that handles a page and the promise behind it in one call."""

    def run_totals(self, slots: Slots, page: Page | None, running: RunningTotals) -> Int64s | None:
        """Do as `summed` does."""
        ...


def summed(
    accumulator: Accumulator, totals: Totalling, slots: Slots, page: Page | None, running: RunningTotals
) -> Int64s | None:
    """Update slots by a page, make running totals, give the bits of results, and clear what is gone.

    None where the results have to be made in slots; what is gone is then as it was.
    """
    if page is not None:
        accumulator.update(slots, page)
    if len(running.totals):
        totals.accumulate(running.totals, running.slices, running.before)
    bits = totals.between(running.later, running.earlier)
    if bits is not None and len(running.gone):
        accumulator.free(running.gone)
        accumulator.init(running.gone)
    return bits


@runtime_checkable
class AggregateFunction(Protocol):
    """A frozen value that names an aggregate and its arguments: what is computed, not how."""

    @property
    def name(self) -> str:
        """Name in a query, as "sum"."""
        ...

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return attributes that are read, as the user wrote them."""
        ...

    @property
    def invertible(self) -> bool:
        """Return whether a slice's part can be subtracted exactly, for whole numbers: see `Subtractable`."""
        ...

    @property
    def commutative(self) -> bool:
        """Return whether tuples may be combined in any order; if not, they are in that of the windowing attribute."""
        ...

    @property
    def arrival_order(self) -> bool:
        """Return whether the answer depends on the order of arrival, as that of first and last does.

        Its states tell when their tuples arrived, so that they may be combined in any order: it is commutative.
        """
        ...

    def output_name(self) -> str:
        """Return the attribute's name when the user chooses none, as "sum_length"."""
        ...

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return the field of the result over an input; SchemaError when the arguments do not fit."""
        ...

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator for pages of a schema; SchemaError when the arguments do not fit."""
        ...
