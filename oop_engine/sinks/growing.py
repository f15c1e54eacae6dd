"""Sinks for endless streams: their files hold the results so far, and keep them however the run ends.

Nothing of a live stream can be read again, so results that are thrown away are lost; what a window released is right
though the run fails later.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from oop_engine.sinks.encoders import Csv, Ndjson
from oop_engine.sinks.errors import SinkError, WriteFailed
from oop_engine.sinks.files import FileSink, beside, claimed, naming, sync_folder
from oop_engine.sinks.protocol import Deliver, Encoder
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element

_HELD: Final = 1 << 20
"""Bytes that are held until a punctuation, at most."""
_TAIL: Final = 1 << 20
"""Bytes at the end of a file in which its last line is looked for."""


@attrs.frozen
class GrowingSink:
    """Results as lines of a file that grows: every punctuation writes what it released, so readers see whole windows.

    A new file is begun beside its name, and takes the name with the first results, or at the end; one that was there
    stays until then, and where a run fails before. Written results stay, whatever ends the run; a write that the system
    does not take as a whole is taken back to the line before. With `append`, results go behind those that are there,
    under the same header: SinkError where that is another, or the last line is cut. Files are synced at the end, and,
    where they are to be `synced`, each time before a punctuation counts as taken.
    """

    path: Path
    encoder: Callable[[], Csv | Ndjson] = attrs.field(repr=False)
    append: bool = False
    synced: bool = False

    @contextmanager
    def opened(self, schema: Schema) -> Generator[Deliver, None, None]:
        """Begin the file, or open the one that is there."""
        encoder = self.encoder()
        head = encoder.open(schema)
        if self.path.exists() and not self.path.is_file():
            with FileSink(self.path, self.encoder).opened(schema) as deliver:
                yield deliver
            return
        with claimed(self.path), self._file(schema, encoder, head) as deliver:
            yield deliver

    @contextmanager
    def _file(self, schema: Schema, encoder: Encoder, head: bytes) -> Generator[Deliver, None, None]:
        going_on = self.append and self.path.exists() and self.path.stat().st_size > 0
        if going_on:
            _check_lines(self.path, head, schema)
            try:
                file = _Growing(self.path, encoder, os.open(self.path, os.O_WRONLY | os.O_APPEND), synced=self.synced)
            except OSError as error:
                raise SinkError(f'"{self.path}" cannot be written: {error.strerror}') from error
        else:
            unfinished, handle = beside(self.path)
            file = _Growing(self.path, encoder, handle, unfinished, synced=self.synced)
            file.hold(head)
        try:
            yield file
        except BaseException:
            file.leave()
            raise
        file.finish()


@attrs.define(eq=False)
class _Growing:
    """A file that is open for what comes; `unfinished` is where it is before it has its name."""

    path: Path
    encoder: Encoder
    handle: int
    unfinished: Path | None = None
    synced: bool = attrs.field(default=False, kw_only=True)
    _held: list[bytes] = attrs.field(init=False, factory=list)
    _bytes: int = attrs.field(init=False, default=0)
    _waiting: bool = attrs.field(init=False, default=False)
    """Whether results are held."""
    _good: bool = attrs.field(init=False, default=False)
    """Whether results were written."""
    _unsynced: bool = attrs.field(init=False, default=False)
    _writing: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    def hold(self, data: bytes) -> None:
        """Have bytes written with the next punctuation."""
        self._held.append(data)
        self._bytes += len(data)

    @property
    def held(self) -> bool:
        """Return whether results are still to be written, or may not be on the disk."""
        return self._waiting or self._unsynced

    def __call__(self, element: Element, /) -> None:
        with self._writing:
            if isinstance(element, Page):
                self.hold(self.encoder.write(element))
                self._waiting |= len(element) > 0
                if self._bytes < _HELD:
                    return
            self._write()
            if self.synced:
                self._sync()
            if self._good:
                self._name()

    def _sync(self) -> None:
        """Put on the disk what was written."""
        if self._unsynced:
            with naming(f'"{self.path}"'):
                os.fsync(self.handle)
            self._unsynced = False

    def _write(self) -> None:
        if not self._waiting:
            return
        data, self._held, self._bytes = b"".join(self._held), [], 0
        self._waiting = False
        there = os.fstat(self.handle)
        if not there.st_nlink:
            raise WriteFailed(f'"{self.path}" was removed while it was written; what it had is lost.')
        before = there.st_size
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self.handle, view) :]
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self.handle, before)
            raise WriteFailed.of(f'"{self.path}"', error) from error
        self._good = self._unsynced = True

    def _name(self) -> None:
        if self.unfinished is not None:
            with naming(f'"{self.path}"'):
                os.replace(self.unfinished, self.path)
            self.unfinished = None
            sync_folder(self.path.parent)

    def finish(self) -> None:
        """Write the rest, though there were no results, and close."""
        try:
            self._waiting |= self.unfinished is not None
            self._write()
            self._sync()
            self._name()
        finally:
            self._close()

    def leave(self) -> None:
        """Keep what was released and close, unless a thread that nobody waits for any more is still writing that."""
        if self._writing.acquire(blocking=False):
            # It is never given back: what such a thread has left is not written.
            try:
                with suppress(WriteFailed):
                    self._write()
                    if self._good:
                        self._name()
            finally:
                self._close()

    def _close(self) -> None:
        if self.unfinished is not None:
            with suppress(FileNotFoundError):
                os.unlink(self.unfinished)
        os.close(self.handle)


def _check_lines(path: Path, head: bytes, schema: Schema) -> None:
    """Refuse a file whose lines are others, or whose last one is cut."""
    with open(path, "rb") as file:
        first = file.readline(max(len(head), _TAIL))
        same = head == first[: len(head)] if head else _names(first) == schema.names
        size = file.seek(0, os.SEEK_END)
        start = file.seek(max(0, size - _TAIL))
        end = start + file.read().rfind(b"\n") + 1
    if not same:
        raise SinkError(
            f'"{path}" has other columns than the results, {", ".join(schema.names)}; it begins with\n'
            f"  {first[:200].decode('utf-8', 'replace').strip()}\n"
            "  Name another file, or move that one away."
        )
    if end < size:
        raise SinkError(
            f'"{path}" ends within a line, cut short as the machine or its disk failed; nothing can go behind that.\n'
            f"  Take it away (truncate -s {end} FILE), or move the file away."
        )


def _names(line: bytes) -> list[str] | None:
    """Return the names in a line of NDJSON, None where it is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return list(found) if isinstance(found, dict) else None


