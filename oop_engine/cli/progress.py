"""A line on the terminal says how far a long run is; it is wiped before anything else is written and at the end."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO

import attrs

from oop_engine.cli.words import bytes_text, lag_text, rate_text, time_text
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.meter import watched

PATIENCE: Final = 1.0
"""Seconds that a run may take without a line."""
EVERY: Final = 60.0
"""Seconds between two lines of an endless run where there is no terminal."""
_BAR: Final = 16
_WIPE: Final = "\r\x1b[2K"


@attrs.define(eq=False)
class Progress:
    """Draw the line on a terminal, from the calls of a runtime's watch; silent for the first second."""

    out: TextIO
    clock: Callable[[], float] = time.monotonic
    _began: float = attrs.field(init=False, default=0.0)
    _last: tuple[float, int] | None = attrs.field(init=False, default=None)
    _rate: float = attrs.field(init=False, default=0.0)
    _shown: bool = attrs.field(init=False, default=False)
    _lock: threading.RLock = attrs.field(init=False, factory=threading.RLock)

    def __attrs_post_init__(self) -> None:
        self._began = self.clock()

    def watch(self, circuit: Circuit) -> None:
        """Draw the line anew, when it is time."""
        now = self.clock()
        if now - self._began < PATIENCE:
            return
        width = shutil.get_terminal_size().columns - 1
        with self._lock:
            self._write(_WIPE + self.line(circuit, now)[:width])
            self._shown = True

    def aside(self, write: Callable[[], None]) -> None:
        """Let something else write to the terminal, with the line out of its way."""
        with self._lock:
            self.wipe()
            write()

    def wipe(self) -> None:
        """Take the line away."""
        with self._lock:
            if self._shown:
                self._write(_WIPE)
                self._shown = False

    def _write(self, text: str) -> None:
        # A terminal that was closed does not end the run.
        with suppress(OSError):
            self.out.write(text)
            self.out.flush()

    def line(self, circuit: Circuit, now: float) -> str:
        """Return the line: share done, tuples, rate, low-watermark and lag."""
        nodes = list(circuit.plan.sources.items())
        if not circuit.readers:
            return "reading ahead, for promises that are exact ..."
        tuples = sum(circuit.meters[i].tuples_in for i, _ in nodes)
        read = _done([circuit.progress(i) for i, _ in nodes])
        parts = [read, f"{tuples:,} tuples", rate_text(self._speed(tuples, now))]
        lows: list[tuple[int, str]] = []
        lags: list[tuple[int, str]] = []
        for i, node in nodes:
            attribute = watched(node.schema)
            if attribute is None:
                continue
            kind = node.schema.field(attribute).type
            low, high = circuit.meters[i].lwm.get(attribute), circuit.meters[i].hwm.get(attribute)
            if isinstance(low, int):
                # The day is in the results; on the line every column counts.
                lows.append((low, time_text(low, kind).rpartition(" ")[2]))
                if high is not None:
                    lags.append((high - low, lag_text(high - low, kind)))
        if lows:
            parts.append(f"low-watermark {min(lows)[1]}")
        if lags:
            parts.append(f"lag {max(lags)[1]}")
        return "  ".join(part for part in parts if part)

    def _speed(self, tuples: int, now: float) -> float:
        """Return the rate of the last seconds, so that a stall shows."""
        if self._last is not None and now > self._last[0]:
            recent = (tuples - self._last[1]) / (now - self._last[0])
            self._rate = recent if self._rate == 0.0 else 0.8 * self._rate + 0.2 * recent
        self._last = (now, tuples)
        return self._rate if self._rate else tuples / max(now - self._began, 1e-9)


@attrs.define(eq=False)
class Minutely:
    """Write the line of a progress once a minute, where there is no terminal to draw it on: a log has it."""

    progress: Progress
    write: Callable[[str], None]
    _next: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._next = self.progress.clock() + EVERY

    def watch(self, circuit: Circuit) -> None:
        """Write the line, when it is time."""
        now = self.progress.clock()
        if now >= self._next:
            self._next = now + EVERY
            self.write(self.progress.line(circuit, now))


def _done(read: list[tuple[int, int | None]]) -> str:
    """Return a bar and bytes where the sizes are known, bytes alone where they are not."""
    done, total = sum(d for d, _ in read), sum(t or 0 for _, t in read)
    if any(t is None for _, t in read) or total <= 0:
        return bytes_text(done) if done else ""
    share = min(1.0, done / total)
    full = round(share * _BAR)
    return f"{'█' * full}{'░' * (_BAR - full)} {share:4.0%}  {bytes_text(done)} of {bytes_text(total)}"
