"""Add the time of arrival to a stream: a stamp of the clock, the same for all tuples that came together.

The stamp is the time at which a chunk was handed over by its reader: for what is live its arrival at the system, for a
file that is replayed the moment of its reading. Stamps never go back, so the order of arrival is the promise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.sources.demanded_progress import Holding
from oop_engine.sources.protocol import ARRIVAL, Chunk, KeepsWaiting, Reader, Source
from operators.data.page import Int64s, Page
from operators.errors import SchemaError
from operators.lazy import is_of
from punctuation import Punctuation, before

Clock: TypeAlias = Callable[[], int]
"""Gives the time in ns since 1970; it is called in the thread that reads."""

TIME: Final = pa.timestamp("ns", "UTC")


def stamped_source(source: Source, *, clock: Clock | None = None) -> Source:
    """Return the source with the attribute arrival_ts, by this clock, else by the system's.

    Generated packets know when they arrive: without a clock theirs is the recorded time. SchemaError when the source
    has such an attribute already.
    """
    if ARRIVAL in source.arrow.names:
        raise SchemaError(
            f'{source.name}: there is an attribute "{ARRIVAL}" already, with what was recorded.\n'
            "  Leave out arrival_ts= to use it, or rename it in the file to have both."
        )
    if clock is None and is_of(source, "oop_engine.sources.generated", "GeneratedPackets"):
        # Start-up: only made packets need their generator.
        from oop_engine.sources.generated import GeneratedPackets

        assert isinstance(source, GeneratedPackets)
        return GeneratedPackets(attrs.evolve(source.generated, arrival=True))
    return Stamped(source, time.time_ns if clock is None else clock)


@attrs.frozen(eq=False)
class Stamped:
    """Another source and when it gave what; before each chunk it promises `[arrival_ts < the stamp]` (thesis 5.1.2)."""

    source: Source
    clock: Clock = time.time_ns
    arrow: pa.Schema = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "arrow", self.source.arrow.append(pa.field(ARRIVAL, TIME, nullable=False)))

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def paths(self) -> Sequence[object]:
        """Return the files of the source, where it reads any."""
        return getattr(self.source, "paths", ())

    @property
    def rewindable(self) -> bool:
        return self.source.rewindable

    @property
    def waits(self) -> bool:
        return isinstance(self.source, KeepsWaiting) and self.source.waits

    @property
    def promised(self) -> tuple[str | tuple[str, ...], ...]:
        return (*self.source.promised, ARRIVAL)

    def open(self, columns: Sequence[str], batch_rows: int) -> StampedReader:
        given = tuple(name for name in columns if name != ARRIVAL)
        opened = self.source.open(given or tuple(self.source.arrow.names[:1]), batch_rows)
        schema = pa.schema([self.arrow.field(name) for name in columns])
        if isinstance(opened, Holding):
            return GatheringStampedReader(opened, schema, self.clock, gathering=opened)
        return StampedReader(opened, schema, self.clock)

    def values(self, column: str) -> Iterator[Int64s]:
        return self.source.values(column)


@attrs.define
class StampedReader:
    """One reading of a source, with a look at the clock for every chunk."""

    reader: Reader
    schema: pa.Schema
    clock: Clock
    _latest: int | None = attrs.field(init=False, default=None)

    def chunks(self) -> Iterator[Chunk]:
        for chunk in self.reader.chunks():
            yield from self._with_stamp(chunk)

    def _with_stamp(self, chunk: Chunk) -> list[Chunk]:
        """Return a chunk with its stamp, behind the promise of that, if it is more than the last."""
        if isinstance(chunk, Punctuation) or ARRIVAL not in self.schema.names:
            return [chunk]
        now = self.clock()
        rises = self._latest is None or now > self._latest
        self._latest = now if self._latest is None or rises else self._latest
        stamped = self._stamped(chunk.batch if isinstance(chunk, Page) else chunk, self._latest)
        return [before(ARRIVAL, now), stamped] if rises else [stamped]

    def _stamped(self, batch: pa.RecordBatch, stamp: int) -> pa.RecordBatch:
        stamps = pa.array(np.full(len(batch), stamp, np.int64)).view(TIME)
        arrays = [stamps if name == ARRIVAL else batch.column(name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def progress(self) -> tuple[int, int | None]:
        return self.reader.progress()

    def arrived(self) -> int | None:
        return self.reader.arrived()

    def notes(self) -> list[str]:
        return self.reader.notes()


@attrs.define
class GatheringStampedReader(StampedReader):
    """One reading of a source that gathers tuples, of which those that wait can be taken (`asked.Holding`)."""

    gathering: Holding = attrs.field(kw_only=True)

    def at_hand(self) -> list[Chunk]:
        return [stamped for chunk in self.gathering.at_hand() for stamped in self._with_stamp(chunk)]

    @property
    def away(self) -> int | None:
        return self.gathering.away
