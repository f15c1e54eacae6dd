"""Results in columns become pages: the grouping attributes, the aggregates, the window, its id and its ticks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from operators.data.batches import Mould
from operators.data.group_text import group_text
from operators.data.keys import KeyIndex
from operators.data.labels import Labels
from operators.data.page import Bools, Int32s, Int64s, Page, tick_column
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.protocol import Accumulator, AggregateFunction, Plain
from operators.overflow import Overflow
from operators.retractions import Retracted
from operators.window_aggregate.stores.slices.digests import digests
from operators.window_aggregate.stores.slices.revisions import Revisions

WINDOW, WID, START, STOP, REVISION = "window", "wid", "window_start", "window_end", "revision"
LATE: Final = Retracted(
    "the input gives windows again when late tuples change them (lateness=...): each revision would count as a result",
    'Keep the first results, .filter("revision = 0"); or leave lateness out and give the source so much more slack.',
    frozenset((REVISION,)),
    0,
)
ROWS = 1 << 16
"""Results in a page, at most."""
_NONE = np.zeros(0, np.int64)


@attrs.define(eq=False)
class Results:
    """Hold results in columns: place of the window, window-id, begin, end, group, and the slot of the aggregate."""

    places: Int64s
    wids: Int64s
    opens: Int64s
    closes: Int64s
    groups: Int32s
    slots: Int32s
    revisions: Int64s = _NONE
    """How often each was given before, where windows are revised and it is known."""
    gone: bool = False
    """Whether these are sessions that are no more; they have no slots and no end."""
    values: Sequence[Int64s] = ()
    """The aggregates as the 64 bits of their types, where they are known and none is null; then there are no slots."""

    def __len__(self) -> int:
        return len(self.wids)

    @property
    def windows(self) -> int:
        """Number of windows, where the results of one stand together."""
        if len(self) == 0:
            return 0
        other = (self.wids[1:] != self.wids[:-1]) | (self.places[1:] != self.places[:-1])
        return int(np.count_nonzero(other)) + 1

    def where(self, chosen: slice | Bools) -> Results:
        """Give the chosen ones."""
        return Results(
            self.places[chosen],
            self.wids[chosen],
            self.opens[chosen],
            self.closes[chosen],
            self.groups[chosen],
            self.slots[chosen] if len(self.slots) else self.slots,
            self.revisions[chosen] if len(self.revisions) else self.revisions,
            gone=self.gone,
        )


@attrs.frozen(eq=False)
class Output:
    """Say what the results of an operator look like, and make pages of them."""

    schema: Schema
    functions: Sequence[str]
    by: Sequence[str]
    times: pa.DataType
    """Type of the ticks of windows."""
    named: bool
    revised: bool
    kinds: Sequence[pa.DataType]
    """Types of the aggregates."""
    mould: Mould | None = None
    """What makes a page in one step, where all columns are of 64 bits but the name of the window."""

    @classmethod
    def of(
        cls,
        schema: Schema,
        functions: Mapping[str, AggregateFunction],
        by: Sequence[str],
        times: pa.DataType,
        *,
        named: bool,
        revised: bool,
    ) -> Output:
        """Make the output over an input, without promises; SchemaError when names clash or arguments do not fit."""
        fields = [schema.field(name, where="slicing") for name in by]
        KeyIndex(fields)
        of_functions = [function.output_field(schema, name) for name, function in functions.items()]
        fields += [field.with_nullable(True) for field in of_functions] if revised else of_functions
        if named:
            fields.append(pa.field(WINDOW, pa.string()))
        fields += [pa.field(WID, pa.int64()), pa.field(START, times), pa.field(STOP, times)]
        if revised:
            fields.append(pa.field(REVISION, pa.int64()))
        names = [field.name for field in fields]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise SchemaError(f"slicing: two results are named {', '.join(twice)}; rename one.")
        kinds = [field.type for field in of_functions]
        return cls(Schema(pa.schema(fields)), list(functions), by, times, named, revised, kinds)

    def moulded(self) -> Output:
        """Give the output with a mould, where it can have one."""
        if self.by or self.revised:
            return self
        return attrs.evolve(self, mould=Mould.of(self.schema.arrow))

    def pages(
        self, results: Results, columns: Sequence[pa.Array], groups: KeyIndex | None, labels: Labels
    ) -> Iterator[Page]:
        """Give results and their aggregates, in columns, as pages; `labels` are the names of windows by place."""
        if 0 < len(results) <= ROWS:
            yield self._page(results, columns, groups, labels)
            return
        for at in range(0, len(results), ROWS):
            some = [column.slice(at, ROWS) for column in columns]
            yield self._page(results.where(slice(at, at + ROWS)), some, groups, labels)

    def plain(self, results: Results, accumulators: Sequence[Plain], labels: Labels) -> Page | None:
        """Give results as a page that is made in one step; None when it has to be made column by column."""
        if self.mould is None or not 0 < len(results) <= ROWS:
            return None
        values = list(results.values)
        for accumulator in () if values else accumulators:
            if (found := accumulator.bits(results.slots)) is None:
                return None
            values.append(found)
        columns = (*values, results.wids, results.opens, results.closes)
        return Page(self.schema, self.mould.batch(columns, results.places, labels))

    def _page(self, results: Results, columns: Sequence[pa.Array], groups: KeyIndex | None, labels: Labels) -> Page:
        times = self.times
        arrays = [] if groups is None else groups.keys(results.groups)
        arrays += columns
        if self.named:
            arrays.append(labels.take(results.places))
        ends = pa.nulls(len(results), times) if results.gone else tick_column(results.closes, times)
        arrays += (tick_column(results.wids), tick_column(results.opens, times), ends)
        if self.revised:
            arrays.append(tick_column(results.revisions))
        return Page(self.schema, pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow))

    def aggregates(
        self,
        results: Results,
        accumulators: Sequence[Accumulator],
        groups: KeyIndex | None,
        labels: Labels,
        overflow: Overflow,
    ) -> list[pa.Array]:
        """Give the aggregates of results, one column a function; null for what is gone."""
        if results.gone:
            return [pa.nulls(len(results), self.schema.field(name).type) for name in self.functions]

        def where(at: int) -> str:
            window = f"window {results.wids[at]}"
            if self.named:
                window += f' of "{labels[int(results.places[at])]}"'
            keys = [] if groups is None else groups.keys(results.groups[at : at + 1])
            return f"{window}, {group_text(self.schema, self.by, keys)}"

        return [
            overflow.finalized(name, accumulator, results.slots, kind, where)
            for name, accumulator, kind in zip(self.functions, accumulators, self.kinds, strict=True)
        ]


def revised(results: Results, columns: Sequence[pa.Array], revisions: Revisions) -> tuple[Results, list[pa.Array]]:
    """Number results and their aggregates, and leave out those that are as they were given last."""
    numbers = revisions.number(
        results.places, results.wids, results.groups, results.closes, digests(columns, len(results))
    )
    results, given = attrs.evolve(results, revisions=numbers), numbers >= 0
    if given.all():
        return results, list(columns)
    return results.where(given), [column.filter(pa.array(given)) for column in columns]
