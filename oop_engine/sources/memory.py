"""Streams without a file: record batches in memory, which can be read again, and iterators, which cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs
import pyarrow as pa

from oop_engine.errors import SchemaError
from oop_engine.sources.protocol import Chunk, Snapshot
from oop_engine.sources.reading import Lasting, Passing, Reading
from oop_engine.sources.rows import RowPages
from oop_engine.sources.sound import sound
from oop_engine.sources.turn import Turn
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from punctuation import NO_TIME, Punctuation


@attrs.frozen(eq=False)
class Rows(Lasting):
    """A bounded stream of record batches held in memory."""

    name: str
    batches: tuple[pa.RecordBatch, ...] = attrs.field(converter=tuple, repr=False)
    schema: pa.Schema | None = None

    def __attrs_post_init__(self) -> None:
        if self.schema is None and not self.batches:
            raise SchemaError(f"{self.name} has no batches, so its schema must be given")

    @property
    def arrow(self) -> pa.Schema:
        return self.batches[0].schema if self.schema is None else self.schema

    def open(self, columns: Sequence[str], batch_rows: int) -> MemoryReader:
        found = (sound(batch.select(list(columns)), f"a record batch of {self.name}") for batch in self.batches)
        return MemoryReader(found, sum(batch.num_rows for batch in self.batches))

    def values(self, column: str) -> Iterator[Int64s]:
        for batch in self.batches:
            read = sound(batch.select([column]), f"a record batch of {self.name}")
            page = Page(Schema(read.schema), read)
            values = page.ticks(column)
            valid = page.valid(column)
            if valid is not None:
                values = values.copy()
                values[~valid] = NO_TIME
            yield values


@attrs.frozen(eq=False)
class Once(Passing):
    """A stream that comes only once: what a function that is called at the start gives, batch by batch."""

    name: str
    arrow: pa.Schema
    begin: Callable[[], Iterator[Chunk] | RowPages] = attrs.field(repr=False)
    promised: tuple[str | tuple[str, ...], ...] = ()
    again: bool = attrs.field(default=True, kw_only=True, repr=False)
    """Whether another run may begin anew; not so where what `begin` gives is an iterator that was there before."""
    seek: Callable[[int], object] | None = attrs.field(default=None, kw_only=True, repr=False)
    """Lets an iterator go on behind so many tuples, where it can."""
    _turn: Turn = attrs.field(init=False, factory=Turn, repr=False)

    def open(self, columns: Sequence[str], batch_rows: int) -> MemoryReader:
        if not self.again:
            self._turn.take(self.name)
        names, given = list(columns), self.begin()
        if isinstance(given, RowPages):
            return GatheringReader((_pruned(c, names) for c in given.elements()), None, given, names, seeks=self.seek)
        return MemoryReader((self._checked(_pruned(chunk, names)) for chunk in given), None, seeks=self.seek)

    def _checked(self, chunk: Chunk) -> Chunk:
        """Validate a batch of somebody else's making; pages may hold one, too."""
        return sound(chunk, f"a record batch of {self.name}") if isinstance(chunk, pa.RecordBatch) else chunk


@attrs.define
class MemoryReader(Reading):
    """One reading of a stream that is in memory or comes from Python."""

    _chunks: Iterator[Chunk]
    _total: int | None
    seeks: Callable[[int], object] | None = attrs.field(default=None, kw_only=True)
    _read: int = attrs.field(init=False, default=0)
    last_arrival: int | None = attrs.field(init=False, default=None)

    def chunks(self) -> Iterator[Chunk]:
        for chunk in self._chunks:
            self._read += 0 if isinstance(chunk, Punctuation) else len(chunk)
            yield chunk

    def mark(self) -> tuple[Mapping[str, object], int] | None:
        return None

    def seek(self, mark: Mapping[str, object] | None, at: int, tuples: int) -> int:
        if self.seeks is None:
            return 0
        self.seeks(tuples)
        self._read = tuples
        return tuples

    def progress(self) -> tuple[int, int | None]:
        return self._read, self._total

    def arrived(self) -> int | None:
        return self.last_arrival


@attrs.define
class GatheringReader(MemoryReader):
    """One reading of rows, of which those that wait for a page can be taken (`asked.Holding`)."""

    _pages: RowPages
    _names: list[str]

    def at_hand(self) -> list[Chunk]:
        found = [_pruned(chunk, self._names) for chunk in self._pages.at_hand()]
        self._read += sum(len(chunk) for chunk in found if not isinstance(chunk, Punctuation))
        return found

    @property
    def away(self) -> int | None:
        return self._pages.away


def _pruned(chunk: Chunk, names: list[str]) -> Chunk:
    if isinstance(chunk, Punctuation | Snapshot):
        return chunk
    return (chunk.batch if isinstance(chunk, Page) else chunk).select(names)
