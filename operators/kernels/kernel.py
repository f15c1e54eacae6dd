"""One decorator compiles every hot loop: cached on disk, without the interpreter lock."""

from __future__ import annotations

from numba import njit

kernel = njit(cache=True, nogil=True)
