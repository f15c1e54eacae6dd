"""Tuples that waited come in another order than they arrived in; a column says in which, for what goes by arrival."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.functions.columns import frozen

ARRIVAL: Final = "(arrival)"
"""The attribute that tells, of tuples that waited, which one arrived when."""


def numbered_schema(schema: Schema) -> Schema:
    """Return a schema with numbers of arrival."""
    return Schema(schema.arrow.append(pa.field(ARRIVAL, pa.int64())), progress=schema.progress)


def numbered(page: Page, schema: Schema, arrived: int) -> Page:
    """Number the tuples of a page, of which so many arrived before; `schema` is that of the result."""
    numbers = pa.array(np.arange(arrived, arrived + len(page)))
    return Page(schema, pa.RecordBatch.from_arrays([*page.batch.columns, numbers], schema=schema.arrow))


def arrivals(page: Page, arrived: int) -> Int64s:
    """Return the numbers of a page's tuples, shape (n,): its own, or those after so many that arrived before."""
    if ARRIVAL in page.schema:
        return page.ticks(ARRIVAL)
    return frozen(np.arange(arrived, arrived + len(page)))
