"""A file takes its name when it is whole and synced, and only if no other has it: a second writer is refused.

A name is taken by a hard link, which fails where the name is there. File systems without hard links take a lock (flock)
on a file in the same folder, and look before they rename.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from oop_engine.sinks.files import sync_folder

try:
    import fcntl
except ImportError:  # where the system has neither hard links nor such locks, two writers are not told apart
    fcntl = None


def claim(path: Path, data: bytes) -> bool:
    """Write a file, whole or not at all; False, and nothing is changed, where there is one of that name."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        with open(unfinished, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        taken = _take(path, unfinished)
    finally:
        with suppress(FileNotFoundError):
            unfinished.unlink()
    sync_folder(path.parent)
    return taken


def _take(path: Path, unfinished: Path) -> bool:
    try:
        os.link(unfinished, path)
    except FileExistsError:
        # A file server may have made the link and lost its answer.
        return os.path.samefile(unfinished, path)
    except OSError:
        with _alone(path.parent):
            if path.exists():
                return False
            os.replace(unfinished, path)
    return True


@contextmanager
def _alone(folder: Path) -> Generator[None, None, None]:
    """Keep other writers of a folder out."""
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
