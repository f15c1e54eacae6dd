"""A punctuator can be asked while it runs: what it could promise now, and to promise more or less finely from now on.

It says little unasked, at the granularity of the plan; who waits for a promise is served by what is known already
(thesis 8.1: operators that poll their inputs), and a finer query that is added later needs finer promises.
"""

# The functions of this package may look into its punctuators.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from punctuation.punctuators import BlockEnd, Ordered, Punctuator, Scheduled, Slack, TupleSlack
from punctuation.schedule import NEVER, NO_TIME, Schedule


@runtime_checkable
class Answering(Protocol):
    """A punctuator that answers by itself, as one that promises by key does."""

    def known(self) -> int | None:
        """Return the bound that is true now; None when it says nothing."""
        ...

    def regrain(self, step: int | None, origin: int) -> None:
        """Promise at origin + k * step from now on."""
        ...


def known(punctuator: Punctuator) -> int | None:
    """Return the bound that what was observed so far allows, exactly; None when it says nothing, or only a clock does.

    >>> import numpy as np
    >>> slack = Slack("ts", 2, step=10)
    >>> slack.observe(np.array([4, 17, 15]))[1].tolist(), known(slack)
    ([0, 10], 15)
    """
    if isinstance(punctuator, Answering):
        return punctuator.known()
    match punctuator:
        case Ordered():
            return _less(punctuator._highest, -1 if punctuator.strictly else 0)
        case Slack():
            return _less(punctuator._highest, punctuator.slack)
        case TupleSlack(displacement="larger"):
            return _less(int(punctuator._kept.min()), 0)
        case TupleSlack():
            return _less(punctuator._highest, 0)
        case BlockEnd() if punctuator.block is None:
            return _less(punctuator._block, 0)
        case _:
            return None


def follow(punctuator: Punctuator, bound: int) -> int | None:
    """Return how many tuples follow until a stream that was read ahead promises a bound; None when nobody knows.

    >>> import numpy as np
    >>> from punctuation import SuffixMinimum
    >>> passed = SuffixMinimum(step=10)
    >>> passed.feed(np.array([1, 25, 7, 26]))
    >>> follow(Scheduled("ts", passed.finish()), 10)
    3
    """
    if not isinstance(punctuator, Scheduled) or not isinstance(punctuator.schedule, Schedule):
        return None
    read = punctuator._pace.count
    positions, bounds = punctuator.schedule.between(read, NEVER)
    place = int(np.searchsorted(bounds, bound))
    return None if place == len(bounds) else int(positions[place]) + 1 - read


_CHANGEABLE = (Ordered, Slack, TupleSlack, BlockEnd, Answering)
"""Punctuators that can promise more or less finely while they run."""


def regrainable(punctuator: Punctuator) -> bool:
    """Return whether a punctuator can promise more or less finely while it runs.

    >>> regrainable(Slack("ts", 2))
    True
    """
    return isinstance(punctuator, _CHANGEABLE)


def regrain(punctuator: Punctuator, step: int | None, origin: int = 0) -> bool:
    """Promise at origin + k * step from now on, at every change without a step; False where that cannot be changed.

    A stream that was read ahead (Scheduled) has bounds at the granularity it was read for, and cannot be made finer.
    """
    if not isinstance(punctuator, _CHANGEABLE):
        return False
    if step is not None and step < 1:
        raise ValueError(f"step = {step}: a step is at least 1, in the unit of the attribute")
    if isinstance(punctuator, Answering):
        punctuator.regrain(step, origin)
        return True
    punctuator.step, punctuator.origin = step, origin
    punctuator._pace.step, punctuator._pace.origin = step, origin
    return True


def _less(value: int, slack: int) -> int | None:
    return None if value == NO_TIME else min(max(value - slack, NO_TIME), NEVER)
