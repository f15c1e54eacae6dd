"""The naive twin of promises by key: a loop over tuples that keeps all of them, from the definition alone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from operators.kernels.streams.by_key import OFTEN, PARTS
from operators.kernels.ticks import FAR
from operators.streams.clamp import AGREE
from punctuation import NO_TIME


class _Slack:
    """The slack that is learnt from how late tuples were, each rounded up to four binary digits."""

    def __init__(self, per_million: int) -> None:
        self.per_million, self.slack = per_million, 0
        self.seen: list[int] = []

    @property
    def few(self) -> bool:
        return len(self.seen) * self.per_million < 2_000_000

    def learn(self, lateness: int) -> None:
        shift = max(lateness.bit_length() - 4, 0)
        self.seen.append((((lateness >> shift) + 1) << shift) - 1)
        if lateness <= self.slack and len(self.seen) % OFTEN:
            return
        worst = sorted(self.seen, reverse=True)
        allowed = len(self.seen) * self.per_million // 2_000_000
        least = [e for e in {0, *worst} if sum(other > e for other in worst) <= allowed]
        self.slack = min(2 * worst[0], FAR) if self.few else min(FAR, *least)


class _Key:
    """What is known of a live key: the highest value believed after each of its tuples, by place."""

    def __init__(self, per_million: int) -> None:
        self.own = _Slack(per_million)
        self.heard = -1
        self.values: list[int] = []
        self.row: list[int] = []
        self.history: list[tuple[int, int]] = []

    def take(self, place: int, value: int, jump: int | None) -> int:
        """Take a value; return the highest that is believed now."""
        highest = self.history[-1][1] if self.history else value
        disagree = jump is not None and len(self.values) == 1 and value < highest - jump
        far = value < highest and not (value >= -FAR // 2 and highest <= FAR // 2)
        self.lateness = 0 if disagree else None if far else max(highest - value, 0)
        if jump is not None and self.lateness is not None and self.lateness > jump:
            self.lateness = None
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
    tuples: Sequence[tuple[Hashable, int]],
    slack: int,
    idle: int,
    step: int = 1,
    jump: int | None = None,
    per_million: int | None = None,
) -> list[tuple[int, int]]:
    """Return the place and the bound of each promise that tuples of a key and a value bring about."""
    part = -(-idle // PARTS)
    live: dict[Hashable, _Key] = {}
    idle_before, promised = -1, NO_TIME
    found: list[tuple[int, int]] = []
    pooled, bounds = _Slack(per_million or 0), dict[Hashable, int]()
    for place, (name, value) in enumerate(tuples):
        if value == NO_TIME:
            continue
        key = live.setdefault(name, _Key(per_million or 0))
        now = key.take(place, value, jump) // part
        passed = [p for p, highest in key.history if highest // part < now - PARTS]
        idle_before = max([idle_before, *passed])
        live = {n: k for n, k in live.items() if k.heard >= idle_before}
        if per_million is not None and key.lateness is not None:
            pooled.learn(key.lateness)
            key.own.learn(key.lateness)
        if per_million is not None:
            slack = max(key.own.slack, pooled.slack) if key.own.few else key.own.slack
        bounds[name] = max(key.history[-1][1] - slack, NO_TIME)
        bound = min(bounds[n] for n in live)
        bound -= bound % step
        if idle_before >= 0 and bound > promised:
            promised = bound
            found.append((place, bound))
    return found
