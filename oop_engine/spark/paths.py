"""Expand the path given to a reader: a file, the files that match a pattern, or all files in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import attrs

from oop_engine.sources.errors import SourceError
from oop_engine.sources.paths import expand
from oop_engine.uri import here, remote

#: Names of files that are being written, or are none of the user's; as Spark has it for its own sources.
_HIDDEN: Final = (".", "_")
_UNFINISHED: Final = (".part", ".tmp", ".crc")


def local(text: str | Path, what: str = "") -> Path:
    """Return a path or file: URI as a path of this machine; SourceError, naming `what` it is for, for other places."""
    place = remote(text)
    if place is not None:
        raise SourceError(
            f'{f"{what}: " if what else ""}"{text}" is on no disk of this machine, and nothing else is supported yet.\n'
            f"  Mount the place {place} as a folder on every worker, and name that."
        )
    return here(text)


@attrs.frozen
class Choice:
    """A choice of files in a folder: names that match one of `only` (all if None) and none of `but`."""

    only: tuple[str, ...] | None = None
    but: tuple[str, ...] = ()

    def takes(self, name: str) -> bool:
        """Return whether a file of this name is meant."""
        wanted = self.only is None or any(fnmatch(name, pattern) for pattern in self.only)
        return wanted and not any(fnmatch(name, pattern) for pattern in self.but)


def files(paths: Sequence[str], choice: Choice = Choice()) -> list[Path]:
    """Return the files that paths, patterns and folders name, sorted within each; SourceError where there is none."""
    found: dict[Path, None] = {}
    for text in paths:
        path = local(text)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file() and is_ready(p.relative_to(path)))
            if not inside:
                raise SourceError(f'the folder "{path}" holds no files.')
            found |= dict.fromkeys(inside)
        else:
            found |= dict.fromkeys(p for p in expand(path) if is_ready(Path(p.name)) or p == path)
    chosen = [path.absolute() for path in found if choice.takes(path.name)]
    if not chosen:
        raise SourceError(f"none of {len(found)} files has a name that the options only and except allow.")
    return chosen


def is_ready(name: Path) -> bool:
    """Return whether a file is one to read: not hidden, not a name for what is still being written."""
    return not any(part.startswith(_HIDDEN) for part in name.parts) and name.suffix not in _UNFINISHED


@attrs.frozen
class Folder:
    """A folder that grows, or the part of it that a pattern names."""

    root: Path
    pattern: str
    choice: Choice = Choice()

    @classmethod
    def of(cls, paths: Sequence[str], choice: Choice = Choice()) -> Folder:
        """Take the one path of a streaming reader: a folder, or a pattern in one; SourceError for others."""
        if len(paths) != 1:
            raise SourceError(f"a stream is read from one folder, and {len(paths)} paths are given.")
        path = local(paths[0])
        if path.is_dir():
            return cls(path.absolute(), "**/*", choice)
        if path.parent.is_dir() and any(c in path.name for c in "*?["):
            return cls(path.parent.absolute(), path.name, choice)
        raise SourceError(f'"{paths[0]}" is neither a folder nor a pattern in one, such as "{path.parent / "*.pcap"}".')

    def names(self) -> list[str]:
        """Return the files that are there, as names relative to the folder, the oldest first."""
        found: list[tuple[int, str]] = []
        for path in self.root.glob(self.pattern):
            name = path.relative_to(self.root)
            if is_ready(name) and self.choice.takes(name.name):
                try:
                    about = path.stat()
                except FileNotFoundError:  # moved away meanwhile
                    continue
                if path.is_file():
                    found.append((about.st_mtime_ns, str(name)))
        return [name for _, name in sorted(found)]
