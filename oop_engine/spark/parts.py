"""A source that can be read twice can be read in parts, side by side: by file, by row group, by record batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from oop_engine.sources.capture import PACKET_SCHEMA, Capture
from oop_engine.sources.capture.splits import Part, Parted
from oop_engine.sources.capture.splits import parts as capture_parts
from oop_engine.sources.columns import convert, ticks
from oop_engine.sources.files import Files
from oop_engine.sources.memory import Rows
from oop_engine.sources.packets import Packets
from oop_engine.sources.paths import expand
from oop_engine.sources.protocol import Reader, Source
from operators.page import Int64s

T = TypeVar("T")
LEAST: Final = 64 << 20
"""Bytes of a capture that are worth a part of their own."""
_PARQUET: Final = (".parquet", ".pq")


def parts(source: Source, count: int) -> tuple[Source, ...]:
    """Give sources that have the tuples of one between them, at most `count`; the one alone if it has no parts."""
    if not source.rewindable:
        return (source,)
    match source:
        case Rows():
            shares = _shares(list(source.batches), count)
            return tuple(Rows(source.name, tuple(share), source.arrow) for share in shares) or (source,)
        case Packets():
            return _of_captures(source, count)
        case Files():
            return _of_files(source, count)
        case _:
            return (source,)


def _of_captures(source: Packets, count: int) -> tuple[Source, ...]:
    paths = [path for path in source.paths if isinstance(path, Path)]
    if source.strict:
        return tuple(attrs.evolve(source, paths=share, label=source.name) for share in _shares(paths, count))
    size = max(LEAST, sum(path.stat().st_size for path in paths) // count + 1)
    pieces: list[Path | Part] = [piece for path in paths for piece in capture_parts(path, size) or [path]]
    return tuple(CaptureParts(source.name, tuple(share)) for share in _shares(pieces, count))


def _of_files(source: Files, count: int) -> tuple[Source, ...]:
    given = source.given
    if not isinstance(given, str | Path) and not isinstance(given, Sequence):
        return (source,)
    names = [given] if isinstance(given, str | Path) else given
    paths = [path for name in names for path in expand(name)]
    if not source.types and all(_is_parquet(path, source.format) for path in paths):
        groups = [(path, group) for path in paths for group in range(pq.ParquetFile(path).num_row_groups)]
        return tuple(RowGroups(source.name, source.arrow, tuple(share)) for share in _shares(groups, count)) or (
            source,
        )
    if len(paths) < 2:
        return (source,)
    # Types follow from the first lines of the first file, and hold for all.
    types = {field.name: field.type for field in source.arrow if not field.metadata} | dict(source.types or {})
    return tuple(attrs.evolve(source, given=tuple(share), types=types) for share in _shares(paths, count))


def _is_parquet(path: Path, format: str | None) -> bool:
    return format == "parquet" or (format is None and path.suffix.lower() in _PARQUET)


def _shares(items: Sequence[T], count: int) -> list[Sequence[T]]:
    """Cut a sequence into at most `count` stretches of about one length."""
    count = max(1, min(count, len(items)))
    cuts = [len(items) * i // count for i in range(count + 1)]
    return [items[start:stop] for start, stop in pairwise(cuts) if stop > start]


@attrs.frozen(eq=False)
class CaptureParts:
    """Some captures, and parts of captures; a capture that is damaged where parts of it meet cannot be read so."""

    name: str
    pieces: tuple[Path | Part, ...]
    arrow: pa.Schema = PACKET_SCHEMA
    promised: tuple[str, ...] = ()

    @property
    def rewindable(self) -> bool:
        return True

    def open(self, columns: Sequence[str], batch_rows: int) -> Reader:
        return PieceReader(self._batches(columns, batch_rows))

    def values(self, column: str) -> Iterator[Int64s]:
        return (ticks(batch, column) for batch in self._batches((column,), 1 << 17))

    def _batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        for piece in self.pieces:
            if isinstance(piece, Part):
                yield from Parted.open(piece.path).batches(piece, columns=columns, batch_rows=batch_rows)
            else:
                yield from Capture(piece, columns=columns, batch_rows=batch_rows).batches()


@attrs.frozen(eq=False)
class RowGroups:
    """Some row groups of Parquet files."""

    name: str
    arrow: pa.Schema
    groups: tuple[tuple[Path, int], ...]
    promised: tuple[str, ...] = ()

    @property
    def rewindable(self) -> bool:
        return True

    def open(self, columns: Sequence[str], batch_rows: int) -> Reader:
        return PieceReader(self._batches(columns, batch_rows))

    def values(self, column: str) -> Iterator[Int64s]:
        return (ticks(batch, column) for batch in self._batches((column,), 1 << 17))

    def _batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([self.arrow.field(name) for name in columns])
        for path, group in self.groups:
            table = pq.ParquetFile(path, page_checksum_verification=True).read_row_group(group, list(columns))
            for batch in table.to_batches(max_chunksize=batch_rows):
                arrays = [convert(batch.column(field.name), field, None) for field in schema]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@attrs.define(eq=False)
class PieceReader:
    """One reading of the record batches of some pieces."""

    batches: Iterator[pa.RecordBatch]
    _read: int = attrs.field(init=False, default=0)

    def chunks(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            self._read += batch.num_rows
            yield batch

    def progress(self) -> tuple[int, int | None]:
        return self._read, None

    def arrived(self) -> int | None:
        return None

    def notes(self) -> list[str]:
        return []
