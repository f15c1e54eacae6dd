"""What a window that fires early is expected to have in the end, by definition: tick by tick, and window by window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from math import ceil, floor, isfinite, sqrt
from typing import cast

import numpy as np
import numpy.typing as npt
from pytest import approx

from operators.data.page import Row
from operators.signals import Signal
from operators.window import SlidingWindow
from operators.window_aggregate.triggers.condition import Condition
from punctuation import Punctuation
from tests.naive_triggers import Answers, naive_triggers

RATE = 0.1
Errors = dict[str, float]
Bounds = dict[str, tuple[float, float]]
GROWS = {"n": True, "total": True, "mean": False}


def naive_expected(
    window: SlidingWindow,
    condition: Condition,
    answers: Answers,
    by: Sequence[str],
    moments: Iterable[Row | Signal | int | Punctuation],
    *,
    interval: Fraction,
) -> list[Row]:
    """Give the results of triggers with the estimates of those columns that GROWS names, in the order they come."""
    seen: list[int] = []
    known: list[int] = []
    highest = -(10**9)
    complete = -(10**9)
    promises = 0

    def noted() -> Iterator[Row | Signal | int | Punctuation]:
        nonlocal known, highest, complete, promises
        for moment in moments:
            if isinstance(moment, dict):
                tick = int(str(moment["ts"]))
                first, last = (int(wids[0]) for wids in window.wids(_array(tick)))
                if first < last:
                    seen.append(max(highest - tick, 0) if seen else 0)
                    highest = max(highest, tick)
            yield moment
            bound = moment.bound("ts") if isinstance(moment, Punctuation) else None
            if bound is not None and window.complete(int(bound)) > complete:
                complete, known = window.complete(int(bound)), list(seen)
                promises += 1

    def move() -> None:
        """Move the bounds of each value by how many of the windows that are over they did not hold."""
        nonlocal judged
        for name in GROWS:
            quantiles = _quantiles([score[name] for score in scores], interval)
            for side in (0, 1):
                shares = [
                    Fraction(sum(failed), len(failed))
                    for wid in {wid for wid, _ in judged}
                    if (failed := [given[name][side] for other, given in judged if other == wid])
                ]
                width = quantiles[1] - quantiles[0] if quantiles else 0.0
                if isfinite(width):
                    tail = (1 - interval) / 2
                    moved = shifts[name][side] + RATE * float(sum(share - tail for share in shares)) * width
                    shifts[name][side] = max(moved, 0.0)
        judged = []

    told = {**answers, "state": lambda members: (highest, known, len(members), promises)}
    scores: list[dict[str, tuple[float, float]]] = []
    shifts = {name: [0.0, 0.0] for name in GROWS}
    judged: list[tuple[object, dict[str, tuple[bool, bool]]]] = []
    open_: dict[object, list[tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float]]]]] = {}
    found: list[Row] = []
    moved = 0
    for row in naive_triggers(window, condition, told, by, noted()):
        high, lateness, members, at = cast("tuple[int, list[int], int, int]", row.pop("state"))
        if at > moved:
            move()
            moved = at
        key = tuple(row[name] for name in (*by, "wid"))
        if row["final"]:
            estimates = [(_errors(row, estimate), given) for estimate, given in open_.pop(key, [])]
            if estimates:
                scores.append({n: (min(e[n] for e, _ in estimates), max(e[n] for e, _ in estimates)) for n in GROWS})
            if bounded := [(errors, given) for errors, given in estimates if given]:
                failed = {
                    n: (any(_below(e, g, n) for e, g in bounded), any(_above(e, g, n) for e, g in bounded))
                    for n in GROWS
                }
                judged.append((row["wid"], failed))
            ends = {f"{name}_{end}": float(str(row[name])) for name in GROWS for end in ("expected", "low", "high")}
            found.append(row | {"arrived": 1.0} | ends)  # type: ignore[arg-type]
            continue
        start, stop = int(str(row["window_start"])), int(str(row["window_end"]))
        share = arrived(lateness, high, start, stop)
        over = share is not None and high >= stop
        estimate: dict[str, tuple[float, float]] = {}
        given: dict[str, tuple[float, float]] = {}
        values: Row = {}
        for name, grows in GROWS.items():
            value = float(str(row[name]))
            if not over or share is None:
                values |= {f"{name}_{end}": None for end in ("expected", "low", "high")}
                continue
            expected = value / float(share) if grows else value
            spread = abs(expected) * sqrt(float(1 - share) / members)
            estimate[name] = expected, spread
            low = high_ = None
            if quantiles := _quantiles([score[name] for score in scores], interval):
                given[name] = quantiles[0] - shifts[name][0], quantiles[1] + shifts[name][1]
                low, high_ = (expected + bound * spread for bound in given[name])
            if name == "n" and low is not None and high_ is not None:
                low, high_ = max(floor(low), value), max(ceil(high_), value)
            low, high_ = (bound if bound is not None and isfinite(bound) else None for bound in (low, high_))
            values |= {f"{name}_expected": expected, f"{name}_low": low, f"{name}_high": high_}
        if estimate:
            open_.setdefault(key, []).append((estimate, given))
        found.append(row | {"arrived": None if share is None else float(share)} | values)
    return found


def arrived(lateness: Sequence[int], high: int, start: int, stop: int) -> Fraction | None:
    """Give the share of the ticks of a window whose tuples have come; None before anything is known."""
    if not lateness:
        return None
    missing = Fraction(0)
    for tick in range(start, stop):
        later = sum(late > high - tick for late in lateness)
        missing += Fraction(later + 1, len(lateness) + 2) if tick <= high else 1
    return 1 - missing / (stop - start)


def _errors(final: Row, estimate: dict[str, tuple[float, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, (expected, spread) in estimate.items():
        error = float(str(final[name])) - expected
        found[name] = 0.0 if error == 0 else error / spread if spread else error * float("inf")
    return found


def _below(errors: Errors, given: Bounds, name: str) -> bool:
    return errors[name] < given[name][0] and errors[name] != approx(given[name][0])


def _above(errors: Errors, given: Bounds, name: str) -> bool:
    return errors[name] > given[name][1] and errors[name] != approx(given[name][1])


def _quantiles(scores: Sequence[tuple[float, float]], interval: Fraction) -> tuple[float, float] | None:
    tail = (1 - interval) / 2
    low, high = floor((len(scores) + 1) * tail), ceil((len(scores) + 1) * (1 - tail))
    if low < 1 or high > len(scores):
        return None
    return sorted(least for least, _ in scores)[low - 1], sorted(most for _, most in scores)[high - 1]


def _array(tick: int) -> npt.NDArray[np.int64]:
    return np.array([tick], np.int64)
