"""Results of a job in a page log: what came between two checkpoints is one epoch, which its commit shows.

Segments are written as results come, and mean nothing before an epoch names them. The file of an epoch is made after
its checkpoint was committed, from what the checkpoint keeps; making it again changes nothing.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import attrs
import pyarrow as pa

from oop_engine.sinks.disk import Disk
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.fields import looked_up, plain
from oop_engine.sinks.kept import AGAIN, Kept, alone, number
from oop_engine.sinks.pagelog import SEAL_ROWS, Segment, epoch_record, sealed
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element


@attrs.define(eq=False)
class Epochs:
    """A page log that grows by an epoch at each checkpoint with results."""

    path: Path
    schema: Schema = attrs.field(repr=False)
    disk: Disk = attrs.field(repr=False)
    _arrow: pa.Schema = attrs.field(init=False, repr=False)
    _batches: list[pa.RecordBatch] = attrs.field(init=False, factory=list)
    _held: int = attrs.field(init=False, default=0)
    """Rows that are in no segment yet."""
    _segments: list[Segment] = attrs.field(init=False, factory=list)
    """Those that the next epoch will name."""
    _sealed: int = attrs.field(init=False, default=0)
    """Segments that this run wrote; it numbers them."""
    _begun: str = attrs.field(init=False, default="")
    """What their names begin with: nobody wrote such a name before."""
    _next: int = attrs.field(init=False, default=0)
    """The number of the next epoch."""
    _rows: int = attrs.field(init=False, default=0)
    _before: list[Kept] = attrs.field(init=False, factory=list)
    """Epochs of cuts that were taken back."""

    def __attrs_post_init__(self) -> None:
        self._arrow = plain(self.schema.arrow)

    @property
    def place(self) -> str:
        return os.path.abspath(self.path)

    def fresh(self) -> Kept:
        alone(self.path, self.disk)
        return {"path": self.place, "epoch": 0, "rows": 0, "next": 0, "segments": []}

    def begin(self, kept: Kept) -> None:
        for folder in (self.path, self._folder("segments"), self._folder("epochs")):
            self.disk.make(folder)
        self.disk.sync_folder(self.path)
        self.disk.sync_folder(self.path.parent)
        written = self.disk.read(self.path / "schema.arrow")
        if written is None:
            if number(kept, "rows"):
                raise SinkError(f'"{self.path}" lacks "schema.arrow", and had results.\n  {AGAIN}')
            self._make("schema.arrow", self._arrow.serialize().to_pybytes())
        self.publish(kept)
        self._next, self._rows = number(kept, "next"), number(kept, "rows")
        named = {segment.file for number_ in range(self._next) for segment in self._named(number_)}
        for name in self.disk.names(self._folder("segments")):
            if name not in named:
                self.disk.remove(self._folder("segments") / name)
        self._begun = f"{number(kept, 'epoch') + 1:08d}"

    def overtaken(self, kept: Kept) -> bool:
        return self.disk.size(self._epoch(number(kept, "next"))) is not None

    def __call__(self, element: Element, /) -> None:
        if isinstance(element, Page) and len(element):
            self._batches.append(looked_up(element.batch, self._arrow))
            self._held += len(element)
            if self._held >= SEAL_ROWS:
                self._seal()

    def cut(self, epoch: int, *, ended: bool) -> Kept:
        self._seal()
        segments, self._segments = self._segments, []
        before, self._before = self._before, []
        self._rows += sum(segment.rows for segment in segments)
        self._next += bool(segments)
        return {
            "path": self.place, "epoch": epoch, "rows": self._rows, "next": self._next, "ended": ended,
            "segments": [attrs.asdict(segment) for segment in segments], "before": before,
        }  # fmt: skip

    def take_back(self, kept: Kept) -> None:
        self._before = self._epochs_of(kept)

    def sync(self, kept: Kept) -> None:
        for segment in self._kept(kept):
            self.disk.sync(self._folder("segments") / segment.file)
        self.disk.sync_folder(self._folder("segments"))

    def publish(self, kept: Kept) -> None:
        for epoch in self._epochs_of(kept):
            segments, last = self._kept(epoch), number(epoch, "next") - 1
            if self.disk.size(self._epoch(last)) is not None:
                continue
            for segment in segments:
                if self.disk.size(self._folder("segments") / segment.file) is None:
                    raise SinkError(f'"{self.path}" lacks "{segment.file}", which was committed.\n  {AGAIN}')
            schema = self.disk.read(self.path / "schema.arrow") or b""
            self._make(f"epochs/{last:010d}.json", epoch_record(segments, schema))
        if kept.get("ended") is True:
            self._make("END", b"")

    def close(self) -> None:
        return None

    def _seal(self) -> None:
        """Write what is held as a segment."""
        if self._batches:
            file = io.BytesIO()
            self._sealed += 1
            name = f"{self._begun}-{self._sealed:06d}.arrow"
            self._segments.append(sealed(file, name, self._arrow, self._batches))
            self.disk.write(self._folder("segments") / name, file.getvalue())
            self._batches.clear()
            self._held = 0

    def _make(self, name: str, data: bytes) -> None:
        """Make a file of the log, whole."""
        unfinished = self.path / f"{name}.new"
        self.disk.write(unfinished, data)
        self.disk.sync(unfinished)
        self.disk.rename(unfinished, self.path / name)
        self.disk.sync_folder((self.path / name).parent)

    def _named(self, number_: int) -> tuple[Segment, ...]:
        """Return the segments that an epoch names; SinkError where it is not there."""
        record = self.disk.read(self._epoch(number_))
        if record is None:
            raise SinkError(f'"{self._epoch(number_)}" was committed, and is missing.\n  {AGAIN}')
        return Segment.all_of(record)

    def _folder(self, name: str) -> Path:
        return self.path / name

    def _epoch(self, number_: int) -> Path:
        return self._folder("epochs") / f"{number_:010d}.json"

    @staticmethod
    def _epochs_of(kept: Kept) -> list[Kept]:
        """Return the epochs that a checkpoint shows: those of failed checkpoints before it, and its own."""
        before = kept.get("before")
        own = [{"next": kept["next"], "segments": kept["segments"]}] if kept.get("segments") else []
        return [*(before if isinstance(before, list) else ()), *own]

    @staticmethod
    def _kept(kept: Kept) -> tuple[Segment, ...]:
        listed = kept.get("segments")
        return tuple(Segment.of(segment) for segment in listed) if isinstance(listed, list) else ()
