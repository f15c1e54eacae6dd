"""Streams that need no file: record batches in memory, which can be read again, and what Python gives only once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs
import pyarrow as pa

from oop_engine.errors import SchemaError
from oop_engine.sources.protocol import Chunk
from oop_engine.sources.sound import sound
from oop_engine.sources.turn import Turn
from operators.page import Int64s, Page
from operators.schema import Schema
from punctuation import NO_TIME, Punctuation


@attrs.frozen(eq=False)
class Rows:
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

    @property
    def rewindable(self) -> bool:
        return True

    @property
    def promised(self) -> tuple[str, ...]:
        return ()

    def open(self, columns: Sequence[str], batch_rows: int) -> MemoryReader:
        found = (sound(batch.select(list(columns)), f"a record batch of {self.name}") for batch in self.batches)
        return MemoryReader(found, sum(batch.num_rows for batch in self.batches))

    def values(self, column: str) -> Iterator[Int64s]:
        for batch in self.batches:
            page = Page(Schema(batch.schema), sound(batch.select([column]), f"a record batch of {self.name}"))
            values = page.ticks(column)
            valid = page.valid(column)
            if valid is not None:
                values = values.copy()
                values[~valid] = NO_TIME
            yield values


@attrs.frozen(eq=False)
class Once:
    """A stream that comes only once: what a function that is called at the start gives, batch by batch."""

    name: str
    arrow: pa.Schema
    begin: Callable[[], Iterator[Chunk]] = attrs.field(repr=False)
    promised: tuple[str | tuple[str, ...], ...] = ()
    again: bool = attrs.field(default=True, kw_only=True, repr=False)
    """Whether another run may begin anew; not so where what `begin` gives is an iterator that was there before."""
    _turn: Turn = attrs.field(init=False, factory=Turn, repr=False)

    @property
    def rewindable(self) -> bool:
        return False

    def open(self, columns: Sequence[str], batch_rows: int) -> MemoryReader:
        if not self.again:
            self._turn.take(self.name)
        names = list(columns)

        def pruned() -> Iterator[Chunk]:
            for chunk in self.begin():
                if isinstance(chunk, Punctuation):
                    yield chunk
                else:
                    batch = (chunk.batch if isinstance(chunk, Page) else chunk).select(names)
                    yield sound(batch, f"a record batch of {self.name}")

        return MemoryReader(pruned(), None)

    def values(self, column: str) -> Iterator[Int64s]:
        raise TypeError(f"{self.name} comes only once; its values cannot be read ahead")


@attrs.define
class MemoryReader:
    """One reading of a stream that is in memory or comes from Python."""

    _chunks: Iterator[Chunk]
    _total: int | None
    _read: int = attrs.field(init=False, default=0)
    last_arrival: int | None = attrs.field(init=False, default=None)

    def chunks(self) -> Iterator[Chunk]:
        for chunk in self._chunks:
            self._read += 0 if isinstance(chunk, Punctuation) else len(chunk)
            yield chunk

    def progress(self) -> tuple[int, int | None]:
        return self._read, self._total

    def arrived(self) -> int | None:
        return self.last_arrival

    def notes(self) -> list[str]:
        return []
