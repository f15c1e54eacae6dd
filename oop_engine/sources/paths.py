"""One text names one file, many files by a pattern, or standard input, which is `-`."""

from __future__ import annotations

import glob
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO

from oop_engine.sources.errors import SourceError

STDIN = Path("-")


def expand(pattern: str | Path) -> list[Path]:
    """Give the files that a path or pattern names, sorted by name; `[STDIN]` for `-`.

    `**` matches any depth; a leading `~` is the home folder; an existing file is taken as it is, whatever characters
    its name has. Raises SourceError when there is none.
    """
    text = str(pattern)
    if text == "-":
        return [STDIN]
    path = Path(text).expanduser()
    if path.is_file() or _is_pipe(path):
        return [path]
    if path.is_dir():
        raise SourceError(f'"{text}" is a folder. Name the files in it, e.g. "{path / "*"}".')
    if glob.has_magic(str(path)):
        found = sorted(Path(p) for p in glob.glob(str(path), recursive=True) if Path(p).is_file())
        if not found:
            raise SourceError(f'no file matches "{text}".{_nearby(path)}')
        return found
    raise SourceError(f'there is no file "{text}".{_nearby(path)}')


def called(files: Sequence[object]) -> str:
    """Say which files these are: the name of the first, or "stdin" for a stream, and how many more."""
    first = files[0].name if isinstance(files[0], Path) else "stdin"
    return first if len(files) == 1 else f"{first} and {len(files) - 1} more"


def _is_pipe(path: Path) -> bool:
    return path.is_fifo() or path.is_char_device()


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
    """Give standard input as a stream of its own.

    A run that is interrupted leaves a thread behind that waits for input; were it inside sys.stdin, which the
    interpreter closes at its end, the interpreter could not end.
    """
    try:
        number = sys.stdin.fileno()
    except (OSError, ValueError):
        return sys.stdin.buffer
    return open(number, "rb", closefd=False)
