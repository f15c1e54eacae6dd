"""Window-ids and extents of results become columns of pages."""

from __future__ import annotations

import pyarrow as pa

from operators.page import Int64s, tick_column
from operators.window.protocol import FOREVER


def extent_columns(wids: Int64s, begins: Int64s, ends: Int64s, kind: pa.DataType) -> list[pa.Array]:
    """Give window-ids, begins and ends as columns, the last two of the type of the windowing attribute.

    Null where a window begins with the stream (landmark windows), or ends with it.
    """
    return [tick_column(wids), *(tick_column(ticks, kind, beyond=FOREVER) for ticks in (begins, ends))]
