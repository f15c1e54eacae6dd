"""How many examples a property is tried on, and on which parameters.

What multiplies is tried whole among the longer tests.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import attrs
import pytest
from hypothesis import settings


@attrs.frozen
class Examples:
    """How many examples a profile tries: for most properties, for those that cost much, and in a unit of `share`.

    `deaths` is how many simulated machines die in each query, 0 for one at each operation on the disk, half of them
    each week. `kills` is how many of its processes are killed at least; each `every`-th operation is one of the places.
    `texts` is how many generated queries one example has. `plans` is how many random plans are tried.
    """

    plain: int
    dear: int
    unit: int
    deaths: int = 0
    kills: int = 30
    every: int = 8
    texts: int = 200
    plans: int = 10


PROFILES = {
    "unit": Examples(4, 4, 4, texts=40, plans=4),
    "default": Examples(50, 10, 8),
    "ci": Examples(50, 50, 50, texts=40, plans=50),
    "nightly": Examples(1000, 1000, 160, deaths=17_000, kills=1_000, every=1, texts=1_000, plans=20_000),
}


chosen = PROFILES["default"]
turn: int | None = 0
"""Which part of what takes turns is tried: its number, None for all of it."""


def use(name: str) -> None:
    """Have all properties of tests that are read from now on tried on the examples of a profile."""
    global chosen
    chosen = PROFILES[name]
    settings.load_profile(name)


_TURNS: Final = 5
"""Weeks after which each module had its turn."""


def take_turn(number: int | None) -> None:
    """Choose the part of what takes turns."""
    global turn
    turn = number


def by_turns(points: Sequence[int], of: int) -> Sequence[int]:
    """Give every so manieth point, others each week; all of them by night."""
    return points if turn is None else points[turn % of :: of]


def share(part: float) -> settings:
    """Give the settings for a property of which one example costs more than most do, or tells less.

    A part of 1 or less is for a property that costs much, or that is tried for each of many parameters: by default it
    is tried on fewer examples than others are, three at least. One above 1 is for a property of which few examples
    prove little: it is tried on so many units, or as often as others if that is more.

    Where a profile has more such examples than the default one, modules take turns: a fifth of them has more each week.
    """
    here = inspect.currentframe()
    assert here is not None and here.f_back is not None
    profile = chosen if its_turn(here.f_back.f_globals["__name__"]) else PROFILES["default"]
    if part <= 1:
        return settings(max_examples=max(3, round(part * min(profile.dear, chosen.dear))))
    return settings(max_examples=max(chosen.plain, round(part * min(profile.unit, chosen.unit))))


def its_turn(name: str) -> bool:
    """Return whether a module has its turn this week."""
    return turn is None or (turn + zlib.crc32(name.encode())) % _TURNS == 0


def mostly_slow(names: Iterable[object], *, but: Collection[object] = (), every: int = 0) -> list[Any]:
    """Give parameters of which only some are for the default run; the others are for the longer tests.

    Those of the default run are named, or are each `every`-th, from the first on.
    """
    names = list(names)
    unknown = [str(name) for name in but if name not in names]
    assert not unknown, f"{unknown} are no names"
    return [
        pytest.param(
            *(name if isinstance(name, tuple) else (name,)),
            marks=() if name in but or (every and place % every == 0) else pytest.mark.slow,
        )
        for place, name in enumerate(names)
    ]
