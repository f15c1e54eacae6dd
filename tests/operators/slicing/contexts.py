"""Windows whose contexts only tests know, with their naive answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from operators.data.page import Row
from operators.window.delimited import DelimitedWindow
from operators.window.user import ContextWindow
from tests.naive_slicing import Extent


class EveryThird:
    """Windows of three distinct ticks of the data each."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.found: list[tuple[int, int]] = []

    def notify(self, tick: int, row: Row) -> Iterable[int]:
        if self.seen and self.seen[-1] == tick:
            return ()
        if len(self.seen) == 3:
            self.found.append((self.seen[0], tick))
            self.seen = []
        self.seen.append(tick)
        return (tick,) if len(self.seen) == 1 else ()

    def complete(self, bound: int) -> Iterable[tuple[int, int]]:
        found, self.found = self.found, []
        return found

    def unfinished(self) -> int:
        return min([begin for begin, _ in self.found] + self.seen[:1] + [2**62])

    def state(self) -> str:
        return json.dumps([self.seen, self.found])

    def restore(self, state: str) -> None:
        self.seen, self.found = json.loads(state)


def every_third(table: list[Row]) -> Iterator[Extent]:
    ticks = sorted({int(row["ts"]) for row in table})  # type: ignore[arg-type]
    for i in range(0, len(ticks) - 3, 3):
        yield ticks[i], ticks[i], ticks[i + 3]


class LastTwo:
    """Every four ticks, the window from the last but one distinct tick of the data before it on."""

    def __init__(self) -> None:
        self.ticks: list[int] = []
        self.told: int | None = None

    def notify(self, tick: int, row: Row) -> Iterable[int]:
        if not self.ticks or self.ticks[-1] != tick:
            self.ticks.append(tick)
        return ()

    def complete(self, bound: int) -> Iterable[tuple[int, int]]:
        if not self.ticks:
            return []
        low = self.ticks[0] // 4 + 1 if self.told is None else self.told
        high = min(bound // 4, self.ticks[-1] // 4 + 1)
        found = []
        for k in range(low, high + 1):
            before_it = [tick for tick in self.ticks if tick < 4 * k]
            if len(before_it) >= 2 and before_it[-1] >= 4 * k - 4:
                found.append((before_it[-2], 4 * k))
        self.told = max(low, high + 1)
        self.ticks = self.ticks[-2:] if self.ticks[-1] < 4 * self.told - 4 else self.ticks
        return found

    def horizon(self) -> int:
        return self.ticks[0] if self.ticks else 2**61

    def unfinished(self) -> int:
        return self.horizon()

    def state(self) -> str:
        return json.dumps([self.ticks, self.told])

    def restore(self, state: str) -> None:
        self.ticks, self.told = json.loads(state)


def last_two(table: list[Row]) -> Iterator[Extent]:
    ticks = sorted({int(row["ts"]) for row in table})  # type: ignore[arg-type]
    for k in range(-10, 60):
        earlier = [tick for tick in ticks if tick < 4 * k]
        if len(earlier) >= 2 and earlier[-1] >= 4 * k - 4:
            yield earlier[-2], earlier[-2], 4 * k


class BeforeBig:
    """The five ticks before each tuple with a value of 3 or more."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int]] = []
        self.last = -(10**9)

    def notify(self, tick: int, row: Row) -> Iterable[int]:
        self.last = tick
        if not _big(row) or (self.found and self.found[-1][1] == tick):
            return ()
        self.found.append((tick - 5, tick))
        return (tick,)

    def complete(self, bound: int) -> Iterable[tuple[int, int]]:
        found, self.found = self.found, []
        return found

    def horizon(self) -> int:
        return self.last - 5

    def unfinished(self) -> int:
        return self.horizon()

    def state(self) -> str:
        return json.dumps([self.found, self.last])

    def restore(self, state: str) -> None:
        found, self.last = json.loads(state)
        self.found = [(begin, end) for begin, end in found]


def _big(row: Row) -> bool:
    return row["v"] is not None and int(row["v"]) >= 3  # type: ignore[arg-type]


def before_big(table: list[Row]) -> Iterator[Extent]:
    for tick in sorted({int(row["ts"]) for row in table if _big(row)}):  # type: ignore[arg-type]
        yield tick - 5, tick - 5, tick


CONTEXTS = {
    "marks": DelimitedWindow("ts", "v"),
    "thirds": ContextWindow("ts", EveryThird),
    "looking back": ContextWindow("ts", LastTwo),
    "before big": ContextWindow("ts", BeforeBig, ("v",)),
}
FOUND = {"thirds": every_third, "looking back": last_two, "before big": before_big}
"""The naive answers to those of which only tests know."""
