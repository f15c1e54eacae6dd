"""A generated packet stream as a source: it can be read again, so it is bounded and promised exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.sources.generator import Blocks, Generated
from oop_engine.sources.memory import MemoryReader
from oop_engine.sources.protocol import ARRIVAL, Chunk
from operators.data.page import Int64s, Page
from punctuation import NO_TIME, Punctuation, before

_STEP, _STEP_NS = 4096, 250_000_000
"""Tuples, and time of arrival, between two looks at which link's packets arrived first."""
_LEAST = 256
"""So many tuples at least come between two looks, or a slow link would cost a run more looks than tuples."""


@attrs.frozen
class GeneratedPackets:
    """The packets of one link. With block-sorted disorder the stream promises each block's end itself (Fig 6-9).

    It then promises also its time of arrival, if that is an attribute of it: the packets come in its order.
    """

    generated: Generated

    @property
    def name(self) -> str:
        return self.generated.link

    @property
    def arrow(self) -> pa.Schema:
        return self.generated.schema

    @property
    def rewindable(self) -> bool:
        return not self.promised

    @property
    def promised(self) -> tuple[str, ...]:
        if not isinstance(self.generated.disorder, Blocks):
            return ()
        return ("ts", ARRIVAL) if self.generated.arrival else ("ts",)

    def open(self, columns: Sequence[str], batch_rows: int) -> MemoryReader:
        names = list(columns)
        made = attrs.evolve(self.generated, batch_rows=min(batch_rows, _STEP), arrival=True)
        reader = MemoryReader(self._chunks(made, names, lambda at: setattr(reader, "last_arrival", at)), made.n)
        return reader

    def _chunks(self, made: Generated, names: list[str], arrived: Callable[[int], None]) -> Iterator[Chunk]:
        elements = made.elements(page_rows=made.batch_rows) if self.promised else made.batches()
        step = max(_STEP_NS, int(_LEAST / made.rate * 1e9))
        for element in elements:
            if isinstance(element, Punctuation):
                if not element.is_end:
                    yield element
                continue
            batch = element.batch if isinstance(element, Page) else element
            times = batch.column(ARRIVAL).view(pa.int64()).to_numpy()
            cuts = np.flatnonzero(np.diff(times // step)) + 1
            for start, stop in zip([0, *cuts.tolist()], [*cuts.tolist(), len(times)], strict=True):
                if start < stop:
                    if ARRIVAL in self.promised:
                        yield before(ARRIVAL, int(times[start]))
                    arrived(int(times[stop - 1]))
                    yield batch.slice(start, stop - start).select(names)

    def values(self, column: str) -> Iterator[Int64s]:
        for batch in self.generated.batches():
            values = batch.column(batch.schema.get_field_index(column))
            if pa.types.is_temporal(values.type):
                values = values.view(pa.int64())
            yield values.cast(pa.int64()).fill_null(NO_TIME).to_numpy()
