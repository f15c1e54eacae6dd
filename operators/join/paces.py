"""The granularity a join asks of its inputs: that asked of its results, and often enough to purge in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Final

from operators.data.schema import Schema
from operators.join.widjoin import WidJoin
from operators.join.window import Band, JoinWindow, SameWindow
from operators.pace import TIMES_A_LENGTH, Pace, Paces, finely, want

_PARTS: Final = 1000
"""Into so many parts a step may be cut to serve another as well."""


def join_paces(
    window: JoinWindow,
    wanted: Paces,
    *,
    schemas: Sequence[Schema],
    wattrs: Sequence[str],
    names: Sequence[Mapping[str, str]],
    least: str,
    greatest: str,
) -> list[Paces]:
    """Return what a join asks of its inputs; `names` are what the attributes of each are called in its output.

    The time of one input is promised as the other allows, its range later; so that one is asked for the same steps, put
    off by the range. `least` and `greatest` are the attributes of the output that have the extremes of both times.
    """
    # What it asks for itself, to purge in time, lets groups over it go, too.
    wanted = {name: pace for name, pace in wanted.items() if not pace.optional}
    paces: list[Paces] = []
    for called, wattr in zip(names, wattrs, strict=True):
        paces.append({old: wanted[new] for old, new in called.items() if new in wanted})
        if least in wanted:
            want(paces[-1], wattr, wanted[least])
    asked = [paces[port].get(wattr) for port, wattr in enumerate(wattrs)]
    for port, wattr in enumerate(wattrs):
        if greatest in wanted:
            want(paces[port], wattr, wanted[greatest])
        partner = asked[1 - port]
        # To promise more often than that would cost more than the tuples that go sooner.
        often = finely(schemas[port], wattr, 1000).step or 1
        match window:
            case Band():
                if partner is not None:
                    want(paces[port], wattr, _put_off(partner, window.right if port == 0 else window.left))
                half = (window.left + window.right) // (2 * TIMES_A_LENGTH)
                paces[port][wattr] = _as_fine_as(paces[port].get(wattr), max(half, often))
            case SameWindow():
                want(paces[port], wattr, Pace(window.size, window.origin % window.size))
            case WidJoin():
                own = window.left if port == 0 else window.right
                want(paces[port], wattr, Pace(own.slide, own.origin % own.slide))
            case _:
                want(paces[port], wattr, Pace(max(window.span // TIMES_A_LENGTH, often)))
    return paces


def _put_off(pace: Pace, by: int) -> Pace:
    """Return the same steps later, a little more so where else they would be of no common measure with their length."""
    if pace.step is None:
        return pace
    if gcd(pace.step, by) * _PARTS < pace.step:
        parts = next((n for n in range(_PARTS, 2 * _PARTS) if pace.step % n == 0), pace.step)
        coarse = pace.step // parts
        by = -(-by // coarse) * coarse
    return Pace(pace.step, (pace.origin + by) % pace.step)


def _as_fine_as(pace: Pace | None, step: int) -> Pace:
    """Return steps of at most a length that include those of a pace, if they can without being far finer."""
    if pace is None:
        return Pace(step)
    if pace.step is None or pace.step <= step:
        return pace
    least = -(-pace.step // step)
    parts = next((n for n in range(least, 2 * least + 8) if pace.step % n == 0), least)
    return Pace(pace.step // parts, pace.origin % (pace.step // parts)) if pace.step % parts == 0 else pace
