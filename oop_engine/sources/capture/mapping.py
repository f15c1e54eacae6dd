"""Read a file that lies in the page cache in place, without a copy, while nobody can cut it.

To look at a mapped page that its file no longer has ends the process. So a mapping is looked at only under a read lease
of the kernel: whoever would cut the file or open it for writing waits until the reader lets go of it, some milliseconds
at most (or is told to try again, if it asked not to wait). There is no lease on a file that is open for writing, that
another user owns, or of a filesystem without leases, and none outside Linux; such files are read.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
from contextlib import suppress
from functools import cache
from io import FileIO, UnsupportedOperation
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

try:
    import fcntl
except ImportError:  # where the system has no leases, files are read
    fcntl = None

_CACHESTAT: Final = 451
"""The number of the system call, the same on all machines."""


@attrs.define(eq=False)
class Mapping:
    """The first `size` bytes of a file, as it was when it was mapped."""

    _file: FileIO
    _pages: mmap.mmap
    _whole: NDArray[np.uint8]
    _held: bool = False
    _asked: int = 0
    """How far it was found to be in the page cache."""
    _passed: int = 0
    """How far its pages count no longer as memory of this process."""

    @classmethod
    def of(cls, file: object, size: int) -> Mapping | None:
        """Map a file; None where that cannot be."""
        if sys.platform != "linux" or fcntl is None or type(file) is not FileIO:  # others may give other bytes
            return None
        with suppress(OSError, ValueError, UnsupportedOperation):
            pages = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
            return cls(file, pages, np.frombuffer(pages, np.uint8))
        return None

    def hold(self, low: int, high: int) -> NDArray[np.uint8] | None:
        """Return the bytes from `low` to `high`, valid until `free`; None where they are to be read instead."""
        if self._lease():
            number = self._file.fileno()
            if os.fstat(number).st_size >= high and (
                high <= self._asked or _cached(number, max(low, self._asked), high)
            ):
                self._asked = high
                self._pass(low // mmap.PAGESIZE * mmap.PAGESIZE)
                return self._whole[low:high]
            self.free()
        return None

    def free(self) -> None:
        """Let others cut the file."""
        if self._held and fcntl is not None:
            fcntl.fcntl(self._file.fileno(), fcntl.F_SETLEASE, fcntl.F_UNLCK)
            self._held = False

    def _pass(self, low: int) -> None:
        if low > self._passed:
            self._pages.madvise(mmap.MADV_DONTNEED, self._passed, low - self._passed)
            self._passed = low

    def _lease(self) -> bool:
        if not self._held and fcntl is not None:
            # Who waits has this process told by a signal, which by default ends it unless another is named each time.
            with suppress(OSError):
                fcntl.fcntl(self._file.fileno(), fcntl.F_SETSIG, signal.SIGURG)
                fcntl.fcntl(self._file.fileno(), fcntl.F_SETLEASE, fcntl.F_RDLCK)
                self._held = True
        return self._held


def _cached(file: int, low: int, high: int) -> bool:
    """Return whether a part of a file lies in the page cache, so that no error of the disk meets who looks at it."""
    first = low // mmap.PAGESIZE * mmap.PAGESIZE
    found = (ctypes.c_uint64 * 5)()
    asked = (ctypes.c_uint64 * 2)(first, high - first)
    return not _library().syscall(_CACHESTAT, file, asked, found, 0) and found[0] * mmap.PAGESIZE >= high - first


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)
