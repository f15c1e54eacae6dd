"""Common parts of what comes live: it can be read once, ends when it is told to, and makes its own promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.errors import SourceError
from oop_engine.sources.live.exporters import SECOND
from operators.data.page import Int64s
from punctuation import NO_TIME, Punctuation, before


class Live:
    """A source of what happens from now on, which promises ts itself."""

    __slots__ = ()
    if TYPE_CHECKING:
        lasting: int | None
        most: int | None

        @property
        def name(self) -> str: ...

    @property
    def rewindable(self) -> bool:
        return False

    @property
    def waits(self) -> bool:
        return True

    @property
    def lasting_name(self) -> str:
        """Return how a job calls the source, which stays the same when it is listened to elsewhere, too."""
        return self.name

    @property
    def promised(self) -> tuple[str | tuple[str, ...], ...]:
        return ("ts",)

    @property
    def ends(self) -> bool:
        """Return whether the stream has an end of its own."""
        return self.lasting is not None or self.most is not None

    def values(self, column: str) -> Iterator[Int64s]:
        raise SourceError(f"{self.name}: what is live cannot be read ahead; it makes its own promises.")


@attrs.define(eq=False)
class LiveReading:
    """One reading of what is live. All but `chunks` is for other threads than the one that reads."""

    _stopped: bool = attrs.field(init=False, default=False)
    _polled: bool = attrs.field(init=False, default=False)

    def stop(self) -> None:
        """End the reading after what has arrived by now."""
        self._stopped = True
        self.wake()

    def poll(self) -> None:
        """Say as soon as possible how far the stream is, exactly."""
        self._polled = True
        self.wake()

    def _is_polled(self) -> bool:
        """Return whether somebody has asked how far the stream is since this was last called.

        Nothing is written unless somebody has: whoever asks between a look and a write would be forgotten.
        """
        polled = self._polled
        if polled:
            self._polled = False
        return polled

    def wake(self) -> None:
        """Look soon what is asked; a reading that looks often enough has nothing to do."""

    def arrived(self) -> int | None:
        return None


@attrs.define(eq=False)
class ClockPromises:
    """Promises on ts by a clock, less the time (ns) by which what comes may be behind it."""

    slack: int
    bound: int = NO_TIME
    """What was promised last."""
    _grain: Grain = attrs.field(init=False, factory=lambda: Grain(SECOND))

    def until(self, reached: int, *, exactly: bool, assumed: bool = False) -> Iterator[Punctuation]:
        """Yield the promise that a clock allows, if it is a new one; to the grain that is asked, or `exactly`."""
        if reached == NO_TIME:
            return
        bound = reached - self.slack
        bound = bound if exactly else self._grain.floor(bound)
        if bound > self.bound:
            self.bound = bound
            yield before("ts", bound, assumed=assumed)

    def describe(self, grains: Mapping[str, Grain]) -> bool:
        """Promise ts so finely from now on; return whether that is asked."""
        self._grain = grains.get("ts", self._grain)
        return "ts" in grains
