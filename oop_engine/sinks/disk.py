"""All file operations of a job go through one small interface, so that tests can put a simulated disk in its place.

A process that dies loses nothing that was written; a machine that dies loses what was not synced: bytes of a file until
`sync` of that file, and names (made, renamed, removed) until `sync_folder` of their folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from oop_engine.sinks.errors import WriteFailed

_WINDOWS: Final = os.name == "nt"
_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class Disk(Protocol):
    """Read, write, make durable, rename and remove. Errors of the system are told with the name of the file."""

    def read(self, path: Path) -> bytes | None:
        """Return the content of a file, None where there is none."""
        ...

    def read_part(self, path: Path, at: int, size: int) -> bytes:
        """Return bytes of a file from a place on; fewer where it ends before, none where there is no file."""
        ...

    def size(self, path: Path) -> int | None:
        """Return the number of bytes of a file, None where there is no file."""
        ...

    def is_folder(self, path: Path) -> bool:
        """Return whether a path is a folder."""
        ...

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder, sorted; none where there is no folder."""
        ...

    def make(self, folder: Path) -> None:
        """Make a folder where there is none."""
        ...

    def write(self, path: Path, data: bytes) -> None:
        """Write a new file, in place of one that has the name."""
        ...

    def append(self, path: Path, data: bytes) -> None:
        """Write behind the end of a file, which is made if need be."""
        ...

    def truncate(self, path: Path, length: int) -> None:
        """Cut a file to its first bytes."""
        ...

    def sync(self, path: Path) -> None:
        """Make the bytes of a file durable."""
        ...

    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder durable."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file; one that has the new name is replaced."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file, or an empty folder, if it is there."""
        ...


class RealDisk:
    """The disks of this machine."""

    def read(self, path: Path) -> bytes | None:
        return self._got(path, 0, None)

    def read_part(self, path: Path, at: int, size: int) -> bytes:
        return self._got(path, at, size) or b""

    def _got(self, path: Path, at: int, size: int | None) -> bytes | None:
        with _naming(path):
            try:
                handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            except FileNotFoundError:
                return None
            try:
                os.lseek(handle, at, os.SEEK_SET)
                parts, most = list[bytes](), 1 << 24
                while part := os.read(handle, most if size is None else min(most, size)):
                    parts.append(part)
                    size = None if size is None else size - len(part)
                return b"".join(parts)
            finally:
                os.close(handle)

    def size(self, path: Path) -> int | None:
        with _naming(path):
            try:
                about = os.stat(path)
            except FileNotFoundError:
                return None
            return None if stat.S_ISDIR(about.st_mode) else about.st_size

    def is_folder(self, path: Path) -> bool:
        return path.is_dir()

    def names(self, folder: Path) -> list[str]:
        with _naming(folder):
            try:
                return sorted(os.listdir(folder))
            except FileNotFoundError:
                return []

    def make(self, folder: Path) -> None:
        with _naming(folder):
            if not folder.is_dir():
                os.mkdir(folder)

    def write(self, path: Path, data: bytes) -> None:
        self._put(path, data, os.O_TRUNC)

    def append(self, path: Path, data: bytes) -> None:
        self._put(path, data, os.O_APPEND)

    def _put(self, path: Path, data: bytes, how: int) -> None:
        with _naming(path):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | _FLAGS | how, 0o666)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(handle, view) :]
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)

    def truncate(self, path: Path, length: int) -> None:
        with _naming(path):
            os.truncate(path, length)

    def sync(self, path: Path) -> None:
        self._sync(path)

    def sync_folder(self, folder: Path) -> None:
        if not _WINDOWS:  # there folders cannot be opened, and need not be
            self._sync(folder)

    def _sync(self, path: Path) -> None:
        with _naming(path):
            handle = os.open(path, os.O_RDWR if _WINDOWS else os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def rename(self, old: Path, new: Path) -> None:
        with _naming(new):
            os.replace(old, new)

    def remove(self, path: Path) -> None:
        with _naming(path):
            try:
                if path.is_dir() and not path.is_symlink():
                    os.rmdir(path)
                else:
                    os.unlink(path)
            except FileNotFoundError:
                return


@contextmanager
def _naming(path: Path) -> Generator[None, None, None]:
    try:
        yield
    except OSError as error:
        raise WriteFailed(
            f'"{path}": {error.strerror or error}.\n'
            "  The last checkpoint is whole: put that right, and run the same again to go on from there."
        ) from error
