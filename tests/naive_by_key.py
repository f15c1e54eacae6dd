"""The naive twin of promises by key: a loop over tuples that keeps all of them, from the definition alone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from operators.kernels.streams.by_key import PARTS
from operators.streams.clamp import AGREE
from punctuation import NO_TIME


class _Key:
    """What is known of a live key: the highest value believed after each of its tuples, by place."""

    def __init__(self) -> None:
        self.heard = -1
        self.values: list[int] = []
        self.row: list[int] = []
        self.history: list[tuple[int, int]] = []

    def take(self, place: int, value: int, jump: int | None) -> int:
        """Take a value; return the highest that is believed now."""
        self.heard = place
        self.values.append(value)
        highest = self.history[-1][1] if self.history else value
        if jump is None or len(self.values) == 1:
            highest = max(highest, value)
        elif len(self.values) == 2 and value < highest - jump:
            highest, self.history = value, []
        elif value <= highest + jump:
            highest, self.row = max(highest, value), []
        else:
            self.row.append(value)
            if len(self.row) == AGREE:
                highest, self.row = min(self.row), []
        self.history.append((place, highest))
        return highest


def naive_by_key(
    tuples: Sequence[tuple[Hashable, int]], slack: int, idle: int, step: int = 1, jump: int | None = None
) -> list[tuple[int, int]]:
    """Return the place and the bound of each promise that tuples of a key and a value bring about."""
    part = -(-idle // PARTS)
    live: dict[Hashable, _Key] = {}
    idle_before, promised = -1, NO_TIME
    found: list[tuple[int, int]] = []
    for place, (name, value) in enumerate(tuples):
        if value == NO_TIME:
            continue
        key = live.setdefault(name, _Key())
        now = key.take(place, value, jump) // part
        passed = [p for p, highest in key.history if highest // part < now - PARTS]
        idle_before = max([idle_before, *passed])
        live = {n: k for n, k in live.items() if k.heard >= idle_before}
        bound = min(k.history[-1][1] - slack for k in live.values())
        bound -= bound % step
        if idle_before >= 0 and bound > promised:
            promised = bound
            found.append((place, bound))
    return found
