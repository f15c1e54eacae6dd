"""Aggregates that remember the same share one accumulator: the first holds it, the others only answer from it.

avg(x) and sum(x) remember the same total; median(x), quantile(x, 0.95) and mode(x) the same bag of values. A sum of
whole numbers knows how many there are, so count(*) beside it remembers nothing, or the tuples without a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias, runtime_checkable

import attrs
import pyarrow as pa

from operators.data import memory
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.functions.protocol import Accumulator, AggregateFunction, Slots, Subtractable

Between: TypeAlias = Callable[[Slots, Slots], Int64s | None]
Bits: TypeAlias = Callable[[Slots], Int64s | None]


@runtime_checkable
class Sharing(Protocol):
    """An accumulator that can share the memory of others."""

    def view_of(self, owner: Accumulator) -> Accumulator | None:
        """Return an accumulator that answers as this one from what `owner` holds; None when that is something else."""
        ...


@runtime_checkable
class Counting(Protocol):
    """An accumulator that knows how many values each slot has."""

    def counts(self, count: Accumulator, *, before: bool) -> tuple[Accumulator, Accumulator] | None:
        """Return a count, which comes `before` this or after it, and this, with one memory; None for another count."""
        ...


def accumulators(functions: Iterable[AggregateFunction], schema: Schema) -> list[Accumulator]:
    """Make the accumulators of functions over one input, those that can share a state as views of the first of them.

    All are to be called alike, in this order, as if each had a state of its own.

    >>> from operators import functions as fn
    >>> schema = Schema.of(x=pa.int64(), y=pa.int64())
    >>> [type(a).__name__ for a in accumulators([fn.sum("x"), fn.avg("x"), fn.avg("y")], schema)]
    ['WholeTotals', 'SubtractableView', 'WholeTotals']
    """
    made: list[Accumulator] = []
    memories: list[Accumulator] = []
    """What each holds, or is answered from."""
    for function in functions:
        own = function.accumulator(schema)
        answers = own
        for number, other in enumerate(memories):
            if isinstance(own, Sharing) and (shared := own.view_of(other)) is not None:
                answers, own = shared, other
            elif isinstance(other, Counting) and (pair := other.counts(own, before=False)) is not None:
                answers, own = pair[0], other
            elif isinstance(own, Counting) and (pair := own.counts(other, before=True)) is not None:
                made[number], answers = pair
                memories[number] = own
            else:
                continue
            break
        made.append(answers)
        memories.append(own)
    return made


def view(
    owner: Accumulator,
    answer: Callable[[Slots], pa.Array],
    between: Between = lambda later, earlier: None,
    bits: Bits = lambda slots: None,
) -> Accumulator:
    """Make the accumulator that remembers nothing and answers from what another holds."""
    if isinstance(owner, Subtractable):
        return SubtractableView(owner, answer, bits, between)
    return View(owner, answer, bits)


@attrs.define(eq=False)
class View(memory.Slotted):
    """Answer from what another accumulator holds, which is told everything itself."""

    owner: Accumulator
    answer: Callable[[Slots], pa.Array]
    bits: Bits
    """As `Plain` says."""

    @property
    def nulls(self) -> int:
        return self.owner.nulls

    def init(self, slots: Slots) -> None:
        pass

    def update(self, slots: Slots, page: Page) -> None:
        pass

    def combine(self, into: Slots, source: Slots) -> None:
        pass

    def clear_blocks(self, blocks: Slots) -> None:
        pass

    def combine_blocks(self, into: Slots, source: Slots) -> None:
        pass

    def finalize(self, slots: Slots) -> pa.Array:
        return self.answer(slots)

    def free(self, slots: Slots) -> None:
        pass


@attrs.define(eq=False)
class SubtractableView(View):
    """Answer from an accumulator from which slices can be taken away."""

    between: Between
    """As `Totalling` says."""

    def subtract(self, into: Slots, source: Slots) -> None:
        pass

    def accumulate(self, into: Slots, source: Slots, before: int) -> None:
        pass

    def difference(self, into: Slots, later: Slots, earlier: Slots) -> None:
        pass
