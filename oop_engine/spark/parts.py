"""Split sources that can be read twice into parts to read side by side: files, row groups, record batches.

Files are named by their whole paths, since workers may run in another folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from oop_engine.sources.capture import Capture
from oop_engine.sources.capture.splits import Part, Parted
from oop_engine.sources.capture.splits import parts as capture_parts
from oop_engine.sources.columns import convert, ticks
from oop_engine.sources.files import Files
from oop_engine.sources.memory import Rows
from oop_engine.sources.packets import Packets
from oop_engine.sources.paths import expand
from oop_engine.sources.protocol import Reader, Source
from oop_engine.sources.reading import Lasting, Reading
from operators.data.page import Int64s

T = TypeVar("T")
Piece: TypeAlias = "Path | Part | tuple[Path, int]"
"""A capture, a part of one, or a row group of a Parquet file."""
LEAST: Final = 64 << 20
"""Bytes of a capture that are worth a part of their own."""
_PARQUET: Final = (".parquet", ".pq")


def parts(source: Source, count: int) -> tuple[Source, ...]:
    """Return sources that have the tuples of one between them, at most `count`; the one alone if it has no parts."""
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
    paths = [path.absolute() for path in source.paths if isinstance(path, Path)]
    if source.strict or source.inner:
        return tuple(attrs.evolve(source, paths=share, label=source.name) for share in _shares(paths, count))
    size = max(LEAST, sum(path.stat().st_size for path in paths) // count + 1)
    pieces: list[Piece] = [piece for path in paths for piece in capture_parts(path, size) or [path]]
    return _read_apart(source, pieces, count)


def _of_files(source: Files, count: int) -> tuple[Source, ...]:
    given = source.given
    if not isinstance(given, str | Path) and not isinstance(given, Sequence):
        return (source,)
    names = [given] if isinstance(given, str | Path) else given
    paths = [path.absolute() for name in names for path in expand(name)]
    if not source.types and all(_is_parquet(path, source.format) for path in paths):
        groups: list[Piece] = [(path, group) for path in paths for group in range(pq.ParquetFile(path).num_row_groups)]
        return _read_apart(source, groups, count) or (source,)
    if len(paths) < 2:
        return (source,)
    # Columns and types are `settled` by all files, and hold for each share of them.
    return tuple(attrs.evolve(source, given=tuple(share)) for share in _shares(paths, count))


def _read_apart(source: Source, pieces: Sequence[Piece], count: int) -> tuple[Source, ...]:
    return tuple(Pieces(source.name, source.arrow, tuple(share)) for share in _shares(pieces, count))


def _is_parquet(path: Path, format: str | None) -> bool:
    return format == "parquet" or (format is None and path.suffix.lower() in _PARQUET)


def _shares(items: Sequence[T], count: int) -> list[Sequence[T]]:
    """Cut a sequence into at most `count` stretches of about one length."""
    count = max(1, min(count, len(items)))
    cuts = [len(items) * i // count for i in range(count + 1)]
    return [items[start:stop] for start, stop in pairwise(cuts) if stop > start]


@attrs.frozen(eq=False)
class Pieces(Lasting):
    """Some captures, parts of captures and row groups of Parquet files, one after the other.

    A capture that is damaged where parts of it meet cannot be read so.
    """

    name: str
    arrow: pa.Schema
    pieces: tuple[Piece, ...]

    def open(self, columns: Sequence[str], batch_rows: int) -> Reader:
        return PieceReader(self._batches(columns, batch_rows))

    def values(self, column: str) -> Iterator[Int64s]:
        return (ticks(batch, column) for batch in self._batches((column,), 1 << 17))

    def _batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        for piece in self.pieces:
            if isinstance(piece, Part):
                yield from Parted.open(piece.path).batches(piece, columns=columns, batch_rows=batch_rows)
            elif isinstance(piece, Path):
                yield from Capture(piece, columns=columns, batch_rows=batch_rows).batches()
            else:
                yield from self._group(*piece, columns, batch_rows)

    def _group(self, path: Path, group: int, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([self.arrow.field(name) for name in columns])
        table = pq.ParquetFile(path, page_checksum_verification=True).read_row_group(group, list(columns))
        for batch in table.to_batches(max_chunksize=batch_rows):
            arrays = [convert(batch.column(field.name), field, None) for field in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@attrs.define(eq=False)
class PieceReader(Reading):
    """One reading of the record batches of some pieces."""

    batches: Iterator[pa.RecordBatch]
    _read: int = attrs.field(init=False, default=0)

    def chunks(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            self._read += batch.num_rows
            yield batch

    def progress(self) -> tuple[int, int | None]:
        return self._read, None
