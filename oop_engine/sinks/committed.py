"""Results of a job count when a checkpoint commits them: they are written first, committed with the state, then shown.

A run that dies leaves results that no checkpoint knows: the next run takes them away, and computes them again. Results
that a reader could see whole stay as they are.

- `Parts`: a folder of Parquet or Arrow files. A part is written in `_stage`, and takes its place in the folder when it
  was committed; so a reader never sees half a part, or one that is taken back. `_manifest.json` lists the parts.
- `partitioned.Files`: the same, in the folders of partitions.
- `Lines`: one file of CSV or NDJSON. Lines are written behind those that are there; what no checkpoint knows of is cut.
- `committed_log.Epochs`: a page log, which grows by an epoch at each checkpoint.
- `outbox.Outbox`: what goes to a server, which has it once the checkpoint is committed.
- `committed_table.Table`: a table of a SQLite, DuckDB or PostgreSQL database.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import attrs

from oop_engine.sinks.databases import DatabaseSink
from oop_engine.sinks.disk import Disk
from oop_engine.sinks.encoders import Arrow, Csv, Ndjson, Parquet
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.files import FileSink
from oop_engine.sinks.kept import AGAIN, MANIFEST, STAGE, Kept, alone, number
from oop_engine.sinks.outbox import Outbox, RemoteSink
from oop_engine.sinks.pagelog import PageLogSink
from oop_engine.sinks.partitioned import PartitionedSink
from oop_engine.sinks.protocol import Encoder, Sink
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element

_PART: Final = re.compile(r"part-(\d{8})-(\d{3})\.(?:parquet|arrow|arrows)")
_HELD: Final = 1 << 20
"""Bytes that wait to be written, at most."""


class Committed(Protocol):
    """The results of one output of a job. All but `sync` and `publish` are called between two elements."""

    @property
    def place(self) -> str:
        """Return where the results are: the absolute path of a file or folder, or the URI of a database."""
        ...

    def fresh(self) -> Kept:
        """Return what the first checkpoint keeps, before anything is written; SinkError where other results are."""
        ...

    def begin(self, kept: Kept) -> None:
        """Show what was committed, and take away what this checkpoint does not know."""
        ...

    def overtaken(self, kept: Kept) -> bool:
        """Return whether results were shown that came after this checkpoint."""
        ...

    def __call__(self, element: Element, /) -> None:
        """Take an element."""
        ...

    def cut(self, epoch: int, *, ended: bool) -> Kept:
        """End what was taken so far, and return what the checkpoint has to keep; nothing follows if it `ended`."""
        ...

    def take_back(self, kept: Kept) -> None:
        """Let the next cut have what this one had: its checkpoint was not committed, and its results are durable."""
        ...

    def sync(self, kept: Kept) -> None:
        """Make durable what was cut."""
        ...

    def publish(self, kept: Kept) -> None:
        """Show what was committed; what is shown already stays."""
        ...

    def close(self) -> None:
        """Let go of what is open; nothing is written."""
        ...


def committed(sink: Sink, schema: Schema, disk: Disk, outbox: Path | None = None) -> Committed:
    """Return the results of a sink as those of a job; SinkError for a sink that cannot take a result back.

    What goes to a server is kept in the folder `outbox` until it has it.
    """
    if outbox is not None and isinstance(sink, RemoteSink):
        return Outbox(sink, schema, disk, outbox)
    encoder = sink.encoder() if isinstance(sink, FileSink) else None
    if isinstance(sink, FileSink) and isinstance(encoder, (Csv, Ndjson)):
        return Lines(sink.path, sink.encoder, schema, disk)
    if isinstance(sink, FileSink) and isinstance(encoder, (Parquet, Arrow)):
        return Parts(sink.path, sink.encoder, schema, disk, sink.path.suffix)
    if isinstance(sink, PageLogSink):
        # Start-up: few jobs write page logs.
        from oop_engine.sinks.committed_log import Epochs

        return Epochs(sink.path, schema, disk)
    if isinstance(sink, PartitionedSink):
        return sink.files_of(schema, disk)
    if isinstance(sink, DatabaseSink):
        return sink.table_of(schema)
    where = f'"{sink.path}"' if isinstance(sink, FileSink) else type(sink).__name__
    raise SinkError(
        f"{where} cannot take back results that no checkpoint knows of, so a run that goes on would give some twice.\n"
        "  Write to .parquet or .arrow, which becomes a folder of parts, to .csv or .ndjson, not packed, to .pages, or"
        " to .sqlite, .duckdb or postgresql:."
    )


@attrs.define(eq=False)
class _Written:
    """Encoded results that are gathered, and written behind those that are there."""

    path: Path
    encoder: Callable[[], Encoder] = attrs.field(repr=False)
    schema: Schema = attrs.field(repr=False)
    disk: Disk = attrs.field(repr=False)
    _rows: int = attrs.field(init=False, default=0)
    _length: int = attrs.field(init=False, default=0)
    """Bytes of the file that is written."""
    _held: list[bytes] = attrs.field(init=False, factory=list)
    _bytes: int = attrs.field(init=False, default=0)

    @property
    def place(self) -> str:
        return os.path.abspath(self.path)

    @property
    def _file(self) -> Path:
        """Return the file that is written."""
        return self.path

    def close(self) -> None:
        return None

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._bytes += len(data)
        if self._bytes >= _HELD:
            self._write()

    def _write(self) -> None:
        data, self._held, self._bytes = b"".join(self._held), [], 0
        if data:
            self.disk.append(self._file, data)
            self._length += len(data)


@attrs.define(eq=False)
class Parts(_Written):
    """A folder of files, each with the results between two checkpoints."""

    suffix: str = ".parquet"
    _writing: Encoder | None = attrs.field(init=False, default=None)
    _total: int = attrs.field(init=False, default=0)
    _before: list[str] = attrs.field(init=False, factory=list)
    """Parts of cuts that were taken back."""

    @property
    def _stage(self) -> Path:
        return self.path / STAGE

    @property
    def _file(self) -> Path:
        return self._stage / "unfinished"

    def fresh(self) -> Kept:
        alone(self.path, self.disk, STAGE)
        return {"path": self.place, "epoch": 0, "rows": 0}

    def begin(self, kept: Kept) -> None:
        self.disk.make(self.path)
        self.disk.make(self._stage)
        self.disk.sync_folder(self.path)
        self.disk.sync_folder(self.path.parent)
        self.publish(kept)
        self._total = number(kept, "rows")
        for name in self.disk.names(self._stage):
            self.disk.remove(self._stage / name)

    def overtaken(self, kept: Kept) -> bool:
        found = (_PART.fullmatch(name) for name in self.disk.names(self.path))
        return any(int(match.group(1)) > number(kept, "epoch") for match in found if match is not None)

    def __call__(self, element: Element, /) -> None:
        if not isinstance(element, Page) or not len(element):
            return
        if self._writing is None:
            self._writing = self.encoder()
            self._hold(self._writing.open(self.schema))
        self._hold(self._writing.write(element))
        self._rows += len(element)

    def cut(self, epoch: int, *, ended: bool) -> Kept:
        self._total += self._rows
        kept: dict[str, object] = {"path": self.place, "epoch": epoch, "rows": self._total}
        if self._writing is not None:
            self._hold(self._writing.close())
            self._write()
            kept["part"] = f"part-{epoch:08d}-000{self.suffix}"
            kept["part_rows"] = self._rows
            self.disk.rename(self._file, self._stage / str(kept["part"]))
            self._writing, self._rows = None, 0
        if self._before:
            kept["before"], self._before = self._before, []
        return kept

    def take_back(self, kept: Kept) -> None:
        self._before = self._parts(kept)

    def sync(self, kept: Kept) -> None:
        if "part" in kept:
            self.disk.sync(self._stage / str(kept["part"]))
            self.disk.sync_folder(self._stage)

    def publish(self, kept: Kept) -> None:
        parts = self._parts(kept)
        for name in parts:
            staged, part = self._stage / name, self.path / name
            if self.disk.size(staged) is not None:
                self.disk.rename(staged, part)
                self.disk.sync_folder(self.path)
            elif self.disk.size(part) is None:
                raise SinkError(f'"{part}" was committed, and is missing.\n  {AGAIN}')
        if parts:
            self._list()

    @staticmethod
    def _parts(kept: Kept) -> list[str]:
        """Return the parts of a checkpoint, with those of the ones before that were not committed."""
        before = kept.get("before")
        named = [*(before if isinstance(before, list) else ()), kept.get("part")]
        return [Path(str(name)).name for name in named if name is not None]

    def _list(self) -> None:
        """Write which parts there are, for readers who want a list."""
        parts = [name for name in self.disk.names(self.path) if _PART.fullmatch(name)]
        unfinished = self._stage / MANIFEST
        self.disk.write(unfinished, json.dumps({"version": 1, "parts": parts}, indent=1).encode())
        self.disk.sync(unfinished)
        self.disk.rename(unfinished, self.path / MANIFEST)


@attrs.define(eq=False)
class Lines(_Written):
    """One file of lines, of which a checkpoint keeps the length."""

    _writing: Encoder = attrs.field(init=False)

    def fresh(self) -> Kept:
        if self.disk.is_folder(self.path) or self.disk.size(self.path):
            raise SinkError(
                f'"{self.path}" has results already, which this job did not write.\n'
                "  Move it away, or name another file."
            )
        return {"path": self.place, "epoch": 0, "rows": 0, "bytes": 0}

    def begin(self, kept: Kept) -> None:
        self._writing = self.encoder()
        head = self._writing.open(self.schema)
        length = self.disk.size(self.path)
        self._length, self._rows = number(kept, "bytes"), number(kept, "rows")
        if not self._length:
            self.disk.write(self.path, head)
            self.disk.sync_folder(self.path.parent)
            self._length = len(head)
            return
        if length is None or length < self._length:
            seen = "is missing" if length is None else f"has {length:,} bytes"
            raise SinkError(f'"{self.path}" {seen}, and {self._length:,} bytes of it were committed.\n  {AGAIN}')
        if length > self._length:
            self.disk.truncate(self.path, self._length)
            self.disk.sync(self.path)

    def overtaken(self, kept: Kept) -> bool:
        # Nobody knows whether lines behind it were committed.
        return (self.disk.size(self.path) or 0) > number(kept, "bytes") > 0

    def __call__(self, element: Element, /) -> None:
        if isinstance(element, Page):
            self._hold(self._writing.write(element))
            self._rows += len(element)

    def cut(self, epoch: int, *, ended: bool) -> Kept:
        self._write()
        return {"path": self.place, "epoch": epoch, "rows": self._rows, "bytes": self._length}

    def take_back(self, kept: Kept) -> None:
        """Do nothing: the length of the file is that of all lines."""

    def sync(self, kept: Kept) -> None:
        if number(kept, "bytes"):
            self.disk.sync(self.path)

    def publish(self, kept: Kept) -> None:
        return None
