"""Common parts of sources and readers: streams of files, streams that come only once, readings with nothing to tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from oop_engine.sources.paths import called
from operators.data.page import Int64s


class Reading:
    """A reader that replays no arrival times and has nothing to tell, unless it says otherwise."""

    __slots__ = ()

    def arrived(self) -> int | None:
        return None

    def notes(self) -> list[str]:
        return []


class Lasting:
    """A source that can be read any number of times, and makes no promises."""

    __slots__ = ()

    @property
    def rewindable(self) -> bool:
        return True

    @property
    def promised(self) -> tuple[str, ...]:
        return ()


class Passing:
    """A source that comes only once."""

    __slots__ = ()
    name: str

    @property
    def rewindable(self) -> bool:
        return False

    def values(self, column: str) -> Iterator[Int64s]:
        raise TypeError(f"{self.name} comes only once; its values cannot be read ahead")


class OfFiles:
    """A source that reads files one after the other as one stream, or an open stream once."""

    __slots__ = ()
    label: str
    if TYPE_CHECKING:

        @property
        def paths(self) -> Sequence[Path | BinaryIO]: ...

    @property
    def name(self) -> str:
        return self.label or called(self.paths)

    @property
    def rewindable(self) -> bool:
        return all(isinstance(path, Path) for path in self.paths)

    @property
    def waits(self) -> bool:
        return not self.rewindable

    @property
    def promised(self) -> tuple[str | tuple[str, ...], ...]:
        return ()


def size_of(paths: Iterable[Path | BinaryIO]) -> int | None:
    """Return the bytes of all files; None where one is an open stream or none that has a size."""
    return total(path.stat().st_size if isinstance(path, Path) and path.is_file() else None for path in paths)


def total(sizes: Iterable[int | None]) -> int | None:
    """Return the sum of sizes; None where one is not known."""
    found = 0
    for size in sizes:
        if size is None:
            return None
        found += size
    return found
