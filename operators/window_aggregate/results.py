"""Results leave as pages: grouping attributes, one attribute a function, then wid, window_start, window_end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from operators.data.group_text import group_text
from operators.data.page import Int64s, Page, Scalar, tick_column
from operators.data.schema import Schema
from operators.data.steps import bounds_type, in_steps
from operators.errors import SchemaError
from operators.functions.protocol import Accumulator, AggregateFunction, Slots
from operators.kernels.ticks import FOREVER
from operators.overflow import Finalizing, Overflow
from operators.window.columns import KeptExtents, extent_columns

WINDOW, WID, START, STOP, REVISION = "window", "wid", "window_start", "window_end", "revision"


def ends_of(page: Page) -> Int64s:
    """Return the ends of the windows of results in ticks, shape (n,): FOREVER where they end with the stream.

    - `page`: results of windows, with the attribute `window_end`; null there is no end but that of the stream.

    >>> page = Page.of_rows(Schema.of(window_end=pa.int64()), [(10,), (None,)])
    >>> ends_of(page).tolist() == [10, FOREVER]
    True
    """
    ends, valid = page.timed(STOP)
    return ends if valid is None else np.where(valid, ends, FOREVER)


def named_apart(fields: Sequence[pa.Field], where: str = "aggregate", *, what: str = "results") -> pa.Schema:
    """Return the schema of these attributes; SchemaError when two of them have one name."""
    names = [field.name for field in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SchemaError(f"{where}: two {what} are named {', '.join(twice)}; rename one.")
    return pa.schema(fields)


def window_fields(times: pa.DataType) -> list[pa.Field]:
    """Return the attributes that tell of which window a result is, for a windowing attribute of a type."""
    times = bounds_type(times)
    return [pa.field(WID, pa.int64()), pa.field(START, times), pa.field(STOP, times)]


def ordering(schema: Schema, wattr: str, where: str = "window") -> pa.DataType:
    """Return the type of an attribute that orders tuples; SchemaError when it does not."""
    kind = schema.field(wattr, where=where).type
    if not in_steps(kind):
        raise SchemaError(
            f'{where}: the windowing attribute "{wattr}" has type {kind}.\n'
            "  A window needs an attribute that counts: an integer, a time or a decimal."
        )
    return kind


def result_fields(
    schema: Schema,
    functions: Mapping[str, AggregateFunction],
    by: Iterable[str],
    times: pa.DataType,
    where: str = "aggregate",
    *,
    named: bool = False,
    revised: bool = False,
) -> pa.Schema:
    """Return the attributes of the results for tuples of a schema; SchemaError when a function does not fit it.

    If `named`, they tell which of several windows a result is of; if `revised`, how often it was given before.
    """
    fields = [schema.field(name, where=where) for name in by]
    made = [function.output_field(schema, name) for name, function in functions.items()]
    fields += [field.with_nullable(True) for field in made] if revised else made
    fields += [pa.field(WINDOW, pa.string())] if named else []
    fields += window_fields(times)
    return named_apart([*fields, pa.field(REVISION, pa.int64())] if revised else fields, where)


def columns_of(
    output: Schema,
    by: Sequence[str],
    functions: Iterable[str],
    finals: Iterable[Accumulator | Finalizing],
    slots: Slots,
    overflow: Overflow,
    wids: Int64s,
    keys: Callable[[slice], list[pa.Array]],
    label: Callable[[int], str] | None = None,
) -> list[pa.Array]:
    """Return the columns of functions for results in these slots; `keys` gives the groups of some of the results.

    AggregateOverflow names the function, the window, by its `label` too, and the group of a result that does not fit.
    """

    def where(at: int) -> str:
        named = "" if label is None else f' of "{label(at)}"'
        return f"window {wids[at]}{named}, {group_text(output, by, keys(slice(at, at + 1)))}"

    kinds = output.arrow
    return [
        overflow.finalized(name, final, slots, kinds.field(name).type, where)
        for name, final in zip(functions, finals, strict=False)
    ]


def result_page(
    output: Schema,
    columns: list[pa.Array],
    wids: Int64s,
    begins: Int64s,
    ends: Int64s,
    revisions: Int64s | None = None,
    *,
    bounded: bool = False,
) -> Page:
    """Return a page of results: what stands before their windows in `columns`, then these; see `extent_columns`."""
    columns += extent_columns(wids, begins, ends, output.arrow.field(START).type, bounded=bounded)
    if revisions is not None:
        columns.append(tick_column(revisions))
    return Page(output, pa.RecordBatch.from_arrays(columns, schema=output.arrow))


def window_page(
    output: Schema,
    columns: list[pa.Array],
    kept: KeptExtents,
    window: tuple[int, int, int],
    rows: int,
    also: Mapping[str, Scalar] = MappingProxyType({}),
) -> Page:
    """Return a page of so many results of one window, which neither begins nor ends with the stream.

    - `window`: its id, begin and end; `also`: what else all results have in common.
    """
    columns += kept.columns(*window, rows, output.arrow.field(START).type)
    same = {**dict(zip((WID, START, STOP), window, strict=True)), **also}
    return Page(output, pa.RecordBatch.from_arrays(columns, schema=output.arrow), same)


def extent_page(output: Schema, groups: list[pa.Array], wids: Int64s, begins: Int64s, ends: Int64s) -> Page:
    """Return windows and their groups as results have them, without what the functions give."""
    fields = [*output.arrow]
    return result_page(Schema(pa.schema(fields[: len(groups)] + fields[-3:])), groups, wids, begins, ends)
