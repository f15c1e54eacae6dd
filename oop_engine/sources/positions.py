"""A run that goes on reads each source from where the last checkpoint was, if the source is still the one that it was.

A position counts the tuples that operators took. Where a reader can begin at a place of its own (`Seeking`), the
position also has the last such place before; what lies between is read again and left out. Other sources that can be
read twice are read from their start, and the tuples that were taken are left out. What was found by reading a source
ahead is kept, too.

What comes only once (`Stateful`) is not read again. A reader of it gives its own state, among its chunks, when it is
asked: a cut is taken when operators have taken all that came before, and nothing behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

import attrs
import numpy as np

from oop_engine.errors import CheckpointError
from oop_engine.sources.protocol import Chunk, Reader, Snapshot
from operators.data.saved import UNFIT, part, read_integers
from operators.protocol import State, StateValue
from punctuation import Punctuation, Schedule

if TYPE_CHECKING:
    from oop_engine.sources.journal import Journal

_GIVEN_UP: Final = "given up "
_POSITIONS: Final = "positions of "
_BOUNDS: Final = "bounds of "
_MOST_PROMISES: Final = 1 << 20
"""Promises that are saved with each checkpoint; where there are more, the source is read ahead again."""

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
class Learning(Protocol):
    """A reader that can begin at such a place only with what it had learnt by then, as a decoder of flows does."""

    def learnt(self) -> State:
        """Return what was known at the place that `mark` returned last; nothing changes it later."""
        ...

    def take_up(self, state: Mapping[str, StateValue]) -> None:
        """Know what was known at the place that `seek` is called with next; ValueError where that cannot be."""
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
    """What a reading begins with: its own state, or what it knew at the mark; None for a new one."""
    schedules: dict[str, Schedule | None] = attrs.field(factory=dict, init=False, repr=False)
    """What reading the source ahead has shown, by what was looked for; None where that was given up."""
    journal: Journal | None = attrs.field(default=None, init=False)
    """Where such a reading writes what comes, if anywhere."""
    asked: int = attrs.field(default=0, init=False)
    """How often its state was asked for."""
    snapshot: Snapshot | None = attrs.field(default=None, init=False)
    """The last state that it gave, where operators have taken all that came before."""
    _reading: Stateful | None = attrs.field(default=None, init=False)
    _ahead: deque[tuple[int, Plain, State | None]] = attrs.field(init=False, factory=deque)

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
            if isinstance(reader, Learning) and self.mark is not None:
                if self.state is None:
                    # A savepoint of another query has none: all is read again.
                    self.mark, self.at = None, 0
                else:
                    self._take_up(reader, self.state)
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
                    self._ahead.append((at, mark[0], reader.learnt() if isinstance(reader, Learning) else None))
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

    def _take_up(self, reader: Learning, state: Mapping[str, StateValue]) -> None:
        try:
            reader.take_up(state)
        except UNFIT as error:
            raise CheckpointError(
                f"{self.name}: what was known there of templates and exporters cannot be taken up: {error}.\n"
                "  The state is damaged, or another version wrote it: begin anew with another --checkpoint."
            ) from error

    def save_schedules(self) -> State:
        """Return what the rest of the source is promised, so that nobody reads it ahead again."""
        state: State = {}
        for name, schedule in self.schedules.items():
            if schedule is None:
                state[f"{_GIVEN_UP}{name}"] = True
                continue
            left = int(np.searchsorted(schedule.positions, self.tuples))
            if len(schedule) - left <= _MOST_PROMISES:
                state[f"{_POSITIONS}{name}"] = schedule.positions[left:].copy()
                state[f"{_BOUNDS}{name}"] = schedule.bounds[left:].copy()
        return state

    def restore_schedules(self, state: Mapping[str, StateValue]) -> None:
        """Know what reading ahead has shown before; ValueError for what is no such state."""
        self.schedules = dict.fromkeys(part(_GIVEN_UP, state))
        for name in part(_POSITIONS, state):
            positions = read_integers(state, f"{_POSITIONS}{name}", least=self.tuples)
            bounds = read_integers(state, f"{_BOUNDS}{name}", length=len(positions))
            if (np.diff(positions) <= 0).any() or (np.diff(bounds) <= 0).any():
                raise ValueError(f'the saved promises of "{name}" do not rise')
            self.schedules[name] = Schedule(positions, bounds)

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
            self.at, self.mark, learnt = self._ahead.popleft()
            if learnt is not None:
                self.state = learnt


def _count(position: Plain, name: str, source: str) -> int:
    value = position.get(name)
    if not isinstance(value, int) or value < 0:
        raise CheckpointError(f'the position of {source} should have a number "{name}", it has {value!r}')
    return value
