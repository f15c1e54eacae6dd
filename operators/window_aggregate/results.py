"""Results leave as pages: grouping attributes, one attribute a function, then wid, window_start, window_end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from operators.data.group_text import group_text
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.protocol import Accumulator, AggregateFunction, Slots
from operators.overflow import Finalizing, Overflow
from operators.window.columns import extent_columns, in_steps

WID, START, STOP = "wid", "window_start", "window_end"
ROWS: Final = 1 << 16
"""Results of a page, at most."""


def named_apart(fields: Sequence[pa.Field], where: str = "aggregate", *, what: str = "results") -> pa.Schema:
    """Return the schema of these attributes; SchemaError when two of them have one name."""
    names = [field.name for field in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SchemaError(f"{where}: two {what} are named {', '.join(twice)}; rename one.")
    return pa.schema(fields)


def window_fields(times: pa.DataType) -> list[pa.Field]:
    """Return the attributes that tell of which window a result is, for a windowing attribute of a type."""
    times = times if pa.types.is_temporal(times) else pa.int64()
    return [pa.field(WID, pa.int64()), pa.field(START, times), pa.field(STOP, times)]


def ordering(schema: Schema, wattr: str, where: str = "window") -> pa.DataType:
    """Return the type of an attribute that orders tuples; SchemaError when it does not."""
    kind = schema.field(wattr, where=where).type
    if not in_steps(kind):
        raise SchemaError(
            f'{where}: the windowing attribute "{wattr}" has type {kind}.\n'
            "  A window needs an attribute that counts: an integer or a time."
        )
    return kind


def result_fields(
    schema: Schema, functions: Mapping[str, AggregateFunction], by: Iterable[str], times: pa.DataType
) -> pa.Schema:
    """Return the attributes of the results for tuples of a schema; SchemaError when a function does not fit it."""
    fields = [schema.field(name, where="aggregate") for name in by]
    fields += [function.output_field(schema, name) for name, function in functions.items()]
    return named_apart([*fields, *window_fields(times)])


def columns_of(
    output: Schema,
    by: Sequence[str],
    functions: Iterable[str],
    finals: Iterable[Accumulator | Finalizing],
    slots: Slots,
    overflow: Overflow,
    wids: Int64s,
    keys: Callable[[slice], list[pa.Array]],
) -> list[pa.Array]:
    """Return the columns of functions for results in these slots; `keys` gives the groups of some of the results.

    AggregateOverflow names the function, the window and the group of a result that does not fit its type.
    """

    def where(at: int) -> str:
        return f"window {wids[at]}, {group_text(output, by, keys(slice(at, at + 1)))}"

    kinds = output.arrow
    return [
        overflow.finalized(name, final, slots, kinds.field(name).type, where)
        for name, final in zip(functions, finals, strict=False)
    ]


def result_page(output: Schema, columns: list[pa.Array], wids: Int64s, begins: Int64s, ends: Int64s) -> Page:
    """Return a page of results: their groups and functions in `columns`, then their windows."""
    columns += extent_columns(wids, begins, ends, output.arrow.field(START).type)
    return Page(output, pa.RecordBatch.from_arrays(columns, schema=output.arrow))


def extent_page(output: Schema, groups: list[pa.Array], wids: Int64s, begins: Int64s, ends: Int64s) -> Page:
    """Return windows and their groups as results have them, without what the functions give."""
    fields = [*output.arrow]
    return result_page(Schema(pa.schema(fields[: len(groups)] + fields[-3:])), groups, wids, begins, ends)
