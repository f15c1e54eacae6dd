"""A ring is a piece of memory of fixed size that one process writes frames into and another reads them out of.

There is one writer and one reader. Each moves a position of its own, a number of bytes that only grows, and reads the
other's; a frame is written before the writer's position moves, and copied out before the reader's does. The processor
must let stores be seen in the order they were made, as x86 does, or the interpreter's own locks see to it.

The memory is an unnamed file, so nothing is left of it when the last process that has it open is gone, however it went.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

WRITTEN, READ, DROPPED_FRAMES, DROPPED_TUPLES, LARGEST, BEGAN, SPENT, LEFT = range(8)
_HEADER: Final = 128
FRAME: Final = 16
_SKIP: Final = 2**64 - 1
LEAST: Final = 1 << 12


@attrs.define(eq=False)
class Ring:
    """Frames, each of a kind and some bytes, in a ring of `capacity` bytes.

    >>> ring = Ring.create(1 << 12)
    >>> ring.write(3, b"abc"), ring.write(4, b""), [(k, b.to_pybytes()) for k, b in (ring.read(), ring.read())]
    (True, True, [(3, b'abc'), (4, b'')])
    >>> ring.read() is None
    True
    """

    descriptor: int
    capacity: int
    _memory: mmap.mmap = attrs.field(init=False)
    _header: npt.NDArray[np.uint64] = attrs.field(init=False)
    _bytes: npt.NDArray[np.uint8] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        if self.capacity < LEAST or self.capacity % FRAME:
            raise ValueError(
                f"a ring has at least {LEAST:,} bytes, a multiple of {FRAME}; {self.capacity:,} is neither."
            )
        self._memory = mmap.mmap(self.descriptor, _HEADER + self.capacity)
        self._header = np.frombuffer(self._memory, np.uint64, _HEADER // 8)
        self._bytes = np.frombuffer(self._memory, np.uint8, self.capacity, _HEADER)

    @classmethod
    def create(cls, capacity: int) -> Ring:
        """Make an empty ring; its descriptor is to be handed to the other process."""
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("oop-ring")
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        os.ftruncate(descriptor, _HEADER + capacity)
        return cls(descriptor, capacity)

    @property
    def used(self) -> int:
        """Return how many bytes are written and not yet read."""
        return int(self._header[WRITTEN]) - int(self._header[READ])

    @property
    def counters(self) -> dict[str, int]:
        """Return how much was dropped for lack of room, and how full the ring has been."""
        return {
            "dropped_pages": int(self._header[DROPPED_FRAMES]),
            "dropped_tuples": int(self._header[DROPPED_TUPLES]),
            "most_bytes_used": int(self._header[LARGEST]),
        }

    @property
    def ready(self) -> bool:
        """Return whether its writer has said that it begins; any thread may ask."""
        return int(self._header[BEGAN]) > 0

    @property
    def cpu(self) -> float:
        """Return the seconds of processor time that its writer has taken since it said that it begins."""
        return max(0, int(self._header[SPENT]) - int(self._header[BEGAN])) / 1e9

    def spend(self, taken: int) -> None:
        """Say how much processor time its writer has taken in all, in ns; the first time, that it begins."""
        if not self.ready:
            self._header[BEGAN] = taken
        self._header[SPENT] = taken

    @property
    def left(self) -> bool:
        """Return whether its reader has said that it reads no more; any thread may ask."""
        return int(self._header[LEFT]) > 0

    def leave(self) -> None:
        """Say that nobody reads any more, so that its writer need not wait for room; for the one reader."""
        self._header[LEFT] = 1

    def clear(self) -> None:
        """Leave out what is written and not read, and begin to read again; for the reader, while its writer rests."""
        self._header[READ] = self._header[WRITTEN]
        self._header[LEFT] = 0

    def fits(self, size: int) -> bool:
        """Return whether a frame of so many bytes fits into an empty ring, wherever it stands."""
        return 2 * _padded(size) <= self.capacity

    def write(self, kind: int, content: bytes | pa.Buffer) -> bool:
        """Write a frame if there is room, and say whether there was; for the one writer."""
        size = len(content) if isinstance(content, bytes) else int(content.size)
        if not self.fits(size):
            raise ValueError(f"a frame of {size:,} bytes is more than half of a ring of {self.capacity:,} bytes.")
        whole = _padded(size)
        written = int(self._header[WRITTEN])
        at = written % self.capacity
        skipped = self.capacity - at if at + whole > self.capacity else 0
        if self.used + skipped + whole > self.capacity:
            return False
        if skipped:
            self._words(at)[0] = _SKIP
            at = 0
        self._bytes[at + FRAME : at + FRAME + size] = np.frombuffer(content, np.uint8)
        words = self._words(at)
        words[0], words[1] = size, kind
        self._header[WRITTEN] = written + skipped + whole
        self._header[LARGEST] = max(int(self._header[LARGEST]), self.used)
        return True

    def drop(self, tuples: int) -> None:
        """Count a page of so many tuples that was not written; for the one writer."""
        self._header[DROPPED_FRAMES] += np.uint64(1)
        self._header[DROPPED_TUPLES] += np.uint64(tuples)

    def read(self) -> tuple[int, pa.Buffer] | None:
        """Take out the next frame, as its kind and a copy of its bytes; None when there is none; for the one reader."""
        read = int(self._header[READ])
        if read == int(self._header[WRITTEN]):
            return None
        at = read % self.capacity
        if int(self._words(at)[0]) == _SKIP:
            read += self.capacity - at
            at = 0
        size, kind = (int(word) for word in self._words(at))
        buffer = pa.allocate_buffer(size)
        np.frombuffer(buffer, np.uint8)[:] = self._bytes[at + FRAME : at + FRAME + size]
        self._header[READ] = read + _padded(size)
        return kind, buffer

    def close(self) -> None:
        """Let go of the memory; the other process keeps its own hold on it."""
        if self.descriptor >= 0:
            del self._header, self._bytes
            self._memory.close()
            os.close(self.descriptor)
            self.descriptor = -1

    def _words(self, at: int) -> npt.NDArray[np.uint64]:
        return self._bytes[at : at + FRAME].view(np.uint64)


def _padded(size: int) -> int:
    return FRAME + -(-size // FRAME) * FRAME
