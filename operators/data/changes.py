"""Changes of tuples are added up: equal tuples that were given and taken back cancel each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from operators.data.digests import digests
from operators.data.keys import Ids, KeyIndex
from operators.data.page import Bools, Int64s
from operators.errors import SchemaError


def same_tuples(columns: Sequence[pa.Array], rows: int) -> Ids:
    """Return a number for each tuple, shape (rows,): two tuples have the same one if they are equal in all columns.

    Null equals null, not-a-number equals itself. Columns that are no grouping keys, such as lists, are compared by a
    digest of 64 bits.

    >>> same_tuples([pa.array(["a", "b", "a"]), pa.array([1, 1, 1])], 3).tolist()
    [0, 1, 0]
    """
    keys: list[pa.Array] = []
    for column in columns:
        try:
            KeyIndex([pa.field("", column.type)])
        except SchemaError:
            column = pa.array(digests([column], rows))
        keys.append(column)
    if not keys:
        return np.zeros(rows, np.int32)
    return KeyIndex([pa.field(str(at), key.type) for at, key in enumerate(keys)]).assign(keys)


def added_up(same: Ids, signs: Int64s) -> Bools:
    """Return which changes to keep, shape (n,), so that of each tuple's there are as many as its signs add up to.

    - `same`: the number of each tuple, as `same_tuples` gives it.
    - `signs`: 1 where a tuple is given, -1 where it is taken back.

    >>> added_up(np.array([0, 1, 0, 0]), np.array([1, 1, -1, 1])).tolist()
    [True, True, False, False]
    """
    net = np.zeros(int(same.max(initial=-1)) + 1, np.int64)
    np.add.at(net, same, signs)
    kept = np.zeros(len(same), np.bool_)
    likely = np.flatnonzero(signs * net[same] > 0)
    order = likely[np.argsort(same[likely], kind="stable")]
    tuples = same[order]
    rank = np.arange(len(order)) - np.searchsorted(tuples, tuples, side="left")
    kept[order] = rank < np.abs(net[tuples])
    return kept
