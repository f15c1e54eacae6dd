"""A run that goes on reads each source from where the last checkpoint was, if the source is still the one that it was.

A position counts the tuples that operators took. Where a reader can begin at a place of its own (`Seeking`), the
position also has the last such place before; what lies between is read again and left out. Other sources that can be
read twice are read from their start, and the tuples that were taken are left out.

What comes only once (`Stateful`) is not read again. A reader of it gives its own state, among its chunks, when it is
asked: a cut is taken when operators have taken all that came before, and nothing behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import attrs

from oop_engine.errors import CheckpointError
from oop_engine.sources.protocol import Chunk, Reader, Snapshot
from operators.protocol import StateValue
from punctuation import Punctuation

if TYPE_CHECKING:
    from oop_engine.sources.journal import Journal

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


@runtime_checkable
class Stateful(Protocol):
    """A reader of what comes only once, which goes on from a state that an earlier one was in."""

    def go_on(self, placing: Placing) -> None:
        """Begin with the state of a placing and with what its journal has behind that; called before `chunks`.

        `chunks` then gives a Snapshot as often as the placing has `asked`, and one at its end.
        """
        ...

    def wake(self) -> None:
        """Look soon what is asked, from any thread."""
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
    state: Mapping[str, StateValue] | None = attrs.field(default=None, init=False, repr=False)
    """The state that a reading of what comes only once begins with, None for a new one."""
    journal: Journal | None = attrs.field(default=None, init=False)
    """Where such a reading writes what comes, if anywhere."""
    asked: int = attrs.field(default=0, init=False)
    """How often its state was asked for."""
    snapshot: Snapshot | None = attrs.field(default=None, init=False)
    """The last state that it gave, where operators have taken all that came before."""
    _reading: Stateful | None = attrs.field(default=None, init=False)
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
        if isinstance(reader, Stateful):
            reader.go_on(self)
            self._reading = reader
            yield from reader.chunks()
            return
        seeking = reader if isinstance(reader, Seeking) else None
        begun = 0
        if seeking is not None and self.tuples:
            begun = seeking.seek(self.mark, self.at, self.tuples)
        for call in self.begun if begun else ():
            call(begun)
        skip, repeated = self.tuples - begun, self.promises
        for chunk in reader.chunks():
            if isinstance(chunk, Snapshot):
                continue
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

    def ask(self) -> None:
        """Have a reading of what comes only once give its state."""
        self.asked += 1
        if self._reading is not None:
            self._reading.wake()

    @property
    def awaited(self) -> bool:
        """Return whether its state is to come; a reading that has not begun is in the state it begins with."""
        if self._reading is None:
            return False
        return self.snapshot is None or not (self.snapshot.last or self.snapshot.number >= self.asked)

    def took(self, chunk: Chunk) -> None:
        """Note that a promise, a state, or a piece of a chunk, was taken."""
        if isinstance(chunk, Snapshot):
            self.snapshot = chunk
            return
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
