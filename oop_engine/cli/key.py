"""A key in the terminal of a run (w), and SIGUSR1, ask what its next window waits for."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

import attrs

from oop_engine.drive.circuit import Circuit
from oop_engine.stopping import before_leaving

try:
    import termios
except ImportError:  # where the system has no such terminals, there is no key
    termios = None

_KEYS: Final = (b"w", b"W")
_LOCAL: Final = 3
"""The place of the local modes among the attributes of a terminal."""
_SIGNAL: Final = getattr(signal, "SIGUSR1", None)


@attrs.define(eq=False)
class Asked:
    """Hand sentences on, between two pages, when somebody asked for them."""

    tell: Callable[[str], None]
    _asked: threading.Event = attrs.field(init=False, factory=threading.Event)

    def ask(self) -> None:
        """Ask, from any thread, or where a signal is handled."""
        self._asked.set()

    def watch(self, circuit: Circuit) -> None:
        """Answer, where that was asked."""
        if self._asked.is_set():
            self._asked.clear()
            # Start-up: few runs are asked.
            from oop_engine.drive.why import why

            for wait in why(circuit):
                self.tell(str(wait))


@contextmanager
def listening(ask: Callable[[], None], *, keys: bool) -> Generator[None, None, None]:
    """Call `ask` at SIGUSR1, and with `keys` at the key w, if this process has the terminal."""
    with ExitStack() as stack:
        if _SIGNAL is not None and threading.current_thread() is threading.main_thread():
            before = signal.signal(_SIGNAL, lambda number, frame: ask())
            stack.callback(signal.signal, _SIGNAL, before)
        if keys and (terminal := _terminal()) is not None:
            stack.enter_context(pressed(ask, terminal))
        yield


def _terminal() -> int | None:
    """Return the terminal that keys come from, None where there is none, or another program has it."""
    with suppress(OSError, ValueError, AttributeError):  # closed, or none at all
        terminal = sys.stdin.fileno()
        # Who changes a terminal from the background is stopped.
        if termios is not None and os.isatty(terminal) and os.tcgetpgrp(terminal) == os.getpgrp():
            return terminal
    return None


@contextmanager
def pressed(ask: Callable[[], None], terminal: int) -> Generator[None, None, None]:
    """Call `ask` at each key w of a terminal, which gives keys at once and without an echo until this is left."""
    modes = termios
    assert modes is not None
    before = modes.tcgetattr(terminal)
    changed = list(before)
    changed[_LOCAL] &= ~(modes.ICANON | modes.ECHO)

    def restore() -> None:
        with suppress(modes.error):  # the terminal is gone
            modes.tcsetattr(terminal, modes.TCSANOW, before)

    read, wake = socket.socketpair()
    modes.tcsetattr(terminal, modes.TCSANOW, changed)
    with before_leaving(restore), wake:
        threading.Thread(target=_read, args=(ask, terminal, read), name="keys", daemon=True).start()
        try:
            yield
        finally:
            restore()


def _read(ask: Callable[[], None], terminal: int, end: socket.socket) -> None:
    """Read keys until the run has ended, or the terminal is gone."""
    with end, selectors.DefaultSelector() as ready, suppress(OSError):
        for waiting in (terminal, end):
            ready.register(waiting, selectors.EVENT_READ)
        while all(key.fileobj is not end for key, _ in ready.select()):
            key = os.read(terminal, 1)
            if not key:
                return
            if key in _KEYS:
                ask()
