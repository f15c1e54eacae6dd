"""What a window that fires early is expected to have in the end, by definition: tick by tick, and window by window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from math import ceil, floor, isfinite, sqrt
from typing import cast

import numpy as np
import numpy.typing as npt

from operators.data.page import Row
from operators.signals import Signal
from operators.window import SlidingWindow
from operators.window_aggregate.triggers.condition import Condition
from punctuation import Punctuation
from tests.naive_triggers import Answers, naive_triggers

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

    def noted() -> Iterator[Row | Signal | int | Punctuation]:
        nonlocal known, highest, complete
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

    told = {**answers, "state": lambda members: (highest, known, len(members))}
    scores: list[dict[str, tuple[float, float]]] = []
    open_: dict[object, list[dict[str, tuple[float, float]]]] = {}
    found: list[Row] = []
    for row in naive_triggers(window, condition, told, by, noted()):
        high, lateness, members = cast("tuple[int, list[int], int]", row.pop("state"))
        key = tuple(row[name] for name in (*by, "wid"))
        if row["final"]:
            errors = [_errors(row, estimate) for estimate in open_.pop(key, [])]
            if errors:
                scores.append({n: (min(e[n] for e in errors), max(e[n] for e in errors)) for n in GROWS})
            ends = {f"{name}_{end}": float(str(row[name])) for name in GROWS for end in ("expected", "low", "high")}
            found.append(row | {"arrived": 1.0} | ends)  # type: ignore[arg-type]
            continue
        start, stop = int(str(row["window_start"])), int(str(row["window_end"]))
        share = arrived(lateness, high, start, stop)
        over = share is not None and high >= stop
        estimate: dict[str, tuple[float, float]] = {}
        values: Row = {}
        for name, grows in GROWS.items():
            value = float(str(row[name]))
            if not over or share is None:
                values |= {f"{name}_{end}": None for end in ("expected", "low", "high")}
                continue
            expected = value / float(share) if grows else value
            spread = abs(expected) * sqrt(float(1 - share) / members)
            estimate[name] = expected, spread
            low, high_ = _bounds([score[name] for score in scores], interval, expected, spread)
            if name == "n" and low is not None and high_ is not None:
                low, high_ = max(floor(low), value), max(ceil(high_), value)
            low, high_ = (bound if bound is not None and isfinite(bound) else None for bound in (low, high_))
            values |= {f"{name}_expected": expected, f"{name}_low": low, f"{name}_high": high_}
        if estimate:
            open_.setdefault(key, []).append(estimate)
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


def _bounds(
    scores: Sequence[tuple[float, float]], interval: Fraction, expected: float, spread: float
) -> tuple[float | None, float | None]:
    tail = (1 - interval) / 2
    low, high = floor((len(scores) + 1) * tail), ceil((len(scores) + 1) * (1 - tail))
    if low < 1 or high > len(scores):
        return None, None
    return (
        expected + sorted(least for least, _ in scores)[low - 1] * spread,
        expected + sorted(most for _, most in scores)[high - 1] * spread,
    )


def _array(tick: int) -> npt.NDArray[np.int64]:
    return np.array([tick], np.int64)
