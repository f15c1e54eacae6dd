"""The least and the greatest of several columns, row by row: of all types with an order, times in a zone too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Datum: TypeAlias = "pa.Array | pa.Scalar"


def least(columns: Sequence[Datum], kind: pa.DataType, *, skip_nulls: bool = True) -> Datum:
    """Return the least value of each row of columns of a type; null where one is, unless they are left out."""
    return _element_wise(pc.min_element_wise, columns, kind, skip_nulls)


def greatest(columns: Sequence[Datum], kind: pa.DataType, *, skip_nulls: bool = True) -> Datum:
    """Return the greatest value of each row of columns of a type; null where one is, unless they are left out."""
    return _element_wise(pc.max_element_wise, columns, kind, skip_nulls)


def _element_wise(
    function: Callable[..., Datum], columns: Sequence[Datum], kind: pa.DataType, skip_nulls: bool
) -> Datum:
    if not pa.types.is_timestamp(kind) and not pa.types.is_duration(kind):
        return function(*columns, skip_nulls=skip_nulls)
    # Arrow has no such function of times in a zone, nor of durations.
    ticks = [column.cast(pa.int64()) for column in columns]
    return function(*ticks, skip_nulls=skip_nulls).cast(kind)
