"""Results of windows that fire tell when they fired: `fired`, `final` and `firing` stand behind them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from operators.data.page import Int64s, Page, tick_column
from operators.data.schema import Schema
from operators.protocol import Element, Emit
from operators.window_aggregate.early.firing import FINAL, FIRED, FIRING, with_firings
from operators.window_aggregate.results import REVISION, STOP


def told(plain: Schema, *, revised: bool = False) -> Schema:
    """Return the schema of results that tell when they fired; SchemaError where one of them is called so.

    `revised`: they tell how often they were given since their window was over, too.
    """
    fired = plain.field(STOP).with_name(FIRED).with_nullable(True)
    turns = [pa.field(REVISION, pa.int64())] if revised else []
    return with_firings(plain, fired, pa.field(FINAL, pa.bool_()), pa.field(FIRING, pa.int64()), *turns)


def telling(
    schema: Schema,
    numbers: Int64s,
    emit: Emit,
    *,
    final: bool,
    fires: Int64s | None = None,
    turns: Int64s | None = None,
) -> Emit:
    """Return what takes pages of results, in the order of `numbers`, and emits them with which firing each is.

    A final result fires where its window ends; others at the ticks `fires`, or they have a null there. With `turns`,
    each tells how often its window was given since it was over.
    """
    at, kind = 0, schema.arrow.field(FIRED).type

    def tell(element: Element) -> None:
        nonlocal at
        assert isinstance(element, Page)
        n = len(element)
        fired = (
            element.column(STOP) if final else pa.nulls(n, kind) if fires is None
            else tick_column(fires[at : at + n], kind)
        )  # fmt: skip
        columns = [*element.batch.columns, fired, pa.array(np.full(n, final)), tick_column(numbers[at : at + n])]
        columns += [] if turns is None else [tick_column(turns[at : at + n])]
        at += n
        emit(Page(schema, pa.RecordBatch.from_arrays(columns, schema=schema.arrow)))

    return tell
