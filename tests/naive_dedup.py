"""Duplicates by definition: every tick of a flow record is asked whether an observer before its own tells of it."""

from __future__ import annotations

from collections.abc import Sequence

from operators.data.page import Row


def naive_dedup(
    table: Sequence[Row], keys: Sequence[str], observers: Sequence[str], *, reach: int, mark: str | None
) -> list[Row]:
    """Give the records with their mark, or those that are no duplicates, in the order of arrival."""
    found: list[Row] = []
    for row in table:
        ticks = _life(row, 0)
        others = [
            other
            for other in table
            if all(other[key] == row[key] for key in keys) and _place(other, observers) < _place(row, observers)
        ]
        told = set[int]().union(*(_life(other, reach) for other in others))
        duplicate = bool(ticks) and 2 * len(told & set(ticks)) >= len(ticks)
        if mark is not None:
            found.append({**row, mark: duplicate})
        elif not duplicate:
            found.append(row)
    return found


def _life(row: Row, reach: int) -> range:
    start, end = row["ts"], row["end_ts"]
    if not isinstance(start, int):
        return range(0)
    return range(start - reach, max(start, end if isinstance(end, int) else start) + reach + 1)


def _place(row: Row, observers: Sequence[str]) -> list[tuple[bool, object]]:
    return [(row[name] is None, row[name] if row[name] is not None else 0) for name in observers]
