"""Read file headers, which say how to walk the rest: classic pcap has one, pcapng one a section and an interface."""

from __future__ import annotations

import struct
from typing import Final, Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.capture import walk
from oop_engine.sources.capture.rows import Rows

_CLASSIC: Final = {
    b"\xd4\xc3\xb2\xa1": (False, 1000, 0),
    b"\xa1\xb2\xc3\xd4": (True, 1000, 0),
    b"\x4d\x3c\xb2\xa1": (False, 1, 0),
    b"\xa1\xb2\x3c\x4d": (True, 1, 0),
    b"\x34\xcd\xb2\xa1": (False, 1000, 8),  # Kuznetsov's: eight bytes more in each record header
    b"\xa1\xb2\xcd\x34": (True, 1000, 8),
}
_SECTION: Final = b"\x0a\x0d\x0d\x0a"
_ORDER: Final = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}


class Format(Protocol):
    """The facts that a header has told so far."""

    def facts(self) -> list[int]:
        """Return them as numbers, for `of_facts`."""
        ...

    def walk(self, data: NDArray[np.uint8], at: int, end: int, rows: Rows) -> tuple[int, int, int, int]:
        """Fill `rows` from data[at:end].

        Gives (position, rows filled, those of them without a time, why it stopped: a constant of `walk`).
        """
        ...

    def times(self, data: NDArray[np.uint8], at: int, end: int, ts: NDArray[np.int64]) -> tuple[int, int]:
        """Fill `ts` from records of data[at:end] whose times can be had faster than by `walk`: from none, it may be.

        Gives (position, rows filled).
        """
        ...


@attrs.frozen
class Classic:
    """One file header of classic pcap, which holds for all records after it."""

    swapped: bool
    nanoseconds: int
    extra: int
    old: bool
    link: int

    @classmethod
    def read(cls, head: bytes) -> Classic:
        """Read the 24 bytes of a file header."""
        swapped, nanoseconds, extra = _CLASSIC[head[:4]]
        major, minor, _, _, _, link = struct.unpack((">" if swapped else "<") + "HHiIII", head[4:24])
        # The upper bits of the link type tell the length of the frame check sequence.
        return cls(swapped, nanoseconds, extra, (major, minor) < (2, 4), link & 0x03FFFFFF)

    def facts(self) -> list[int]:
        """Return what the header told, for `of_facts`."""
        return [int(self.swapped), self.nanoseconds, self.extra, int(self.old), self.link]

    @property
    def framed(self) -> bool:
        """Return whether its records are as most are: little-endian, of Ethernet, without anything more or older."""
        return not self.swapped and self.extra == 0 and not self.old and self.link == 1

    def walk(self, data: NDArray[np.uint8], at: int, end: int, rows: Rows) -> tuple[int, int, int, int]:
        position, count, untimed, why = walk.walk_pcap(
            data, at, end, (self.swapped, self.nanoseconds, self.extra, self.old, self.link), rows.tables
        )
        return int(position), int(count), int(untimed), int(why)

    def times(self, data: NDArray[np.uint8], at: int, end: int, ts: NDArray[np.int64]) -> tuple[int, int]:
        if self.swapped or self.old:
            return at, 0
        position, count = walk.alike_times(data, at, end, self.nanoseconds, self.extra, ts)
        return int(position), int(count)


