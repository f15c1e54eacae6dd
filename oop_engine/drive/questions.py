"""Questions to a run come from other threads; its watch answers them, where no operator is at work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

import attrs

from oop_engine.drive.circuit import Circuit

T = TypeVar("T")


@attrs.define(eq=False)
class Questions:
    """Answer questions about a run between two pages, about ten times a second.

    Give `watch` to the run, and call `close` when it has ended. While nobody asks, a look costs less than a
    microsecond.

    >>> questions = Questions()
    >>> questions.close()
    >>> questions.ask(lambda circuit: circuit is None)
    True
    """

    _waiting: deque[Callable[[Circuit | None], None]] = attrs.field(init=False, factory=deque)
    circuit: Circuit | None = attrs.field(init=False, default=None)
    """The run, as far as it was seen."""
    _ended: bool = attrs.field(init=False, default=False)

    def watch(self, circuit: Circuit) -> None:
        """Answer what was asked of a running circuit."""
        self.circuit = circuit
        if self._waiting:
            self._answer()

    def close(self) -> None:
        """Say that the run has ended: who asks from now on is answered at once."""
        self._ended = True
        self._answer()

    def ask(self, question: Callable[[Circuit | None], T], timeout: float | None = None) -> T:
        """Return what `question` says of the run, and raise its error; it gets None where no run has begun.

        TimeoutError after `timeout` seconds without an answer; the run goes on.
        """
        answer = Future[T]()
        self._waiting.append(partial(_answered, question, answer))
        if self._ended:
            self._answer()
        try:
            return answer.result(timeout)
        except TimeoutError:
            answer.cancel()
            raise

    def _answer(self) -> None:
        while self._waiting:
            try:
                asked = self._waiting.popleft()
            except IndexError:  # another thread has it
                return
            asked(self.circuit)


def _answered(question: Callable[[Circuit | None], T], answer: Future[T], circuit: Circuit | None) -> None:
    """Answer a question, unless nobody waits any more; whoever asked gets the error, and the run does not."""
    if not answer.set_running_or_notify_cancel():
        return
    try:
        answer.set_result(question(circuit))
    except Exception as error:
        answer.set_exception(error)
