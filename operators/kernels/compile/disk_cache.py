"""Compiled kernels are kept on disk, a file for each kernel, its argument types and the processor.

A file is named after the kernel's fingerprint, so code made of other sources, constants or versions is never found.
Files come into place whole and hold a digest of themselves: neither processes at the same time nor a full disk leave
one that is read and wrong. Whatever goes wrong with a file, the kernel is compiled again.
A wheel may bring kernels that were compiled for a class of processors. They are used where there is none for this very
processor, so that the first query of a machine waits for no compiler.
This is the one module below oop_engine that touches files: numba would do it where this does.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, Final

from operators.kernels.compile import compiler
from operators.kernels.compile.fingerprint import fingerprint

FOLDER: Final = "oop-engine-kernels"
BROUGHT: Final = Path(__file__).parent.parent / "brought"
"""Where the kernels are that came with the wheel, if it has any."""
_TEMPORARY: Final = f"{FOLDER}-"
_SUFFIX: Final = ".kernel"
_DIGEST: Final = 32
_DAY: Final = 86_400
OWN: Final = "OOP_OWN_KERNELS"
"""The variable of the environment that lets all kernels be compiled for this processor, whatever the wheel brought."""
UNUSED: Final = 30 * _DAY
"""Seconds after which a file that no run has used is removed."""
VERSIONS: Final = 32
"""Files of one kernel that are kept: argument types, processors, and what it was before it was changed."""


class Kept:
    """The storage of one kernel. Nothing is looked up, on disk or in memory, before the kernel is first called."""

    def __init__(self, kernel: object) -> None:
        self.kernel = kernel

    @property
    def cache_path(self) -> str | None:
        """Return the folder that new files go to, as numba's own storage tells it."""
        return None if _folders.chosen is None else str(_folders.chosen)

    @property
    def stem(self) -> str | None:
        """Return how the names of this kernel's files begin; None for one that cannot be kept."""
        found = fingerprint(self.kernel)
        return None if found is None else f"{self._name}-{found}"

    @property
    def _name(self) -> str:
        function = compiler.python_of(self.kernel)
        assert function is not None
        return re.sub(r"[^\w.]", "", f"{function.__module__}.{function.__qualname__}")

    def load_overload(self, sig: object, target_context: Any) -> compiler.Compiled | None:
        """Return what was compiled for these argument types; None when there is nothing, or nothing whole."""
        name = self._file(sig, compiler.processor(target_context))
        if name is None:
            return None
        places = [folder / name for folder in _folders.read()]
        if brings():
            places += [BROUGHT / str(self._file(sig, level)) for level in compiler.levels(target_context)]
        data = next(filter(None, map(_read, places)), None)
        return None if data is None else compiler.read(data, target_context)

    def save_overload(self, sig: object, data: compiler.Compiled) -> None:
        """Keep what was compiled for these argument types, if it can be kept."""
        name = self._file(sig, compiler.processor(data.target_context))
        written = None if name is None else compiler.written(data)
        if name is not None and written is not None:
            _folders.write(self._name, name, written)

    def flush(self) -> None:
        """Leave all as it is: files of other sources are not found anyway."""

    enable = disable = flush

    def _file(self, sig: object, processor: str) -> str | None:
        stem = self.stem
        if stem is None:
            return None
        of = f"{sig}\n{processor}"
        return f"{stem}-{hashlib.blake2b(of.encode(), digest_size=10).hexdigest()}{_SUFFIX}"


def found(module: ModuleType) -> bool:
    """Return whether an earlier run has left a kernel of a module as it is now, or the wheel brought one."""
    kernels = [kept for value in vars(module).values() if isinstance(kept := getattr(value, "_cache", None), Kept)]
    stems = {f"{kept.stem}-" for kept in kernels}
    return any(
        name.startswith(stem)
        for folder in (*_folders.read(), *([BROUGHT] if brings() else ())) if folder.is_dir()
        for name in os.listdir(folder)
        for stem in stems
    )  # fmt: skip


@cache
def brings() -> bool:
    """Return whether kernels came with the wheel, and are to be used."""
    return BROUGHT.is_dir() and not os.environ.get(OWN)


def prepare() -> None:
    """Choose the folder now, so that processes that are started from here on keep their kernels in the same one."""
    if not compiler.interpreted() and compiler.storable():
        _folders.choose()


def recall(name: str, key: str) -> bytes | None:
    """Return what `remember` kept under a name and a key; None when there is nothing, or nothing whole."""
    found = (_read(folder / _named(name, key)) for folder in (*_folders.read(), BROUGHT))
    return next((data for data in found if data is not None), None)


def remember(name: str, key: str, data: bytes) -> None:
    """Keep something else that takes long to compute beside the kernels, where a folder can be written."""
    folder = _folders.chosen or next(filter(_is_writable, _candidates()), None)
    if folder is not None:
        with contextlib.suppress(OSError):
            _write(folder / _named(name, key), data)
            _limit(folder, name)


def _named(name: str, key: str) -> str:
    return f"{name}-{hashlib.blake2b(key.encode(), digest_size=10).hexdigest()}{_SUFFIX}"


def lasting() -> Path | None:
    """Return the folder that kernels are kept in from run to run; None where there is none."""
    prepare()
    chosen = _folders.chosen
    return None if chosen is None or chosen.name.startswith(_TEMPORARY) else chosen


def count(folder: Path) -> int:
    """Return how many kernels a folder has, by argument types, and with those of other versions."""
    return sum(name.endswith(_SUFFIX) for name in os.listdir(folder)) if folder.is_dir() else 0


