"""A signal comes from outside of a stream: an event that somebody names, or a tick of a clock.

Operators read no clock and wait for nobody. A driver hands them signals between two elements, so that what they make of
these depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, TypeAlias, runtime_checkable

import attrs

from operators.protocol import Emit


@attrs.frozen
class Event:
    """An event that is told by its name."""

    name: str

    def __str__(self) -> str:
        return f"on '{self.name}'"


@attrs.frozen
class Clock:
    """A tick of a clock that ticks once in so many ns of processing time."""

    period: int

    def __str__(self) -> str:
        return f"every {self.period / 1e9:g} s by the clock"


Signal: TypeAlias = Event | Clock


@runtime_checkable
class HearsPromises(Protocol):
    """An operator for which it matters behind which tuples a promise comes."""

    @property
    def hears_promises(self) -> bool:
        """Return whether it does matter: then sources make each promise right behind the tuple that it follows from."""
        ...


@runtime_checkable
class HearsSignals(Protocol):
    """An operator that emits something because of a signal."""

    def signals(self) -> Collection[Signal]:
        """Return the signals that it hears; others make no difference."""
        ...

    def signal(self, signal: Signal, emit: Emit) -> None:
        """Take a signal, between two elements, and emit what follows from it."""
        ...
