"""Tuples that are equal in keys belong to one of several parts, whatever page they come in."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa

from operators.data.keys import Ids, KeyIndex
from operators.data.page import Int32s, Int64s, Page
from operators.kernels.data.scatter import part_of, part_order


@attrs.define(eq=False)
class Scatter:
    """Divide tuples into parts by attributes, of which equal ones are compared in these types.

    The part of a key depends on its value, on how many there are, and on the `seed`. Cost: O(1) a tuple, in three
    compiled passes.

    >>> from operators.data.schema import Schema
    >>> page = Page.of(Schema.of(k=pa.int32()), {"k": [7, None, 7, 8]})
    >>> parts = Scatter(("k",), (pa.int64(),), 2).parts_of(page.batch.columns)
    >>> int(parts[0]) == int(parts[2]), len(parts)
    (True, 4)
    """

    names: Sequence[str]
    kinds: Sequence[pa.DataType]
    parts: int
    seed: int = 0
    """A number from 0 to 2**62: who does not know it cannot choose keys that all come to one part."""
    _index: KeyIndex = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._index = KeyIndex([pa.field(name, kind) for name, kind in zip(self.names, self.kinds, strict=True)])

    def parts_of(self, columns: Sequence[pa.Array]) -> Ids:
        """Return the part of each key, shape (n,); from any thread."""
        cast = [c if c.type == k else c.cast(k) for c, k in zip(columns, self.kinds, strict=True)]
        words = self._index.words(cast)
        found = np.empty(len(words), np.int32)
        part_of(words, self._index.width, self.parts, self.seed, found)
        return found

    def order(self, page: Page) -> tuple[Int64s, Int32s]:
        """Return where each part begins and the last one ends, and the tuples' places, part by part in their order."""
        starts = np.zeros(self.parts + 1, np.int64)
        order = np.empty(len(page) + 1, np.int32)
        part_order(self.parts_of([page.column(name) for name in self.names]), starts, order)
        return starts, order[:-1]
