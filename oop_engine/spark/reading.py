"""The work of a reader on a worker: pieces of files become Arrow batches of the columns that Spark wants."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.sources.capture import PACKET_SCHEMA, Capture
from oop_engine.sources.capture.compression import GZIP, ZSTD
from oop_engine.sources.capture.splits import Part, Parted, parts
from oop_engine.sources.errors import SourceError
from oop_engine.spark.narrow import page_buffer
from oop_engine.spark.options import Options
from oop_engine.spark.paths import Choice, local
from oop_engine.spark.schema import Wanted, addresses

SPLIT: Final = 128 << 20
"""Bytes of a part of a capture, at most, where nothing is said."""
LEAST: Final = 64 << 20
"""Bytes that are worth a task of their own, where there are few of them."""
_TIME: Final = "ts"
_PAGED: Final = pa.schema([("rows", pa.int64()), ("page", pa.binary())])
_GROUPS: Final = 8
_LEAST_GROUP: Final = 4 << 20
_NAMED: Final = 5
"""How many files a warning names."""
_PACKED: Final = 4
"""How many times what is in a compressed file is taken to be larger than the file."""


@attrs.frozen
class Piece:
    """A file, or of a classic pcap the records that start in [low, high)."""

    path: Path
    low: int = 0
    high: int | None = None
    last: bool = True


@attrs.frozen
class Between:
    """The time range of the rows wanted, in ns since 1970: from `start` on, before `end`."""

    start: int | None
    end: int | None

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the rows in the range; those without a time are in none."""
        if self.start is None and self.end is None:
            return batch
        ticks = batch.column(_TIME).view(pa.int64())
        masks = [pc.greater_equal(ticks, self.start)] if self.start is not None else []
        masks += [pc.less(ticks, self.end)] if self.end is not None else []
        mask = masks[0] if len(masks) == 1 else pc.and_(masks[0], masks[1])
        return batch if mask.null_count == 0 and pc.all(mask).as_py() else batch.filter(mask)


@attrs.frozen
class Shape:
    """The form of the output: the columns wanted, or (`paged`) batches as they are, each in one cell.

    A page crosses into Spark and through a shuffle at the cost of its bytes, a row at that of a row. It holds columns
    of the engine's own types in as few bytes as their values allow, and `oop_engine.spark.read_page` gives them; `rows`
    says how many tuples it holds.
    """

    wanted: Wanted
    paged: bool = False

    @property
    def arrow(self) -> pa.Schema:
        """Return the columns as Spark has them."""
        return _PAGED if self.paged else self.wanted.arrow

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch that has the columns read as it goes to Spark."""
        if not self.paged:
            return self.wanted.batch(batch)
        page = packed(batch.select(list(self.wanted.read)))
        return pa.RecordBatch.from_arrays([pa.array([batch.num_rows], pa.int64()), page], schema=_PAGED)


def packed(batch: pa.RecordBatch) -> pa.Array:
    """Put a batch into one cell, as a page."""
    page = page_buffer(batch)
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(np.array([0, page.size], np.int32)), page])


class Reading(Protocol):
    """A reader of the pieces of one format; a value that is sent to workers."""

    @property
    def shape(self) -> Shape:
        """Return the form of the output."""
        ...

    @property
    def notes(self) -> str | None:
        """Return the folder of notes, None for no notes."""
        ...

    def batches(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """Read a piece."""
        ...


@attrs.frozen
class PacketReading:
    """Packets of captures."""

    shape: Shape
    between: Between
    batch_rows: int
    strict: bool
    notes: str | None

    @classmethod
    def of(cls, options: Options) -> PacketReading:
        """Read the options; SourceError or SchemaError for what is wrong in them."""
        wanted = Wanted.of(PACKET_SCHEMA, options.names("columns"), addresses(options))
        shape = Shape(wanted, options.flag("pages"))
        return cls(shape, between(options), batch_rows(options), options.flag("strict"), notes_folder(options))

    def batches(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """Read a file, or the part of it that the piece names."""
        columns = columns_read(self.shape.wanted, self.between)
        notes: list[str] = []
        if piece.high is not None:
            part = Part(piece.path, piece.low, piece.high, piece.last)
            read = Parted.open(piece.path).batches(part, columns=columns, batch_rows=self.batch_rows)
        else:
            capture = Capture(piece.path, columns=columns, batch_rows=self.batch_rows, strict=self.strict)
            notes, read = capture.notes, capture.batches()
        for batch in read:
            found = self.between.of(batch)
            if found.num_rows:
                yield self.shape.batch(found)
        note(self.notes, piece, notes)


@attrs.frozen
class FlowReading:
    """Records of flow exports."""

    shape: Shape
    between: Between
    batch_rows: int
    strict: bool
    notes: str | None
    elements: tuple[str, ...]
    ports: tuple[int, ...] | None
    allow: tuple[str, ...] | None
    refuses: bool = False
    """Whether a capture of packets that are no flow exports is an error: a stream would take it for read."""

    @classmethod
    def of(cls, options: Options) -> FlowReading:
        """Read the options; SourceError or SchemaError for what is wrong in them."""
        # Start-up: most of Spark's workers read no flow exports.
        from oop_engine.sources.flows import FlowExports

        elements = options.names("elements") or ()
        named = options.names("ports")
        ports = (
            None if named is None else tuple(Options("oop.netflow", {"ports": p}, ()).number("ports", 0) for p in named)
        )
        allow = options.names("allow")
        known = FlowExports((), columns=elements, ports=ports, allow=allow).arrow
        wanted = Wanted.of(known, options.names("columns"), addresses(options))
        shape = Shape(wanted, options.flag("pages"))
        strict, notes = options.flag("strict"), notes_folder(options)
        return cls(shape, between(options), batch_rows(options), strict, notes, elements, ports, allow)

    def batches(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """Read a file, its templates from its own beginning."""
        # Start-up: most of Spark's workers read no flow exports.
        from oop_engine.sources.flows import FlowExports

        exports = FlowExports(
            (piece.path,), columns=self.elements, ports=self.ports, allow=self.allow, strict=self.strict
        )
        reader = exports.open(columns_read(self.shape.wanted, self.between), self.batch_rows)
        for batch in reader.batches():
            found = self.between.of(batch)
            if found.num_rows:
                yield self.shape.batch(found)
        if self.refuses:
            reader.check_any()
        note(self.notes, piece, reader.notes())


def read(reading: Reading, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
    """Read pieces on a worker, one after the other; SourceError for a file that the worker cannot open.

    The driver named the file because it saw it. A worker that does not see it cannot tell whether it is gone, or only
    out of this worker's sight: the batch must fail, or the file would count as read.
    """
    for piece in pieces:
        check_open(piece.path)
        yield from reading.batches(piece)


def check_open(path: Path) -> None:
    """Raise SourceError when this worker cannot open a file that the driver named."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise SourceError(
            f'a worker on {socket.gethostname()} cannot open "{path}": {error.strerror}. The driver saw this file.\n'
            f'  Make the folder "{path.parent}" visible to every worker under this path, readable for its user.\n'
            "  If the file was deleted just now, start the query again: the driver then leaves it out and says so."
        ) from None


