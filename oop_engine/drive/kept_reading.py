"""Text and packed files are read once: the pass that finds how far a file can be promised keeps what the run needs.

Text has to be parsed and packed files unpacked for their times alone, and then once more for the tuples. So the first
of these passes reads all attributes that are wanted and keeps them, in memory first and then in a file without a name.
Where a reading is larger than the file may be, or fails, the source is read twice.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

import attrs
import pyarrow as pa

from oop_engine.drive.limit import FileShelf
from oop_engine.errors import MemoryLimitError
from oop_engine.sources.columns import ticks
from oop_engine.sources.protocol import Chunk, Reader
from oop_engine.sources.reading import Reading
from operators.data.page import Int64s
from operators.protocol import Outside

IN_MEMORY: Final = 1 << 25
"""Bytes of tuples that are kept in memory at most."""
ON_DISK: Final = 1 << 31
"""Bytes that go to a file at most, and no more than half of what is free there."""


@attrs.define(eq=False)
class KeptReading(Reading):
    """A reading that was gone through for the ticks of one attribute, and gives its tuples from what was kept.

    - `reader`: what is read.
    - `shelf`: where tuples go that do not stay in memory.
    - `room`: how many bytes stay there at most.
    - `most`: how many bytes go to the shelf at most; beyond that nothing is kept.
    """

    reader: Reader
    shelf: FileShelf
    room: int = IN_MEMORY
    most: int = attrs.field(factory=lambda: min(ON_DISK, _free() // 2))
    whole: bool = attrs.field(init=False, default=False)
    """Whether all of it is here."""
    _kept: list[pa.RecordBatch | Outside] = attrs.field(init=False, factory=list)
    _held: int = attrs.field(init=False, default=0)
    _put: int = attrs.field(init=False, default=0)
    _name: str = attrs.field(init=False, default="")
    _rows: int = attrs.field(init=False, default=0)
    _given: int = attrs.field(init=False, default=0)

    def ahead(self, attribute: str) -> Iterator[Int64s]:
        """Yield an attribute as ticks, NO_TIME where it is null, from all that the reader gives, and keep that."""
        keeps = True
        for chunk in self.reader.chunks():
            if not isinstance(chunk, pa.RecordBatch):
                raise TypeError(f"a reading with {type(chunk).__name__} among its chunks is not kept")
            keeps = keeps and self._keep(chunk)
            yield ticks(chunk, attribute)
        self.whole = keeps

    def values(self, attribute: str) -> Iterator[Int64s]:
        """Yield another attribute as ticks, once all of the reading is here."""
        for batch in map(_read, self._all()):
            yield ticks(batch, attribute)

    def chunks(self) -> Iterator[Chunk]:
        """Yield what was kept, and let go of it."""
        kept = deque(self._all())
        self._kept.clear()
        while kept:
            batch = _read(kept.popleft())
            self._given += len(batch)
            yield batch
        self.drop()

    def progress(self) -> tuple[int, int | None]:
        done, size = self.reader.progress()
        if size is None or not self._rows:
            return done, size
        return size * self._given // self._rows, size

    def notes(self) -> list[str]:
        return self.reader.notes()

    def drop(self) -> None:
        """Let go of everything."""
        self._kept.clear()
        if self._name:
            self.shelf.remove(self._name)
        self._name = ""

    def _all(self) -> list[pa.RecordBatch | Outside]:
        outside: Sequence[Outside] = self.shelf.pieces(self._name) if self._name else ()
        return [*self._kept, *outside]

    def _keep(self, batch: pa.RecordBatch) -> bool:
        """Keep a batch; False where it would be too much, and nothing is kept any more."""
        self._rows += len(batch)
        if not self._name and self._held + batch.nbytes <= self.room:
            self._held += batch.nbytes
            self._kept.append(batch)
            return True
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        piece = sink.getvalue().to_pybytes()
        self._put += len(piece)
        if self._put <= self.most and self._added(piece):
            return True
        self.drop()
        return False

    def _added(self, piece: bytes) -> bool:
        name = self._name or self.shelf.begin()
        try:
            self.shelf.add(name, piece)
        except MemoryLimitError:  # what cannot be kept is read again
            return False
        self._name = name
        return True


def _free() -> int:
    """Return how many bytes are free in the folder for temporary files; 0 where that cannot be told."""
    try:
        return shutil.disk_usage(tempfile.gettempdir()).free
    except (OSError, AttributeError):
        return 0


def _read(kept: pa.RecordBatch | Outside) -> pa.RecordBatch:
    if isinstance(kept, pa.RecordBatch):
        return kept
    with pa.ipc.open_stream(kept.read()) as reader:
        return reader.read_next_batch()
