"""Aggregate functions answered row by row, in Python's own exact numbers, to be held against the columnar ones.

A row is a tuple of Python values (times and durations as integers), None where null; `rows` are in arrival order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

Row: TypeAlias = tuple[object, ...]
Rows: TypeAlias = Sequence[Row]
Naive: TypeAlias = Callable[[Rows], object]


def values(rows: Rows) -> list[object]:
    """Give the first attribute of each row that has one."""
    return [row[0] for row in rows if row[0] is not None]


def naive_count_all(rows: Rows) -> int:
    return len(rows)


def naive_count(rows: Rows) -> int:
    return len(values(rows))


def naive_sum(rows: Rows) -> object:
    found = values(rows)
    if not found:
        return None
    if not any(isinstance(v, float) for v in found):
        return sum(found)
    if any(math.isnan(v) for v in found) or {math.inf, -math.inf} <= set(found):
        return math.nan
    infinite = [v for v in found if math.isinf(v)]
    return infinite[0] if infinite else float(sum(map(Fraction, found)))


def naive_avg(rows: Rows) -> float | None:
    total = naive_sum(rows)
    return None if total is None else total / len(values(rows))


def naive_avg_ticks(rows: Rows) -> int | None:
    found = values(rows)
    return round(Fraction(sum(found), len(found))) if found else None


def naive_variance(ddof: int) -> Naive:
    def variance(rows: Rows) -> float | None:
        found = values(rows)
        if len(found) <= ddof:
            return None
        if not all(math.isfinite(v) for v in found):
            return math.nan
        exact = [Fraction(v) for v in found]
        mean = sum(exact) / len(exact)
        return float(sum((v - mean) ** 2 for v in exact) / (len(exact) - ddof))

    return variance


def naive_stddev(ddof: int) -> Naive:
    def stddev(rows: Rows) -> float | None:
        variance = naive_variance(ddof)(rows)
        return None if variance is None else math.sqrt(variance)

    return stddev


def _rising(value: object) -> tuple[object, ...]:
    """Order values of one type: NaN first, -0.0 before 0.0, null last."""
    if value is None:
        return (2,)
    if isinstance(value, float):
        return (0,) if math.isnan(value) else (1, value, math.copysign(1.0, value))
    return (1, value)


def naive_min(rows: Rows) -> object:
    return min(values(rows), key=_rising, default=None)


def naive_max(rows: Rows) -> object:
    found = values(rows)
    nan = [v for v in found if isinstance(v, float) and math.isnan(v)]
    return nan[0] if nan else max(found, key=_rising, default=None)


def naive_first(rows: Rows) -> object:
    return next(iter(values(rows)), None)


def naive_last(rows: Rows) -> object:
    return next(reversed(values(rows)), None)


def _naive_arg(least: bool, ordered: bool) -> Naive:
    def arg(rows: Rows) -> object:
        best = (naive_min if least else naive_max)([(by,) for _, by in rows])
        if best is None:
            return None
        chosen = [value for value, by in rows if by is not None and _rising(by) == _rising(best)]
        return min(chosen, key=_rising) if ordered else chosen[0]

    return arg


naive_argmin, naive_argmax = _naive_arg(True, True), _naive_arg(False, True)
naive_argmin_unordered, naive_argmax_unordered = _naive_arg(True, False), _naive_arg(False, False)


def naive_count_distinct(rows: Rows) -> int:
    def one(value: object) -> object:
        if isinstance(value, float):
            return "NaN" if math.isnan(value) else value + 0.0
        return value

    return len({tuple(map(one, row)) for row in rows if None not in row})