def choice(options: Options) -> Choice:
    """Read which files are meant."""
    return Choice(options.names("only"), options.names("except") or ())


def notes_folder(options: Options) -> str | None:
    """Read where notes are left; SourceError for a folder that is not of this machine."""
    named = options.text("notes")
    return None if named is None else str(local(named, "the option notes"))


def between(options: Options) -> Between:
    """Read the time range."""
    return Between(options.time("start"), options.time("end"))


def batch_rows(options: Options) -> int:
    """Read the rows of a batch."""
    return options.number("batchRows", 65_536)


def columns_read(wanted: Wanted, between: Between) -> tuple[str, ...]:
    """Name the columns to read: those wanted, and the time where a range is."""
    if between == Between(None, None) or _TIME in wanted.read:
        return wanted.read
    return tuple(name for name in wanted.given.names if name in (*wanted.read, _TIME))


def note(folder: str | None, piece: Piece, notes: Sequence[str]) -> None:
    """Leave what a reading found in a folder, one file a piece, the same when it is read again."""
    if folder is None or not notes:
        return
    text = json.dumps({"file": str(piece.path), "notes": list(notes)})
    name = hashlib.sha256(f"{piece.path}:{piece.low}".encode()).hexdigest()[:24]
    Path(folder).mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=folder, prefix=".", suffix=".part")
    with open(handle, "w") as file:
        file.write(text)
    os.replace(unfinished, Path(folder) / f"{name}.json")


def note_gone(folder: str | None, pieces: Sequence[Piece]) -> None:
    """Say which files are gone before they were read to their ends: in notes, or where there are none on stderr."""
    for piece in pieces:
        told = f"{piece.path}: gone when it was read up to byte {piece.low}, what lay behind it is not read"
        note(folder, piece, [told])
    if folder is None and pieces:
        what = "1 file is" if len(pieces) == 1 else f"{len(pieces)} files are"
        names = [f"{piece.path} (read up to byte {piece.low})" for piece in pieces[:_NAMED]]
        more = [f"{len(pieces) - _NAMED} more"] if len(pieces) > _NAMED else []
        told = f"warning: {what} gone, and not read to the end: {', '.join([*names, *more])}"
        sys.stderr.write(f"{told}\n")
        sys.stderr.flush()


def pieces(paths: Sequence[Path], split: int) -> list[Piece]:
    """Cut files into pieces: large classic captures into parts of at most about `split` bytes, none where it is 0."""
    size = part_size(sum(path.stat().st_size for path in paths), split)
    found: list[Piece] = []
    for path in paths:
        found += [Piece(p.path, p.low, p.high, p.last) for p in parts(path, size)] or [Piece(path)]
    return found


def part_size(total: int, split: int) -> int:
    """Return the bytes of a part where there are so many in all: few large parts, since every task costs some time."""
    return min(split, max(LEAST, total // _GROUPS))


def grouped(given: Sequence[Piece], split: int) -> list[tuple[Piece, ...]]:
    """Put small pieces together, in order, so that thousands of small files are not as many tasks."""
    weights = [_weight(piece) for piece in given]
    room = min(max(sum(weights) // _GROUPS, _LEAST_GROUP), max(split, 1))
    groups: list[list[Piece]] = []
    filled = 0
    for piece, weight in zip(given, weights, strict=True):
        if not groups or filled + weight > room:
            groups.append([])
            filled = 0
        groups[-1].append(piece)
        filled += weight
    return [tuple(group) for group in groups]


def _weight(piece: Piece) -> int:
    if piece.high is not None:
        return piece.high - piece.low
    size = piece.path.stat().st_size
    with piece.path.open("rb") as file:
        head = file.read(4)
    return size * (_PACKED if head[:2] == GZIP or head == ZSTD else 1)
