"""A page log is a folder of results that grows by epochs, each of which is there as a whole or not at all.

    out.pages/
      schema.arrow              the attributes, as an Arrow IPC message
      segments/<any name>.arrow sealed Arrow IPC files, of no meaning before an epoch names them
      epochs/0000000000.json    {"segments": [{"file": ..., "rows": ..., "bytes": ..., "digest": ..., "sums": ...}],
                                 "schema": CRC-32 of schema.arrow, "check": CRC-32 of the segments as they stand here}
      END                       there once the writer has finished and nothing will follow

Epochs are numbered from 0 without gaps. A file takes its name only when it is whole and synced and no other has it
(see `claim`), and never changes; so a reader that knows how many epochs it has read needs to know nothing else.

Attributes that the first writer declared as never null may be null in later epochs: they are compared by name, type and
order.

The digest tells whether rows that are computed again are those of the epoch (see `digest`). The sums tell whether the
bytes of a segment are those that were written: [pages, bytes, CRC-32] of each piece of it, one after another, the first
with what stands before the first page, the last with what stands behind the last. Readers check them, piece by piece.
A log of an earlier version has none: there a reader compares the digest and the number of rows once a segment was read.
"""

from __future__ import annotations

import json
import os
import secrets
import time
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import attrs
import pyarrow as pa

from oop_engine.sinks.claim import claim
from oop_engine.sinks.digest import digest
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.fields import differences, looked_up, nullable, plain
from oop_engine.sinks.files import claimed, naming
from oop_engine.sinks.protocol import Deliver
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element

SUFFIX: Final = ".pages"
SEAL_ROWS: Final = 131_072
_SEAL_SECONDS: Final = 1.0
_PIECE: Final = 1 << 16
"""Bytes of a segment that one sum is of, at least, unless it is the last."""


@attrs.frozen
class Segment:
    """A sealed file of an epoch."""

    file: str
    rows: int
    bytes: int
    digest: int | None = None
    """The sum of the hashes of its rows, modulo 2^64; None in a log of an earlier version."""
    sums: tuple[tuple[int, int, int], ...] = ()
    """Pages, bytes and CRC-32 of each piece of it; none in a log of an earlier version."""

    @classmethod
    def of(cls, told: dict[str, Any]) -> Segment:
        """Read what an epoch says of a segment; ValueError, KeyError or TypeError for something else."""
        sums = tuple((int(pages), int(length), int(wanted)) for pages, length, wanted in told.get("sums", ()))
        return cls(told["file"], told["rows"], told["bytes"], told.get("digest"), sums)

    @classmethod
    def all_of(cls, record: bytes) -> tuple[Segment, ...]:
        """Return the segments that the file of an epoch names; errors as in `of`."""
        return tuple(cls.of(segment) for segment in json.loads(record)["segments"])


