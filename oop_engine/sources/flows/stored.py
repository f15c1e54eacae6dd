"""Datagrams that lie end to end in a file: messages of IPFIX (RFC 5655), payloads of NetFlow and sFlow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import attrs
import numpy as np

from oop_engine.sources.capture.compression import PackedDamage, Plain, unpack
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.entries import NO_TIME

_PIECE: Final = 1 << 22
_MOST_WHOLE: Final = 1 << 26
_SFLOW: Final = b"\0\0\0\5"


def is_stored(head: bytes) -> bool:
    """Tell whether a file that begins so holds datagrams: the version of NetFlow v5, v9, IPFIX or sFlow v5."""
    return head[:2] in (b"\0\x05", b"\0\x09", b"\0\x0a") or head[:4] == _SFLOW


@attrs.define
class StoredDatagrams:
    """The datagrams of one file or stream, plain or in gzip or zstd.

    The headers of NetFlow v5 and IPFIX tell their length, so these are read piece by piece. Sets of NetFlow v9 are
    followed until another header stands where a set should (no set has the number 9), samples of sFlow as many as
    announced: such a file is read as a whole, up to 64 MiB. What cannot be followed is one datagram to the end.
    """

    source: Path | BinaryIO
    name: str
    position: int = 0
    notes: list[str] = attrs.field(factory=list)

    def blocks(self) -> Iterator[Datagrams]:
        """Give the datagrams in order; nobody knows when they came, or from where."""
        self.notes.clear()
        if isinstance(self.source, Path):
            with self.source.open("rb", buffering=0) as file:
                yield from self._blocks(Plain(file))
        else:
            yield from self._blocks(Plain(self.source))

    def _blocks(self, plain: Plain) -> Iterator[Datagrams]:
        pieces = unpack(plain)
        held, ended = b"", False
        while not ended:
            try:
                piece = pieces.read(_PIECE)
            except PackedDamage as error:
                self.notes.append(f"{self.name}: {error}")
                piece = b""
            self.position = pieces.taken
            ended = not piece
            held += piece
            if not ended and (held[:2] not in (b"\0\x05", b"\0\x0a") or len(held) < 4) and len(held) < _MOST_WHOLE:
                continue
            places, end = split(held, ended=ended or len(held) >= _MOST_WHOLE)
            if places:
                yield _datagrams(held, places)
            held = held[end:]


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


def split(data: bytes, *, ended: bool = True) -> tuple[list[tuple[int, int]], int]:
    """Give the datagrams in bytes, as (offset, length), and where the first that is not whole begins.

    Where the bytes have `ended`, what is left is a datagram too.
    """
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(data):
        size = _length(data, at)
        if not 0 < size <= len(data) - at:
            if not ended and size != 0:
                break
            size = len(data) - at
        found.append((at, size))
        at += size
    return found, at


def _length(data: bytes, at: int) -> int:
    """Give the length of the datagram that begins at `at`; 0 where it cannot be told, -1 where not yet."""
    if at + 4 > len(data):
        return -1
    version = int.from_bytes(data[at : at + 2], "big")
    said = int.from_bytes(data[at + 2 : at + 4], "big")
    if version == 10:
        return said if said >= 16 else 0
    if version == 5:
        return 24 + 48 * said
    if version == 9:
        place = at + 20
        while place + 4 <= len(data) and data[place : place + 2] != b"\0\x09":
            size = int.from_bytes(data[place + 2 : place + 4], "big")
            if size < 4:
                return 0
            place += size
        return place - at
    if data[at : at + 4] == _SFLOW:
        place = at + {1: 12, 2: 24}.get(int.from_bytes(data[at + 4 : at + 8], "big"), 8) + 16
        for _ in range(min(int.from_bytes(data[place - 4 : place], "big"), len(data) // 8)):
            place += 8 + int.from_bytes(data[place + 4 : place + 8], "big")
        return place - at
    return 0
