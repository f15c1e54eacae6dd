"""A capture is read in order, as far as it can be; where it could not be, its notes say so."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oop_engine.sources.capture import walk
from oop_engine.sources.capture.batch import decode_batch
from oop_engine.sources.capture.compression import GZIP, UNREAD, ZSTD, Plain, unpack
from oop_engine.sources.capture.errors import DecodeError
from oop_engine.sources.capture.formats import Blocks, Classic, Format, header_bytes, recognise
from oop_engine.sources.capture.rows import Rows
from oop_engine.sources.capture.schema import prune
from oop_engine.sources.capture.supply import Arriving, Mapped, Supply

_Part = TypeVar("_Part")
_COUNTS: Final = ("packets", "undecoded", "truncated", "untimed", "bytes")
_DAMAGE: Final = {
    walk.TOO_LONG: f"damaged at byte {{place}}: a record claims more than {walk.MAX_CAPLEN:,} captured bytes",
    walk.ZEROS: "zero bytes instead of a record from byte {place} on",
    walk.MISMATCH: "damaged at byte {place}: the block's two lengths differ",
    walk.OVERRUN: "damaged at byte {place}: the packet is larger than its block",
    walk.ODD_SIZE: "damaged at byte {place}: a block of impossible length",
}

_TEXT = frozenset((*b"\t\n\r", *range(0x20, 0x7F)))


class Capture:
    """Read one capture, classic pcap or pcapng, plain or in gzip or zstd, told apart by its first bytes.

    `source` is a path (mapped when it is not compressed) or a binary stream, of which batches are given as its bytes
    arrive. A path can be iterated any number of times, a stream once. `columns` keeps only these of PACKET_SCHEMA;
    what is not kept is not decoded.

    A cut or damaged capture gives the packets before the damage, and `notes` tells where that is; with `strict` the
    same sentence is raised as DecodeError after those packets. What is no capture at all raises DecodeError always.
    """

    def __init__(
        self,
        source: str | Path | BinaryIO,
        *,
        batch_rows: int = 65_536,
        columns: Sequence[str] | None = None,
        strict: bool = False,
    ) -> None:
        if batch_rows < 1:
            raise ValueError(f"batch_rows is {batch_rows}; a batch holds at least one row.")
        self.schema: pa.Schema = prune(columns)
        self.notes: list[str] = []
        self.counts: dict[str, int] = dict.fromkeys(_COUNTS, 0)
        self.position: int = 0
        self._source: Path | BinaryIO = Path(source) if isinstance(source, str) else source
        self._batch_rows = batch_rows
        self._strict = strict
        self._spent = False
        self._regular = False
        self.size: int | None = None
        if isinstance(self._source, Path):
            self.name = str(source)
            about = os.stat(self._source)
            self._regular = stat.S_ISREG(about.st_mode)
            self.size = about.st_size if self._regular else None
        else:
            self.name = str(getattr(source, "name", "stream"))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Give the packets in the order of the capture, in Arrow batches of 1 to `batch_rows` rows."""

        def decoded(supply: Supply, rows: Rows, count: int, untimed: int) -> pa.RecordBatch:
            batch, others, shorts = decode_batch(supply.data, rows, count, untimed, self.schema)
            self.counts["undecoded"] += others
            self.counts["truncated"] += shorts
            return batch

        return self._read(decoded)

    def times(self) -> Iterator[NDArray[np.int64]]:
        """Give only the packets' times, int64 nanoseconds since the epoch: the same packets in the same order.

        A packet without a time has NO_TIME. No packet is decoded, so `counts` says nothing of their contents.
        """

        def copied(supply: Supply, rows: Rows, count: int, untimed: int) -> NDArray[np.int64]:
            return rows.ts[:count].copy()

        return self._read(copied)

    def _read(self, part: Callable[[Supply, Rows, int, int], _Part]) -> Iterator[_Part]:
        self.notes.clear()
        self.counts.update(dict.fromkeys(_COUNTS, 0))
        with ExitStack() as opened:
            supply = self._open(opened)
            rows = Rows.empty(self._batch_rows)
            # Places count from the start of the unpacked capture: the byte at `place` is data[place - base].
            form, place = self._header(supply, None, 0)
            while form is not None:
                at, count, untimed, why = form.walk(supply.data, place - supply.base, supply.end, rows)
                place = supply.base + at
                self._mark(supply, at)
                if count:
                    self.counts["packets"] += count
                    self.counts["untimed"] += untimed
                    yield part(supply, rows, count, untimed)
                if why == walk.CUT and not supply.more(at):
                    self._mark(supply, at)
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

    def _open(self, opened: ExitStack) -> Supply:
        if isinstance(self._source, Path):
            file = opened.enter_context(self._source.open("rb", buffering=0))
            plain = Plain(file, again=self._regular)
            if self._regular and self.size and plain.peek(4)[:2] != GZIP and plain.peek(4) != ZSTD:
                return Mapped.file(file)
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
        """Give `count` bytes from `place`, fewer where the source ends before."""
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
            lines.append("  This looks like text; if it is a table, give its format: csv, tsv or ndjson.")
        return "\n".join(lines)
