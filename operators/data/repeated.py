"""Columns of one value are kept and given again as slices, for the results of a window differ in little else.

A release of many groups is of one window, whose id, begin and end are the same in all rows; so is what says when it
fired. Columns are read-only, so several pages may share one.
"""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from operators.data.page import tick_column

_TICK = 32
"""So many bits, or more, has what counts in steps of ticks."""


@attrs.define(eq=False)
class Repeated:
    """Make columns of one value, the last one of which is kept: at most 8 bytes a row of the longest page.

    >>> repeated = Repeated()
    >>> repeated.column(7, 2, pa.int64()).to_pylist(), repeated.column(True, 1, pa.bool_()).to_pylist()
    ([7, 7], [True])
    """

    _value: int | None = attrs.field(init=False, default=None)
    _column: pa.Array | None = attrs.field(init=False, default=None)

    def column(self, value: int, rows: int, kind: pa.DataType) -> pa.Array:
        """Return so many rows of a truth value, a number of 8 bits, or a tick of what counts in steps, as `kind`."""
        kept = self._column
        if kept is None or value != self._value or rows > len(kept) or kept.type != kind:
            self._value, self._column = value, _column(value, rows, kind)
            return self._column
        return kept if rows == len(kept) else kept.slice(0, rows)


def _column(value: int, rows: int, kind: pa.DataType) -> pa.Array:
    if kind.bit_width >= _TICK:
        return tick_column(np.full(rows, value), kind)
    bits = np.full((rows + 7) // 8, -value, np.int8) if kind.bit_width == 1 else np.full(rows, value, np.int8)
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(bits)], 0)


@attrs.define(eq=False)
class Steps:
    """Make the offsets of texts of one length, the last of which are kept: 4 bytes a row of the longest page.

    >>> np.frombuffer(Steps().of(3, 2), np.int32).tolist()
    [0, 3, 6]
    """

    _width: int = attrs.field(init=False, default=0)
    _rows: int = attrs.field(init=False, default=-1)
    _offsets: pa.Buffer | None = attrs.field(init=False, default=None)

    def of(self, width: int, rows: int) -> pa.Buffer:
        """Return where each of so many texts begins, and where the last one ends."""
        if self._offsets is None or width != self._width or rows > self._rows:
            self._width, self._rows = width, rows
            self._offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * np.int32(width))
        return self._offsets
