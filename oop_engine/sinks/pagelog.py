"""A page log is a folder of results that grows by epochs: what an epoch holds is there as a whole, or not at all.

    out.pages/
      schema.arrow              the attributes, as an Arrow IPC message
      segments/<any name>.arrow sealed Arrow IPC files, of no meaning before an epoch names them
      epochs/0000000000.json    {"segments": [{"file": ..., "rows": ..., "bytes": ..., "digest": ...}, ...]}
      END                       there once the writer has finished and nothing will follow

Epochs are numbered from 0 without gaps. A file takes its name only when it is whole and synced and no other has it
(see `claim`), and never changes; so a reader that knows how many epochs it has read needs to know nothing else.

What the first writer said is never null may be null in later epochs: attributes are compared by name, type and order.

The digest tells whether rows that are computed again are those of the epoch (see `digest`).
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs
import pyarrow as pa

from oop_engine.sinks.claim import claim
from oop_engine.sinks.digest import digest
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.fields import differences, nullable
from oop_engine.sinks.files import claimed, naming
from oop_engine.sinks.protocol import Deliver
from operators.page import Page
from operators.protocol import Element
from operators.schema import Schema

SUFFIX: Final = ".pages"
_SEAL_ROWS: Final = 131_072
_SEAL_SECONDS: Final = 1.0


@attrs.frozen
class Segment:
    """A sealed file of an epoch."""

    file: str
    rows: int
    bytes: int
    digest: int | None = None
    """The sum of the hashes of its rows, modulo 2^64; None in a log of an earlier version."""


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
        """Give the attributes; SinkError where there is no page log."""
        try:
            with pa.memory_map(str(self.folder / "schema.arrow")) as file:
                return pa.ipc.read_schema(file)
        except FileNotFoundError:
            raise SinkError(f'"{self.folder}" is no page log: it holds no schema.arrow.') from None

    @property
    def ended(self) -> bool:
        """Tell whether the writer has finished."""
        return (self.folder / "END").exists()

    def epochs(self, since: int = 0) -> list[tuple[Segment, ...]]:
        """Give the segments of the epochs from a number on, up to the first that is not there."""
        found: list[tuple[Segment, ...]] = []
        while (epoch := self.epoch(since + len(found))) is not None:
            found.append(epoch)
        return found

    def epoch(self, number: int) -> tuple[Segment, ...] | None:
        """Give the segments of one epoch; None when it is not there."""
        try:
            told = json.loads(self._epoch(number).read_bytes())
        except FileNotFoundError:
            return None
        return tuple(Segment(s["file"], s["rows"], s["bytes"], s.get("digest")) for s in told["segments"])

    def seal(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch]) -> Segment:
        """Write a segment, which is of no meaning until an epoch names it."""
        name = f"{secrets.token_hex(12)}.arrow"
        path = self.folder / "segments" / name
        rows = sums = 0
        unfinished = path.with_suffix(".part")
        with open(unfinished, "xb") as file:
            with pa.ipc.new_file(file, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
                    rows += batch.num_rows
                    sums += digest(batch)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        os.replace(unfinished, path)
        return Segment(name, rows, size, sums % (1 << 64))

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
        """Give the batches of a segment, mapped."""
        with pa.memory_map(str(self.folder / "segments" / segment.file)) as file:
            reader = pa.ipc.open_file(file)
            for i in range(reader.num_record_batches):
                yield reader.get_batch(i)

    def discard(self, segments: Sequence[Segment]) -> None:
        """Remove segments that no epoch will name."""
        for segment in segments:
            with suppress(FileNotFoundError):
                (self.folder / "segments" / segment.file).unlink()

    def _claim(self, number: int, segments: Sequence[Segment]) -> bool:
        """Make segments the epoch of a number; False where there is one."""
        told = {"segments": [attrs.asdict(segment) for segment in segments]}
        return claim(self._epoch(number), json.dumps(told).encode())

    def _epoch(self, number: int) -> Path:
        return self.folder / "epochs" / f"{number:010d}.json"


@attrs.frozen
class PageLogSink:
    """Results as a new page log: an epoch at least every second and every 131,072 tuples while there are any."""

    folder: Path
    keep: bool = False
    """Whether what was released just before a run fails is an epoch, too."""

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
        log.begin(schema.arrow)
        held: list[pa.RecordBatch] = []
        rows = number = 0
        sealed = time.monotonic()

        def seal() -> None:
            nonlocal rows, number, sealed
            if rows:
                with naming(f'the page log "{self.folder}"'):
                    log.publish(number, [log.seal(schema.arrow, held)])
                number += 1
            held.clear()
            rows, sealed = 0, time.monotonic()

        def deliver(element: Element) -> None:
            nonlocal rows
            if isinstance(element, Page):
                held.append(element.batch)
                rows += len(element)
            if rows >= _SEAL_ROWS or (rows and time.monotonic() - sealed >= _SEAL_SECONDS):
                seal()

        try:
            yield deliver
        except Exception:
            if self.keep:
                with suppress(SinkError):
                    seal()
            raise
        seal()
        with naming(f'the page log "{self.folder}"'):
            log.end()


def _alike(some: Sequence[Segment], others: Sequence[Segment]) -> bool:
    """Tell whether segments have the same rows between them, as far as that is known."""
    sums = [segment.digest for segment in some], [segment.digest for segment in others]
    known = [sum(d for d in given if d is not None) % (1 << 64) for given in sums if None not in given]
    return len(known) < 2 or known[0] == known[1]
