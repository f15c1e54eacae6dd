"""Of two runs that keep their state in one file, or write one output, the second is refused: a lock lies beside it.

The lock is the system's (flock) on a file that holds the number of the process that has it. It ends with that process,
however that ends; the file is removed with the lock, and one that a killed process has left is taken over.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import attrs

try:
    import fcntl
except ImportError:  # where the system has no such locks, two runs are not told apart
    fcntl = None


class Taken(Exception):
    """Say that another run has the lock; `holder` is the number of its process, as text."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder: str = holder

    @property
    def who(self) -> str:
        """Name the process."""
        return f"the process {self.holder}, which still runs" if self.holder.isdigit() else "a process that still runs"


class CannotLock(Exception):
    """Say why nothing can be locked there."""


@attrs.define(eq=False)
class Lock:
    """A lock that is held until `release`, or until nobody has it any more."""

    release: weakref.finalize[..., object] = attrs.field(init=False)

    @classmethod
    def beside(cls, path: Path) -> Lock:
        """Take the lock that lies beside a file; Taken where another run has it, CannotLock where none can be made."""
        name = path.parent / f".{path.name}.lock"
        while True:
            handle = _opened(name)
            made = cls._of(handle, name)
            # Whoever had the lock before may have removed the file since it was opened here.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(name, follow_symlinks=False)):
                    break
            made.release()
        with suppress(OSError):
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode("ascii"))
        return made

    @classmethod
    def of_file(cls, path: Path) -> Lock | None:
        """Lock a file itself, whatever names it has; None where there is none or it cannot be locked."""
        try:
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError:
            return None
        try:
            return cls._of(handle, None)
        except CannotLock:
            return None

    @classmethod
    def _of(cls, handle: int, name: Path | None) -> Lock:
        made = cls()
        made.release = weakref.finalize(made, _release, handle, name, os.getpid())
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = "" if name is None else _holder(handle)
            _close(made, handle)
            raise Taken(holder) from None
        except OSError as error:
            _close(made, handle)
            raise CannotLock(f"cannot be locked: {error.strerror}; name a file on a disk of this machine.") from None
        return made


@attrs.frozen(eq=False)
class Claim:
    """Locks that keep a file from all other runs, until `release` or until nobody has them any more.

    Neither a relative path nor a link leads around them: the name, the file that it links to and the file itself, as it
    is now, are locked.
    """

    _locks: list[Lock]

    @classmethod
    def of(cls, path: Path, *, must: bool = True) -> Claim:
        """Claim a file that is there or will be; Taken where another run has it.

        CannotLock where its folder takes no lock; unless it `must` have one, such a file is claimed as far as can be.
        """
        named = Path(os.path.realpath(path.parent), path.name)
        real = Path(os.path.realpath(path))
        locks: list[Lock] = []
        try:
            for place in dict.fromkeys((named, real)):
                try:
                    locks.append(Lock.beside(place))
                except CannotLock:
                    if must and place is named:
                        raise
            if real.is_file() and (lock := Lock.of_file(real)) is not None:
                locks.append(lock)
        except BaseException:
            cls(locks).release()
            raise
        return cls(locks)

    def release(self) -> None:
        """Let others have the file."""
        for lock in self._locks:
            lock.release()


def hold(handle: int) -> None:
    """Lock a file that is open here, as long as it is; so others tell that whoever writes it still runs."""
    with suppress(OSError):
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def abandoned(paths: Iterator[Path]) -> Iterator[Path]:
    """Yield those of files that nobody holds any more; none where the system cannot tell."""
    for path in paths:
        if fcntl is not None and not path.is_symlink():
            with suppress(Taken):
                lock = Lock.of_file(path)
                if lock is not None:
                    lock.release()
                    yield path


def _opened(name: Path) -> int:
    flags = getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.open(name, os.O_RDWR | os.O_CREAT | flags, 0o644)
    except OSError as error:
        with suppress(OSError):
            # What another user's process has left can be locked all the same.
            if isinstance(error, PermissionError):
                return os.open(name, os.O_RDONLY | flags)
        raise CannotLock(f'its lock "{name}" cannot be opened: {error.strerror}') from None


def _holder(handle: int) -> str:
    with suppress(OSError):
        return os.read(handle, 32).decode("ascii", "replace").strip()
    return ""


def _release(handle: int, name: Path | None, process: int) -> None:
    """Remove the file, if this process made it what it is, and let the lock go."""
    if name is not None and process == os.getpid():
        with suppress(OSError):
            if os.path.samestat(os.fstat(handle), os.stat(name, follow_symlinks=False)):
                os.unlink(name)
    os.close(handle)


def _close(made: Lock, handle: int) -> None:
    """Close what was not locked; its file is another's."""
    made.release.detach()
    os.close(handle)
