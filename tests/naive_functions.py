"""Aggregate functions answered row by row, in Python's own exact numbers, to be held against the columnar ones.

A row is a tuple of Python values (times and durations as integers), None where null; `rows` are in arrival order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias

import pyarrow as pa

from operators.data.digests import digests

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


def _one(value: object) -> object:
    """Give one value for those that count as one: NaN whatever its bits, 0.0 whatever its sign."""
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    return value


def naive_quantile(q: str) -> Naive:
    """Give the value whose number, in order, is q times their number, rounded up; NaN when there is one."""

    def quantile(rows: Rows) -> object:
        found = sorted(map(_one, values(rows)), key=_rising)
        if not found or _rising(found[0]) == (0,):
            return found[0] if found else None
        return found[max(math.ceil(Fraction(q) * len(found)), 1) - 1]

    return quantile


def _counted(rows: Rows) -> list[tuple[object, int]]:
    """Give each value with its count, the most frequent first, of equally frequent ones the smaller."""
    numbers: dict[object, int] = {}
    first: dict[object, object] = {}
    for value in map(_one, values(rows)):
        name = _rising(value)
        numbers[name] = numbers.get(name, 0) + 1
        first[name] = value
    return [(first[name], numbers[name]) for name in sorted(numbers, key=lambda name: (-numbers[name], name))]


def naive_mean_gap(timed: bool) -> Naive:
    def mean_gap(rows: Rows) -> object:
        found = sorted(values(rows))
        if len(found) < 2:
            return None
        mean = Fraction(found[-1] - found[0], len(found) - 1)
        return round(mean) if timed else float(mean)

    return mean_gap


def naive_gap_variation(rows: Rows) -> float | None:
    found = sorted(values(rows))
    gaps = [Fraction(b - a) for a, b in pairwise(found)]
    if len(gaps) < 2 or found[0] == found[-1]:
        return None
    mean = sum(gaps) / len(gaps)
    return math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps) / mean**2)


def naive_mode(rows: Rows) -> object:
    found = _counted(rows)
    return found[0][0] if found else None


def naive_top(k: int) -> Naive:
    return lambda rows: [{"value": value, "count": count} for value, count in _counted(rows)[:k]]


def naive_heavy(share: str) -> Naive:
    def heavy(rows: Rows) -> object:
        enough = Fraction(share) * len(values(rows))
        return [{"value": value, "count": count} for value, count in _counted(rows) if count >= enough]

    return heavy


def naive_minmax(rows: Rows) -> object:
    found = list(map(_one, values(rows)))
    if not found:
        return None
    ends = {"min": naive_min([(v,) for v in found]), "max": naive_max([(v,) for v in found])}
    counts = {f"{end}_count": sum(_rising(v) == _rising(value) for v in found) for end, value in ends.items()}
    return {**ends, **counts}


def naive_m4(rows: Rows) -> object:
    """Outline (x,) by arrival, or (x, y) by y."""
    found = [row for row in rows if None not in row]
    if not found:
        return None
    first, last = found[0][0], found[-1][0]
    if len(found[0]) == 2:
        first, last = naive_argmin(found), naive_argmax(found)
    only = [row[:1] for row in found]
    return {"min": naive_min(only), "max": naive_max(only), "first": first, "last": last}


def naive_centre(rows: Rows) -> object:
    found = [row for row in rows if None not in row]
    if not all(math.isfinite(number) for row in found for number in row):
        weight = sum(w for _, w in found)
        return None if weight == 0 else sum(v * w for v, w in found) / weight
    weight = sum(Fraction(w) for _, w in found)
    return None if weight == 0 else float(sum(Fraction(v) * Fraction(w) for v, w in found) / weight)


def naive_centre_ticks(rows: Rows) -> object:
    found = [row for row in rows if None not in row]
    weight = sum(Fraction(w) for _, w in found)
    return None if weight == 0 else round(sum(Fraction(v) * Fraction(w) for v, w in found) / weight)


def naive_geometric_mean(rows: Rows) -> float | None:
    found = [float(v) for v in values(rows)]
    if not found:
        return None
    if any(math.isnan(v) or v < 0 for v in found) or {0.0, math.inf} <= set(found):
        return math.nan
    if 0.0 in found or math.inf in found:
        return 0.0 if 0.0 in found else math.inf
    # Each by itself, for the product of large numbers is infinite.
    return math.prod(v ** (1 / len(found)) for v in found)


def naive_concat(separator: str) -> Naive:
    """Join (x,) by arrival, or (x, y) by y, equal places by x."""

    def concat(rows: Rows) -> object:
        found = [row for row in rows if None not in row]
        if found and len(found[0]) == 2:
            found.sort(key=lambda row: (_rising(row[1]), _as_bytes(row[0])))
        parts = [row[0] for row in found]
        if not parts:
            return None
        return (separator.encode() if isinstance(parts[0], bytes) else separator).join(parts)

    return concat


def naive_collect(fields: Sequence[pa.Field], most: int) -> Naive:
    """List tuples in the order of their values; of too many those of the least hash, one after the other."""

    def hashed(row: Row) -> int:
        columns = [pa.array([value], field.type) for value, field in zip(row, fields, strict=True)]
        return int(digests(columns, 1)[0])

    def order(row: Row) -> tuple[object, ...]:
        return tuple(_rising(_as_bytes(value)) for value in row)

    def collect(rows: Rows) -> object:
        kept = sorted(rows, key=lambda row: (hashed(row), order(row)))[:most]
        names = [field.name for field in fields]
        tuples = [dict(zip(names, row, strict=True)) for row in sorted(kept, key=order)]
        return {"count": len(rows), "tuples": tuples}

    return collect


def _as_bytes(text: object) -> object:
    return text.encode() if isinstance(text, str) else text
