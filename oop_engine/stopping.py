"""End a command that is stopped before it has begun.

While modules load, KeyboardInterrupt can be lost: Python drops what is raised in a callback of its collector, and the
command goes on as if nobody had stopped it. There is nothing to clean up yet, so the process ends at once. After
`begin`, a signal raises KeyboardInterrupt, and `with` statements clean up.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

STOPPED: Final = 130
"""The exit status of a command that its user stopped."""
_own: list[signal.Signals] = []
"""Signals that end the process until the command begins."""
_restoring: list[Callable[[], None]] = []


def stopped_early(command: Sequence[str]) -> int:
    """Return the exit status of a command, by its first words, that is stopped before it has begun.

    A collection has no end of its own: one that is stopped is done.
    """
    return 0 if list(command[:1]) == ["collect"] else STOPPED


def obey_signals() -> None:
    """Have SIGTERM, and the loss of the terminal, end a command as Ctrl-C does, from its first moment on."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # A shell starts what runs in the background with SIGINT ignored; who was started to outlast its terminal
        # (nohup) ignores that it hangs up.
        if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            with suppress(ValueError):  # only the main thread of a process sets handlers
                signal.signal(number, _stop)
                _own.append(number)


def begin() -> None:
    """Say that the command has begun: from now on a signal raises KeyboardInterrupt."""
    while _own:
        signal.signal(_own.pop(), signal.default_int_handler)


@contextmanager
def before_leaving(restore: Callable[[], None]) -> Generator[None]:
    """Have `restore` called by `leave` until this is left: what the process must put back, whatever it is at."""
    _restoring.append(restore)
    try:
        yield
    finally:
        _restoring.remove(restore)


def leave(status: int) -> NoReturn:
    """End the process at once, with no more put back than what must be."""
    for restore in _restoring:
        restore()
    os._exit(status)


def _stop(number: int, frame: object) -> NoReturn:
    with suppress(OSError):  # where the terminal is gone, there is nobody to tell
        os.write(2, b"stopped.\n")
    os._exit(stopped_early(sys.argv[1:2]))
