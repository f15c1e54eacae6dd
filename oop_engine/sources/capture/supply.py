"""A supply gives the bytes of a capture in order: those of a file in blocks, others as they arrive.

Offsets inside the capture count unpacked bytes; `consumed` counts bytes of the source as it lies on disk.
"""

from __future__ import annotations

from io import SEEK_CUR, BytesIO, FileIO
from typing import Final, Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.capture.compression import PackedDamage, Pieces

_BLOCK: Final = 1 << 21
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
        """Give the bytes of the source read so far, with the reader standing at data[at]."""
        ...

    def more(self, at: int) -> bool:
        """Let go of data[:at], so that data[at] becomes data[0], and wait for a further byte; False at the end.

        `at` may lie beyond `end`: what comes before it is then dropped on arrival.
        """
        ...


def _shown(buffer: NDArray[np.uint8]) -> NDArray[np.uint8]:
    # Kernels see a read-only view, as of bytes in memory, so that they are compiled once.
    shown = buffer.view()
    shown.flags.writeable = False
    return shown


@attrs.define
class Stored:
    """The bytes of an uncompressed file, block by block in a buffer that stays in the cache, as it was when opened.

    To map it spares the copy, but most files are mapped page by page, which takes longer than copying the pages; and a
    file that is cut while it is mapped ends the process.

    Each byte lies in its page of memory where it lies in its page of the file. A copy to a few bytes further on takes
    up to four times as long: each load then waits for the store before it, whose address ends in the same bits.
    """

    _file: FileIO | BytesIO
    _left: int
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
        self._enlarge(min(2 * _BLOCK, self._left) + 2 * _PAGE)
        self.data = self._shown

    def consumed(self, at: int) -> int:
        return self.base + min(at, self.end)

    def more(self, at: int) -> bool:
        left = self.data[at : self.end].copy()
        skip = min(max(at - self.end, 0), self._left)
        if skip:
            self._file.seek(skip, SEEK_CUR)
        self.base += min(at, self.end) + skip
        self._left -= skip
        kept = len(left)
        most = min(_BLOCK, self._left)
        if _PAGE + kept + most > len(self._buffer):
            self._enlarge(2 * (kept + most) + _PAGE)
        begin = (self.base - self._address) % _PAGE
        to = begin + kept
        self._buffer[begin:to] = left
        read = self._file.readinto(self._room[to : to + most])
        self._left -= read
        self.data = self._shown[begin:]
        self.end = kept + read
        return read > 0

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
