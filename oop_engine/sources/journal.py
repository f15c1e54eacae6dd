"""A journal keeps what came in until a checkpoint has it, so that a collector that was killed can take it in again.

    folder/00000007.segment     the magic, then records: length, CRC-32, content; the last has no content

Records are written behind each other and synced together, once in an interval. A segment ends when its reader is asked
for its state, and when it is long; those that a checkpoint has are removed. Of a segment that was being written when
its machine died, the records before the first that is cut or damaged count, and the rest is cut off. Where one that
lacks its end is followed by another, something may be lacking in between.

A disk that takes no more does not end the collection: what comes is counted, and kept again from the next segment on.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import attrs

from oop_engine.sinks.disk import Disk
from oop_engine.sinks.errors import WriteFailed

INTERVAL: Final = 100_000_000
"""Nanoseconds between two syncs, where nothing else is said."""
LONG: Final = 64 << 20
"""Bytes after which a segment ends."""
_MAGIC: Final = b"oop-engine journal 1\n"
_HEAD: Final = struct.Struct("<2I")
_END: Final = _HEAD.pack(0, zlib.crc32(b""))
_NAME: Final = re.compile(r"(\d{8,12})\.segment")


class Syncing(Protocol):
    """A sync that another thread does."""

    def done(self) -> bool: ...
    def exception(self) -> BaseException | None: ...


Start = Callable[[Callable[[], None]], Syncing | None]
"""Has something done, here (None) or in another thread."""


def at_once(work: Callable[[], None]) -> None:
    """Do some work here."""
    work()


@attrs.define(eq=False)
class Journal:
    """Records of one reading. All but `covered` is for the thread that reads."""

    folder: Path
    disk: Disk = attrs.field(repr=False)
    every: int | None = INTERVAL
    """Nanoseconds between two syncs; None where nothing is to be written."""
    start: Start = attrs.field(default=at_once, repr=False)
    """Has the disk synced, while the reading goes on."""
    number: int = attrs.field(init=False, default=0)
    """The segment that is read or written."""
    offset: int = attrs.field(init=False, default=0)
    """Where it is read next."""
    missed: int = attrs.field(init=False, default=0)
    """Datagrams that could not be written."""
    failure: str = attrs.field(init=False, default="")
    """Why the disk took no more, until it does."""
    cut_off: int = attrs.field(init=False, default=0)
    """Bytes that were cut or damaged."""
    _length: int = attrs.field(init=False, default=0)
    """Bytes of the segment that is written; 0 before it is made."""
    _unsynced: dict[Path, None] = attrs.field(init=False, factory=dict)
    """Segments with records that are not synced."""
    since: int | None = attrs.field(init=False, default=None)
    """Since when records wait to be synced."""
    _syncing: Syncing | None = attrs.field(init=False, default=None)

    @property
    def segments(self) -> list[int]:
        """Return the numbers of the segments that there are, in order."""
        found = (_NAME.fullmatch(name) for name in self.disk.names(self.folder))
        return sorted(int(match.group(1)) for match in found if match is not None)

    def path(self, number: int) -> Path:
        """Return the file of a segment."""
        return self.folder / f"{number:08d}.segment"

    def records(self, number: int, offset: int) -> Iterator[bytes | None]:
        """Yield the records from a place on; None where some are lacking. Meanwhile the place is that of the next one.

        Then the journal is ready to be written behind them.
        """
        self.number, self.offset = number, offset
        there = [found for found in self.segments if found >= number]
        whole, due = True, number
        for found in there:
            # One that was killed did not end its last segment, and nobody knows what came behind.
            if found != due or not whole:
                yield None
            if found != number:
                self.number, self.offset = found, 0
            whole, due = (yield from self._of_segment(last=found == there[-1])), found + 1
        self.number, self.offset = due, 0

    def _of_segment(self, *, last: bool) -> Generator[bytes, None, bool]:
        """Yield the records of the segment at hand; return whether it was whole, and cut off what is not of the last.

        In an earlier one that stays as it is.
        """
        path = self.path(self.number)
        data = self.disk.read(path) or b""
        at = max(self.offset, len(_MAGIC))
        good, ended = at if data.startswith(_MAGIC) else 0, False
        while good and at + _HEAD.size <= len(data):
            length, checksum = _HEAD.unpack_from(data, at)
            content = data[at + _HEAD.size : at + _HEAD.size + length]
            if len(content) < length or zlib.crc32(content) != checksum:
                break
            self.offset = good = at = at + _HEAD.size + length
            if ended := not content:
                break
            yield content
        if good < len(data):
            self.cut_off += len(data) - good
            if last:
                self.disk.truncate(path, good)
                self.disk.sync(path)
        return good == len(data) and ended

    def append(self, content: bytes, now: int, many: int) -> None:
        """Write a record of so many datagrams, and sync if it is time, `now` in ns.

        A record of none is synced with others.
        """
        if not self.failure:
            try:
                if self._length >= LONG:
                    self._end()
                self._write(_HEAD.pack(len(content), zlib.crc32(content)) + content)
                self._sync(now, matters=many > 0)
            except WriteFailed as error:
                self._fail(error)
        self.missed += many if self.failure else 0

    def _write(self, record: bytes) -> None:
        if not self._length:
            self.disk.make(self.folder.parent)
            self.disk.make(self.folder)
            self.disk.write(self.path(self.number), _MAGIC)
            self._length = len(_MAGIC)
        self.disk.append(path := self.path(self.number), record)
        self._unsynced[path] = None
        self._length += len(record)

    def _sync(self, now: int, *, matters: bool) -> None:
        """Have the disk synced where records wait for so long, unless it is at that."""
        if self.since is None:
            self.since = now if matters else None
        if self._syncing is not None and self._syncing.done():
            syncing, self._syncing = self._syncing, None
            if isinstance(error := syncing.exception(), WriteFailed):
                self._fail(error)
        due = self.since is not None and self.every is not None and abs(now - self.since) >= self.every
        if due and self._syncing is None:
            paths, self.since, self._unsynced = tuple(self._unsynced), None, {}
            self._syncing = self.start(lambda: self._make_durable(paths))

    def _make_durable(self, paths: Sequence[Path]) -> None:
        for path in paths:
            if self.disk.size(path) is not None:  # a checkpoint may have it by now
                self.disk.sync(path)
        self.disk.sync_folder(self.folder)
        self.disk.sync_folder(self.folder.parent)
        self.disk.sync_folder(self.folder.parent.parent)

    def _fail(self, error: WriteFailed) -> None:
        self.failure = str(error).partition(".\n")[0]

    def cut(self) -> int:
        """End the segment at hand, which is written no more; return the number of the next one."""
        if self._length:
            try:
                self._end()
            except WriteFailed as error:
                self._fail(error)
                self.number, self._length = self.number + 1, 0
        return self.number

    def _end(self) -> None:
        if not self.failure:
            self._write(_END)
        self.number, self._length = self.number + 1, 0

    def recover(self) -> bool:
        """Try to write again from here on; return whether it failed before, so that some records are lacking."""
        failed, self.failure = bool(self.failure), ""
        return failed

    def notes(self) -> list[str]:
        """Say what it lacks."""
        found: list[str] = []
        if self.cut_off:
            found.append(
                f"{self.cut_off:,} bytes of the journal were cut or damaged and left out; what they held counts as lost"
            )
        if self.missed:
            now = ", and none is written now" if self.failure else ""
            found.append(f"{self.missed:,} datagrams are not in the journal, because it could not be written{now}")
        return found

    def covered(self, number: int) -> None:
        """Remove the segments before this one, which a checkpoint has; from any thread."""
        for found in self.segments:
            if found < number:
                self.disk.remove(self.path(found))
