"""Threads that take the calls of a page together with the thread that makes them, and are gone when the run is over."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from types import TracebackType
from typing import Final, Self, TypeAlias

import attrs

from oop_engine.errors import PlanError

THREADS: Final = "OOP_THREADS"
"""The environment variable that says how many threads a run has, where its caller does not."""
MOST: Final = 256

Call: TypeAlias = Callable[[], None]


def threads_of(asked: int | None = None) -> int:
    """Return how many threads a run has: as many as asked, or as OOP_THREADS says, or one.

    PlanError for what is no number from 1 to 256.
    """
    told: object = asked
    where = "threads="
    if asked is None:
        where, told = f"{THREADS}=", os.environ.get(THREADS, "").strip() or 1
    if isinstance(told, str) and told.isascii() and told.isdigit():
        told = int(told)
    if not isinstance(told, int) or isinstance(told, bool) or not 1 <= told <= MOST:
        raise PlanError(f"{where}{told!r}: the threads of a run are a whole number from 1 to {MOST}.")
    return told


@attrs.define(eq=False)
class Workers:
    """Make calls at once in so many threads, of which the caller's is one; use it in a `with`.

    The others begin with the first calls that are made at once.

    >>> found = []
    >>> with Workers(2) as workers:
    ...     workers.at_once([lambda: found.append(1), lambda: found.append(2)])
    >>> sorted(found)
    [1, 2]
    """

    threads: int
    _waiting: SimpleQueue[_Batch | None] = attrs.field(init=False, factory=SimpleQueue)
    _others: list[threading.Thread] = attrs.field(init=False, factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the threads to end."""
        for _ in self._others:
            self._waiting.put(None)
        for thread in self._others:
            thread.join()
        self._others.clear()

    def at_once(self, calls: Sequence[Call]) -> None:
        """Make calls, in any order and at once; return when all have, and raise the error of the first that failed."""
        if len(calls) < 2 or self.threads < 2:
            for call in calls:
                call()
            return
        if not self._others:
            for number in range(1, self.threads):
                thread = threading.Thread(target=self._work, name=f"lane {number}", daemon=True)
                thread.start()
                self._others.append(thread)
        batch = _Batch(calls)
        for _ in range(min(len(calls), self.threads) - 1):
            self._waiting.put(batch)
        try:
            batch.work()
        finally:
            batch.finish()
        batch.check()

    def _work(self) -> None:
        while (batch := self._waiting.get()) is not None:
            batch.help()
            # Nothing of a page is kept while the thread waits for the next.
            del batch


@attrs.define(eq=False)
class _Batch:
    """Calls that are made at once: each thread takes the next one that no other has."""

    calls: Sequence[Call]
    _left: deque[int] = attrs.field(init=False)
    _errors: dict[int, BaseException] = attrs.field(init=False, factory=dict)
    _helping: int = attrs.field(init=False, default=0)
    """Threads that make calls, besides the one whose calls they are."""
    _over: bool = attrs.field(init=False, default=False)
    """Whether nobody may begin any more."""
    _counting: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _alone: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    """Held until the last helper has returned, if one was there when it was over."""

    def __attrs_post_init__(self) -> None:
        self._left = deque(range(len(self.calls)))
        self._alone.acquire()

    def help(self) -> None:
        """Make calls until none is left, in another thread than the one that waits for them."""
        with self._counting:
            if self._over:
                return
            self._helping += 1
        self.work()
        with self._counting:
            self._helping -= 1
            if self._over and self._helping == 0:
                self._alone.release()

    def work(self) -> None:
        """Make calls until none is left."""
        while True:
            try:
                number = self._left.popleft()
            except IndexError:
                return
            try:
                self.calls[number]()
            except BaseException as error:
                self._errors[number] = error

    def finish(self) -> None:
        """Drop the calls that nobody has begun, wait for the others, and let go of all."""
        with self._counting:
            self._over = True
            self._left.clear()
            waits = self._helping > 0
        if waits:
            self._alone.acquire()
        # A helper may have the batch for a moment longer.
        self.calls = ()

    def check(self) -> None:
        """Raise the error of the first call that failed."""
        if self._errors:
            error = self._errors[min(self._errors)]
            # Its trace has this batch.
            self._errors.clear()
            raise error