@attrs.frozen
class PageLog:
    """A folder that is, or will be, a page log."""

    folder: Path

    def begin(self, schema: pa.Schema) -> None:
        """Make the folder and write the schema; SinkError when the log that is there has other attributes or types."""
        for part in ("segments", "epochs"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        path = self.folder / "schema.arrow"
        if not path.exists():
            claim(path, schema.serialize().to_pybytes())
        there, wanted = nullable(self.schema()), nullable(schema)
        if not there.equals(wanted, check_metadata=False):
            raise SinkError(
                f'the page log "{self.folder}" has other attributes: {", ".join(there.names)}.\n'
                f"  To be written: {', '.join(wanted.names)}.\n{differences(there, wanted)}"
                "  Select and cast them as the log has them, or name another folder."
            )

    def schema(self) -> pa.Schema:
        """Return the attributes; SinkError where there is no page log, or they cannot be read."""
        try:
            found = pa.ipc.read_schema(pa.py_buffer(self._schema_bytes()))
            _ = [(field.name, str(field.type)) for field in found]
        except (OSError, EOFError, pa.ArrowException, UnicodeDecodeError) as error:
            raise _damaged(self.folder / "schema.arrow", str(error)) from error
        return found

    def _schema_bytes(self) -> bytes:
        try:
            return (self.folder / "schema.arrow").read_bytes()
        except FileNotFoundError:
            raise SinkError(f'"{self.folder}" is no page log: it holds no schema.arrow.') from None

    @property
    def ended(self) -> bool:
        """Return whether the writer has finished."""
        return (self.folder / "END").exists()

    def epochs(self, since: int = 0) -> list[tuple[Segment, ...]]:
        """Return the segments of the epochs from a number on, up to the first that is not there."""
        found: list[tuple[Segment, ...]] = []
        while (epoch := self.epoch(since + len(found))) is not None:
            found.append(epoch)
        return found

    def epoch(self, number: int) -> tuple[Segment, ...] | None:
        """Return the segments of one epoch; None when it is not there, SinkError where it is damaged."""
        path = self._epoch(number)
        try:
            told = json.loads(path.read_bytes())
            segments = told["segments"]
            check = told.get("check")
            found = tuple(Segment.of(segment) for segment in segments)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(path, f"it is not what was written: {error!r}") from error
        if check is not None and check != _check(segments):
            raise _damaged(path, "its checksum is another")
        if (schema := told.get("schema")) is not None and schema != zlib.crc32(self._schema_bytes()):
            raise _damaged(self.folder / "schema.arrow", f"its checksum is not the one that {path.name} tells")
        return found

    def seal(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch]) -> Segment:
        """Write a segment, which is of no meaning until an epoch names it."""
        name = f"{secrets.token_hex(12)}.arrow"
        path = self.folder / "segments" / name
        unfinished = path.with_suffix(".part")
        with open(unfinished, "xb") as file:
            segment = sealed(file, name, schema, batches)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        return segment

    def publish(self, number: int, segments: Sequence[Segment], *, counts: bool = False) -> bool:
        """Make segments the epoch of a number, once: False when it is there already, with these rows.

        SinkError when it has other rows, or when an epoch before it is missing: that is another writer's log. With
        `counts`, and in a log of an earlier version, as many rows are taken to be these.
        """
        if self.epoch(number) is None:
            if number and self.epoch(number - 1) is None:
                raise SinkError(f'the page log "{self.folder}" lacks epoch {number - 1}; epoch {number} cannot follow.')
            if self._claim(number, segments):
                return True
        there = self.epoch(number) or ()
        known, rows = sum(segment.rows for segment in there), sum(segment.rows for segment in segments)
        if known != rows:
            raise SinkError(
                f'epoch {number} of the page log "{self.folder}" has {known:,} rows, and now {rows:,} are to be'
                " written.\n  It is the log of another query or checkpoint; name another folder."
            )
        if not counts and not _alike(there, segments):
            raise SinkError(
                f'epoch {number} of the page log "{self.folder}" has other rows than the {rows:,} that are now to'
                " be written.\n  It is the log of another query or checkpoint; name another folder.\n"
                "  Where one query gives other rows each time it is run, as with rand() or first(), write it with"
                ' .option("compare", "counts").'
            )
        return False

    def append(self, segments: Sequence[Segment]) -> int:
        """Make segments a further epoch and give its number: the first that no writer has taken."""
        number = 0
        while self._epoch(number).exists() or not self._claim(number, segments):
            number += 1
        return number

    def end(self) -> None:
        """Say that nothing will follow."""
        claim(self.folder / "END", b"")

    def read(self, segment: Segment) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a segment, mapped; SinkError where its bytes or rows are not those that were written."""
        path = self.folder / "segments" / segment.file
        try:
            with pa.memory_map(str(path)) as file:
                pieces = _Pieces(path, segment, file.read_buffer())
                pieces.check_ends()
                reader = pa.ipc.open_file(file)
                rows = sums = 0
                for i in range(reader.num_record_batches):
                    pieces.check(i)
                    batch = reader.get_batch(i)
                    if not segment.sums:
                        batch.validate(full=True)
                        sums += digest(batch) if segment.digest is not None else 0
                    rows += batch.num_rows
                    yield batch
        except FileNotFoundError:
            raise SinkError(
                f'the page log "{self.folder}" lacks the file "{segment.file}", which an epoch names.\n'
                "  Copy it again from where the log was written."
            ) from None
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise _damaged(path, str(error)) from error
        if rows != segment.rows:
            raise _damaged(path, f"it has {rows:,} rows, and {segment.rows:,} were written")
        if not segment.sums and segment.digest is not None and sums % (1 << 64) != segment.digest:
            raise _damaged(path, "its rows are not those that were written: they have another digest")

    def discard(self, segments: Sequence[Segment]) -> None:
        """Remove segments that no epoch will name."""
        for segment in segments:
            with suppress(FileNotFoundError):
                (self.folder / "segments" / segment.file).unlink()

    def _claim(self, number: int, segments: Sequence[Segment]) -> bool:
        """Make segments the epoch of a number; False where there is one."""
        return claim(self._epoch(number), epoch_record(segments, self._schema_bytes()))

    def _epoch(self, number: int) -> Path:
        return self.folder / "epochs" / f"{number:010d}.json"


def sealed(file: BinaryIO, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Segment:
    """Write batches as a segment to an empty file, and return what an epoch says of it."""
    rows = sums = 0
    summed = _Summed(file)
    with pa.ipc.new_file(pa.PythonFile(summed, mode="w"), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            summed.page()
            rows += batch.num_rows
            sums += digest(batch)
    return Segment(name, rows, summed.tell(), sums % (1 << 64), summed.finished())


def epoch_record(segments: Sequence[Segment], schema: bytes) -> bytes:
    """Return the file of an epoch; `schema` are the bytes of schema.arrow."""
    listed = [attrs.asdict(segment) for segment in segments]
    return json.dumps({"segments": listed, "schema": zlib.crc32(schema), "check": _check(listed)}).encode()


@attrs.define
class _Summed:
    """A file that is written once, from its beginning, and the sums of its pieces."""

    file: BinaryIO
    closed: bool = attrs.field(init=False, default=False)
    _sums: list[tuple[int, int, int]] = attrs.field(init=False, factory=list)
    _place: int = attrs.field(init=False, default=0)
    _pages: int = attrs.field(init=False, default=0)
    _bytes: int = attrs.field(init=False, default=0)
    _sum: int = attrs.field(init=False, default=0)

    def write(self, data: bytes) -> int:
        self._sum = zlib.crc32(data, self._sum)
        self._bytes += len(data)
        self._place += len(data)
        return self.file.write(data)

    def page(self) -> None:
        """Say that a page was written."""
        self._pages += 1
        if self._bytes >= _PIECE:
            self._end()

    def finished(self) -> tuple[tuple[int, int, int], ...]:
        """Return the sums of all that was written."""
        self._end()
        return tuple(self._sums)

    def _end(self) -> None:
        self._sums.append((self._pages, self._bytes, self._sum))
        self._pages = self._bytes = self._sum = 0

    def tell(self) -> int:
        return self._place

    def flush(self) -> None:
        self.file.flush()

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


@attrs.define
class _Pieces:
    """Check the pieces of a segment as they are read; nothing where it has no sums."""

    path: Path
    segment: Segment
    data: pa.Buffer
    _next: int = attrs.field(init=False, default=0)
    _page: int = attrs.field(init=False, default=0)
    """The first page of the next piece."""
    _place: int = attrs.field(init=False, default=0)

    def check_ends(self) -> None:
        """Check the length, the first piece and the last, which say where the pages are."""
        if self.data.size != self.segment.bytes:
            raise _damaged(self.path, f"it has {self.data.size:,} bytes, and {self.segment.bytes:,} were written")
        if sums := self.segment.sums:
            pages, length, _ = sums[-1]
            self._compare(sums[-1], sum(n for n, _, _ in sums) - pages, self.segment.bytes - length)
            self.check(0)

    def check(self, page: int) -> None:
        """Check all pieces up to that of a page."""
        while page >= self._page and self._next < len(self.segment.sums):
            piece = self.segment.sums[self._next]
            self._compare(piece, self._page, self._place)
            self._next += 1
            self._page += piece[0]
            self._place += piece[1]

    def _compare(self, piece: tuple[int, int, int], page: int, place: int) -> None:
        pages, length, wanted = piece
        if zlib.crc32(memoryview(self.data)[place : place + length]) != wanted:
            which = f"page {page}" if pages == 1 else f"pages {page} to {page + pages - 1}" if pages else "its end"
            raise _damaged(self.path, f"{which}, in bytes {place:,} to {place + length - 1:,}: the checksum is another")


def _damaged(path: Path, how: str) -> SinkError:
    return SinkError(f'"{path}" is damaged: {how}.\n  Copy it again from where it was written, or write the log anew.')


def _check(segments: object) -> int:
    return zlib.crc32(json.dumps(segments, sort_keys=True).encode())


@attrs.frozen
class PageLogSink:
    """Results as a new page log: an epoch at least every second and every 131,072 tuples while there are any."""

    folder: Path
    keep: bool = False
    """Whether what was released just before a run fails is an epoch, too."""

    @property
    def path(self) -> Path:
        """Return the folder."""
        return self.folder

    @contextmanager
    def opened(self, schema: Schema) -> Generator[Deliver, None, None]:
        """Write epochs as promises and pages come; END tells that the run was whole."""
        with claimed(self.folder), self._opened(schema) as deliver:
            yield deliver

    @contextmanager
    def _opened(self, schema: Schema) -> Generator[Deliver, None, None]:
        log = PageLog(self.folder)
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise SinkError(f'"{self.folder}" exists already; name a new folder for a page log, or remove this one.')
        kept = plain(schema.arrow)
        log.begin(kept)
        epochs = _Epochs(log, kept)
        try:
            yield epochs
        except Exception:
            if self.keep:
                with suppress(SinkError):
                    epochs.seal()
            raise
        epochs.seal()
        with naming(f'the page log "{self.folder}"'):
            log.end()


@attrs.define(eq=False)
class _Epochs:
    """Write what comes as epochs of a new page log."""

    log: PageLog
    arrow: pa.Schema
    _batches: list[pa.RecordBatch] = attrs.field(init=False, factory=list)
    _rows: int = attrs.field(init=False, default=0)
    _number: int = attrs.field(init=False, default=0)
    _sealed: float = attrs.field(init=False, factory=time.monotonic)

    @property
    def held(self) -> bool:
        """Return whether there are tuples that are in no epoch yet."""
        return self._rows > 0

    def seal(self) -> None:
        """Make an epoch of what is held, if anything is."""
        if self._rows:
            with naming(f'the page log "{self.log.folder}"'):
                self.log.publish(self._number, [self.log.seal(self.arrow, self._batches)])
            self._number += 1
        self._batches.clear()
        self._rows, self._sealed = 0, time.monotonic()

    def __call__(self, element: Element, /) -> None:
        if isinstance(element, Page):
            self._batches.append(looked_up(element.batch, self.arrow))
            self._rows += len(element)
        if self._rows >= SEAL_ROWS or (self._rows and time.monotonic() - self._sealed >= _SEAL_SECONDS):
            self.seal()


def _alike(some: Sequence[Segment], others: Sequence[Segment]) -> bool:
    """Return whether segments have the same rows between them, as far as that is known."""
    sums = [segment.digest for segment in some], [segment.digest for segment in others]
    known = [sum(d for d in given if d is not None) % (1 << 64) for given in sums if None not in given]
    return len(known) < 2 or known[0] == known[1]