class _Folders:
    """Where this process finds compiled kernels, and where it puts new ones, which is chosen when there are some."""

    def __init__(self) -> None:
        self.chosen: Path | None = None
        self._asked = False
        self._given_up = False
        self._choosing = Lock()

    def read(self) -> list[Path]:
        """Return the folders to look in."""
        chosen = [] if self.chosen is None or self.chosen in _candidates() else [self.chosen]
        return [*_candidates(), *chosen]

    def choose(self) -> Path | None:
        """Return the folder that new files go to; None when there is none, not even a temporary one."""
        # Threads that compile at the same time wait until it is chosen, rather than keep nothing.
        with self._choosing:
            if not self._asked:
                self._asked = True
                self._choose()
        return self.chosen

    def _choose(self) -> None:
        self.chosen = next(filter(_is_writable, _candidates()), None)
        if self.chosen is None:
            self.chosen = _temporary()
            _say(
                "compiled kernels cannot be kept, since none of these folders can be written: "
                f"{', '.join(map(str, _candidates())) or 'no folder is known'}; each run so compiles them anew, "
                "which takes some fifteen seconds, until NUMBA_CACHE_DIR names a folder that can be written."
            )
        else:
            _clean(self.chosen)

    def write(self, kernel: str, name: str, data: bytes) -> None:
        folder = None if self._given_up else self.choose()
        if folder is None:
            return
        try:
            if not folder.name.startswith(_TEMPORARY):
                # Somebody may have emptied the cache under way; what is temporary goes for good.
                folder.mkdir(parents=True, exist_ok=True)
            _write(folder / name, data)
            _limit(folder, kernel)
        except OSError as error:
            self._given_up = True
            if folder.is_dir():
                _say(
                    f"compiled kernels cannot be kept in {folder} ({error.strerror or error}), so the next run "
                    "compiles them anew; NUMBA_CACHE_DIR names another folder."
                )


_folders = _Folders()


@cache
def _candidates() -> tuple[Path, ...]:
    """Return where kernels may be kept, the best place first."""
    named = compiler.cache_folder()
    if named:
        folder = Path(named)
        # A temporary folder of a process that has ended may be somebody else's by now.
        if folder.name.startswith(_TEMPORARY):
            return (folder,) if _is_own(folder) else ()
        return (folder / FOLDER,)
    home = _home()
    return (Path(__file__).parent / "__pycache__" / FOLDER, *(() if home is None else (home / FOLDER,)))


def _home() -> Path | None:
    """Return the user's folder for caches, if there is a user with a home; root reads nobody else's."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if os.name == "nt":
        folder = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        folder = home / "Library" / "Caches"
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    existing = next((parent for parent in (folder / FOLDER, folder, home) if parent.is_dir()), None)
    return folder if existing is not None and _is_own(existing) else None


def _is_own(folder: Path) -> bool:
    user = getattr(os, "geteuid", None)
    try:
        return folder.is_dir() and (user is None or folder.stat().st_uid == user())
    except OSError:
        return False


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _temporary() -> Path | None:
    """Make a folder that only this user may enter and that is removed when this process ends; None if none can be."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{_TEMPORARY}{os.getpid()}-"))
    except OSError:
        return None
    # Processes that this one starts use it as well, and need not say it again.
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    atexit.register(_remove, folder, os.getpid())
    for left in folder.parent.glob(f"{_TEMPORARY}*"):
        if _is_own(left) and not _runs(left.name.removeprefix(_TEMPORARY).partition("-")[0]):
            shutil.rmtree(left, ignore_errors=True)
    return folder


def _remove(folder: Path, owner: int) -> None:
    # A forked process ends before the one that made the folder.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _runs(number: str) -> bool:
    """Return whether a process of this number runs; True where that can't be asked."""
    if os.name != "posix" or not number.isdigit():
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _read(path: Path) -> bytes | None:
    """Return what is in a file; None when there is none, or it is damaged."""
    try:
        data = path.read_bytes()
        digest, body = data[:_DIGEST], data[_DIGEST:]
        if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
            return None
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - _DAY:
                os.utime(path)
    except OSError:
        return None
    return body


def _write(path: Path, body: bytes) -> None:
    part = path.with_name(f"{uuid.uuid4().hex}.part")
    try:
        part.write_bytes(hashlib.blake2b(body, digest_size=_DIGEST).digest() + body)
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _clean(folder: Path) -> None:
    """Remove what no run has used for a month, and what killed runs have left."""
    oldest = time.time() - UNUSED
    for path, used in _used(folder, ""):
        if used < oldest or (path.suffix == ".part" and used < time.time() - _DAY):
            with contextlib.suppress(OSError):
                path.unlink()


def _limit(folder: Path, kernel: str) -> None:
    """Remove the files of a kernel that were used longest ago."""
    files = sorted(_used(folder, f"{kernel}-"), key=lambda file: file[1])
    for path, _ in files[:-VERSIONS]:
        with contextlib.suppress(OSError):
            path.unlink()


def _used(folder: Path, begin: str) -> Iterator[tuple[Path, float]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(begin) and entry.name.endswith((_SUFFIX, ".part")):
                with contextlib.suppress(OSError):
                    yield Path(entry.path), entry.stat().st_mtime


def _say(sentence: str) -> None:
    # It is None, or closed, where nobody listens.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(f"oop-engine: {sentence}\n")
        sys.stderr.flush()
