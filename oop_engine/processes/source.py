"""A ring is also a source: what another process writes into it, as fast as it likes, and what was lost is counted.

The writer does not wait (`Sender(ring, full="drop")`), as a network does not: a page for which there is no room is
dropped, and the reading says so in its notes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import attrs
import pyarrow as pa

from oop_engine.processes.frames import Receiver, waits
from oop_engine.processes.ring import Ring
from oop_engine.sources.protocol import Chunk
from oop_engine.sources.reading import Passing, Reading
from operators.data.page import Page


@attrs.frozen(eq=False)
class RingSource(Passing):
    """A stream that comes out of a ring, once; it carries the promises of its writer."""

    ring: Ring
    arrow: pa.Schema
    promised: tuple[str | tuple[str, ...], ...] = ()
    name: str = "ring"
    watch: Callable[[], None] = attrs.field(default=lambda: None, repr=False)
    """Called while nothing comes; raises when nothing ever will."""
    waits: ClassVar[bool] = True

    def open(self, columns: Sequence[str], batch_rows: int) -> RingReader:
        return RingReader(self.ring, list(columns), self.watch)


@attrs.define(eq=False)
class RingReader(Reading):
    """One reading of a ring, until its writer says that the stream ended; one that ends before tells the writer so."""

    ring: Ring
    columns: list[str]
    watch: Callable[[], None]
    longest_gap: float = attrs.field(init=False, default=0.0)
    """The longest time, in seconds, between two looks into the ring: how long its reader was busy elsewhere."""
    _read: int = attrs.field(init=False, default=0)

    def chunks(self) -> Iterator[Chunk]:
        try:
            yield from self._chunks()
        finally:
            self.ring.leave()

    def _chunks(self) -> Iterator[Chunk]:
        receiver = Receiver(self.ring)
        pauses = waits(self.watch)
        looked = time.perf_counter()
        while True:
            idle = True
            for element in receiver.frames():
                idle = False
                if isinstance(element, Page):
                    self._read += len(element)
                    yield element.batch.select(self.columns)
                elif element.is_end:
                    return
                else:
                    yield element
                now = time.perf_counter()
                self.longest_gap = max(self.longest_gap, now - looked)
                looked = now
            if idle:
                next(pauses)
                looked = time.perf_counter()
            else:
                pauses = waits(self.watch)

    def progress(self) -> tuple[int, int | None]:
        return self._read, None

    def notes(self) -> list[str]:
        counters = self.ring.counters
        if not counters["dropped_tuples"]:
            return []
        read = self._read
        lost = counters["dropped_tuples"]
        return [
            f"the ring was full: {lost:,} of {read + lost:,} tuples ({lost / (read + lost):.1%}), "
            f"in {counters['dropped_pages']:,} pages, were dropped by its writer"
        ]
