"""An operator may have calls made in the background, and go on meanwhile; it never waits for one.

Who drives the operator makes the calls, in threads or when it likes, and hands the answers over between two elements.
So the laws can be checked with answers in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import attrs

from operators.protocol import Emit, Operator


@attrs.frozen(eq=False)
class Failed:
    """Stand for the answer of a call that raised an error."""

    error: BaseException


Answer: TypeAlias = "tuple[int, object | Failed]"
"""The number of a call, and what it returned."""


class Background(Protocol):
    """Make the calls of one operator."""

    workers: int
    """How many calls are made at the same time."""
    piece: int
    """Tuples of a call, at most."""
    most: int
    """Tuples without an answer from which on the operator should get no more."""

    def submit(self, number: int, call: Callable[[], object]) -> None:
        """Have a call made; its answer has this number."""
        ...

    def answers(self) -> Sequence[Answer]:
        """Return the answers that are there and were not returned before, in any order; wait for none."""
        ...


@runtime_checkable
class Defers(Operator, Protocol):
    """An operator that can have calls made in the background."""

    workers: int
    """How many calls it would like to be made at the same time."""

    def deferring(self, background: Background | None) -> Operator:
        """Return the operator, fresh, that has its calls made there, and takes each tuple at once without it."""
        ...

    @property
    def outstanding(self) -> int:
        """Return how many tuples wait for an answer."""
        ...

    @property
    def crowded(self) -> bool:
        """Return whether it should get no more before an answer has come."""
        ...

    def take_answers(self, emit: Emit) -> None:
        """Take the answers that are there, between two elements, and emit what follows from them."""
        ...
