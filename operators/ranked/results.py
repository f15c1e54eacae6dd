"""Results leave as pages: grouping attributes, one attribute a function, then wid, window_start, window_end."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pyarrow as pa

from operators.errors import SchemaError
from operators.functions.protocol import AggregateFunction, Slots
from operators.overflow import Overflow
from operators.page import Int64s, Page
from operators.protocol import Emit
from operators.ranked.partitions import Partitions
from operators.ranked.slots import Pool
from operators.schema import Schema
from operators.window.columns import extent_columns
from operators.window.protocol import Int32s

WID, START, STOP = "wid", "window_start", "window_end"
ROWS = 1 << 16
"""Results of a page, at most."""
Found = tuple[Int32s, Slots, Int64s, Int64s, Int64s]
"""Results: group, slot, window-id, beginning and end of each."""


def output_fields(
    schema: Schema, functions: Mapping[str, AggregateFunction], by: tuple[str, ...], times: pa.DataType
) -> pa.Schema:
    """Give the attributes of the results, window bounds of a type `times`; SchemaError when two have one name."""
    fields = [schema.field(name, where="aggregate") for name in by]
    fields += [function.output_field(schema, name) for name, function in functions.items()]
    fields += [pa.field(WID, pa.int64()), pa.field(START, times), pa.field(STOP, times)]
    names = [field.name for field in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SchemaError(f"aggregate: two results are named {', '.join(twice)}; rename one.")
    return pa.schema(fields)


def ordering(schema: Schema, wattr: str) -> pa.DataType:
    """Give the type of an attribute that orders tuples; SchemaError when it does not."""
    kind = schema.field(wattr, where="window").type
    if not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        raise SchemaError(
            f'window: the windowing attribute "{wattr}" has type {kind}.\n'
            "  A window needs an attribute that counts: an integer or a time."
        )
    return kind


@attrs.define(eq=False)
class Results:
    """Make pages of results."""

    schema: Schema
    functions: Mapping[str, AggregateFunction]
    partitions: Partitions
    pool: Pool
    overflow: Overflow

    def emit(self, groups: Int32s, slots: Slots, wids: Int64s, begin: Int64s, end: Int64s, emit: Emit) -> int:
        """Emit one result a group, slot and window, all of shape (n,); gives n."""
        for at in range(0, len(wids), ROWS):
            part = slice(at, at + ROWS)
            arrays = self.partitions.keys(groups[part])
            arrays += self._finalized(groups[part], slots[part], wids[part])
            kind = self.schema.field(START).type
            arrays += extent_columns(wids[part], begin[part], end[part], kind)
            batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow)
            emit(Page(self.schema, batch))
        return len(wids)

    def _finalized(self, groups: Int32s, slots: Slots, wids: Int64s) -> list[pa.Array]:
        def where(at: int) -> str:
            return f"window {wids[at]}, {self.partitions.describe(int(groups[at]), self.schema)}"

        return [
            self.overflow.finalized(name, accumulator, slots, self.schema.arrow.field(name).type, where)
            for name, accumulator in zip(self.functions, self.pool.accumulators, strict=False)
        ]
