"""A digest of each result, 64 bits, tells whether it is what it was when it was given before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from operators.data.keys import KeyIndex
from operators.errors import SchemaError

Words: TypeAlias = npt.NDArray[np.uint64]
_SEED: Final = np.uint64(0x9E3779B97F4A7C15)
_NULL: Final = np.uint64(0x6A09E667F3BCC909)


def digests(columns: Sequence[pa.Array], rows: int) -> Words:
    """Hash the rows of columns, shape (rows,): equal as grouping keys, or as text, is equal here, and so are lists.

    >>> one, other, _ = digests([pa.array([[1, 2], [2, 1], None])], 3)
    >>> bool(one == digests([pa.array([[1, 2]])], 1)[0]), bool(one == other)
    (True, False)
    """
    found = np.zeros(rows, np.uint64)
    for column in columns:
        found = _mixed(found ^ _hashed(column))
    return found


def _mixed(words: Words) -> Words:
    """Spread every bit of each word over all its bits, as splitmix64 does."""
    words = words + _SEED
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _hashed(array: pa.Array) -> Words:
    if isinstance(array, pa.ExtensionArray):
        return _hashed(array.storage)
    if isinstance(array, pa.MapArray):
        return _hashed(array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field]))))
    if isinstance(array, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        found = _listed(array)
    elif isinstance(array, pa.StructArray):
        found = digests(array.flatten(), len(array))
    else:
        try:
            index = KeyIndex([pa.field("", array.type)])
        except SchemaError:
            # What is no grouping key is told apart by its text.
            return _hashed(array.cast(pa.string()))
        found = np.zeros(len(array), np.uint64)
        # The words behind say what is null, and are there only beside a null.
        for words in index.words([array]).T[: index.width]:
            found = _mixed(found ^ words)
    if array.null_count:
        found[array.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return found


def _listed(array: pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray) -> Words:
    """Hash lists by the sum of the hashes of their elements, each with its place."""
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    places = np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(starts, lengths)
    elements = _mixed(_hashed(array.flatten()) ^ _mixed(places.view(np.uint64)))
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(elements, dtype=np.uint64)))
    return _mixed(sums[ends] - sums[starts] + lengths.view(np.uint64))