@attrs.frozen
class KeptSink:
    """Results as one file that needs its end: what was released is completed and takes the name, though the run fails.

    Where nothing was released before that, a file that was there stays. A process that is killed leaves a file without
    its end, beside the name (see `unfinished_of`).
    """

    path: Path
    encoder: Callable[[], Encoder] = attrs.field(repr=False)

    @contextmanager
    def opened(self, schema: Schema) -> Generator[Deliver, None, None]:
        """Write to a new file in the same folder; at the end, or on failure, it takes the name."""
        failure: BaseException | None = None
        # What killed runs have left stays, since it cannot be made again.
        sink = FileSink(self.path, self.encoder, claimed=True)
        with claimed(self.path), sink.opened(schema) as into:
            writing = _Whole(into)
            try:
                yield writing
            except BaseException as error:
                if not writing.can_complete():
                    raise
                failure = error
        if failure is not None:
            raise failure


@attrs.define(eq=False)
class _Whole:
    """Hand elements to a file that has nothing that lasts before its end."""

    into: Deliver
    held: bool = attrs.field(init=False, default=True)
    _writing: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _released: bool = attrs.field(init=False, default=False)
    _sound: bool = attrs.field(init=False, default=True)

    def __call__(self, element: Element, /) -> None:
        with self._writing:
            self._sound = False
            self.into(element)
            self._sound = True
            self._released |= isinstance(element, Page) and len(element) > 0

    def can_complete(self) -> bool:
        """Return whether there are results, and no thread that nobody waits for any more writes one just now."""
        # The lock is never given back: such a thread writes nothing behind the end.
        return self._writing.acquire(blocking=False) and self._released and self._sound
