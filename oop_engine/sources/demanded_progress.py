"""Let any thread ask a reading that makes its own promises: how finely, how far, to end.

Answers come where they belong, between the chunks of the reading, so no promise overtakes a tuple before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import attrs

from oop_engine.sources.protocol import Chunk


@attrs.frozen
class Grain:
    """The granularity of promises on an attribute: origin + k * step; without a step, as finely as is known."""

    step: int | None = None
    origin: int = 0

    def floor(self, bound: int) -> int:
        """Return the greatest bound of this grain that is not above another."""
        return bound if self.step is None else bound - (bound - self.origin) % self.step


@runtime_checkable
class Asked(Protocol):
    """A reader whose stream makes its promises while it is read."""

    def describe(self, grains: Mapping[str, Grain]) -> bool:
        """Promise these attributes so finely from now on (Tucker's describe), others as before.

        False when the stream makes no promises on them.
        """
        ...

    def poll(self) -> None:
        """Say as soon as possible how far the stream is, as exactly as that is known."""
        ...


@runtime_checkable
class Endless(Protocol):
    """A reader of what has no end of its own."""

    def stop(self) -> None:
        """End the reading after what has arrived by now."""
        ...


@runtime_checkable
class Holding(Protocol):
    """A reader that gathers tuples until they make a chunk, of which those that wait can be taken from any thread."""

    def at_hand(self) -> list[Chunk]:
        """Take what waits while the reading waits for more; it comes before all that the reading gives after."""
        ...

    @property
    def away(self) -> int | None:
        """Return since when, in ns since 1970, the oldest tuple that the reading gave last is on its way."""
        ...
