"""The low-level table by its rules, one tuple after the other: lists and dictionaries, and the figure's own words.

A place is None or a `Held`. Which place a key has is part of what the table is, so the hash is written down here too,
in whole numbers without bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

MASK = (1 << 64) - 1
REACH = 1024
NEVER = -(2**63)


@attrs.define
class Held:
    """A group of a slice, and how many tuples it stands for."""

    key: tuple[int, ...]
    start: int
    until: int
    count: int = 0


def mixed(h: int) -> int:
    """Spread the bits of a word, as splitmix64 does."""
    h ^= h >> 30
    h = h * 0xBF58476D1CE4E5B9 & MASK
    h ^= h >> 27
    h = h * 0x94D049BB133111EB & MASK
    return h ^ (h >> 31)


def home(key: Sequence[int], start: int, size: int) -> int:
    """Give the first place of a group of a slice."""
    h = 0x9E3779B97F4A7C15 ^ (start & MASK)
    for word in key:
        h = mixed(h) ^ (word & MASK)
    return (mixed(h) >> 32) * size >> 32


@attrs.define
class NaiveTable:
    """Fig 8-6 and its variants; `out` are the partial aggregates that left, in order."""

    size: int
    probes: int
    every: int = 0
    in_order: bool = False
    delay: int = 0
    out: list[Held] = attrs.field(factory=list)
    places: list[Held | None] = attrs.field(init=False)
    old_below: int = NEVER
    due_below: int = NEVER
    since: int = 0
    old_at: int = 0
    due_at: int = 0

    def __attrs_post_init__(self) -> None:
        self.places = [None] * self.size

    def leave(self, place: int) -> None:
        """Let one go."""
        held = self.places[place]
        assert held is not None
        self.out.append(held)
        self.places[place] = None

    def below(self, bound: int) -> list[int]:
        """Give the places of what starts below a bound."""
        return [i for i, held in enumerate(self.places) if held is not None and held.start < bound]

    def all_old(self) -> None:
        """Flush all remaining entries marked as old, from where the slow flush is."""
        while self.below(self.old_below):
            if self.old_at in self.below(self.old_below):
                self.leave(self.old_at)
            self.old_at = (self.old_at + 1) % self.size

    def one(self, at: int, bound: int, reach: int) -> int:
        """Flush the next entry below a bound within reach; give the place to go on from."""
        for _ in range(min(reach, self.size)):
            found = at in self.below(bound)
            if found:
                self.leave(at)
            at = (at + 1) % self.size
            if found:
                break
        return at

    def sweep(self, tuples: int) -> None:
        """Let go what is due: before the tuples of a page, up to 64, as many places are looked at."""
        for _ in range(min(tuples, self.size)):
            if self.below(self.due_below):
                self.due_at = self.one(self.due_at, self.due_below, 1)

    def process(self, key: tuple[int, ...], start: int, until: int) -> None:
        """ProcessTuple(t), Fig 8-6(a)."""
        if self.in_order and start > self.old_below:
            self.all_old()
            self.old_below, self.old_at = start, 0
        if self.every and self.below(self.old_below):
            self.since += 1
            if self.since >= self.every:
                self.since = 0
                self.old_at = self.one(self.old_at, self.old_below, REACH)
        first = home(key, start, self.size)
        places = [(first + p) % self.size for p in range(min(self.probes, self.size))]
        for place in places:
            held = self.places[place]
            if held is not None and (held.key, held.start, held.until) == (key, start, until):
                held.count += 1
                return
        empty = [place for place in places if self.places[place] is None]
        if not empty:
            oldest = min(places, key=lambda place: self.places[place].start)  # type: ignore[union-attr]
            if self.in_order and self.places[oldest].start >= self.old_below:  # type: ignore[union-attr]
                self.all_old()
            self.leave(oldest)
            empty = [oldest]
        self.places[empty[0]] = Held(key, start, until, 1)

    def promise(self, bound: int) -> None:
        """Take the promise that no later tuple's slice starts below a bound."""
        if self.in_order:
            if bound > self.old_below:
                self.flush(self.old_below)
                self.old_below, self.old_at = bound, 0
            return
        self.flush(bound - self.delay)
        if self.every:
            self.old_below = bound
        if self.delay:
            self.due_below = bound - self.delay + 1

    def flush(self, bound: int) -> None:
        """Flush all that starts below a bound, at once."""
        for place in self.below(bound):
            self.leave(place)

    def end(self) -> None:
        """Flush everything."""
        if self.in_order:
            self.flush(self.old_below)
        self.flush(1 << 63)
