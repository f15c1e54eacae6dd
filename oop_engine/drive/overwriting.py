"""No run replaces what it reads, nor one of its results by another: every file that it writes is for one thing alone.

Files are told apart by where they are, whatever links lead there. Pipes and devices are written as results come and
replace nothing.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

from oop_engine.plan.graph import Plan
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.protocol import Sink
from oop_engine.sources.paths import STDIN, Pipe

if TYPE_CHECKING:
    from oop_engine.sinks import FileSink


@runtime_checkable
class FromFiles(Protocol):
    """A source that reads files, or streams that may be files."""

    @property
    def paths(self) -> Sequence[object]:
        """Return the paths, and the open binary streams."""
        ...


@runtime_checkable
class InFile(Protocol):
    """A sink that writes a file or a folder."""

    @property
    def path(self) -> Path:
        """Return where that is, as the user named it."""
        ...


@runtime_checkable
class InTable(Protocol):
    """A sink that writes a table of a server."""

    @property
    def named_table(self) -> str:
        """Return the database and the table in one text, without the user and options."""
        ...


@attrs.frozen
class _Written:
    """A file that a run writes, as the user wrote it, and what comes into it."""

    path: str
    what: str


def check_files(plan: Plan, sinks: Sequence[Sink] = (), partial: FileSink | None = None) -> None:
    """Check that results, late tuples and what is read are in files of their own; SinkError names both uses of one.

    `partial` takes what windows that are open have so far.
    """
    known: dict[str, _Written] = {}
    open_ones = () if partial is None else (_Written(str(partial.path), "what open windows have so far"),)
    for written in (*_results(sinks), *open_ones, *_late(plan)):
        place = _place(written.path)
        if place is None:
            continue
        other = known.setdefault(place, written)
        if other is not written:
            same = "" if other.path == written.path else f', which is "{other.path}",'
            raise SinkError(
                f'"{written.path}"{same} is for {other.what}, so it cannot be for {written.what} too.\n'
                "  Name another file for these."
            )
    if known:
        _check_read(plan, known)


def _check_read(plan: Plan, known: dict[str, _Written]) -> None:
    """Refuse to write what is read."""
    for node in plan.sources.values():
        for given in node.source.paths if isinstance(node.source, FromFiles) else ():
            written = _written(given, known)
            if written is not None:
                raise SinkError(
                    f'"{written.path}" is read as stream {node.label}; {written.what} would replace it.\n'
                    "  Name another file."
                )


def _written(given: object, known: dict[str, _Written]) -> _Written | None:
    """Return what would be written over a path or stream that is read, if anything would."""
    stream = sys.stdin if given == STDIN else given
    if isinstance(stream, str | Path | Pipe):
        place = _place(str(stream.path if isinstance(stream, Pipe) else stream))
        return None if place is None else known.get(place)
    try:
        read = os.fstat(stream.fileno())  # pyright: ignore[reportAttributeAccessIssue]
    except (AttributeError, OSError, ValueError):
        return None
    return next(
        (w for place, w in known.items() if os.path.isfile(place) and os.path.samestat(read, os.stat(place))), None
    )


def _results(sinks: Sequence[Sink]) -> Iterator[_Written]:
    for number, sink in enumerate(sinks):
        what = "the results" if len(sinks) == 1 else f"the results of output {number}"
        if isinstance(sink, InFile):
            yield _Written(str(sink.path), what)
        elif isinstance(sink, InTable):
            yield _Written(sink.named_table, what)


def _late(plan: Plan) -> Iterator[_Written]:
    for node in plan.sources.values():
        if isinstance(node.divert, str):
            yield _Written(node.divert, f"the late tuples of {node.label}")


def _place(path: str) -> str | None:
    """Return where a file is, or will be; None for what is no file and no folder."""
    place = os.path.realpath(os.path.expanduser(path))
    if path == "-":
        return None
    try:
        mode = os.stat(place).st_mode
    except OSError:
        return place
    return place if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else None
