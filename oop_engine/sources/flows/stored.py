"""Datagrams that lie end to end in a file: messages of IPFIX (RFC 5655), payloads of NetFlow and sFlow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final

import attrs
import numpy as np

from oop_engine.sources.capture.compression import Plain, unpack
from oop_engine.sources.capture.errors import DecodeError
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.undamaged import Undamaged
from oop_engine.sources.kind import MOST_COUNTED
from operators.kernels.data.byte_order import each_be
from punctuation import NO_TIME

_PIECE: Final = 1 << 22
_MOST_WHOLE: Final = 1 << 26
_SFLOW: Final = b"\0\0\0\5"


def any_stored(datagrams: Datagrams) -> bool:
    """Return whether any datagram begins as `is_stored` has it."""
    at = datagrams.offset[datagrams.length >= 4]
    first, second = (each_be(datagrams.data, at + k, 2) for k in (0, 2))
    counted = ((first == 1) | (first == 7)) & (second > 0) & (second <= MOST_COUNTED)
    return bool(np.any((first == 5) | (first == 9) | (first == 10) | ((first == 0) & (second == 5)) | counted))


@attrs.define
class StoredDatagrams:
    """The datagrams of one file or stream, plain or in gzip or zstd, read piece by piece.

    The headers of NetFlow v1, v5, v7 and IPFIX tell their length. Sets of NetFlow v9 are followed until another header
    stands where a set should (no set has the number 9), samples of sFlow as many as announced.

    Where the file is cut, or what stands there cannot be followed, `notes` tells the byte, and of the datagram that
    begins there what is before it is given; with `strict` the same sentence is raised as DecodeError instead.
    """

    source: Path | BinaryIO
    name: str
    strict: bool = attrs.field(default=False, kw_only=True)
    position: int = 0
    notes: list[str] = attrs.field(factory=list)
    _behind: int | None = attrs.field(init=False, default=None)
    _start: int = attrs.field(init=False, default=0)

    def mark(self) -> Mapping[str, object] | None:
        """Return where the next datagram is, behind the block given last; None in packed files and streams."""
        return None if self._behind is None else {"byte": self._behind}

    def seek(self, mark: Mapping[str, object]) -> None:
        """Let the next reading begin at a mark of another reading of the same file."""
        byte = mark["byte"]
        assert isinstance(byte, int)
        self._start = byte

    def blocks(self) -> Iterator[Datagrams]:
        """Yield the datagrams in order; nobody knows when they came, or from where."""
        self.notes.clear()
        if isinstance(self.source, Path):
            with self.source.open("rb", buffering=0) as file:
                file.seek(self._start)
                yield from self._blocks(Plain(file, taken=self._start))
        else:
            yield from self._blocks(Plain(self.source))

    def _blocks(self, plain: Plain) -> Iterator[Datagrams]:
        pieces = unpack(plain)
        unpacked = Undamaged(pieces, self._start)
        seekable = pieces is plain and isinstance(self.source, Path)
        held, ended = b"", False
        while not ended:
            piece = unpacked.read(_PIECE)
            self.position = unpacked.taken
            ended = not piece
            held += piece
            found = split(held, ended=ended)
            if found.places:
                self._behind = unpacked.count - len(held) + found.end if seekable else None
                yield _datagrams(held, found.places)
            held = held[found.end :]
            damage = found.damage
            if damage is None and len(held) >= _MOST_WHOLE:
                damage = Damage(0, f"a datagram of more than {_MOST_WHOLE >> 20} MiB")
            if damage is not None:
                yield from self._damaged(unpacked, held, damage)
                return
        if held or unpacked.fault is not None:
            why = unpacked.fault or f"what begins at byte {unpacked.count - len(held)} is cut short"
            self._stop(f"truncated at byte {unpacked.count}: {why}")
        if held:
            yield _datagrams(held, [(0, len(held))])

    def _damaged(self, unpacked: Undamaged, held: bytes, damage: Damage) -> Iterator[Datagrams]:
        """Yield what is before the damage; of a file it is told how much is behind it, a stream might never end."""
        place = unpacked.count - len(held) + damage.at
        behind = "what is behind it is not read"
        if isinstance(self.source, Path):
            while unpacked.read(_PIECE):
                pass
            self.position = unpacked.taken
            behind += f" ({unpacked.count - place:,} bytes)"
        self._stop(f"damaged at byte {place}: {damage.why}, {behind}")
        if damage.at:
            yield _datagrams(held, [(0, damage.at)])

    def _stop(self, what: str) -> None:
        note = f"{self.name}: {what}"
        self.notes.append(note)
        if self.strict:
            raise DecodeError(note)


def _datagrams(data: bytes, places: list[tuple[int, int]]) -> Datagrams:
    table = np.array(places, np.int64)
    count = len(places)
    return Datagrams(
        np.frombuffer(data, np.uint8),
        table[:, 0].copy(),
        table[:, 1].astype(np.int32),
        np.full(count, NO_TIME, np.int64),
        np.zeros(2 * count, np.uint64),
        np.zeros(count, np.int32),
        False,
    )


@attrs.frozen
class Damage:
    """Report how far into a datagram reading got, and what stands there."""

    at: int
    why: str


@attrs.frozen
class Split:
    """The datagrams in bytes, as (offset, length); what begins at `end` is not whole, or damaged."""

    places: list[tuple[int, int]]
    end: int
    damage: Damage | None = None


def split(data: bytes, *, ended: bool = True) -> Split:
    """Find the datagrams in bytes; where these have not `ended`, one that may go on behind them is not whole."""
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(data):
        size = _length(data, at, ended)
        if isinstance(size, Damage):
            return Split(found, at, size)
        if not 0 < size <= len(data) - at:
            break
        found.append((at, size))
        at += size
    return Split(found, at)


def _length(data: bytes, at: int, ended: bool) -> int | Damage:
    """Return the length of the datagram that begins at `at`; -1 where that is not known yet."""
    if at + 4 > len(data):
        return -1
    version = int.from_bytes(data[at : at + 2], "big")
    said = int.from_bytes(data[at + 2 : at + 4], "big")
    if version == 10:
        return said if said >= 16 else Damage(0, f"an IPFIX message of {said} bytes")
    if version == 5:
        return 24 + 48 * said
    if version in (1, 7) and 0 < said <= MOST_COUNTED:
        return 16 + 48 * said if version == 1 else 24 + 52 * said
    if version == 9:
        return _length_of_sets(data, at, ended)
    if data[at : at + 4] == _SFLOW:
        place = at + {1: 12, 2: 24}.get(int.from_bytes(data[at + 4 : at + 8], "big"), 8) + 16
        for _ in range(min(int.from_bytes(data[place - 4 : place], "big"), len(data) // 8)):
            place += 8 + int.from_bytes(data[place + 4 : place + 8], "big")
        return place - at
    return Damage(0, f"{data[at : at + 4].hex(' ')} begins no datagram of NetFlow, IPFIX or sFlow")


def _length_of_sets(data: bytes, at: int, ended: bool) -> int | Damage:
    """Return the length of a datagram of NetFlow v9, which ends where the next begins, or where all ends."""
    place = at + 20
    while place + 4 <= len(data):
        if data[place : place + 2] == b"\0\x09":
            return place - at
        size = int.from_bytes(data[place + 2 : place + 4], "big")
        if size < 4:
            return Damage(place - at, f"a set of {size} bytes")
        place += size
    return place - at if ended else -1
