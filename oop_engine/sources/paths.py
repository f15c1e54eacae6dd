"""Expand the paths of users: one file, many files by a pattern, or standard input, which is `-`."""

from __future__ import annotations

import glob
import io
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from oop_engine.errors import PlanError
from oop_engine.sources.errors import SourceError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STDIN = Path("-")


def expand(pattern: str | Path) -> list[Path]:
    """Return the files that a path or pattern names, sorted by name; `[STDIN]` for `-`.

    `**` matches any depth; a leading `~` is the home folder; an existing file is taken as it is, whatever characters
    its name has. Raises SourceError when there is none.
    """
    text = str(pattern)
    if text == "-":
        return [STDIN]
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:
        raise SourceError(
            f'"{text}": there is no such user, or no home.\n  Write the whole path, or ./{text}'
        ) from error
    if path.is_file() or is_pipe(path):
        return [path]
    if path.is_dir():
        raise SourceError(f'"{text}" is a folder. Name the files in it, e.g. "{path / "*"}".')
    if glob.has_magic(str(path)):
        found = sorted(Path(p) for p in glob.glob(str(path), recursive=True) if Path(p).is_file())
        if not found:
            raise SourceError(f'no file matches "{text}".{_nearby(path)}')
        return found
    raise SourceError(f'there is no file "{text}".{_nearby(path)}')


def check_places(
    where: str, places: Sequence[object], *, example: str = "", takes: str = "paths or binary streams"
) -> None:
    """Check what a function was given to read; PlanError, naming the function, for nothing and for what is no place."""
    if not places:
        raise PlanError(f'{where} needs at least one file, e.g. oop.{where}("{example}")')
    for place in places:
        if not isinstance(place, (str, Path)) and (takes == "paths" or not hasattr(place, "read")):
            hint = f" Write {where}(*paths)." if isinstance(place, (list, tuple)) else ""
            raise PlanError(f"{where} takes {takes}, and {type(place).__name__} is none.{hint}")
        if isinstance(place, io.TextIOBase):
            inside = "io.BytesIO(text.encode())" if isinstance(place, io.StringIO) else 'open(path, "rb"), or the path'
            raise PlanError(f"{where} takes {takes}, and {type(place).__name__} gives text.\n  Write {inside}.")


def opened(places: Sequence[str | Path | BinaryIO]) -> list[Path | BinaryIO]:
    """Return the files that places name, patterns expanded, and as streams what gives its bytes only once."""
    found: list[Path | BinaryIO] = []
    for place in places:
        if not isinstance(place, (str, Path)):
            found.append(place)
        elif str(place) == "-":
            found.append(standard_input())
        else:
            found += [Pipe(path) if is_pipe(path) else path for path in expand(place)]
    return found


def called(files: Sequence[object]) -> str:
    """Say which files these are: the name of the first, which may be a stream's, and how many more."""
    given = files[0].path if isinstance(files[0], Pipe) else files[0]
    first = Path(given if isinstance(given, Path) else stream_name(given)).name
    return first if len(files) == 1 else f"{first} and {len(files) - 1} more"


def stream_name(stream: object) -> str:
    """Name a stream as people do: by its file, as standard input, else by its descriptor."""
    name = getattr(stream, "name", "stream")
    if name in (0, "<stdin>"):
        return "standard input"
    return f"file descriptor {name}" if isinstance(name, int) else str(name)


def is_pipe(path: Path) -> bool:
    """Return whether a path gives its bytes only once: a named pipe, /dev/fd/63 of a shell's <(...), a terminal."""
    return path.is_fifo() or path.is_char_device()


class Pipe(io.BufferedReader):
    """The bytes behind a path that gives them only once, as a stream that is opened when the first are asked for.

    Opening a named pipe waits for somebody who writes into it; what is only planned or explained does not wait.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(_Unopened(path))
        self.path = path


class _Unopened(io.RawIOBase):
    """A file that is opened by the first use of its bytes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.name = str(path)
        self._file: io.FileIO | None = None

    def _opened(self) -> io.FileIO:
        if self._file is None:
            self._file = io.FileIO(self.name)
        return self._file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        return self._opened().readinto(buffer)

    def fileno(self) -> int:
        return self._opened().fileno()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()


def _nearby(path: Path) -> str:
    """Say what there is instead: a name alike, or the folder that is missing."""
    folder = path.parent
    if glob.has_magic(str(folder)):
        return ""
    if not folder.is_dir():
        where = "" if folder.is_absolute() else f" It was looked for in {Path.cwd()}."
        return f'\n  There is no folder "{folder}" either.{where}'
    names = sorted(p.name for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    near = get_close_matches(path.name, names, 1, 0.6)
    if near:
        return f'\n  Did you mean "{folder / near[0]}"?'
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else ".")
    return f'\n  "{folder}" holds {shown}' if names else f'\n  "{folder}" holds no files.'


def standard_input() -> BinaryIO:
    """Return standard input as a stream of its own.

    A run that is interrupted leaves a thread behind that waits for input; were it inside sys.stdin, which the
    interpreter closes at its end, the interpreter could not end.
    """
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise SourceError("standard input is closed, and a stream was to be read from it; name a file in its place.")
    try:
        number = sys.stdin.fileno()
    except (OSError, ValueError):
        return sys.stdin.buffer
    return open(number, "rb", closefd=False)
