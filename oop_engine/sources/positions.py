"""A run that goes on reads each source from where the last checkpoint was, if the source is still the one that it was.

A position counts the tuples that operators took. Where a reader can begin at a place of its own (`Seeking`), the
position also has the last such place before; what lies between is read again and left out. Other sources that can be
read twice are read from their start, and the tuples that were taken are left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

import attrs

from oop_engine.errors import CheckpointError
from oop_engine.sources.protocol import Chunk, Reader
from punctuation import Punctuation

Plain: TypeAlias = Mapping[str, object]
"""JSON."""


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


def _count(position: Plain, name: str, source: str) -> int:
    value = position.get(name)
    if not isinstance(value, int) or value < 0:
        raise CheckpointError(f'the position of {source} should have a number "{name}", it has {value!r}')
    return value
