"""Small chunks of a source are read several at a time: a call in another thread costs more than a small chunk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import attrs

from oop_engine.sources.protocol import Chunk
from punctuation import Punctuation

ENOUGH: Final = 1 << 13
"""Tuples that are enough for one call."""
_MANY: Final = 16
"""Chunks of one call at most, so that a source is not read far beyond what is wanted."""
_LONG: Final = 1e-3
"""Seconds after which a call gives what it has."""
_QUICK: Final = 2e-4
"""A source that took longer than so many seconds for a chunk may take long for the next one, too."""
_STEADY: Final = 16
"""Chunks that were taken at once, one after the other, before several are read together."""


@attrs.define(eq=False)
class Several:
    """Take chunks as they come, and give several that came quickly in one call, if who takes them keeps up.

    Of who does not, a source is to feel it at once: it is then read chunk by chunk. While a call waits for a further
    chunk, another thread may take those `at_hand`.
    """

    chunks: Iterator[Chunk]
    clock: Callable[[], float] = time.monotonic
    _held: list[Chunk] = attrs.field(init=False, factory=list)
    _taking: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _error: Exception | None = attrs.field(init=False, default=None)
    _in_a_row: int = attrs.field(init=False, default=0)

    @property
    def together(self) -> bool:
        """Return whether the next call may take several, and so hold some while it waits for others."""
        return self._in_a_row >= _STEADY

    def taken(self, *, at_once: bool) -> None:
        """Note whether what was given was taken at once, or had to wait."""
        self._in_a_row = self._in_a_row + 1 if at_once else 0

    def next(self) -> Chunk | list[Chunk] | None:
        """Return the next chunk, or several in a list; None at the end. Chunks come before an error behind them."""
        began = before = self.clock()
        tuples = chunks = 0
        while self._error is None:
            try:
                chunk = next(self.chunks, None)
            except Exception as error:
                self._error = error
                break
            if chunk is None:
                break
            with self._taking:
                self._held.append(chunk)
            tuples, chunks = tuples + (0 if isinstance(chunk, Punctuation) else len(chunk)), chunks + 1
            now = self.clock()
            enough = tuples >= ENOUGH or chunks >= _MANY
            if not self.together or enough or now - before > _QUICK or now - began > _LONG:
                break
            before = now
        if found := self.at_hand():
            return found if len(found) > 1 else found[0]
        if self._error is not None:
            raise self._error
        return None

    def at_hand(self) -> list[Chunk]:
        """Take what a call has so far."""
        with self._taking:
            found, self._held = self._held, []
        return found
