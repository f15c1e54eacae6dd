"""A column that was read ahead for exact punctuation is kept, as far as memory allows, and not decoded again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import attrs
import pyarrow as pa

from oop_engine.sources.errors import SourceError
from oop_engine.sources.protocol import Chunk, Reader, Source
from operators.page import Int64s, Page
from punctuation import Punctuation
from punctuation.schedule import NO_TIME

KEPT_BYTES = 256 << 20
"""Longer columns are decoded again rather than held."""


@runtime_checkable
class Columnar(Protocol):
    """A source that can leave a column out and save the time to read it."""

    @property
    def columnar(self) -> bool: ...


@attrs.define
class Ahead:
    """Collect the values of an attribute while they are read ahead; gives up when they are too many, or one is null."""

    kind: pa.DataType
    _pieces: list[Int64s] | None = attrs.field(init=False, factory=list)
    _bytes: int = attrs.field(init=False, default=0)

    def take(self, values: Int64s) -> None:
        """Keep the next values, shape (n,)."""
        if self._pieces is None:
            return
        self._bytes += values.nbytes
        if self._bytes > KEPT_BYTES or not _is_int64(self.kind) or (len(values) and values.min() == NO_TIME):
            self._pieces = None
            return
        self._pieces.append(values)

    @property
    def column(self) -> pa.ChunkedArray | None:
        """The whole column, None when it was not kept."""
        if self._pieces is None:
            return None
        plain = pa.chunked_array([pa.array(piece) for piece in self._pieces], pa.int64())
        return pa.chunked_array([piece.view(self.kind) for piece in plain.chunks], self.kind)


def _is_int64(kind: pa.DataType) -> bool:
    return pa.types.is_int64(kind) or (pa.types.is_temporal(kind) and getattr(kind, "bit_width", 0) == 64)


@attrs.define
class Rejoined:
    """A reading of the other columns, with those that were read ahead put back into their places."""

    reader: Reader
    schema: pa.Schema
    known: Mapping[str, pa.ChunkedArray]
    name: str
    _at: int = attrs.field(init=False, default=0)

    def chunks(self) -> Iterator[Chunk]:
        rows = len(next(iter(self.known.values())))
        for chunk in self.reader.chunks():
            if isinstance(chunk, (Page, Punctuation)):
                yield chunk
                continue
            if self._at + len(chunk) > rows:
                raise self._changed(f"has more than the {rows} rows")
            arrays = [
                self._part(self.known[f.name], len(chunk)) if f.name in self.known else chunk.column(f.name)
                for f in self.schema
            ]
            self._at += len(chunk)
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if self._at < rows:
            raise self._changed(f"has {self._at} of the {rows} rows")

    def _part(self, column: pa.ChunkedArray, length: int) -> pa.Array:
        part = column.slice(self._at, length)
        return part.chunk(0) if part.num_chunks == 1 else part.combine_chunks()

    def _changed(self, found: str) -> SourceError:
        return SourceError(
            f"{self.name} changed while it was read: it now {found} that were read ahead for its punctuation.\n"
            "  Read a copy of it, or give the input a punctuator, as punctuate=oop.slack(...), so that it is read once."
        )

    def progress(self) -> tuple[int, int | None]:
        return self.reader.progress()

    def arrived(self) -> int | None:
        return self.reader.arrived()

    def notes(self) -> list[str]:
        return self.reader.notes()


def reopen(source: Source, columns: Sequence[str], batch_rows: int, known: Mapping[str, pa.ChunkedArray]) -> Reader:
    """Open a source for these columns, of which some may be known; one at least is read, to count the rows by."""
    rest = [column for column in columns if column not in known]
    used = {column: known[column] for column in columns if column in known}
    if not used or not rest:
        return source.open(columns, batch_rows)
    schema = pa.schema([source.arrow.field(column) for column in columns])
    return Rejoined(source.open(rest, batch_rows), schema, used, source.name)
