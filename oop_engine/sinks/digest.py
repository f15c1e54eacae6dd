"""A digest shows whether two sets of rows are the same, however they were cut and ordered.

It is the sum of a hash of every row, so neither the order of rows nor their cut into batches matters. Floating-point
values are left out, and the elements of a list count in any order: sums of floats and collected lists come out
otherwise when tasks finish in another order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_SEED: Final = np.uint64(0x9E3779B97F4A7C15)
_NULL: Final = np.uint64(0x6A09E667F3BCC909)
_LONG: Final = 256
"""Bytes from which on a value is hashed by itself, not word by word beside others."""


def digest(batch: pa.RecordBatch) -> int:
    """Return the sum of the hashes of all rows, modulo 2^64; see above for what of a row counts."""
    return int(_joined(batch.num_rows, batch.columns).sum(dtype=np.uint64))


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit of each word over all its bits, as splitmix64 does."""
    words = words + _SEED
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _joined(rows: int, columns: Sequence[pa.Array]) -> NDArray[np.uint64]:
    """Hash rows of several columns, shape (rows,)."""
    found = np.zeros(rows, np.uint64)
    for column in columns:
        found = _mixed(found ^ _hashed(column))
    return found


def _hashed(array: pa.Array) -> NDArray[np.uint64]:
    """Hash the values of an array, shape (n,): equal for equal values, however they are stored."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return _hashed(array.storage)
    if isinstance(array, pa.DictionaryArray):
        return _hashed(array.dictionary_decode())
    if isinstance(array, pa.MapArray):
        return _hashed(array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
    if pa.types.is_boolean(kind):
        found = _fixed(array.cast(pa.uint8()))
    elif isinstance(array, pa.StructArray):
        found = _joined(len(array), array.flatten())
    elif isinstance(array, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        found = _listed(array)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        found = _texts(array, np.int32)
    elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        found = _texts(array, np.int64)
    elif pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        found = _texts(array.cast(pa.large_binary()), np.int64)
    elif pa.types.is_floating(kind) or not (pa.types.is_primitive(kind) or _is_wide(kind)):
        found = np.zeros(len(array), np.uint64)
    else:
        found = _fixed(array)
    if array.null_count:
        found[array.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return found


def _is_wide(kind: pa.DataType) -> bool:
    return pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_interval(kind)


def _fixed(array: pa.Array) -> NDArray[np.uint64]:
    """Hash values of a fixed width."""
    count, width = len(array), array.type.bit_width // 8
    data = array.buffers()[1]
    if not count or not width or data is None:
        return np.zeros(count, np.uint64)
    given = np.frombuffer(data, np.uint8, count * width, array.offset * width).reshape(count, width)
    words = np.zeros((count, -(-width // 8) * 8), np.uint8)
    words[:, :width] = given
    found = np.zeros(count, np.uint64)
    for word in words.view("<u8").T:
        found = _mixed(found ^ word)
    return found


def _texts(array: pa.Array, place: type[np.int32 | np.int64]) -> NDArray[np.uint64]:
    """Hash values of any length: eight bytes of all at once, long ones each by itself."""
    _, offsets, data = array.buffers()
    if not len(array) or offsets is None:
        return np.zeros(len(array), np.uint64)
    at = np.frombuffer(offsets, place)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    first, last = int(at[0]), int(at[-1])
    letters = np.zeros(last - first + 8, np.uint8)
    if data is not None:
        letters[:-8] = np.frombuffer(data, np.uint8)[first:last]
    starts, lengths = at[:-1] - first, np.diff(at)
    found = _mixed(lengths.astype(np.uint64))
    every = np.ndarray((len(letters) - 7,), "<u8", letters, strides=(1,))
    short = np.flatnonzero(lengths <= _LONG)
    for k in range(0, _LONG, 8):
        short = short[lengths[short] > k]
        if not len(short):
            break
        words = every[starts[short] + k]
        beyond = np.maximum(8 - (lengths[short] - k), 0).astype(np.uint64) * np.uint64(8)
        found[short] = _mixed(found[short] ^ (words & (np.uint64(2**64 - 1) >> beyond)))
    for i in np.flatnonzero(lengths > _LONG):
        value = letters[starts[i] : starts[i] + lengths[i]]
        found[i] = int.from_bytes(hashlib.blake2b(value.tobytes(), digest_size=8).digest(), "little")
    return found


def _listed(array: pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray) -> NDArray[np.uint64]:
    """Hash lists by the sum of the hashes of their elements."""
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = 0
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mixed(_hashed(array.flatten())), dtype=np.uint64)])
    ends = np.cumsum(lengths)
    return _mixed(sums[ends] - sums[ends - lengths] + lengths.astype(np.uint64))