@attrs.define
class Blocks:
    """The section of pcapng being read, with its interfaces; they are numbered on from those of earlier sections."""

    swapped: bool = False
    first: int = 0
    known: int = 0
    _table: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros((8, 5), np.int64))

    def walk(self, data: NDArray[np.uint8], at: int, end: int, rows: Rows) -> tuple[int, int, int, int]:
        position, count, untimed, why = walk.walk_pcapng(
            data, at, end, self.swapped, self.first, self._table, self.known, rows.tables
        )
        return int(position), int(count), int(untimed), int(why)

    def times(self, data: NDArray[np.uint8], at: int, end: int, ts: NDArray[np.int64]) -> tuple[int, int]:
        return at, 0

    def facts(self) -> list[int]:
        """Return the section and its interfaces, for `of_facts`."""
        return [int(self.swapped), self.first, *self._table[: self.known].ravel().tolist()]

    @classmethod
    def of_facts(cls, facts: list[int]) -> Blocks:
        """Go on with a section whose `facts` these were."""
        table = np.array(facts[2:], np.int64).reshape(-1, 5)
        known = len(table)
        return cls(bool(facts[0]), facts[1], known, np.concatenate([table, np.zeros((8, 5), np.int64)]))

    def begin(self, head: bytes) -> int:
        """Begin a section whose header starts with these 12 bytes; give the header's length (0 where it is damaged)."""
        order = _ORDER.get(head[8:12])
        if order is None:
            return 0
        self.swapped = order == ">"
        self.first += self.known
        self.known = 0
        (size,) = struct.unpack(order + "I", head[4:8])
        return size if size >= 28 and size % 4 == 0 else 0

    def size(self, head: bytes) -> int:
        """Return the length of the block that starts with these 8 bytes."""
        return struct.unpack((">" if self.swapped else "<") + "I", head[4:8])[0]

    def describe(self, block: bytes) -> None:
        """Add the interface that a whole interface description block tells of.

        Ticks are microseconds unless option 9 says otherwise; option 14 shifts the clock by whole seconds.
        """
        order = ">" if self.swapped else "<"
        link, _, snaplen = struct.unpack(order + "HHI", block[8:16])
        mode, factor, seconds = walk.MULTIPLY, 1000, 0
        at = 16
        while at + 8 <= len(block):
            code, size = struct.unpack(order + "HH", block[at : at + 4])
            value = block[at + 4 : min(at + 4 + size, len(block) - 4)]
            if code == 0:
                break
            if code == 9 and value:
                mode, factor = _ticks(value[0])
            elif code == 14 and len(value) == 8:
                (seconds,) = struct.unpack(order + "q", value)
            at += 4 + (size + 3) // 4 * 4
        since = seconds * 1_000_000_000
        if not -(2**63) < since < 2**63:
            mode, since = walk.UNTIMED, 0
        if self.known == len(self._table):
            self._table = np.concatenate([self._table, np.zeros_like(self._table)])
        self._table[self.known] = (link, mode, factor, since, snaplen)
        self.known += 1


def _ticks(resolution: int) -> tuple[int, int]:
    """Turn the byte of option 9 (10^-v, or 2^-v with the top bit) into a mode and factor of the walk."""
    power = resolution & 0x7F
    if resolution & 0x80:
        return walk.SHIFT, power
    if power <= 9:
        return walk.MULTIPLY, 10 ** (9 - power)
    # 64 bits of a finer resolution would not span two nanoseconds: no clock means that.
    return (walk.DIVIDE, 10 ** (power - 9)) if power <= 27 else (walk.UNTIMED, 0)


def of_facts(kind: str, facts: list[int]) -> Classic | Blocks:
    """Return the format that gave these facts, a "classic" pcap or one of "blocks"."""
    if kind == "blocks":
        return Blocks.of_facts(facts)
    swapped, nanoseconds, extra, old, link = facts
    return Classic(bool(swapped), nanoseconds, extra, bool(old), link)


def recognise(head: bytes) -> Classic | Blocks | None:
    """Choose the format by a header's first bytes (24 for classic pcap, 12 for pcapng); None when it is neither."""
    if head[:4] in _CLASSIC and len(head) >= 24:
        return Classic.read(head)
    if head[:4] == _SECTION and head[8:12] in _ORDER:
        return Blocks()
    return None


def header_bytes(magic: bytes) -> int:
    """Return how many bytes `recognise` needs after this magic number; 0 when it is none."""
    return 24 if magic in _CLASSIC else 12 if magic == _SECTION else 0
