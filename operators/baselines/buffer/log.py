"""A tuple log keeps some attributes of tuples by position, in order of arrival, and gives back those asked for.

Chunks are merged while the last is at least half as long as the one before it, so n tuples lie in O(log n) chunks and
each was copied O(log n) times. Which tuples are still wanted, only the owner of the positions knows: it says so when
enough of them are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Bools, Int64s, Page
from operators.data.saved import ROOM
from operators.data.schema import Schema
from operators.functions.arguments import plain, plain_type
from operators.functions.protocol import AggregateFunction


@attrs.define(eq=False)
class TupleLog(memory.Stateful):
    """Hold tuples of some attributes at positions 0 <= p < len.

    >>> schema = Schema.of(x=pa.int64(), y=pa.string())
    >>> log = TupleLog(schema, ("x",))
    >>> log.append(Page.of(schema, {"x": [5, 6, 7], "y": ["a", "b", "c"]}), np.array([0, 2]))
    >>> log.take(np.array([0, 1, 1])).plain_rows()
    [{'x': 5}, {'x': 7}, {'x': 7}]
    """

    schema: Schema
    names: Sequence[str]
    _kept: Schema = attrs.field(init=False)
    _chunks: list[pa.RecordBatch] = attrs.field(factory=lambda: [], init=False)
    _length: int = attrs.field(default=0, init=False, metadata=memory.integer(least=0, most=ROOM))
    _tuples: pa.RecordBatch | None = attrs.field(
        default=None,
        init=False,
        metadata=memory.batch(of=lambda log: log.take(np.arange(len(log))).batch),
    )
    """What it is restored from."""

    def __attrs_post_init__(self) -> None:
        fields = [self.schema.field(name) for name in self.names]
        self._kept = Schema(pa.schema([field.with_type(plain_type(field.type)) for field in fields]))

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Return how many bytes are held by the tuples."""
        return sum([chunk.nbytes for chunk in self._chunks])

    def select(self, page: Page, rows: Int64s) -> Page:
        """Return the attributes that the log keeps of these tuples of a page, copied."""
        which = pa.array(rows)
        columns = [plain(page, name).take(which) for name in self._kept.names]
        return Page(self._kept, pa.RecordBatch.from_arrays(columns, schema=self._kept.arrow))

    def append(self, page: Page, rows: Int64s) -> None:
        """Add these tuples of a page; they are copied, so that the log does not keep the page alive."""
        self._length += len(rows)
        if len(rows) == 0 or not self.names:
            return
        self._chunks.append(self.select(page, rows).batch)
        while len(self._chunks) > 1 and 2 * len(self._chunks[-1]) >= len(self._chunks[-2]):
            self._chunks[-2:] = [pa.concat_batches(self._chunks[-2:])]

    def take(self, positions: Int64s) -> Page:
        """Return the tuples at these positions, which rise but may repeat."""
        if not self.names:
            return Page(self._kept, pa.RecordBatch.from_arrays([], schema=self._kept.arrow))
        found: list[pa.RecordBatch] = []
        start = 0
        for chunk in self._chunks:
            low, high = np.searchsorted(positions, [start, start + len(chunk)])
            if low < high:
                found.append(chunk.take(pa.array(positions[low:high] - start)))
            start += len(chunk)
        if not found:
            empty = [pa.array([], field.type) for field in self._kept.arrow]
            return Page(self._kept, pa.RecordBatch.from_arrays(empty, schema=self._kept.arrow))
        return Page(self._kept, found[0] if len(found) == 1 else pa.concat_batches(found))

    def keep(self, wanted: Bools) -> None:
        """Forget the tuples that are not wanted; the others move together and keep their order."""
        if self.names and len(wanted):
            self._chunks = [self.take(np.flatnonzero(wanted)).batch]
        self._length = int(np.count_nonzero(wanted))
        if self._length == 0:
            self._chunks = []

    def _after_restoring(self) -> None:
        tuples, self._tuples = self._tuples, None
        if tuples is None or not self.names or not self._length:
            return
        if len(tuples) != self._length or not tuples.schema.equals(self._kept.arrow):
            raise ValueError(f"the saved state has {len(tuples)} tuples with {tuples.schema.names}, not {self._length}")
        self._chunks = [tuples]


def attributes(functions: Mapping[str, AggregateFunction], schema: Schema) -> tuple[str, ...]:
    """Name the attributes that some functions read, each once, by the names that the schema has for them."""
    wanted = (schema.resolve(name, where="aggregate") for f in functions.values() for name in f.arguments)
    return tuple(dict.fromkeys(wanted))
