"""Measure the memory there is, and keep what a page has used for the next one, which need not clear it anew."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

_TRIM, _MMAP = -1, -3
_KEPT: Final = 1 << 29
_PIECE: Final = 1 << 25
_BOUNDLESS: Final = 1 << 62


@cache
def keep_pages() -> bool:
    """Ask the C library to keep up to half a gigabyte of freed memory; False where it is not glibc, and all stays.

    The arrays of a page are some megabytes each. By default they go back to the system as soon as they are freed, and
    the same memory, cleared, is asked for again for the next page: a tenth of the time of an aggregation.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        adjust = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(adjust(_MMAP, _PIECE) and adjust(_TRIM, _KEPT))


@cache
def most() -> int:
    """Return how many bytes this process may use: what the machine has, or a container or a limit leaves of it."""
    found = [_BOUNDLESS]
    with suppress(AttributeError, OSError, ValueError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            found.append(int(Path("/sys/fs/cgroup", name).read_text("ascii")))
    with suppress(ImportError, AttributeError):
        resource = import_module("resource")
        found.append(resource.getrlimit(resource.RLIMIT_AS)[0])
    return min(size for size in found if size > 0)
