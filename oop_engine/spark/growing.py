"""Read a growing folder as a stream: every record belongs to one batch, and to the same when it is read again.

An offset is a file's number in the journal and a byte in it: all entries before are read, and of this one what lies
before that byte, always the end of a record. Classic captures may grow while they are read; other files must be whole
when they appear (move them in), or have rested `settleSeconds`. `maxFilesPerTrigger`, `maxBytesPerTrigger` and
`maxRowsPerTrigger` limit a batch: rows are counted in classic captures, and in other files taken to be 100 bytes each.
With `complete` the stream ends, under `availableNow`, with what is there (see `ending`).

Queries on one folder share its journal, in which there are files of all of them: each reads the entries of the files
that its own pattern, `only` and `except` name. If another query numbered a file in stretches, a format that reads whole
files reads it with the first of them.

A file may be deleted when it was read. One that goes before is read as far as it was; a note, or without the folder
`notes` a warning on stderr, names it. Only the driver calls a file gone: a worker that cannot open a file which the
driver has planned fails the batch, and nothing of it is committed. Files that went before the first batch of a query
are none of its files. Another file that takes the name of one that was read, of
which then some would be lost, is an error: a file that is shorter than what was read of it, or begins otherwise.

The planner walks the record headers of what is new, so that it knows what is damaged: a damaged file is read up to the
damage, as it is elsewhere, and its note goes to the folder `notes`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, TypedDict

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from oop_engine.sources.capture import walk
from oop_engine.sources.capture.formats import Classic, recognise
from oop_engine.sources.capture.splits import HEAD, Parted, cut
from oop_engine.sources.errors import SourceError
from oop_engine.spark.allowance import Allowance, limit_of
from oop_engine.spark.contents import Contents
from oop_engine.spark.end_of_stream import COMPLETE, AtEnd, EndOfStream
from oop_engine.spark.file_fingerprint import Fingerprints
from oop_engine.spark.journal import NAME, Entry, Journal, Writer
from oop_engine.spark.options import Options
from oop_engine.spark.paths import Folder, local
from oop_engine.spark.reading import (
    SPLIT,
    Piece,
    Reading,
    choice,
    grouped,
    note,
    note_gone,
    notes_folder,
    part_size,
    read,
)

_ALL: Final = 1 << 62
_EVERY: Final = "**/*"


class Offset(TypedDict):
    """The position of a stream: all entries before `file`, and of it the bytes before `byte` (0: nothing yet)."""

    file: int
    byte: int


@attrs.define
class Planner:
    """Say what is new in a folder, and how far one batch goes."""

    folder: Folder
    journal: Journal
    parted: bool
    settle: int = 0
    notes: str | None = None
    stretches: bool = attrs.field(default=True, kw_only=True)
    """Stretches of a file can be read; if not, every file is read as a whole."""
    contents: Contents | None = attrs.field(default=None, kw_only=True)
    """What files hold that are read; None where every file is taken for that."""
    target: tuple[int, int | None] | None = attrs.field(default=None, init=False)
    """How many entries there are to read, and how long the last is, when what comes later is not to be read."""
    _sizes: dict[str, int] = attrs.field(factory=dict, init=False)
    """How many bytes the files had when they were last seen."""
    _noted: set[str] = attrs.field(factory=set, init=False)
    _before: set[str] = attrs.field(factory=set, init=False)
    """Files that were gone before the query had its first batch."""
    _lost: list[Piece] = attrs.field(factory=list, init=False)
    """Files that were found gone, and of which nothing is said yet."""
    _fingerprints: Fingerprints = attrs.field(init=False)
    _others: dict[str, tuple[int, int]] = attrs.field(factory=dict, init=False)
    """Files that hold something else, with their size and time when that was seen."""

    def __attrs_post_init__(self) -> None:
        self._fingerprints = Fingerprints(self.folder.root, self.journal)

    def look(self) -> None:
        """Number what is new."""
        with self.journal.locked() as writer:
            self._look(writer)

    def aim(self) -> None:
        """Read only what is there now."""
        self.look()
        entries = self.journal.entries
        self.target = (len(entries), self._sizes.get(entries[-1].name) if entries else None)

    def after(self, start: Offset, allowed: Allowance) -> Offset:
        """Return how far a batch goes that begins at an offset."""
        with self.journal.locked() as writer:
            if self.target is None:
                self._look(writer)
            self._check(start)
            if start["byte"]:
                with suppress(FileNotFoundError):  # noted below
                    self._fingerprints.check(start["file"], start["byte"], whole=self._is_whole(start["file"]))
            reached: Offset = start
            number, byte = start["file"], start["byte"]
            count = len(self.journal.entries) if self.target is None else self.target[0]
            while number < count and not allowed.spent:
                begun = max(byte, self.journal.entries[number].low)
                at, over = begun, True
                if self._reads(number):
                    try:
                        at, over = self._take(writer, number, byte, allowed)
                    except FileNotFoundError:
                        self._gone(number, begun, planned=bool(start["file"] or start["byte"]))
                # What has nothing to read is not passed: files of others are not what a stream goes on with.
                if at > begun:
                    reached = Offset(file=number + over, byte=0 if over else at)
                    allowed.files -= over
                if not over:
                    break
                number, byte = number + 1, 0
        self._tell_gone()
        return reached

    def more(self, offset: Offset) -> bool:
        """Return whether there is anything behind an offset."""
        return self.after(offset, Allowance(rows=1)) != offset

    def pieces(self, start: Offset, end: Offset, split: int) -> list[Piece]:
        """Return what lies between two offsets: always the same."""
        with self.journal.locked():
            self._check(end)
        found: list[Piece] = []
        for number in range(start["file"], min(end["file"] + 1, len(self.journal.entries))):
            if not self._reads(number):
                continue
            entry = self.journal.entries[number]
            path = self.folder.root / entry.name
            byte = start["byte"] if number == start["file"] else 0
            last = number == end["file"]
            low, high = max(byte, entry.low), end["byte"] if last else entry.high
            if self._is_whole(number):
                wanted = not byte and not (last and not end["byte"])
            else:
                wanted = high is not None and high > low
            if not wanted:
                continue
            try:
                self._fingerprints.check(number, high or 0, whole=self._is_whole(number))
            except FileNotFoundError:
                self._gone(number, low, planned=self.journal.entries[number].name not in self._before)
                continue
            if self._is_whole(number):
                found.append(Piece(path))
            elif high is not None:
                parts = cut(path, low, high, part_size(high - low, split) or high)
                found += [Piece(p.path, p.low, p.high, last=False) for p in parts]
        self._tell_gone()
        return found

    def _reads(self, number: int) -> bool:
        """Return whether an entry is a file of this query, and with a format of whole files the one to read."""
        entry = self.journal.entries[number]
        if not _takes(self.folder, entry.name):
            return False
        if not self._holds(entry):
            return False
        return entry.whole or self.stretches or self.journal.first[entry.name] == number

    def _holds(self, entry: Entry) -> bool:
        """Return whether the file of an entry holds what is read; what nobody looked into is looked into now."""
        if self.contents is None or entry.holds:
            return self.contents is None or entry.holds == self.contents.kind
        path = self.folder.root / entry.name
        try:
            about = path.stat()
            return self._fits(entry.name, path, (about.st_size, about.st_mtime_ns))
        except FileNotFoundError:  # noted where it is to be read
            return True

    def _is_whole(self, number: int) -> bool:
        """Return whether the file of an entry is read only as one."""
        return self.journal.entries[number].whole or not self.stretches

    def _check(self, offset: Offset) -> None:
        if offset["file"] > len(self.journal.entries):
            raise SourceError(
                f'the checkpoint has read {offset["file"]} files, and the journal "{self.journal.path}" knows'
                f" {len(self.journal.entries)}.\n  Put the journal back that belongs to it, or begin a new checkpoint."
            )

    def _look(self, writer: Writer) -> None:
        now = time.time()
        for name in self.folder.names():
            path = self.folder.root / name
            if path != self.journal.path:
                with suppress(FileNotFoundError):  # moved away meanwhile
                    self._look_at(writer, name, path, now)

    def _look_at(self, writer: Writer, name: str, path: Path, now: float) -> None:
        about = path.stat()
        size = self._sizes[name] = about.st_size
        number = self.journal.latest.get(name)
        if number is None:
            if self._fits(name, path, (size, about.st_mtime_ns)):
                self._begin(writer, name, path, size, now - about.st_mtime)
            return
        entry = self.journal.entries[number]
        whole = self._is_whole(number)
        self._fingerprints.check(number, entry.high or entry.low, whole=whole)
        ended = None if whole or entry.final else entry.high
        if ended is not None and size > ended and _goes_on(path, ended):
            writer.add(name, ended, seen=size, holds=entry.holds)

    def _fits(self, name: str, path: Path, seen: tuple[int, int]) -> bool:
        """Return whether a file holds what is read; it is looked into again when it has changed."""
        if self.contents is None:
            return True
        if self._others.get(name) == seen:
            return False
        if self.contents.takes(path):
            return True
        self._others[name] = seen
        return False

    def _begin(self, writer: Writer, name: str, path: Path, size: int, age: float) -> None:
        with path.open("rb") as file:
            head = file.read(HEAD)
        holds = "" if self.contents is None else self.contents.kind
        if self.parted and isinstance(recognise(head), Classic):
            writer.add(name, HEAD, seen=size, holds=holds)
        elif size and age >= self.settle and not (self.parted and len(head) < HEAD):
            writer.add(name, 0, size, seen=size, whole=True, holds=holds)

    def _take(self, writer: Writer, number: int, byte: int, allowed: Allowance) -> tuple[int, bool]:
        """Take what is allowed of an entry; give up to which byte, and whether a batch may go on behind the entry.

        FileNotFoundError when its file is gone.
        """
        entry = self.journal.entries[number]
        if self._is_whole(number):
            return self._take_file(writer, number, byte, allowed)
        limit = self.target[1] if self.target is not None and number == self.target[0] - 1 else None
        at, finished = self._walk(writer, number, byte, limit, allowed)
        if entry.high is None and finished and limit is None and number + 1 < len(self.journal.entries):
            writer.close(number, at)
        # Behind the limit others may have read on: there the entry ends for this run alone.
        return at, finished and entry.high is not None and (limit is None or at >= entry.high)

    def _take_file(self, writer: Writer, number: int, byte: int, allowed: Allowance) -> tuple[int, bool]:
        """Take a file as a whole."""
        entry = self.journal.entries[number]
        if byte:  # so say checkpoints of times when a stretch of it was planned and the whole file read
            return byte, True
        about = (self.folder.root / entry.name).stat()
        size = (entry.high or 0) if entry.whole else about.st_size
        rested = entry.whole or time.time() - about.st_mtime >= self.settle
        if not rested or not allowed.fits(size):
            return 0, False
        if not entry.whole and entry.name not in self.journal.sizes:
            writer.measure(number, size)
        self._fingerprints.learn(writer, number, size)
        allowed.take(size)
        return size, True

    def _gone(self, number: int, at: int, *, planned: bool) -> None:
        """Note that a file is gone before it was read to its end; `planned`, that the query was there before it went.

        A query that was not there never had the file.
        """
        entry = self.journal.entries[number]
        size = self._sizes.get(entry.name, 0)
        if planned:
            size = max(size, entry.high or 0, entry.seen)
        elif not size:
            self._before.add(entry.name)
        if size > at and entry.name not in self._noted:
            self._noted.add(entry.name)
            self._lost.append(Piece(self.folder.root / entry.name, at))

    def _tell_gone(self) -> None:
        """Say which files were found gone."""
        lost, self._lost = self._lost, []
        note_gone(self.notes, lost)

    def _walk(self, writer: Writer, number: int, byte: int, most: int | None, allowed: Allowance) -> tuple[int, bool]:
        """Go over whole records from a byte on; give how far, and whether that is all there is of the entry now."""
        entry = self.journal.entries[number]
        capture = Parted.open(self.folder.root / entry.name)
        end = min(n for n in (capture.end, entry.high, most) if n is not None)
        begun = max(byte, entry.low)
        rows, room = (int(min(n, _ALL)) for n in (allowed.rows, allowed.bytes))
        at, count, why = capture.over(begun, end, rows=rows, most=room)
        if not count and not allowed.taken and why == walk.FULL:
            at, count, why = capture.over(begun, end, rows=1, most=_ALL)
        if count:
            allowed.take(at - begun, count)
            self._fingerprints.learn(writer, number, at)
        if why == walk.FULL:
            allowed.bytes = allowed.bytes if count == rows else 0
            return at, entry.high is not None and at >= entry.high
        if why != walk.CUT:
            if entry.high is None:
                writer.close(number, at, final=True)
            damage = f"{capture.path}: damaged at byte {at}, what is behind it is not read"
            note(self.notes, Piece(capture.path, at), [damage])
        return at, True


def _takes(folder: Folder, name: str) -> bool:
    """Return whether a file that a query numbered, and that may be gone, is one that a folder or pattern means."""
    inside = folder.pattern == _EVERY or ("/" not in name and fnmatchcase(name, folder.pattern))
    return inside and folder.choice.takes(name.rpartition("/")[2])


def _goes_on(path: Path, place: int) -> bool:
    """Return whether there is more at a place than a record that is still being written."""
    capture = Parted.open(path)
    return capture.over(place, capture.end, rows=1, most=_ALL)[2] != walk.CUT


class GrowingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Read a folder as it grows."""

    def __init__(self, planner: Planner, reading: Reading, split: int, limit: ReadLimit, ending: EndOfStream) -> None:
        self._planner, self._reading, self._split = planner, reading, split
        self._limit, self._ending = limit, ending

    @classmethod
    def of(cls, options: Options, reading: Reading, contents: Contents | None, *, parted: bool) -> GrowingReader:
        """Take the options of a streaming reader; SourceError for what is wrong in them."""
        folder = Folder.of(options.paths(), choice(options))
        limit = limit_of(options)
        split = options.number("splitBytes", SPLIT, least=0)
        named = options.text("journal")
        journal = Journal(local(named, "the option journal") if named is not None else folder.root / NAME)
        settle = options.number("settleSeconds", 0, least=0)
        notes = notes_folder(options)
        planner = Planner(folder, journal, parted and split > 0, settle, notes, stretches=parted, contents=contents)
        return cls(planner, reading, split, limit, EndOfStream.of(options))

    def __getstate__(self) -> dict[str, object]:
        """Send to workers what they need to read, not what is known of all files."""
        return {"_reading": self._reading, "_ending": self._ending}

    def initialOffset(self) -> dict[str, int]:
        return {"file": 0, "byte": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return self._limit

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        planner, allowed = self._planner, Allowance.of(limit)
        if self._ending.asked and planner.target is None:
            raise SourceError(
                f"{self._ending.format}: {COMPLETE}=true says that what is available now is all there will be.\n"
                "  Run the query with trigger(availableNow=True), or leave the option out."
            )
        return self._ending.after(
            start,
            lambda offset: planner.after(_place(offset), allowed),  # pyright: ignore[reportArgumentType]
            lambda offset: planner.more(_place(offset)),
            sure=True,
        )

    def prepareForTriggerAvailableNow(self) -> None:
        self._planner.aim()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        found = grouped(self._planner.pieces(_place(start), _place(end), self._split), self._split or SPLIT)
        return [InputPartition(part) for part in (*found, *self._ending.between(start, end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition.value, AtEnd):
            yield self._ending.mark(self._reading.shape.arrow)
            return
        yield from self._ending.batches(read(self._reading, partition.value or ()))


def _place(offset: Mapping[str, int]) -> Offset:
    return {"file": offset["file"], "byte": offset["byte"]}
