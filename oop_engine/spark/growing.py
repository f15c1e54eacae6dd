"""A folder that grows is a stream: every record of it belongs to one batch, and to the same when it is read again.

An offset is a file's number in the journal and a byte in it: all entries before are read, and of this one what lies
before that byte, always the end of a record. Classic captures may grow while they are read; other files must be whole
when they appear (move them in), or have rested `settleSeconds`. What a batch takes at most is said by
`maxFilesPerTrigger`, `maxBytesPerTrigger` or `maxRowsPerTrigger`: rows are counted in classic captures, and in other
files taken to be 100 bytes each. With `complete` the stream ends, under `availableNow`, with what is there (see
`ending`).

The planner walks the record headers of what is new, so that it knows what is damaged: a damaged file is read up to the
damage, as it is elsewhere, and its note goes to the folder `notes`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
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
from oop_engine.spark.ending import COMPLETE, AtEnd, Ending
from oop_engine.spark.journal import NAME, Journal, Writer
from oop_engine.spark.options import Options
from oop_engine.spark.places import Folder, local
from oop_engine.spark.reading import SPLIT, Piece, Reading, choice, grouped, note, part_size

_ALL: Final = 1 << 62


class Offset(TypedDict):
    """Where a stream stands: all entries before `file`, and of it what lies before `byte` (0: nothing yet)."""

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
    target: tuple[int, int] | None = attrs.field(default=None, init=False)
    """How many entries there are to read, and how long the last is, when what comes later is not to be read."""

    def look(self) -> None:
        """Number what is new."""
        with self.journal.locked() as writer:
            self._look(writer)

    def aim(self) -> None:
        """Read only what is there now."""
        self.look()
        entries = self.journal.entries
        size = (self.folder.root / entries[-1].name).stat().st_size if entries else 0
        self.target = (len(entries), size)

    def after(self, start: Offset, allowed: Allowance) -> Offset:
        """Give how far a batch goes that begins at an offset."""
        with self.journal.locked() as writer:
            if self.target is None:
                self._look(writer)
            self._check(start)
            number, byte = start["file"], start["byte"]
            count = len(self.journal.entries) if self.target is None else self.target[0]
            while number < count and not allowed.spent:
                entry = self.journal.entries[number]
                if entry.whole:
                    size = (entry.high or 0) - entry.low
                    if not allowed.fits(size):
                        break
                    allowed.take(size)
                else:
                    newest = number == count - 1
                    most = self.target[1] if newest and self.target is not None else None
                    byte, finished = self._walk(writer, number, byte, most, allowed)
                    following = number + 1 < len(self.journal.entries)
                    if not finished or (entry.high is None and not following):
                        return {"file": number, "byte": byte}
                    if entry.high is None:
                        writer.close(number, max(byte, entry.low))
                allowed.files -= 1
                number, byte = number + 1, 0
            return {"file": number, "byte": byte}

    def more(self, offset: Offset) -> bool:
        """Tell whether there is anything behind an offset."""
        return self.after(offset, Allowance(rows=1)) != offset

    def pieces(self, start: Offset, end: Offset, split: int) -> list[Piece]:
        """Give what lies between two offsets: always the same."""
        with self.journal.locked():
            self._check(end)
        found: list[Piece] = []
        for number in range(start["file"], min(end["file"] + 1, len(self.journal.entries))):
            entry = self.journal.entries[number]
            path = self.folder.root / entry.name
            last = number == end["file"]
            if entry.whole:
                if not last:
                    found.append(Piece(path))
                continue
            low = max(start["byte"] if number == start["file"] else 0, entry.low)
            high = end["byte"] if last else entry.high
            if high is not None and high > low:
                parts = cut(path, low, high, part_size(high - low, split) or high)
                found += [Piece(p.path, p.low, p.high, last=False) for p in parts]
        return found

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
            if path == self.journal.path:
                continue
            about = path.stat()
            number = self.journal.latest.get(name)
            if number is None:
                self._begin(writer, name, path, about.st_size, now - about.st_mtime)
                continue
            entry = self.journal.entries[number]
            if entry.whole and about.st_size != entry.high:
                raise SourceError(
                    f"{path} had {entry.high} bytes when it was read, and now has {about.st_size}.\n"
                    "  Move files in when they are whole, or let them rest before they are read: settleSeconds=60."
                )
            if entry.high is not None and not entry.final and about.st_size > entry.high:
                if _goes_on(path, entry.high):
                    writer.add(name, entry.high)
            elif about.st_size < (entry.high or entry.low):
                raise SourceError(f"{path} is shorter than what was read of it; give every capture a name of its own.")

    def _begin(self, writer: Writer, name: str, path: Path, size: int, age: float) -> None:
        with path.open("rb") as file:
            head = file.read(HEAD)
        if self.parted and isinstance(recognise(head), Classic):
            writer.add(name, HEAD)
        elif size and age >= self.settle and not (self.parted and len(head) < HEAD):
            writer.add(name, 0, size, whole=True)

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
        if why == walk.FULL:
            allowed.bytes = allowed.bytes if count == rows else 0
            return at, entry.high is not None and at >= entry.high
        if why != walk.CUT:
            if entry.high is None:
                writer.close(number, at, final=True)
            damage = f"{capture.path}: damaged at byte {at}, what is behind it is not read"
            note(self.notes, Piece(capture.path, at), [damage])
        return (byte if at == begun else at), True


def _goes_on(path: Path, place: int) -> bool:
    """Tell whether there is more at a place than a record that is still being written."""
    capture = Parted.open(path)
    return capture.over(place, capture.end, rows=1, most=_ALL)[2] != walk.CUT


class GrowingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Read a folder as it grows."""

    def __init__(self, planner: Planner, reading: Reading, split: int, limit: ReadLimit, ending: Ending) -> None:
        self._planner, self._reading, self._split = planner, reading, split
        self._limit, self._ending = limit, ending

    @classmethod
    def of(cls, options: Options, reading: Reading, *, parted: bool) -> GrowingReader:
        """Take the options of a streaming reader; SourceError for what is wrong in them."""
        folder = Folder.of(options.paths(), choice(options))
        limit = limit_of(options)
        split = options.number("splitBytes", SPLIT, least=0)
        named = options.text("journal")
        journal = Journal(local(named) if named is not None else folder.root / NAME)
        settle = options.number("settleSeconds", 0, least=0)
        planner = Planner(folder, journal, parted and split > 0, settle, options.text("notes"))
        return cls(planner, reading, split, limit, Ending.of(options))

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
            lambda offset: planner.after(_place(offset), allowed),  # type: ignore[arg-type, return-value]
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
        for piece in partition.value or ():
            yield from self._ending.batches(self._reading.batches(piece))


def _place(offset: Mapping[str, int]) -> Offset:
    return {"file": offset["file"], "byte": offset["byte"]}
