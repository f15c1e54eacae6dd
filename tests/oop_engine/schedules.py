"""Random but repeatable task schedules: trio shuffles runnable tasks with a generator that is seeded here.

This is trio's own testing switch, not its public interface; `test_runtime.py` checks that it still does what it says.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

import trio
import trio.testing

T = TypeVar("T")


@contextmanager
def scheduled(seed: int) -> Generator[None, None, None]:
    """Run what is inside with tasks in an order that only the seed decides."""
    inner: Any = trio._core._run
    allowed, state = inner._ALLOW_DETERMINISTIC_SCHEDULING, inner._r.getstate()
    inner._ALLOW_DETERMINISTIC_SCHEDULING = True
    inner._r.seed(seed)
    try:
        yield
    finally:
        inner._ALLOW_DETERMINISTIC_SCHEDULING = allowed
        inner._r.setstate(state)


def simulate(main: Callable[[], Awaitable[T]], seed: int) -> T:
    """Run a trio program without threads on a clock that jumps, with tasks in the order of the seed."""

    async def guarded() -> T:
        with trio.fail_after(600):
            return await main()

    with scheduled(seed):
        return trio.run(guarded, clock=trio.testing.MockClock(autojump_threshold=0))
