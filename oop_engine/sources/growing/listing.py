"""The files that are there now, told apart by what the disk says of them and by how they begin."""

from __future__ import annotations

import glob
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, TypeAlias

import attrs

from oop_engine.sources.capture.compression import PackedDamage, Plain, unpack

Order: TypeAlias = Literal["name", "time"]
HEAD: Final = 64
"""Bytes at the start of a file that tell it from another of the same number."""
_UNFINISHED: Final = ("nfcapd.current", ".")
"""How the names of files begin that another program is still writing, and will rename."""


@attrs.frozen
class Found:
    """A file as it is now."""

    path: Path
    device: int
    inode: int
    size: int
    modified: int

    @property
    def key(self) -> tuple[int, int]:
        """Return what stays the same when the file is renamed."""
        return self.device, self.inode


def listed(places: Iterable[Path], order: Order) -> list[Found]:
    """Return the files that places name now: files, patterns and folders; each once, by name or by time.

    Hidden files, files that end in .tmp or .part, and nfcapd.current are left out of folders and patterns.
    """
    found = {about.path: about for place in places for path in _paths(place) if (about := looked_at(path)) is not None}
    if order == "time":
        return sorted(found.values(), key=lambda file: (file.modified, file.path))
    return sorted(found.values(), key=lambda file: file.path)


def looked_at(path: Path) -> Found | None:
    """Return a file as it is now; None where there is none."""
    try:
        about = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(about.st_mode):
        return None
    return Found(path, about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)


def elsewhere(path: Path, key: tuple[int, int]) -> Found | None:
    """Return a file that was renamed within its folder; None where it is not there."""
    try:
        with os.scandir(path.parent) as entries:
            paths = [Path(entry.path) for entry in entries if entry.inode() == key[1]]
    except (FileNotFoundError, NotADirectoryError):
        return None
    files = [file for there in paths if (file := looked_at(there)) is not None and file.key == key]
    return files[0] if files else None


def head_of(path: Path, size: int) -> tuple[int, str]:
    """Return how many bytes of the start of a file were read, at most `size`, and their digest."""
    with open(path, "rb") as file:
        head = file.read(min(size, HEAD))
    return len(head), hashlib.sha256(head).hexdigest()[:16]


def renamed(places: Iterable[Path]) -> list[Path]:
    """Return patterns of the names that files get that are renamed as logs are: with something behind the name."""
    return [Path(f"{place}*") for place in places if not place.is_dir() and not str(place).endswith("*")]


def unpacked_head(path: Path) -> str | None:
    """Return the digest of how a packed file begins, as `head_of` has it; None where it is too short, or damaged."""
    held = b""
    try:
        with open(path, "rb") as file:
            source = unpack(Plain(file))
            while len(held) < HEAD and (piece := source.read(HEAD - len(held))):
                held += piece
    except (PackedDamage, OSError):
        return None
    return hashlib.sha256(held[:HEAD]).hexdigest()[:16] if len(held) >= HEAD else None


def _paths(place: Path) -> Iterator[Path]:
    if place.is_dir():
        names: Iterable[Path] = place.iterdir()
    elif glob.has_magic(str(place)) and not place.exists():
        names = map(Path, glob.glob(str(place), recursive=True))
    else:
        yield place
        return
    yield from (
        path for path in names if not path.name.startswith(_UNFINISHED) and path.suffix not in (".tmp", ".part")
    )
