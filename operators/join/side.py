"""A side of a join holds the tuples of one input that may still meet partners: most under an index, some plain."""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.keys import Ids
from operators.data.page import Int64s, Page
from operators.data.saved import ROOM
from operators.data.schema import Schema
from operators.join.plain import Plain
from operators.join.segments import Flags, Found
from operators.join.store import Store
from operators.join.tuples import Tuples
from operators.kernels.ticks import LIMIT
from punctuation import Punctuation


@attrs.define(eq=False)
class Stored(memory.Stateful):
    """Tuples of a side as they are saved: those without a key's number, -1, lie plain."""

    tuples: pa.RecordBatch | None = attrs.field(default=None, metadata=memory.batch())
    ids: Ids = attrs.field(
        factory=lambda: np.empty(0, np.int32), metadata=memory.array(least=-1, below=ROOM, length="tuples")
    )
    ticks: Int64s = attrs.field(
        factory=lambda: np.empty(0, np.int64), metadata=memory.array(least=1 - LIMIT, below=LIMIT, length="tuples")
    )
    matched: Flags = attrs.field(factory=lambda: np.empty(0, np.uint8), metadata=memory.array())
    """Which had a partner; none where nobody asks."""


@attrs.define(eq=False)
class Side:
    """Hold tuples of one schema. Costs are those of `Store`; of plain pages one look at each of their tuples."""

    schema: pa.Schema
    store: Store
    plain: list[Plain] = attrs.field(factory=list, init=False)

    def __len__(self) -> int:
        """Return the number of tuples."""
        return len(self.store) + sum(map(len, self.plain))

    @property
    def nbytes(self) -> int:
        """Return how many bytes are held."""
        return self.store.nbytes + sum(p.segment.batch.nbytes + 24 * len(p.segment.ticks) for p in self.plain)

    @property
    def least(self) -> int:
        """Return the least tick, or a bound close below it; FOREVER when there is no tuple."""
        return min([self.store.least(), *(plain.least for plain in self.plain)])

    def add(self, tuples: Tuples, *, plain: bool) -> None:
        """Hold tuples; those to be indexed bear numbers of keys below what the store has room for."""
        if len(tuples) == 0:
            return
        if plain:
            page = Plain(tuples)
            while self.plain and self.plain[-1].goes_with(page):
                page = self.plain.pop().joined(page)
            self.plain.append(page)
        else:
            self.store.insert(tuples.ids, tuples.ticks, tuples.batch, tuples.matched)

    def purge(self, bound: int) -> tuple[list[Found], Ids]:
        """Drop the tuples below a bound; gives them, and the keys whose last indexed tuple went."""
        gone, emptied = self.store.purge(bound) if len(self.store) else (None, np.empty(0, np.int32))
        found = [gone, *(plain.purge(bound) for plain in self.plain)]
        self.tidy()
        return [f for f in found if f is not None], emptied

    def tidy(self) -> None:
        """Let go of plain pages without a live tuple."""
        if any(not len(plain) for plain in self.plain):
            self.plain = [plain for plain in self.plain if len(plain)]

    def latest(self, promise: Punctuation) -> int | None:
        """Return the greatest tick of the tuples that match a promise; None when there is none.

        A tuple that was dropped but not yet thrown out may count.
        """
        found: int | None = None
        for segment in [*self.store.segments, *(plain.segment for plain in self.plain)]:
            ticks = segment.ticks[Page(Schema(self.schema), segment.batch).matching(promise)]
            if len(ticks):
                greatest = int(ticks.max())
                found = greatest if found is None else max(found, greatest)
        return found

    def stored(self) -> Stored:
        """Return all tuples, the plain ones last."""
        ids, ticks, found = self.store.tuples()
        parts: list[tuple[Found, Ids, Int64s]] = [] if found is None else [(found, ids, ticks)]
        for plain in self.plain:
            rows = plain.rows
            parts.append(
                (Found([(plain.segment, rows)], None), np.full(len(rows), -1, np.int32), plain.segment.ticks[rows])
            )
        if not parts:
            return Stored()
        batches: list[pa.RecordBatch] = []
        for some, _, _ in parts:
            columns = [some.column(i) for i in range(len(self.schema))]
            batches.append(pa.RecordBatch.from_arrays(columns, schema=self.schema))
        flags = [s.matched[rows] for some, _, _ in parts for s, rows in some.parts if s.matched is not None]
        return Stored(
            pa.concat_batches(batches),
            np.concatenate([some.arranged(ids) for some, ids, _ in parts]),
            np.concatenate([some.arranged(ticks) for some, _, ticks in parts]),
            np.concatenate([np.empty(0, np.uint8), *flags]),
        )
