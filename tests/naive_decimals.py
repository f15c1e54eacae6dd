"""Windows over decimals by definition, in fractions: no tick is counted, each window is asked for its values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

Window = tuple[int, Fraction | None, Fraction, int]
"""Its number, where it begins and ends, and how many values are in it."""


def sliding(values: Sequence[Decimal | None], size: Fraction, slide: Fraction, origin: Fraction) -> list[Window]:
    """Give every window of Eq. 5.2 that has a value: extent(w) = [origin + (w+1)slide - size, origin + (w+1)slide)."""
    there = [Fraction(value) for value in values if value is not None]
    found: list[Window] = []
    for wid in _numbers(there, slide, origin, size):
        end = origin + (wid + 1) * slide
        inside = [value for value in there if end - size <= value < end]
        if inside:
            found.append((wid, end - size, end, len(inside)))
    return found


def landmark(values: Sequence[Decimal | None], slide: Fraction, origin: Fraction) -> list[Window]:
    """Give every window of Eq. 5.8 that has a value, up to the first one that has all."""
    there = [Fraction(value) for value in values if value is not None]
    found: list[Window] = []
    for wid in _numbers(there, slide, origin, Fraction(0)):
        end = origin + (wid + 1) * slide
        inside = [value for value in there if value < end]
        if inside:
            found.append((wid, None, end, len(inside)))
        if len(inside) == len(there):
            break
    return found


def sessions(values: Sequence[Decimal | None], gap: Fraction) -> list[tuple[Fraction, Fraction, int]]:
    """Give every session, from its first value to a gap after its last: two values of one are less than a gap apart."""
    found: list[list[Fraction]] = []
    for value in sorted(Fraction(value) for value in values if value is not None):
        if found and value - found[-1][-1] < gap:
            found[-1].append(value)
        else:
            found.append([value])
    return [(session[0], session[-1] + gap, len(session)) for session in found]


def band(left: Sequence[Decimal], right: Sequence[Decimal], stays: tuple[Fraction, Fraction]) -> list[tuple[int, int]]:
    """Give the places of the values that are in each other's band, open on both sides (docs/semantics.md row 22)."""
    return [
        (i, j)
        for i, one in enumerate(map(Fraction, left))
        for j, other in enumerate(map(Fraction, right))
        if one - stays[1] < other < one + stays[0]
    ]


def _numbers(values: Sequence[Fraction], slide: Fraction, origin: Fraction, reach: Fraction) -> range:
    if not values:
        return range(0)
    return range(math.floor((min(values) - origin) / slide) - 2, math.floor((max(values) + reach - origin) / slide) + 3)
