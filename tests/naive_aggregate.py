"""Window aggregates answered from `extent()` alone: materialise, look at every window, aggregate its tuples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from operators.data.page import Row
from operators.window import FOREVER, PartitionedWindow, Window

Answer = Callable[[list[Row]], object]


def naive_windows(window: Window, answers: Mapping[str, Answer], by: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    """Give the results of all windows with at least one tuple, for every group."""
    if isinstance(window, PartitionedWindow):
        rows = _ranked(window, rows)
    timed = [row for row in rows if row[window.wattr] is not None]
    wids = window.windows(np.array([row[window.wattr] for row in timed], np.int64))
    results: list[Row] = []
    for wid in wids.tolist():
        begin, end = window.extent(wid)
        groups: dict[tuple[object, ...], list[Row]] = {}
        for row in timed:
            if begin <= row[window.wattr] < end:
                groups.setdefault(tuple(row[name] for name in by), []).append(row)
        for key, members in groups.items():
            result: Row = dict(zip(by, key, strict=True))
            result |= {name: answer(members) for name, answer in answers.items()}
            result |= {"wid": wid, "window_start": None if begin == -FOREVER else begin, "window_end": end}
            results.append(result)
    if isinstance(window, PartitionedWindow):
        # A partition has its own windows: those of its own rows, not of the longest partition.
        last = {
            key: max(r[window.wattr] for r in timed if _key(window, r) == key)
            for key in {_key(window, r) for r in timed}
        }
        results = [r for r in results if r["wid"] in window.windows(np.arange(last[_key(window, r)] + 1)).tolist()]
    return results


def naive_groups(answers: Mapping[str, Answer], by: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    """Give the results of a plain aggregate."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return [
        dict(zip(by, key, strict=True)) | {name: answer(members) for name, answer in answers.items()}
        for key, members in groups.items()
    ]


def _key(window: PartitionedWindow, row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in window.partition)


def _ranked(window: PartitionedWindow, rows: Sequence[Row]) -> list[Row]:
    counts: dict[tuple[object, ...], int] = {}
    ranked: list[Row] = []
    for row in rows:
        key = _key(window, row)
        ranked.append({**row, window.wattr: counts.get(key, 0)})
        counts[key] = counts.get(key, 0) + 1
    return ranked
