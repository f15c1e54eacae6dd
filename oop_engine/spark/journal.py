"""Number the files of a growing folder in a journal: a number is written down before it is used, and never changes.

The journal is a file of one line an entry. An entry is a stretch of a file: most are whole files; a file that grows
after its successor was begun goes on in an entry of its own. An entry is *open* until a line tells where it ends. Many
queries may share a journal, and each reads the entries of its own files alone; a lock keeps them from writing at once.
A line that a crash cut short was relied on by nobody, and is overwritten.

Of every file the journal keeps a fingerprint of how it begins, as far as that was read: another file that has taken the
name of one that was read is told by it. A journal of an earlier version knows none, and takes them as it goes on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import attrs

from oop_engine.sources.errors import SourceError
from oop_engine.spark.file_fingerprint import Beginning

try:
    import fcntl
except ImportError:  # where the system has no such locks, a journal belongs to one query
    fcntl = None

NAME: Final = ".oop-journal.ndjson"


@attrs.define
class Entry:
    """A stretch of a file: from `low` to `high`, None while it may grow; `whole` if it is read only as one."""

    name: str
    low: int = 0
    high: int | None = None
    whole: bool = False
    final: bool = False
    """Nothing of the file behind the entry will be read: it is damaged there."""
    seen: int = 0
    """How many bytes the file had when the entry was begun; 0 where the journal does not tell."""
    holds: str = ""
    """What was told by its content to be in the file; empty where nobody asked."""


@attrs.define
class Journal:
    """The entries so far; the number of an entry is its place in the list."""

    path: Path
    entries: list[Entry] = attrs.field(factory=list, init=False)
    latest: dict[str, int] = attrs.field(factory=dict, init=False)
    """Of every file, the number of its last entry."""
    first: dict[str, int] = attrs.field(factory=dict, init=False)
    """Of every file, the number of its first entry."""
    sizes: dict[str, int] = attrs.field(factory=dict, init=False)
    """Of files whose entries are stretches and which were read as a whole all the same: how many bytes they had."""
    beginnings: dict[str, Beginning] = attrs.field(factory=dict, init=False)
    """Of files, what they are known again by."""
    _read: int = attrs.field(default=0, init=False)

    @contextmanager
    def locked(self) -> Generator[Writer, None, None]:
        """Take the lock, read what others wrote, and give what writes further lines; they last when this is left."""
        with self._opened() as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(self._read)
            data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            for line in whole.splitlines():
                self._take(json.loads(line))
            self._read += len(whole)
            if len(whole) < len(data):
                file.truncate(self._read)
            writer = Writer(self, file)
            yield writer
            if writer.wrote:
                os.fsync(file.fileno())

    def _opened(self) -> BinaryIO:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return open(self.path, "a+b", buffering=0)
        except OSError as error:
            raise SourceError(
                f'the journal "{self.path}" cannot be written: {error.strerror}.\n'
                "  Name a file elsewhere, which must last as long as the checkpoint: the option journal."
            ) from None

    def _take(self, line: dict[str, object]) -> None:
        number = line["file"]
        assert isinstance(number, int)
        if number == len(self.entries):
            name, seen = str(line["name"]), _whole(line.get("seen")) or 0
            low, high = int(str(line["low"])), _whole(line.get("high"))
            holds = str(line.get("holds", ""))
            self.entries.append(Entry(name, low, high, bool(line.get("whole")), seen=seen, holds=holds))
            self.latest[name] = number
            self.first.setdefault(name, number)
        else:
            entry, size = self.entries[number], _whole(line.get("size"))
            entry.high, entry.final = _whole(line["high"]), bool(line.get("final"))
            if size is not None:
                self.sizes[entry.name] = size
            name = entry.name
        beginning = line.get("begins")
        if isinstance(beginning, list):
            self.beginnings[name] = Beginning(*beginning)


@attrs.define
class Writer:
    """A writer of journal lines, under its lock."""

    journal: Journal
    _file: BinaryIO
    wrote: bool = attrs.field(default=False, init=False)

    def add(
        self, name: str, low: int = 0, high: int | None = None, *, seen: int, whole: bool = False, holds: str = ""
    ) -> None:
        """Number a further entry of a file that has `seen` bytes."""
        line = {"name": name, "low": low, "high": high, "whole": whole, "seen": seen}
        self._write({"file": len(self.journal.entries), **line, **({"holds": holds} if holds else {})})

    def close(self, number: int, high: int, *, final: bool = False) -> None:
        """Say where an entry ends."""
        self._write({"file": number, "high": high, "final": final})

    def measure(self, number: int, size: int) -> None:
        """Say how many bytes a file has that is read as a whole, though its entry is a stretch."""
        self._about(number, size=size)

    def know(self, number: int, beginning: Beginning) -> None:
        """Say what the file of an entry is known again by."""
        self._about(number, begins=[beginning.size, beginning.digest])

    def _about(self, number: int, **more: object) -> None:
        """Add to what is said of an entry; where it ends is said again, as the line of an earlier version would."""
        entry = self.journal.entries[number]
        self._write({"file": number, "high": entry.high, "final": entry.final, **more})

    def _write(self, line: dict[str, object]) -> None:
        data = json.dumps(line).encode() + b"\n"
        self._file.write(data)
        self.journal._read += len(data)  # pyright: ignore[reportPrivateUsage]
        self.journal._take(line)  # pyright: ignore[reportPrivateUsage]
        self.wrote = True


def _whole(value: object) -> int | None:
    return None if value is None else int(str(value))
