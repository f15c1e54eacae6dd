"""Bills by definition: every slot of a period is asked for its rate, zero where there is none, and they are sorted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil

from operators.data.page import Row


def naive_billing(
    slots: Sequence[Row],
    value: str,
    *,
    by: Sequence[str],
    sources: Sequence[str],
    first: int,
    slide: int,
    period: Callable[[int], tuple[int, int]],
    share: str,
) -> list[Row]:
    """Give the bill of each group and period that has a slot; slots begin at `first` and every `slide` from there."""
    found: list[Row] = []
    billed: set[tuple[object, ...]] = set()
    for row in slots:
        begin, end = period(_int(row["window_start"]))
        key = tuple(row[name] for name in by)
        if (begin, key) in billed:
            continue
        billed.add((begin, key))
        inside = [each for each in slots if begin <= _int(each["window_start"]) < end]
        own = [each for each in inside if tuple(each[name] for name in by) == key]
        there = [_int(each[value]) for each in own if each[value] is not None]
        same = [each for each in inside if all(each[name] == row[name] for name in sources)]
        starts = [tick for tick in range(begin, end) if (tick - first) % slide == 0]
        rates = sorted(sum(_int(each[value]) for each in own if each["window_start"] == start) for start in starts)
        heard = {each["window_start"] for each in same}
        found.append(
            {name: row[name] for name in by}
            | {f"p{float(Fraction(share) * 100):g}_{value}": rates[max(ceil(Fraction(share) * len(starts)), 1) - 1]}
            | {f"max_{value}": rates[-1], "total": sum(there) if there else None, "slots": len(starts)}
            | {"empty": len(starts) - len(own), "missing": len(starts) - len(heard)}
            | {"window_start": begin, "window_end": end}
        )
    return found


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0
