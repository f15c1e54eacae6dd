"""Threads that make calls for operators which go on meanwhile, and are gone when the run is over."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from types import TracebackType
from typing import Self

import attrs

from operators.background import Answer, Failed

PIECE = 1 << 10
"""Tuples of a call, at most: a run that is stopped waits for the calls that were begun."""
MOST = 1 << 16
"""Tuples that wait for an answer in one operator; beyond these it gets no more."""

_Call = tuple[int, Callable[[], object]]


@attrs.define(eq=False)
class Bench:
    """Make the calls of one operator in threads of its own, which begin with the first calls."""

    workers: int
    came: Callable[[], object]
    """Called from any thread when an answer has come."""
    piece: int = attrs.field(factory=lambda: PIECE)
    most: int = attrs.field(factory=lambda: MOST)
    _calls: SimpleQueue[_Call | None] = attrs.field(init=False, factory=SimpleQueue)
    _answers: deque[Answer] = attrs.field(init=False, factory=deque)
    _threads: list[threading.Thread] = attrs.field(init=False, factory=list)
    _submitted: int = attrs.field(init=False, default=0)
    _taken: int = attrs.field(init=False, default=0)
    _over: bool = attrs.field(init=False, default=False)

    def submit(self, number: int, call: Callable[[], object]) -> None:
        """Have a call made."""
        self._submitted += 1
        self._calls.put((number, call))
        if len(self._threads) < min(self.workers, self._submitted - self._taken):
            thread = threading.Thread(target=self._work, name=f"background {len(self._threads) + 1}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def answers(self) -> Sequence[Answer]:
        """Return the answers that are there."""
        found = [self._answers.popleft() for _ in range(len(self._answers))]
        self._taken += len(found)
        return found

    def _work(self) -> None:
        while (one := self._calls.get()) is not None:
            if self._over:
                continue
            number, call = one
            try:
                answer: object = call()
            except BaseException as error:
                answer = Failed(error)
            self._answers.append((number, answer))
            self.came()
            # Nothing of a page is kept while the thread waits for the next.
            del one, call, answer

    def close(self) -> None:
        """Make no more calls, and wait for those that were begun."""
        self._over = True
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()


@attrs.define(eq=False)
class Benches:
    """Make calls for several operators, each with threads of its own; use it in a `with`, which ends these.

    >>> with Benches() as benches:
    ...     bench = benches.bench(2)
    ...     bench.submit(7, lambda: "done")
    ...     benches.wait()
    ...     bench.answers()
    [(7, 'done')]
    """

    came: Callable[[], object] = attrs.field(default=lambda: None)
    """Called from any thread when an answer has come."""
    _benches: list[Bench] = attrs.field(init=False, factory=list)
    _there: threading.Event = attrs.field(init=False, factory=threading.Event)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for bench in self._benches:
            bench.close()
        self._benches.clear()

    def bench(self, workers: int) -> Bench:
        """Return what makes the calls of an operator, so many at the same time."""
        bench = Bench(workers, self._came)
        self._benches.append(bench)
        return bench

    def wait(self) -> None:
        """Wait until an answer has come since the last wait ended."""
        self._there.wait()
        self._there.clear()

    def _came(self) -> None:
        self._there.set()
        self.came()
