"""Of two collectors that name the same file for their state, the second is refused: a lock lies beside the file.

The lock is the system's (flock) on a file that stays and holds the number of the process that has it. It ends with that
process, however that ends, so none is left behind to be removed by hand.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path

import attrs

from oop_engine.sources.errors import SourceError

try:
    import fcntl
except ImportError:  # where the system has no such locks, two collectors are not told apart
    fcntl = None


@attrs.define(eq=False)
class Lock:
    """A lock that is held until `release`, or until nobody has it any more."""

    release: weakref.finalize = attrs.field(init=False)

    @classmethod
    def beside(cls, path: Path) -> Lock:
        """Take the lock of a file; SourceError, which names the process that has it, where another one has."""
        name = path.parent / f".{path.name}.lock"
        try:
            handle = os.open(name, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        except OSError as error:
            raise SourceError(f'state="{path}": its lock "{name}" cannot be opened: {error.strerror}') from None
        made = cls()
        made.release = weakref.finalize(made, os.close, handle)
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
                made.release()
                raise SourceError(
                    f'state="{path}" is kept by another collector, the process {holder}, which still runs.\n'
                    "  End that one first, or name another file: each collector keeps its own."
                ) from None
            except OSError as error:
                made.release()
                raise SourceError(
                    f'state="{path}" cannot be locked: {error.strerror}; name a file on a disk of this machine.'
                ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode("ascii"), 0)
        return made
