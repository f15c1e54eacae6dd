"""Windows that tuples define, answered from `windows()` and `extent()` alone: every window is asked for its tuples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from operators.data.page import Int64s, Row
from operators.window.counted import CountWindow, LastTuples, SlideByRank, SlideByRows, SlideByTuple

Answer = Callable[[list[Row]], object]
Counted = SlideByTuple | SlideByRows | SlideByRank | CountWindow | LastTuples


def naive_ranked(
    window: Counted,
    answers: Mapping[str, Answer],
    by: Sequence[str],
    rows: Sequence[Row],
    *,
    partition: Sequence[str] | None = None,
) -> list[Row]:
    """Give the results of all windows with a tuple, for every group; each partition has its own windows."""
    results: list[Row] = []
    everything = _values(window, [row for row in rows if row[window.wattr] is not None])
    for members in _grouped(rows, by if partition is None else partition):
        numbered = _numbered(window, members)
        members = [row for row in members if row[window.wattr] is not None]
        values = _values(window, members)
        for wid in _windows(window, values, numbered, everything).tolist():
            inside = window.extent(wid, values)
            begin, end = _bounds(window, wid, values[inside])
            for found in _grouped([row for row, yes in zip(members, inside, strict=True) if yes], by):
                result: Row = {name: found[0][name] for name in by}
                result |= {name: answer(found) for name, answer in answers.items()}  # type: ignore[misc]
                result |= {"wid": wid, "window_start": begin, "window_end": end}
                results += [result] * _times(window, wid, values, numbered)
    return results


def _windows(window: Counted, values: Int64s, numbered: list[tuple[int, int]], everything: Int64s) -> Int64s:
    if isinstance(window, SlideByRows):
        found = np.array(numbered, np.int64).reshape(-1, 2)
        return window.windows(found[:, 0], found[:, 1])
    # Edges of time belong to the stream as a whole; a window without a tuple of the partition gives nothing.
    return window.windows(everything if isinstance(window, LastTuples) and window.idle else values)


def _bounds(window: Counted, wid: int, inside: Int64s) -> tuple[int, int]:
    if isinstance(window, LastTuples):
        return int(inside.min()) if len(inside) else 0, window.end(wid)
    begin, end = window.extents(np.array([wid]))
    return int(begin[0]), int(end[0])


def _times(window: Counted, wid: int, values: Int64s, numbered: list[tuple[int, int]]) -> int:
    """Give how many rows a window is worth: one, or with `each` one for every tuple that defines it."""
    if isinstance(window, CountWindow | LastTuples) or not window.each:
        return 1
    if isinstance(window, SlideByTuple):
        return int((values == wid).sum())
    if isinstance(window, SlideByRows):
        return sum(value == wid and (number + 1) % window.rows == 0 for value, number in numbered)
    return int((np.sort(values)[window.rows - 1 :: window.rows] == wid).sum())


def _values(window: Counted, rows: Sequence[Row]) -> Int64s:
    return np.array([row[window.wattr] for row in rows], np.int64)


def _numbered(window: Counted, rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Give (value, arrival number) of the tuples that have both; the numbers are counted here, or an attribute's."""
    found: list[tuple[int, int]] = []
    for i, row in enumerate(rows):
        number = row[window.number] if isinstance(window, SlideByRows) and window.number is not None else i
        if row[window.wattr] is not None and number is not None:
            found.append((int(str(row[window.wattr])), int(str(number))))
    return found


def _grouped(rows: Sequence[Row], by: Sequence[str]) -> list[list[Row]]:
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return list(groups.values())
