"""Read a capture in order, as far as possible; its notes say where that was not."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final, Protocol, TypeVar

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oop_engine.sources.capture import walk
from oop_engine.sources.capture.batch import Columns, Layout
from oop_engine.sources.capture.compression import GZIP, UNREAD, ZSTD, Plain, unpack
from oop_engine.sources.capture.errors import DecodeError
from oop_engine.sources.capture.formats import Blocks, Classic, Format, header_bytes, of_facts, recognise
from oop_engine.sources.capture.rows import WALKED, Rows
from oop_engine.sources.capture.schema import prune
from oop_engine.sources.capture.supply import Arriving, Stored, Supply
from oop_engine.sources.paths import stream_name

_Part = TypeVar("_Part", covariant=True)
_COUNTS: Final = ("packets", "undecoded", "truncated", "untimed", "bytes")
_DAMAGE: Final = {
    walk.TOO_LONG: f"damaged at byte {{place}}: a record claims more than {walk.MAX_CAPLEN:,} captured bytes",
    walk.ZEROS: "zero bytes instead of a record from byte {place} on",
    walk.MISMATCH: "damaged at byte {place}: the block's two lengths differ",
    walk.OVERRUN: "damaged at byte {place}: the packet is larger than its block",
    walk.ODD_SIZE: "damaged at byte {place}: a block of impossible length",
}

_SMALLEST: Final = 16

_TEXT = frozenset((*b"\t\n\r", *range(0x20, 0x7F)))


class Filling(Protocol[_Part]):
    """A decoder of the records of a capture."""

    holds: bool
    """What was taken stays as it is when the supply gives other bytes, so that one part may hold more of it."""

    def take(self, form: Format, supply: Supply, at: int) -> tuple[int, int, int, int]:
        """Take records from data[at:]; give (position, how many, those of them without a time, why it stopped)."""
        ...

    def give(self) -> _Part:
        """Return what was taken, and begin anew."""
        ...


class Capture:
    """Read one capture, classic pcap or pcapng, plain or in gzip or zstd, told apart by its first bytes.

    `source` is a path or a binary stream, of which batches are given as its bytes
    arrive. A path can be iterated any number of times, a stream once. `columns` keeps only these of PACKET_SCHEMA;
    what is not kept is not decoded. With `inner` headers from IP on are those of packets in tunnels.

    A cut or damaged capture gives the packets before the damage, and `notes` tells where that is; with `strict` the
    same sentence is raised as DecodeError after those packets. A file that is no capture always raises DecodeError.
    """

    def __init__(
        self,
        source: str | Path | BinaryIO,
        *,
        batch_rows: int = 65_536,
        columns: Sequence[str] | None = None,
        inner: bool = False,
        strict: bool = False,
    ) -> None:
        if batch_rows < 1:
            raise ValueError(f"batch_rows is {batch_rows}; a batch holds at least one row.")
        self.schema: pa.Schema = prune(columns)
        self.inner = inner
        self.notes: list[str] = []
        self.counts: dict[str, int] = dict.fromkeys(_COUNTS, 0)
        self.position: int = 0
        self._source: Path | BinaryIO = Path(source) if isinstance(source, str) else source
        self._batch_rows = batch_rows
        self._strict = strict
        self._spent = False
        self._regular = False
        self._start: Mapping[str, object] | None = None
        self._behind: tuple[Format, int] | None = None
        self.size: int | None = None
        if isinstance(self._source, Path):
            self.name = str(source)
            about = os.stat(self._source)
            self._regular = stat.S_ISREG(about.st_mode)
            self.size = about.st_size if self._regular else None
        else:
            self.name = stream_name(source)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the packets in the order of the capture, in Arrow batches of 1 to `batch_rows` rows."""
        return self.read(_Batches(self))

    def times(self) -> Iterator[NDArray[np.int64]]:
        """Return only the packets' times, int64 nanoseconds since the epoch: the same packets in the same order.

        A packet without a time has NO_TIME. No packet is decoded, so `counts` says nothing of their contents.
        """
        return self.read(_Times(self))

    def mark(self) -> Mapping[str, object] | None:
        """Return where the next record is, behind the batch given last, for `seek`; None where nothing can begin there.

        Called before the next batch is asked for.
        """
        if self._behind is None:
            return None
        form, place = self._behind
        kind = "blocks" if isinstance(form, Blocks) else "classic"
        return {"byte": place, "packets": self.counts["packets"], "kind": kind, "facts": form.facts()}

    def seek(self, mark: Mapping[str, object]) -> None:
        """Let the next reading begin at a mark of another reading of the same file."""
        self._start = mark

    def rows(self, most: int) -> Rows:
        """Return room for so many rows, at most those of a batch."""
        return Rows.empty(min(self._batch_rows, most))

    def room(self, supply: Supply, at: int) -> int:
        """Return how many rows there may be from data[at] on, at most those of a batch."""
        there = supply.end - at
        if supply.steady and self.size is not None:
            there = max(there, self.size - supply.base - at)
        return max(1, min(self._batch_rows, there // _SMALLEST))

    def read(self, filling: Filling[_Part]) -> Iterator[_Part]:
        """Yield what becomes of the records, part by part."""
        self.notes.clear()
        self.counts.update(dict.fromkeys(_COUNTS, 0))
        with ExitStack() as opened:
            supply = self._open(opened, filling.holds)
            opened.callback(supply.rest, 0)
            held = 0
            # Places count from the start of the unpacked capture: the byte at `place` is data[place - base].
            form, place = self._header(supply, None, 0) if self._start is None else self._from_mark(self._start)
            self._start = None
            while form is not None:
                at, count, untimed, why = filling.take(form, supply, place - supply.base)
                place = supply.base + at
                self._mark(supply, at)
                self.counts["packets"] += count
                self.counts["untimed"] += untimed
                held += count
                if held and not (why == walk.CUT and supply.steady and filling.holds):
                    supply.rest(at)
                    self._behind = (form, place) if isinstance(supply, Stored) else None
                    yield filling.give()
                    held = 0
                if why == walk.CUT and not supply.more(at):
                    if held:
                        supply.rest(at)
                        self._behind = (form, place) if isinstance(supply, Stored) else None
                        yield filling.give()
                    self._mark(supply, place - supply.base)
                    self._ended(supply, place)
                    break
                if why == walk.HEADER:
                    form, place = self._header(supply, form, place)
                elif why == walk.INTERFACE and isinstance(form, Blocks):
                    following = self._interface(supply, form, place)
                    if following is None:
                        break
                    place = following
                elif why not in (walk.FULL, walk.CUT):
                    self._stop(_DAMAGE[why].format(place=place))
                    break

    def _from_mark(self, mark: Mapping[str, object]) -> tuple[Format, int]:
        place, packets, facts = mark["byte"], mark["packets"], mark["facts"]
        assert isinstance(place, int) and isinstance(packets, int) and isinstance(facts, list)
        self.counts["packets"] = packets
        return of_facts(str(mark["kind"]), facts), place

    def _open(self, opened: ExitStack, holds: bool) -> Supply:
        if isinstance(self._source, Path):
            file = opened.enter_context(self._source.open("rb", buffering=0))
            plain = Plain(file, again=self._regular)
            if self._regular and self.size and plain.peek(4)[:2] != GZIP and plain.peek(4) != ZSTD:
                file.seek(0)
                return Stored.mapped(file, self.size) if holds else Stored(file, self.size)
        else:
            if self._spent:
                raise ValueError(f"{self.name} is a stream and was read before; a path can be read again.")
            self._spent = True
            plain = Plain(self._source)
        return Arriving(unpack(plain))

    def _mark(self, supply: Supply, at: int) -> None:
        self.position = self.counts["bytes"] = supply.consumed(at)

    def _stop(self, what: str) -> None:
        note = f"{self.name}: {what}, {self.counts['packets']} packets read"
        self.notes.append(note)
        if self._strict:
            raise DecodeError(note)

    def _bytes(self, supply: Supply, place: int, count: int) -> bytes:
        """Return `count` bytes from `place`, fewer where the source ends before."""
        while supply.base + supply.end < place + count and supply.more(place - supply.base):
            pass
        at = place - supply.base
        return supply.data[at : min(at + count, supply.end)].tobytes()

    def _header(self, supply: Supply, form: Format | None, place: int) -> tuple[Format | None, int]:
        """Read the file or section header at `place`; give (how to read on, or None for not at all, where)."""
        magic = self._bytes(supply, place, 4)
        needed = header_bytes(magic)
        head = self._bytes(supply, place, needed or 16)
        found = recognise(head)
        if found is None:
            if needed and len(head) < needed:
                self._ended(supply, place)
                return None, place
            if form is None:
                raise DecodeError(self._foreign(head, supply.fault))
            self._stop(f"damaged at byte {place}: a section header without a byte order")
            return None, place
        if isinstance(found, Classic):
            if form is not None:
                self.notes.append(f"{self.name}: another file header at byte {place}, read on behind it")
            return found, place + needed
        blocks = form if isinstance(form, Blocks) else found
        size = blocks.begin(head)
        if not size:
            self._stop(f"damaged at byte {place}: a section header of impossible length")
            return None, place
        return blocks, place + size

    def _interface(self, supply: Supply, form: Blocks, place: int) -> int | None:
        """Take in the interface description at `place`; give where the next block is, None where reading ends."""
        size = form.size(self._bytes(supply, place, 8))
        if not 20 <= size <= walk.MAX_BLOCK:
            self._stop(_DAMAGE[walk.ODD_SIZE].format(place=place))
            return None
        block = self._bytes(supply, place, size)
        if len(block) < size:
            self._ended(supply, place)
            return None
        if block[-4:] != block[4:8]:
            self._stop(_DAMAGE[walk.MISMATCH].format(place=place))
            return None
        form.describe(block)
        return place + size

    def _ended(self, supply: Supply, place: int) -> None:
        """Say how the source ended, with the reader at `place`: nothing when it ended between two records."""
        end = supply.base + supply.end
        if supply.fault is not None:
            self._stop(f"truncated at byte {end}: {supply.fault}")
        elif place > end:
            self._stop(f"truncated at byte {end}: the block there reaches to byte {place}")
        elif place < end:
            self._stop(f"truncated at byte {end}: what begins at byte {place} is cut short")

    def _foreign(self, head: bytes, fault: str | None) -> str:
        seen = f"its first bytes are {head[:12].hex(' ')}" if head else "it is empty"
        if fault is not None:
            seen += f" ({fault})"
        for magic, command in UNREAD.items():
            if head.startswith(magic):
                return f"{self.name} is packed in a way not read here: {seen}.\n  Unpack it first: {command} FILE | ..."
        lines = [
            f"{self.name} is no capture: {seen}.",
            "  Read are classic pcap (micro- and nanoseconds, both byte orders) and pcapng, plain, in gzip or in zstd.",
        ]
        if head and all(byte in _TEXT for byte in head):
            lines.append(
                '  This looks like text; if it is a table, say --format csv (or tsv, ndjson), in Python format="csv".'
            )
        return "\n".join(lines)


@attrs.define
class _Batches:
    """Batches of a capture's columns, and counts of what is in the packets."""

    capture: Capture
    holds: bool = True
    _rows: Rows = attrs.field(init=False)
    _layout: Layout = attrs.field(init=False)
    _columns: Columns | None = None

    def __attrs_post_init__(self) -> None:
        self._layout = Layout.of(self.capture.schema, inner=self.capture.inner)
        self._rows = self.capture.rows(8 * WALKED)

    def take(self, form: Format, supply: Supply, at: int) -> tuple[int, int, int, int]:
        if self._columns is None:
            self._columns = Columns(self._layout, self.capture.room(supply, at))
        return self._columns.take(form, supply.data, at, supply.end, self._rows)

    def give(self) -> pa.RecordBatch:
        columns, self._columns = self._columns, None
        assert columns is not None, "nothing was taken"
        self.capture.counts["undecoded"] += columns.others
        self.capture.counts["truncated"] += columns.shorts
        return columns.batch()


@attrs.define
class _Times:
    """The times of a capture's packets."""

    capture: Capture
    holds: bool = True
    _rows: Rows = attrs.field(init=False)
    _times: NDArray[np.int64] | None = None
    _count: int = 0

    def __attrs_post_init__(self) -> None:
        self._rows = self.capture.rows(WALKED)

    def take(self, form: Format, supply: Supply, at: int) -> tuple[int, int, int, int]:
        if self._times is None:
            self._times = np.empty(self.capture.room(supply, at), np.int64)
        before, untimed, why = self._count, 0, walk.FULL
        while self._count < len(self._times) and why == walk.FULL:
            at, count = form.times(supply.data, at, supply.end, self._times[self._count :])
            self._count += count
            rows = self._rows.first(min(self._rows.room, len(self._times) - self._count))
            at, count, without, why = form.walk(supply.data, at, supply.end, rows)
            self._times[self._count : self._count + count] = rows.ts[:count]
            self._count += count
            untimed += without
        return at, self._count - before, untimed, why

    def give(self) -> NDArray[np.int64]:
        times, self._times = self._times, None
        assert times is not None, "nothing was taken"
        count, self._count = self._count, 0
        return times[:count] if 2 * count >= len(times) else times[:count].copy()
