"""A flow's amounts over panes by definition: every pane is asked for its share, in fractions and whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor

from operators.page import Row


def naive_spread(
    table: Sequence[Row], columns: Sequence[str], *, step: int, origin: int = 0, into: str = "ts", max_panes: int = 4096
) -> list[Row]:
    """Give the parts of all flows from ts to end_ts that have both."""
    found: list[Row] = []
    for row in table:
        if not isinstance(row["ts"], int) or not isinstance(row["end_ts"], int):
            continue
        start, end = row["ts"], max(row["ts"], row["end_ts"])
        numbers = [n for n in range((start - origin) // step, (end - origin) // step + 1)]
        touched = [n for n in numbers if origin + n * step < end] or numbers[:1]
        if len(touched) > max_panes:
            touched = touched[-max_panes:]
            start = origin + touched[0] * step
        for n in touched:
            low, high = max(start, origin + n * step), min(end, origin + (n + 1) * step)
            part: Row = dict(row)
            for name in columns:
                part[name] = _share(row[name], low - start, high - start, end - start)
            found.append({**part, into: low})
    return found


def _share(amount: object, low: int, high: int, length: int) -> int | None:
    if not isinstance(amount, int):
        return None
    if length == 0:
        return amount
    size = abs(amount)
    share = floor(Fraction(size * high, length)) - floor(Fraction(size * low, length))
    return share if amount >= 0 else -share
