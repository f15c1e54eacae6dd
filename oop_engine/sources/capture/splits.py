"""Read one capture in parts that together give exactly its packets, or fail.

A record header of classic pcap cannot be told from payload by looking at it: payload may hold captures, or what an
attacker wants taken for one. So the first record of a part is not guessed but proved. A record is at most `MOST`
bytes, so every stretch of so many bytes holds the start of one. From *every* byte of such a stretch before the part
the chain of lengths is followed, under no other condition than a reading from the beginning would set, and those that
meet go on as one. If all that are left enter the part at one place, the true chain enters there. If not, the stretch
is sought further back, in the end at the file's own header, from which there is one chain alone.

Damage, or another file header, in the middle of a capture is known only to the part that meets it, and those behind
would read on: `PartedDamage` then fails the reading as a whole. Nothing is ever left out or made up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from io import SEEK_END, BytesIO, FileIO
from itertools import pairwise
from pathlib import Path
from typing import Final

import attrs
import numpy as np
import pyarrow as pa
from numpy import int64, uint8, uint64
from numpy.typing import NDArray

from oop_engine.sources.capture import walk
from oop_engine.sources.capture.batch import Columns, Layout
from oop_engine.sources.capture.errors import DecodeError
from oop_engine.sources.capture.formats import Classic, recognise
from oop_engine.sources.capture.rows import WALKED, Rows
from oop_engine.sources.capture.schema import prune
from oop_engine.sources.capture.supply import Stored
from operators.kernels.compile.kernel import kernel
from operators.kernels.data.byte_order import u32

HEAD: Final = 24
"""Bytes of the file header."""
RECORD: Final = 16
"""Bytes of a record header, without those that some files add."""
MOST: Final = RECORD + 8 + walk.MAX_CAPLEN
"""Bytes of a record at most."""
_WIDE: Final = 64 << 20

_NOWHERE: Final = -1
_MANY: Final = -2


class PartedDamage(DecodeError):
    """Say that a capture is damaged, or changes, where parts of it are read apart."""


@attrs.frozen
class Part:
    """The records of a capture that start in [low, high); `last` when no part comes behind."""

    path: Path
    low: int
    high: int
    last: bool


def parts(path: Path, size: int) -> list[Part]:
    """Cut a classic pcap file into parts of about `size` bytes; no parts for what is read only as a whole.

    Read as a whole are other formats, compressed files, and files that one part would hold.
    """
    if size < 1:
        return []
    with path.open("rb") as file:
        head = file.read(HEAD)
        length = file.seek(0, 2)
    if length <= HEAD + size or not isinstance(recognise(head), Classic):
        return []
    return cut(path, HEAD, length, size)


def cut(path: Path, low: int, high: int, size: int) -> list[Part]:
    """Cut the records that start in [low, high) into parts of about `size` bytes each, at least one."""
    count = max(1, -(-(high - low) // size))
    places = [low + (high - low) * i // count for i in range(count)] + [high]
    return [Part(path, a, b, b == high) for a, b in pairwise(places)]


@attrs.define
class Parted:
    """One classic pcap file, of which parts are read; no record of it is longer than `most` bytes."""

    path: Path
    form: Classic
    end: int
    most: int = MOST
    opened: Callable[[], FileIO | BytesIO] = attrs.field(
        default=attrs.Factory(lambda self: partial(FileIO, self.path), takes_self=True), kw_only=True
    )
    """Opens the file."""

    @classmethod
    def open(cls, path: Path) -> Parted:
        """Look at a file as it is now; DecodeError when it is no classic pcap."""
        with path.open("rb", buffering=0) as file:
            head = file.read(HEAD)
            form = recognise(head)
            if not isinstance(form, Classic):
                raise DecodeError(f"{path} is no classic pcap: its first bytes are {head[:12].hex(' ')}.")
            return cls(path, form, file.seek(0, SEEK_END))

    def batches(
        self, part: Part, *, columns: Sequence[str] | None = None, batch_rows: int = 65_536
    ) -> Iterator[pa.RecordBatch]:
        """Yield the packets whose records start in a part; PartedDamage where the file is not sound."""
        layout = Layout.of(prune(columns))
        rows = Rows.empty(min(batch_rows, WALKED))
        with ExitStack() as opened:
            supply = Stored.mapped(opened.enter_context(self.opened()), self.end)
            opened.callback(supply.rest, 0)
            place = self.first(part.low)
            supply.more(place)
            held: Columns | None = None
            while place < min(part.high, self.end):
                if held is None:
                    held = Columns(layout, min(batch_rows, (part.high - place) // RECORD + 1))
                at, why = self._take(held, supply, place - supply.base, part.high - supply.base, rows)
                place = supply.base + at
                if held.count == held.room:
                    supply.rest(at)
                    yield held.batch()
                    held = None
                if why == walk.CUT and place < part.high and not supply.more(at):
                    break
                if why not in (walk.FULL, walk.CUT):
                    following = self.same_header(place)
                    if following is None:
                        if part.last and why != walk.HEADER:
                            break
                        raise PartedDamage(_damage(self.path, place, why))
                    place = following
            supply.rest(place - supply.base)
            if held is not None and held.count:
                yield held.batch()

    def _take(self, held: Columns, supply: Stored, at: int, high: int, rows: Rows) -> tuple[int, int]:
        """Take records from data[at:] that start before data[high]; give where it stopped, and why."""
        at, _, _, why = held.take(self.form, supply.data, at, min(high, supply.end), rows)
        if why == walk.CUT and at < high < supply.end:
            last, _, _, why = self.form.walk(supply.data, at, supply.end, rows.first(1))
            at = held.take(self.form, supply.data, at, last, rows)[0]
        return at, why

    def over(self, low: int, high: int, *, rows: int, most: int) -> tuple[int, int, int]:
        """Go from record to record in [low, high); give where that stopped, how many records lie before, and why.

        Stops, as FULL, behind `rows` records and before the one that would make them more than `most` bytes.
        """
        form, count = self.form, 0
        with self.opened() as file:
            supply, place = Stored(file, high), low
            supply.more(place)
            while True:
                at, more, why = skim(
                    supply.data, place - supply.base, supply.end, form.swapped, form.extra, form.old,
                    rows - count, low + most - supply.base,
                )  # fmt: skip
                place, count = supply.base + int(at), count + int(more)
                if why == walk.CUT and supply.more(int(at)):
                    continue
                following = self.same_header(place) if why == walk.HEADER else None
                if following is None:
                    return place, count, int(why)
                place = following

    def first(self, place: int) -> int:
        """Return where the first record starts at or behind a place, `end` where none does."""
        back = 2 * self.most
        while place - back > HEAD and back <= _WIDE:
            found = self._enters(place - back, place)
            if found != _MANY:
                return self.end if found == _NOWHERE else found
            back *= 4
        return self._walked(place)

    def _enters(self, since: int, place: int) -> int:
        form = self.form
        data = self._bytes(since, min(place + self.most, self.end))
        reached = np.zeros(place - since + self.most, np.uint8)
        found = enters(data, 0, place - since, len(data), self.most, form.swapped, form.extra, form.old, reached)
        return int(found) + (since if found >= 0 else 0)

    def _walked(self, place: int) -> int:
        """Go to a place from the beginning; damage before it is for the part that meets it to tell of."""
        at, _, why = self.over(HEAD, self.end, rows=self.end, most=max(place - HEAD, 0))
        if at < place and why == walk.FULL:
            at, _, why = self.over(at, self.end, rows=1, most=self.end)
        return at if at >= place or why == walk.FULL else self.end

    def same_header(self, at: int) -> int | None:
        """Return where records go on behind another file header like the first; None when there is none, or no such."""
        return at + HEAD if recognise(self._bytes(at, at + HEAD).tobytes()) == self.form else None

    def _bytes(self, low: int, high: int) -> NDArray[np.uint8]:
        with self.opened() as file:
            file.seek(low)
            return np.frombuffer(file.read(high - low), np.uint8)


def _damage(path: Path, at: int, why: int) -> str:
    what = {
        walk.HEADER: "another file header of a different kind",
        walk.TOO_LONG: "a record of an impossible size",
        walk.ZEROS: "zero bytes instead of a record",
    }[why]
    return (
        f"{path}: {what} at byte {at}, so parts of the file cannot be read apart.\n"
        "  Read it as a whole, up to the damage: splitBytes=0."
    )


@kernel
def skim(
    data: NDArray[uint8], start: int, stop: int, swapped: bool, extra: int, old: bool, rows: int, until: int
) -> tuple[int64, int64, int]:
    """Go over the records in data[start:stop] as a walk does; give (position, records, why).

    Stops, as FULL, behind `rows` records and before one that ends behind data[until].
    """
    at = int64(start)
    row = int64(0)
    while row < rows:
        if at + 16 + extra > stop:
            return at, row, walk.CUT
        seconds = u32(data, at, swapped)
        ticks = u32(data, at + 4, swapped)
        kept = u32(data, at + 8, swapped)
        wire = u32(data, at + 12, swapped)
        if kept == 0 and wire == 0 and seconds == 0 and ticks == 0:
            return at, row, walk.ZEROS
        if walk.is_header(seconds, ticks, kept):
            return at, row, walk.HEADER
        if old and kept > wire:
            kept = wire
        if kept > walk.MAX_CAPLEN:
            return at, row, walk.TOO_LONG
        after = at + 16 + extra + kept
        if after > stop:
            return at, row, walk.CUT
        if after > until:
            return at, row, walk.FULL
        row += 1
        at = after
    return at, row, walk.FULL


@kernel
def enters(
    data: NDArray[uint8], since: int, place: int, end: int, most: int, swapped: bool, extra: int, old: bool,
    reached: NDArray[uint8],
) -> int64:  # fmt: skip
    """Follow every chain of records from [since, since + most) up to `place` and tell where they come out.

    Gives the one place at or behind `place` where all chains that are left go on, -1 when all end before it or at the
    end of the data, -2 when there are several. `reached` is room for place - since + most zeros.
    """
    for i in range(min(most, place - since)):
        reached[uint64(i)] = 1
    ended = False
    for i in range(place - since):
        if reached[uint64(i)] == 0:
            continue
        at = int64(since + i)
        if at + 16 + extra > end:
            ended = True
            continue
        kept = u32(data, at + 8, swapped)
        # Few places begin like a header, and most claim too much: the rest of those is not looked at.
        low = data[uint64(at)]
        may = low == 0xA1 or low == 0xD4 or low == 0x4D or low == 0x34 or low == 0x0A
        if kept > most - 24 and not may and not old:
            continue
        seconds = u32(data, at, swapped)
        ticks = u32(data, at + 4, swapped)
        if may and walk.is_header(seconds, ticks, kept):
            after = at + 24
        else:
            wire = int64(0)
            if kept == 0 or old:
                wire = u32(data, at + 12, swapped)
            if kept == 0 and wire == 0 and seconds == 0 and ticks == 0:
                continue
            if old and kept > wire:
                kept = wire
            if kept > most - 24:
                continue
            after = at + 16 + extra + kept
        if after > end:
            ended = True
            continue
        reached[uint64(after - since)] = 1
    found = int64(-1)
    for i in range(place - since, len(reached)):
        if reached[uint64(i)] == 1:
            if ended or found >= 0:
                return int64(-2)
            found = int64(since + i)
    return found
