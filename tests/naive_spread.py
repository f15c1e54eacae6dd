"""A flow's amounts over panes by definition: every pane is asked for its share, in fractions and whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor

from operators.data.page import Row


def naive_spread(
    table: Sequence[Row],
    columns: Sequence[str],
    *,
    step: int,
    origin: int = 0,
    into: str = "ts",
    max_panes: int = 4096,
    reach: int | None = None,
) -> list[Row]:
    """Give the parts of all flows from ts to end_ts that have both."""
    found: list[Row] = []
    for row in table:
        if not isinstance(row["ts"], int) or not isinstance(row["end_ts"], int):
            continue
        start, end = row["ts"], max(row["ts"], row["end_ts"])
        touched = _touched(start, end, step, origin)
        if reach is not None and len(touched) > reach:
            start = origin + touched[-reach] * step
            touched = touched[-reach:]
        width, many = step, len(touched)
        if many > max_panes > 1:
            # So many panes make a wide one that any flow over as many panes is over max_panes wide ones at most.
            width = next(k for k in range(1, many + 1) if k * (max_panes - 1) >= many - 1) * step
            touched = _touched(start, end, width, origin)
        elif many > max_panes:
            whole = {name: _share(row[name], 0, end - start, end - start) for name in columns}
            found.append({**row, **whole, into: start})
            continue
        for n in touched:
            low, high = max(start, origin + n * width), min(end, origin + (n + 1) * width)
            part: Row = dict(row)
            for name in columns:
                part[name] = _share(row[name], low - start, high - start, end - start)
            found.append({**part, into: low})
    return found


def _touched(start: int, end: int, width: int, origin: int) -> list[int]:
    """Number the panes of a width that a flow is in."""
    numbers = list(range((start - origin) // width, (end - origin) // width + 1))
    return [n for n in numbers if origin + n * width < end] or numbers[:1]


def _share(amount: object, low: int, high: int, length: int) -> int | None:
    if not isinstance(amount, int):
        return None
    if length == 0:
        return amount
    size = abs(amount)
    share = floor(Fraction(size * high, length)) - floor(Fraction(size * low, length))
    return share if amount >= 0 else -share
