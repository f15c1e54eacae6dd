"""A supply gives the bytes of a capture in order: those of a file in blocks, others as they arrive.

Offsets inside the capture count unpacked bytes; `consumed` counts bytes of the source as it lies on disk.
"""

from __future__ import annotations

from io import BytesIO, FileIO
from typing import Final, Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.capture.compression import PackedDamage, Pieces
from oop_engine.sources.capture.mapping import Mapping

_BLOCK: Final = 1 << 21
_SPAN: Final = 1 << 23
_MAPPED: Final = 1 << 20
"""Smaller files are read."""
_PAGE: Final = 1 << 12
_PIECE: Final = 1 << 18
_ROOM: Final = 1 << 22


class Supply(Protocol):
    """The bytes at hand, `data[:end]`, of which the first is the capture's byte `base`."""

    data: NDArray[np.uint8]
    base: int
    end: int
    fault: str | None  # what is wrong with the packed data, once it was met
    steady: bool  # more bytes are there without waiting for them, so that a batch may wait for them

    def consumed(self, at: int) -> int:
        """Return the bytes of the source read so far, with the reader standing at data[at]."""
        ...

    def more(self, at: int) -> bool:
        """Let go of data[:at], so that data[at] becomes data[0], and wait for a further byte; False at the end.

        `at` may lie beyond `end`: what comes before it is then dropped on arrival.
        """
        ...

    def rest(self, at: int) -> None:
        """Take leave: nothing behind data[at] is looked at before `more` was asked for."""
        ...


def _shown(buffer: NDArray[np.uint8]) -> NDArray[np.uint8]:
    # Kernels see a read-only view, as of bytes in memory, so that they are compiled once.
    shown = buffer.view()
    shown.flags.writeable = False
    return shown


@attrs.define
class Stored:
    """The bytes of an uncompressed file as it was when opened, in blocks: where they are mapped, or else read.

    To map spares the copy: 96 bytes of each packet are decoded in two thirds of the time, whole ones in a third. Only
    if the kernel maps it a page at a time, as a file written in pages, does it take a fifth longer.

    They are read into a buffer that stays in the cache. Each byte lies in its page of memory where it lies in its page
    of the file. A copy to a few bytes further on takes up to four times as long: each load then waits for the store
    before it, whose address ends in the same bits.
    """

    _file: FileIO | BytesIO
    _size: int
    _mapping: Mapping | None = None
    _looking: bool = attrs.field(init=False, default=False)
    """What is at hand lies in the mapping."""
    _buffer: NDArray[np.uint8] = attrs.field(init=False)
    _room: memoryview = attrs.field(init=False)
    _shown: NDArray[np.uint8] = attrs.field(init=False)
    _address: int = attrs.field(init=False)
    data: NDArray[np.uint8] = attrs.field(init=False)
    base: int = 0
    end: int = 0
    fault: str | None = None
    steady: bool = True

    def __attrs_post_init__(self) -> None:
        self._enlarge(0)
        self.data = self._shown

    @classmethod
    def mapped(cls, file: FileIO | BytesIO, size: int) -> Stored:
        """Return the first `size` bytes of a file, mapped where that can be, for one who tells of pauses."""
        return cls(file, size, Mapping.of(file, size) if size >= _MAPPED else None)

    def consumed(self, at: int) -> int:
        return self.base + min(at, self.end)

    def more(self, at: int) -> bool:
        before = self.base + self.end
        start = min(self.base + at, self._size)
        there = max(start, before)
        if self._mapping is not None:
            high = min(there + _SPAN, self._size)
            held = self._mapping.hold(start, high)
            if held is not None:
                self.data, self.base, self.end, self._looking = held, start, high - start, True
                return high > there
        return self._read(start, there)

    def rest(self, at: int) -> None:
        if self._mapping is not None:
            self._mapping.free()
            if self._looking:
                self.end = min(self.end, at)

    def _read(self, start: int, there: int) -> bool:
        """Read from `start` on, of which all before `there` was at hand before, until more is."""
        wanted = min(there + _BLOCK, self._size) - start
        left = self.data[:0] if self._looking else self.data[start - self.base : self.end].copy()
        if self._looking or start > self.base + self.end:
            self._file.seek(start)
        if _PAGE + wanted > len(self._buffer):
            self._enlarge(min(2 * wanted, self._size) + _PAGE)
        begin = (start - self._address) % _PAGE
        end = len(left)
        self._buffer[begin : begin + end] = left
        read = 1
        while start + end <= there and read:
            read = self._file.readinto(self._room[begin + end : begin + wanted])
            end += read
        if not read and start + end < self._size:
            self.fault = "the file was cut there while it was read"
        self.data, self.base, self.end, self._looking = self._shown[begin:], start, end, False
        return start + end > there

    def _enlarge(self, size: int) -> None:
        self._buffer = np.empty(size, np.uint8)
        self._room = memoryview(self._buffer.data)
        self._shown = _shown(self._buffer)
        self._address = self._buffer.ctypes.data


@attrs.define
class Arriving:
    """Bytes as they arrive, in a buffer that holds what the reader has not yet used."""

    _pieces: Pieces
    _buffer: NDArray[np.uint8] = attrs.field(factory=lambda: np.zeros(_ROOM, np.uint8))
    data: NDArray[np.uint8] = attrs.field(init=False)
    base: int = 0
    end: int = 0
    fault: str | None = None
    steady: bool = False

    def __attrs_post_init__(self) -> None:
        self.data = _shown(self._buffer)

    def consumed(self, at: int) -> int:
        return self._pieces.taken

    def rest(self, at: int) -> None:
        pass

    def more(self, at: int) -> bool:
        kept = max(self.end - at, 0)
        if kept > len(self._buffer) // 2:
            larger = np.zeros(2 * len(self._buffer), np.uint8)
            larger[:kept] = self._buffer[at : self.end]
            self._buffer = larger
            self.data = _shown(larger)
        elif kept:
            self._buffer[:kept] = self._buffer[at : self.end].copy()
        skip = max(at - self.end, 0)
        self.base += at
        self.end = kept
        while self.fault is None and self.end < len(self._buffer):
            try:
                piece = self._pieces.read(min(_PIECE, len(self._buffer) - self.end))
            except PackedDamage as error:
                self.fault = str(error)
                break
            if not piece:
                break
            if skip:
                piece, skip = piece[skip:], max(skip - len(piece), 0)
                if not piece:
                    continue
            self._buffer[self.end : self.end + len(piece)] = np.frombuffer(piece, np.uint8)
            self.end += len(piece)
            if self.end > kept and not self._pieces.ready():
                break
        self.base -= skip
        return self.end > kept
