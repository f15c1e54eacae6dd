"""Run a command for each alert beside the stream: a slow one never holds it, and what it misses is counted."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Iterator
from queue import Empty, Full, Queue
from shutil import which
from threading import Thread
from typing import Final

import attrs
import click

from oop_engine.cli.words import counted

MOST_WAITING: Final = 1_000
"""Events that wait for the command at most; further ones are left out, and counted."""
SECONDS: Final = 10.0
"""How long one run of the command may take."""


def command_of(text: str) -> Callable[[str], str]:
    """Return a function that runs a command with an event on its standard input, and says what went wrong.

    The text is split as a shell splits words, and no shell runs it. UsageError where there is no such program.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise click.UsageError(f"--on-alert {text!r} is no command: {error}.") from None
    if not words or which(words[0]) is None:
        raise click.UsageError(
            f'--on-alert: there is no program "{words[0] if words else ""}". Write one that is in PATH, or its whole'
            " path; no shell runs it."
        )

    def run(event: str) -> str:
        try:
            done = subprocess.run(
                words, input=event + "\n", text=True, encoding="utf-8", timeout=SECONDS, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"it took more than {SECONDS:.0f} s"
        except OSError as error:
            return error.strerror or str(error)
        return "" if done.returncode == 0 else f"exit status {done.returncode}"

    return run


@attrs.define
class Actions:
    """Hand events to a function in a thread of its own; `close` waits for those that are left, up to a time.

    >>> seen = []
    >>> actions = Actions(lambda event: seen.append(event) or "")
    >>> actions.put("flood")
    >>> actions.close(5)
    >>> seen, list(actions.notes())
    (['flood'], [])
    """

    act: Callable[[str], str]
    """Acts on an event; returns what went wrong, or nothing."""
    most: int = MOST_WAITING
    left_out: int = attrs.field(init=False, default=0)
    failed: int = attrs.field(init=False, default=0)
    why: str = attrs.field(init=False, default="")
    """What went wrong last."""
    _queue: Queue[str | None] = attrs.field(init=False)
    _thread: Thread = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._queue = Queue(self.most)
        self._thread = Thread(target=self._run, name="actions", daemon=True)
        self._thread.start()

    def put(self, event: str) -> None:
        """Hand over an event; where too many wait, it is left out and counted."""
        try:
            self._queue.put_nowait(event)
        except Full:
            self.left_out += 1

    def close(self, seconds: float) -> None:
        """Wait so long for the events that are left; then the others are left out and counted."""
        try:
            self._queue.put(None, timeout=seconds)
        except Full:
            pass
        else:
            self._thread.join(seconds)
        while self._thread.is_alive():
            try:
                self.left_out += self._queue.get_nowait() is not None
            except Empty:
                break

    def notes(self) -> Iterator[str]:
        """Yield what to tell the user: events for which the command failed, or that it never got."""
        if self.failed:
            failed = counted(self.failed, "event")
            yield f"note: the command of --on-alert failed for {failed}, the last time by {self.why}."
        if self.left_out:
            left_out = counted(self.left_out, "event")
            yield f"note: {left_out} came faster than the command of --on-alert, which did not get them."

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            if wrong := self.act(event):
                self.failed += 1
                self.why = wrong
