"""A run that goes on reads each source from where the last checkpoint was, if the source is still the one that it was.

A position counts the tuples that operators took. Where a reader can begin at a place of its own (`Seeking`), the
position also has the last such place before; what lies between is read again and left out. Other sources that can be
read twice are read from their start, and the tuples that were taken are left out.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias, runtime_checkable

import attrs
import pyarrow as pa

from oop_engine.errors import CheckpointError
from oop_engine.sources.arrival import Stamped
from oop_engine.sources.memory import Once, Rows
from oop_engine.sources.protocol import Chunk, Reader, Source
from operators.lazy import is_of
from punctuation import Punctuation

Plain: TypeAlias = Mapping[str, object]
"""JSON."""
_LOOK: Final = 1 << 16
"""Bytes at the start and the end of a file that are compared."""
_SAMPLE: Final = 1024


@runtime_checkable
class Seeking(Protocol):
    """A reader that can begin at places of its source other than the start."""

    def mark(self) -> tuple[Plain, int] | None:
        """Return the last such place before the end of the chunk given last; None where there is none.

        The number is that of the tuples that this reading gave before the place.

        Called in the thread that reads.
        """
        ...

    def seek(self, mark: Plain | None, at: int, tuples: int) -> int:
        """Let `chunks`, which was not called yet, begin as late as can be, but not behind so many tuples.

        `at` tuples are before the mark. Returns how many are before the place where it begins.
        """
        ...


@attrs.define(eq=False)
class Placing:
    """Follow one reading: which tuples were taken, and from where the next ones can be read again."""

    name: str
    tuples: int = 0
    promises: int = 0
    """Promises that were taken since the last tuple."""
    mark: Plain | None = None
    at: int = 0
    """How many tuples are before the mark."""
    ended: bool = attrs.field(default=False, init=False)
    begun: list[Callable[[int], None]] = attrs.field(factory=list, init=False)
    """Functions that are called with the number of tuples that are not read again, if any."""
    _ahead: deque[tuple[int, Plain]] = attrs.field(init=False, factory=deque)

    @classmethod
    def of(cls, name: str, position: Plain) -> Placing:
        """Go on from a position."""
        mark = position.get("mark")
        return cls(
            name,
            _count(position, "tuples", name),
            _count(position, "promises", name),
            mark if isinstance(mark, dict) else None,
            _count(position, "at", name),
        )

    def position(self) -> Plain:
        """Return where the run is."""
        return {"tuples": self.tuples, "promises": self.promises, "mark": self.mark, "at": self.at}

    def chunks(self, reader: Reader) -> Iterator[Chunk]:
        """Yield what was not taken yet; CheckpointError where the source has less than was taken."""
        seeking = reader if isinstance(reader, Seeking) else None
        begun = 0
        if seeking is not None and self.tuples:
            begun = seeking.seek(self.mark, self.at, self.tuples)
        for call in self.begun if begun else ():
            call(begun)
        skip, repeated = self.tuples - begun, self.promises
        for chunk in reader.chunks():
            if isinstance(chunk, Punctuation):
                if skip or repeated:
                    repeated -= not skip
                else:
                    yield chunk
                continue
            if seeking is not None and (mark := seeking.mark()) is not None:
                at = begun + mark[1]
                if not self._ahead or self._ahead[-1][0] != at:
                    self._ahead.append((at, mark[0]))
            if skip >= len(chunk) > 0:
                skip -= len(chunk)
                continue
            if skip:
                chunk, skip = chunk.slice(skip, len(chunk)), 0
            repeated = 0
            yield chunk
        if skip:
            raise CheckpointError(
                f"{self.name} has {self.tuples - skip:,} tuples, and {self.tuples:,} were read from it before: it was"
                " cut.\n  Put it back as it was, or begin anew with another --checkpoint and other results."
            )

    def took(self, chunk: Chunk) -> None:
        """Note that a promise, or a piece of a chunk, was taken."""
        if isinstance(chunk, Punctuation):
            self.promises += 1
            return
        self.tuples += len(chunk)
        self.promises = 0
        while self._ahead and self._ahead[0][0] <= self.tuples:
            self.at, self.mark = self._ahead.popleft()


def identity(source: Source) -> Plain:
    """Return what tells a source from another, as JSON; CheckpointError for one that cannot be read from a position."""
    if isinstance(source, Stamped):
        raise CheckpointError(
            f"{source.name}: arrival_ts is the time of reading, which is another when a run goes on.\n"
            "  Leave out arrival_ts=, or run without a checkpoint."
        )
    columns = str(source.arrow)
    paths: Sequence[object] | None = getattr(source, "paths", None)
    if paths is not None and source.rewindable:
        return {"files": [_file(path) for path in paths if isinstance(path, Path)]}
    if isinstance(source, Rows):
        return {"rows": sum(len(batch) for batch in source.batches), "columns": columns, "sample": _sample(source)}
    if is_of(source, "oop_engine.sources.generated", "GeneratedPackets"):
        return {"generated": repr(source)}
    if source.rewindable or (isinstance(source, Once) and source.again):
        return {"columns": columns}
    if isinstance(source, Once) and source.seek is not None:
        return {"columns": columns, "seek": True}
    if isinstance(source, Once):
        raise CheckpointError(
            f"{source.name} is an iterator, which gives its tuples only once, so a run cannot go on with it.\n"
            "  Give it a method seek(position), which is called with the number of tuples that were taken; or read"
            " from a file."
        )
    raise CheckpointError(
        f"{source.name} gives its data only once (standard input, a pipe, or what is heard live), so a run cannot go on"
        " with it.\n  Write it to a file first and read that (tcpdump -w capture.pcap), or run without a checkpoint."
    )


def changed(name: str, before: Plain, now: Plain) -> str | None:
    """Say what became of a source since a checkpoint; None where it is the same."""
    if before == now:
        return None
    old, new = before.get("files"), now.get("files")
    if not isinstance(old, list) or not isinstance(new, list):
        return f"{name} is not the stream that was read before"
    paths = [entry["path"] for entry in new]
    for entry in old:
        if entry["path"] not in paths:
            return f'{name}: "{entry["path"]}" was read before and is not among the files now'
    if paths != [entry["path"] for entry in old]:
        more = next((path for path in paths if path not in [entry["path"] for entry in old]), None)
        return f"{name}: the files come in another order" if more is None else f'{name}: "{more}" was not there before'
    for was, there in zip(old, new, strict=True):
        if there["bytes"] < was["bytes"]:
            return f'"{was["path"]}" was cut from {was["bytes"]:,} to {there["bytes"]:,} bytes'
        if there["bytes"] > was["bytes"]:
            return f'"{was["path"]}" has grown from {was["bytes"]:,} to {there["bytes"]:,} bytes'
        if there["head"] != was["head"]:
            return f'"{was["path"]}" was replaced or edited: its content is another'
        if there["modified"] != was["modified"]:
            return f'"{was["path"]}" was written to since, or is a copy with another time'
    return f"{name} is not the stream that was read before"


def _file(path: Path) -> Plain:
    with open(path, "rb") as file:
        about = os.fstat(file.fileno())
        digest = hashlib.sha256(file.read(_LOOK))
        file.seek(max(0, about.st_size - _LOOK))
        digest.update(file.read(_LOOK))
    where = os.path.realpath(path)
    return {"path": where, "bytes": about.st_size, "modified": about.st_mtime_ns, "head": digest.hexdigest()}


def _sample(source: Rows) -> str:
    """Return a checksum of the first and the last tuples."""
    digest = hashlib.sha256()
    for batch in (*source.batches[:1], *source.batches[-1:]):
        for start in (0, max(0, len(batch) - _SAMPLE)):
            part = pa.Table.from_batches([batch.slice(start, _SAMPLE)])
            digest.update(repr(part.to_pydict()).encode())
    return digest.hexdigest()


def _count(position: Plain, name: str, source: str) -> int:
    value = position.get(name)
    if not isinstance(value, int) or value < 0:
        raise CheckpointError(f'the position of {source} should have a number "{name}", it has {value!r}')
    return value
