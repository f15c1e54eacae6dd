"""Partial sums and moments are rows of three numbers, which a low level gives out and a high level adds up again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data import memory
from operators.data.page import Page
from operators.data.schema import Schema
from operators.errors import AggregateOverflow, SchemaError
from operators.functions.arguments import argument, floating, is_floating, plain, whole
from operators.functions.columns import StateColumns, frozen, present
from operators.functions.moments import Moments
from operators.functions.protocol import Accumulator, Slots
from operators.functions.sharing import view
from operators.functions.sums import FloatingTotals, WholeTotals
from operators.kernels.functions.moments import add_moments, combine_moments
from operators.kernels.functions.partials import merge_floating, merge_moments, merge_whole
from operators.kernels.functions.sums import (
    LANE,
    LANES,
    SIGNED,
    UNSIGNED,
    add_floating,
    add_whole,
    combine_floating,
    combine_whole,
    subtract_whole,
)

Numbers: TypeAlias = npt.NDArray[np.generic]
Answer: TypeAlias = Callable[["Triples", Slots], pa.Array]


@attrs.frozen(eq=False)
class Kind:
    """The meaning of three numbers, and how values, or others like them, are added to rows of them."""

    number: type[np.int64] | type[np.float64]
    read: Callable[[pa.Array], Numbers]
    add: Callable[..., None]
    merge: Callable[..., None]
    combine: Callable[..., None]


def _add_whole(slots: Slots, values: pa.Array, rows: npt.NDArray[np.int64]) -> None:
    kind = UNSIGNED if pa.types.is_uint64(values.type) else SIGNED
    add_whole(slots, whole(values), kind, rows, np.empty((LANES, LANE, 3), np.int64))


def _add_floating(slots: Slots, values: pa.Array, rows: npt.NDArray[np.float64]) -> None:
    add_floating(slots, floating(values), rows)


def _add_moments(slots: Slots, values: pa.Array, rows: npt.NDArray[np.float64]) -> None:
    add_moments(slots, floating(values), rows)


WHOLE: Final = Kind(np.int64, whole, _add_whole, merge_whole, combine_whole)
FLOATING: Final = Kind(np.float64, floating, _add_floating, merge_floating, combine_floating)
MOMENTS: Final = Kind(np.float64, floating, _add_moments, merge_moments, combine_moments)


@attrs.define(eq=False)
class Triples(StateColumns):
    """Hold three numbers a slot: of the values of one attribute, or of partial aggregates in three columns."""

    arguments: tuple[str, ...]
    kind: Kind
    give: Answer
    _rows: Numbers = attrs.field(init=False, metadata=memory.slots())

    def __attrs_post_init__(self) -> None:
        self._rows = np.zeros((0, 3), self.kind.number)

    def init(self, slots: Slots) -> None:
        self._rows[slots] = 0

    def update(self, slots: Slots, page: Page) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            if len(self.arguments) == 3:
                columns = [self.kind.read(page.column(name)) for name in self.arguments]
                self.kind.merge(frozen(slots), *columns, self._rows)
                return
            (name,) = self.arguments
            slots, skipped = present(slots, page.valid(name))
            self.nulls += skipped
            self.kind.add(slots, plain(page, name), self._rows)

    def combine(self, into: Slots, source: Slots) -> None:
        self.kind.combine(frozen(into), frozen(source), self._rows)

    def finalize(self, slots: Slots) -> pa.Array:
        return self.give(self, slots)

    def rows(self, slots: Slots) -> Numbers:
        """Return the three numbers of each slot, shape (n, 3), copied."""
        return self._rows[slots]

    def free(self, slots: Slots) -> None:
        pass

    def view_of(self, owner: Accumulator) -> Accumulator | None:
        """Return an accumulator that answers from another one's numbers, if they are those of the same values."""
        if not isinstance(owner, Triples) or owner.arguments != self.arguments or owner.kind is not self.kind:
            return None
        return view(owner, lambda slots: self.give(owner, slots))


@attrs.define(eq=False)
class WholeTriples(Triples):
    """Hold exact sums, from which others can be taken away again."""

    def subtract(self, into: Slots, source: Slots) -> None:
        subtract_whole(frozen(into), frozen(source), self._rows.view(np.int64))


@attrs.frozen
class Part:
    """Emit one of the three numbers of a partial sum, or of partial moments, as a column."""

    argument: str
    moments: bool
    part: int
    name: str = attrs.field(default="part", init=False, repr=False)
    invertible: bool = attrs.field(default=False, init=False, repr=False)
    commutative: bool = attrs.field(default=True, init=False, repr=False)
    arrival_order: bool = attrs.field(default=False, init=False, repr=False)

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.argument,)

    def output_name(self) -> str:
        """Return "x:sum", "x:rest", "x:number", or "x:values", "x:mean", "x:squares"."""
        names = ("values", "mean", "squares") if self.moments else ("sum", "rest", "number")
        return f"{self.argument}:{names[self.part]}"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a field that is never null; the sum of durations is one as far as it fits, its rest a number."""
        kind = argument(schema, self.argument, where=self.output_name()).type
        if self.moments and pa.types.is_duration(kind):
            raise SchemaError(
                f"{self.output_name()}: partial moments are plain numbers, and {self.argument} is a duration.\n"
                "  Cast it to float64 before, or aggregate the window by itself."
            )
        return pa.field(name, self._type(kind), nullable=False)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator; one holds all three numbers, and the parts of one sum share it."""
        field = argument(schema, self.argument, where=self.output_name())
        out, part = self._type(field.type), self.part

        def give(triples: Triples, slots: Slots) -> pa.Array:
            column = pa.array(np.ascontiguousarray(triples.rows(slots)[:, part]))
            return column if column.type == out else column.view(out)

        return _triples((field.name,), self.moments, field.type, give)

    def _type(self, kind: pa.DataType) -> pa.DataType:
        if self.moments or is_floating(kind):
            return pa.float64()
        return kind if pa.types.is_duration(kind) and self.part == 0 else pa.int64()


def merging(columns: tuple[str, str, str], schema: Schema, how: Callable[[pa.DataType], Accumulator]) -> Accumulator:
    """Make the accumulator that adds up partial sums or moments and answers as `how`, one of the functions' own."""
    first = schema.field(columns[0], where="roll-up").type

    def give(triples: Triples, slots: Slots) -> pa.Array:
        own = how(first)
        entry = "moments" if isinstance(own, Moments) else "sums"
        own.restore({entry: triples.rows(slots), "nulls": 0})
        try:
            return own.finalize(np.arange(len(slots), dtype=np.int32))
        except AggregateOverflow as overflow:
            overflow.slot = int(slots[getattr(overflow, "slot", 0)])
            raise

    return _triples(columns, isinstance(how(first), Moments), first, give)


def totals(argument: str, of: Literal["sum", "avg"]) -> Callable[[pa.DataType], Accumulator]:
    """Return what answers from sums whose first column has a type."""
    return lambda kind: FloatingTotals(argument, of) if is_floating(kind) else WholeTotals(argument, kind, of)


def _triples(arguments: tuple[str, ...], moments: bool, of: pa.DataType, give: Answer) -> Accumulator:
    if moments:
        return Triples(arguments, MOMENTS, give)
    return Triples(arguments, FLOATING, give) if is_floating(of) else WholeTriples(arguments, WHOLE, give)
