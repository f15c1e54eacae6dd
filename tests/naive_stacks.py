"""Windows of a stream in order, answered one at a time from their definition: no pane, no stack, no state."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from operators.data.page import Row
from operators.window import SlidingWindow
from tests.naive_aggregate import Answer, naive_windows
from tests.naive_functions import Naive

T = TypeVar("T")
R = TypeVar("R")


def naive_ranges(
    values: Sequence[T], heads: Sequence[int], tails: Sequence[int], of: Callable[[Sequence[T]], R]
) -> list[R]:
    """Give a function of each range of values."""
    return [of(values[head:tail]) for head, tail in zip(heads, tails, strict=True)]


def naive_panes(window: SlidingWindow, values: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Give each run of values that lie in the same windows, at least one: (first, last window + 1, begin, stop)."""
    panes: list[tuple[int, int, int, int]] = []
    for i, value in enumerate(values):
        first = math.floor((value - window.origin) / window.slide)
        last = math.floor((value - window.origin + window.size) / window.slide)
        if first >= last:
            continue
        if panes and panes[-1][:2] == (first, last):
            panes[-1] = (*panes[-1][:3], i + 1)
        else:
            panes.append((first, last, i, i + 1))
    return panes


def naive_stacks(
    window: SlidingWindow, answers: Mapping[str, tuple[Naive, str | None]], rows: Sequence[Row]
) -> list[Row]:
    """Give the results of all windows with a tuple; `answers` name a naive function and the attribute it reads."""

    def bound(naive: Naive, name: str | None) -> Answer:
        return lambda members: naive([(0 if name is None else row[name],) for row in members])

    found = naive_windows(window, {name: bound(*answer) for name, answer in answers.items()}, (), rows)
    return [row for row in found if int(str(row["wid"])) >= window.least]
