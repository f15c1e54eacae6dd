"""A live reading goes on from a checkpoint: its state is part of it, and what came after that is in a journal.

A later reading takes in again what the journal has, step by step, before it listens. When nobody listened is a gap:
what was sent in it is lost, unless it waited in a socket.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

import attrs
import numpy as np

from oop_engine.errors import CheckpointError
from oop_engine.sources.live.door import Door
from oop_engine.sources.live.steps import Step
from oop_engine.sources.positions import Placing
from oop_engine.sources.protocol import Chunk, Snapshot
from operators.data.saved import UNFIT, read_int, read_integers
from operators.protocol import State, StateValue
from punctuation import NO_TIME

PATIENCE: Final = 1.0
"""Seconds for which a journal, or connections, are read on after the end was asked for."""


@contextmanager
def taking_up(name: str, what: str) -> Generator[None]:
    """Raise CheckpointError, naming the source, where a state is taken up within this and does not fit."""
    try:
        yield
    except UNFIT as error:
        raise CheckpointError(
            f"{name}: what the checkpoint has of its {what} cannot be taken up: {error}.\n"
            "  The state is damaged, or another version wrote it: begin anew with another --checkpoint."
        ) from error


@attrs.frozen
class Gap:
    """A time in which nobody listened, until one `began` to; what was promised of each attribute before."""

    began: int
    bounds: Mapping[str, int]


class Resuming(Protocol):
    """A live reading that goes on."""

    def state(self) -> State:
        """Return all that it knows, but for what `Resumption` does, as a copy."""
        ...

    def bounds(self) -> Mapping[str, int]:
        """Return what was promised of each attribute."""
        ...

    def listens(self, now: int) -> None:
        """Take it that somebody listened from now on, and nobody before that."""
        ...

    def ends(self, closed: tuple[tuple[bytes, int], ...]) -> None:
        """Take it that these connections are over."""
        ...

    def over(self) -> tuple[tuple[bytes, int], ...]:
        """Return the connections that ended with who read them."""
        ...

    def take(self, step: Step) -> Iterator[Chunk]:
        """Yield what a step gives: a function of it, and of what the reading knows."""
        ...


@attrs.define(eq=False)
class Resumption:
    """Answer for the state of a live reading, and write its journal; all in the thread that reads."""

    placing: Placing
    reading: Resuming
    clock: Callable[[], int]
    names: tuple[str, ...]
    """The attributes of which gaps tell what was promised."""
    live: bool = attrs.field(init=False, default=False)
    """Whether all that the journal has was taken in, so that steps are written to it."""
    gaps: list[Gap] = attrs.field(init=False, factory=list)
    """When this reading, or one before it, began to listen, since the state that it went on from."""
    again: int = attrs.field(init=False, default=0)
    """Datagrams that were taken in from the journal."""
    _answered: int = attrs.field(init=False, default=0)
    """The last request for its state that was answered."""

    @property
    def is_asked(self) -> bool:
        """Return whether the state was asked for, and not given yet."""
        return self.placing.asked != self._answered

    @property
    def resumed(self) -> bool:
        """Return whether the reading goes on from a checkpoint, or from what the journal has since the first one."""
        return self.placing.state is not None or self.again > 0

    @property
    def every(self) -> int | None:
        """Return in what time (ns) the journal is synced; None where none is written."""
        return None if self.placing.journal is None else self.placing.journal.every

    @property
    def failure(self) -> str:
        """Return why the journal cannot be written now; nothing where it can, or there is none."""
        return "" if self.placing.journal is None else self.placing.journal.failure

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Know the gaps of an earlier reading; one of the errors `UNFIT` for what is no state."""
        gaps = read_integers(state, "gaps", width=1 + len(self.names)).tolist()
        self.gaps = [Gap(began, dict(zip(self.names, bounds, strict=True))) for began, *bounds in gaps]

    def count_on(self, door: Door) -> None:
        """Have the counts of a door go on from those before."""
        if (state := self.placing.state) is not None:
            door.received, door.size, door.dropped_before = (
                read_int(state, name, least=0) for name in ("received", "size", "dropped")
            )

    def snapshot(self, door: Door, *, last: bool = False) -> Snapshot:
        """Answer who asked for the state; what comes after it goes to another segment of the journal."""
        number, journal, segment, offset = self.placing.asked, self.placing.journal, 0, 0
        if journal is not None:
            segment, offset = (journal.cut(), 0) if self.live else (journal.number, journal.offset)
            if journal.every is not None and journal.recover():
                # Who takes this in again lacks what could not be written.
                self.write(Step(self.clock(), began=True))
        self._answered = number
        # Windows that are released later end behind all gaps, and the last one reaches the furthest.
        gaps = [[gap.began, *(gap.bounds.get(name, NO_TIME) for name in self.names)] for gap in self.gaps[-1:]]
        state = {
            **self.reading.state(),
            "received": door.received,
            "size": door.size,
            "dropped": door.dropped,
            "gaps": np.array(gaps, np.int64).reshape(-1, 1 + len(self.names)),
            "segment": segment,
            "offset": offset,
        }
        return Snapshot(number, state, segment, last)

    def write(self, step: Step) -> None:
        """Write a step to the journal, if there is one to be written."""
        journal = self.placing.journal
        if journal is not None and journal.every is not None:
            journal.append(step.encoded(), step.now, 0 if step.datagrams is None else len(step.datagrams))

    def take_again(self, door: Door, began: int, stopped: Callable[[], bool]) -> Iterator[Chunk]:
        """Take in what the journal has, which does not change by that; then listen, from `began` on.

        Who is stopped meanwhile goes on for a while, to get to what waits in the socket; nothing else has that.
        """
        ends: float | None = None
        if self.placing.journal is not None:
            state, missing = self.placing.state or {"segment": 1, "offset": 0}, False
            place = read_int(state, "segment", least=0), read_int(state, "offset", least=0)
            for record in self.placing.journal.records(*place):
                if stopped():
                    ends = time.monotonic() + PATIENCE if ends is None else ends
                    if time.monotonic() > ends:
                        return
                if record is None:
                    missing = True
                    continue
                step = Step.decoded(record)
                if step.began or missing:
                    self._listen(step.now)
                    self.reading.ends(step.closed)
                missing = False
                if step.datagrams is not None:
                    self.again += len(step.datagrams)
                    door.received += len(step.datagrams)
                    door.size += int(step.datagrams.length.sum())
                if not step.began:
                    yield from self.reading.take(step)
                if self.is_asked:
                    yield self.snapshot(door)
        self.live = True
        self._listen(began)
        over = self.reading.over()
        self.reading.ends(over)
        self.write(Step(began, began=True, closed=over))

    def _listen(self, now: int) -> None:
        """Note that somebody listened from now on, and nobody before that."""
        self.reading.listens(now)
        self.gaps.append(Gap(now, dict(self.reading.bounds())))

    def notes(self) -> list[str]:
        """Say what the journal lacks."""
        return [] if self.placing.journal is None else self.placing.journal.notes()
