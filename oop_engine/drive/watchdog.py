"""A run that makes no progress says so, and a second signal ends it, whatever it is doing.

Operators run in the thread of the loop, or of who iterates over the stream: one that never comes back keeps everything
else waiting there, the signals too. So both are watched from threads of their own.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TypeAlias

import attrs

from oop_engine.drive.circuit import Circuit
from oop_engine.messages import say
from oop_engine.stopping import STOPPED, leave

PATIENCE = 30.0
"""Seconds without progress after which a run says what it waits for."""
GRACE: Final = 2.0
"""Seconds that a run has to end in after the second signal."""
_INSISTING: Final = (signal.SIGINT, signal.SIGTERM)

Say: TypeAlias = Callable[[str], None]
Place: TypeAlias = Callable[[], "tuple[object, str] | None"]
"""Gives what is at work, the same object as long as it is, and where that is; None while there is nothing to do."""


@attrs.define(eq=False)
class Watchdog:
    """Look now and then whether what is at work is still the same as before, and say so once.

    `places` are the operators of a run and its consumers. An operator that waits for input, or for room, is not at
    work.
    """

    places: list[Place]
    patience: float = attrs.field(factory=lambda: PATIENCE)
    say: Say = say
    _left: threading.Event = attrs.field(init=False, factory=threading.Event)

    @classmethod
    def of(cls, circuit: Circuit, *others: Place) -> Self:
        """Watch the operators of a circuit, and others."""
        return cls([circuit.at_work, *others])

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()

    def _watch(self) -> None:
        seen: list[tuple[object, float] | None] = [None] * len(self.places)
        while not self._left.wait(self.patience / 6):
            now = time.monotonic()
            for number, place in enumerate(self.places):
                found, before = place(), seen[number]
                if found is None:
                    seen[number] = None
                elif before is None or before[0] is not found[0]:
                    seen[number] = found[0], now
                elif now - before[1] >= self.patience:
                    # Once: it is the same until something else is at work.
                    seen[number] = found[0], float("inf")
                    waited = f"no progress for {now - before[1]:.0f} s {found[1]}"
                    self.say(f"note: {waited}. A second Ctrl-C ends the process.")


@attrs.define(eq=False)
class Insistence:
    """End the process when a second SIGINT or SIGTERM came and the run has not ended soon after; a third one at once.

    Python runs handlers of signals between two steps of its main thread, of which there are none while a compiled
    kernel runs. The number of a signal is written to a file descriptor all the same, which a thread reads here and
    hands on to whom it was written for before. Only the main thread can be watched so, and not on Windows.
    """

    place: Place = attrs.field(default=lambda: None)
    grace: float = GRACE
    leave: Callable[[int], object] = leave
    _before: int = attrs.field(init=False, default=-1)
    _written: socket.socket | None = attrs.field(init=False, default=None)
    _ended: threading.Event = attrs.field(init=False, factory=threading.Event)

    def __enter__(self) -> Self:
        if os.name == "nt" or threading.current_thread() is not threading.main_thread():
            return self
        read, self._written = socket.socketpair()
        self._written.setblocking(False)
        self._before = signal.set_wakeup_fd(self._written.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._listen, args=(read, self._before), name="signals", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._written is not None:
            signal.set_wakeup_fd(self._before, warn_on_full_buffer=False)
            self._written.close()

    def _listen(self, read: socket.socket, before: int) -> None:
        count = 0
        with read:
            while numbers := read.recv(64):
                if before >= 0 and not self._ended.is_set():
                    os.write(before, numbers)
                for number in numbers:
                    if number in _INSISTING:
                        count += 1
                        if count == 2:
                            threading.Thread(target=self._end_soon, daemon=True).start()
                        elif count > 2:
                            self._end()

    def _end_soon(self) -> None:
        if not self._ended.wait(self.grace):
            self._end()

    def _end(self) -> None:
        found = self.place()
        say("note: ended by the second signal" + ("" if found is None else f" {found[1]}"))
        self.leave(STOPPED)
