"""Every ordered value has an int64 key: a number or a time always the same one, anything else its rank in a column.

-0.0 comes before 0.0, so that no answer depends on which of them arrived first. NaN comes before every number, whether
ascending or descending, so that it propagates as the least and as the greatest value. Null comes after everything.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from operators.data.page import Bools, Int64s
from operators.functions.arguments import Float64s, floating, is_floating, result, whole
from operators.functions.columns import frozen
from operators.kernels.functions.extremes import LARGEST, SMALLEST, order_floating

LAST, FIRST = LARGEST, SMALLEST
_MINUS_ZERO = np.int64(-1)


def is_keyed(kind: pa.DataType) -> bool:
    """Return whether values have keys that compare across pages: numbers, truth values, times."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or is_floating(kind)
        or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))
    )


def is_ordered(kind: pa.DataType) -> bool:
    """Return whether values of a plain type have an order."""
    return is_keyed(kind) or is_bytes(kind) or bool(pa.types.is_decimal(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether values are byte strings, text among them, of which `text` gives the bytes."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def text(column: pa.Array) -> tuple[Int64s, npt.NDArray[np.uint8]]:
    """Return byte strings as offsets, shape (n + 1,), and the bytes between them; of a null any."""
    kind = column.type
    start, stop = column.offset, column.offset + len(column) + 1
    data = column.buffers()[-1]
    if data is None or len(column) == 0:
        return frozen(np.zeros(len(column) + 1, np.int64)), frozen(np.zeros(0, np.uint8))
    if pa.types.is_fixed_size_binary(kind):
        offsets = np.arange(start, stop) * np.int64(kind.byte_width)
    else:
        wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
        offsets = np.frombuffer(column.buffers()[1], np.int64 if wide else np.int32, stop)[start:]
    return frozen(offsets.astype(np.int64, copy=False)), frozen(np.frombuffer(data, np.uint8))


def keys(column: pa.Array, *, descending: bool = False) -> Int64s:
    """Return the keys of a keyed column, shape (n,), unspecified where it is null; a smaller key comes first."""
    kind = column.type
    if is_floating(kind):
        return _floating_keys(floating(column), descending)
    ticks = whole(column)
    if pa.types.is_uint64(kind):
        ticks = ticks ^ FIRST
    return frozen(~ticks if descending else ticks)


def unsigned_zero(found: Int64s, kind: pa.DataType) -> Int64s:
    """Return the keys of a keyed type, with that of -0.0 replaced by that of 0.0."""
    return frozen(np.where(found == _MINUS_ZERO, 0, found)) if is_floating(kind) else found


def unkeyed(found: Int64s, there: Bools, kind: pa.DataType, *, descending: bool = False) -> pa.Array:
    """Return the values of a type that have these keys, null where nothing is there."""
    if is_floating(kind):
        bits = ~found if descending else found
        values = (bits ^ ((bits >> np.int64(63)) & LAST)).view(np.float64)
        return result(np.where(found == FIRST, np.nan, values), there, kind)
    ticks = ~found if descending else found
    if pa.types.is_uint64(kind):
        ticks = ticks ^ FIRST
    return result(np.where(there, ticks, 0), there, kind)


def ranks(column: pa.Array, *, descending: bool = False) -> Int64s:
    """Return keys that compare within this column only, shape (n,), for any ordered type; a null has the largest."""
    if is_keyed(column.type):
        found = keys(column, descending=descending)
        if column.null_count:
            valid = _valid(column)
            found = np.where(valid, np.unique(found, return_inverse=True)[1], LAST)
        return frozen(found)
    encoded = column.dictionary_encode()
    order = _sorted(encoded.dictionary, descending)
    rank = np.empty(len(order) + 1, np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = LAST
    return frozen(rank[encoded.indices.fill_null(len(order)).to_numpy()])


def before(left: pa.Array, right: pa.Array, *, descending: bool = False) -> tuple[Bools, Bools]:
    """Return for each pair of values of one ordered type whether left is before right, and whether after."""
    if is_keyed(left.type):
        one, two = keys(left, descending=descending), keys(right, descending=descending)
        first, after = one < two, one > two
    else:
        first, after = _compared("less", left, right), _compared("greater", left, right)
        if descending:
            first, after = after, first
    if not (left.null_count or right.null_count):
        return first, after
    here, there = _valid(left), _valid(right)
    both = here & there
    return (first & both) | (here & ~there), (after & both) | (there & ~here)


def _compared(by: str, left: pa.Array, right: pa.Array) -> Bools:
    return np.asarray(pc.call_function(by, [left, right]).fill_null(False).to_numpy(zero_copy_only=False))


def _sorted(column: pa.Array, descending: bool) -> npt.NDArray[np.integer]:
    options = pc.ArraySortOptions("descending" if descending else "ascending")
    return np.asarray(pc.call_function("array_sort_indices", [column], options).to_numpy())


def _valid(column: pa.Array) -> Bools:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))


def _floating_keys(values: Float64s, descending: bool) -> Int64s:
    found = np.empty(len(values), np.int64)
    order_floating(values, values.view(np.int64), np.int64(-1 if descending else 0), found)
    return frozen(found)
