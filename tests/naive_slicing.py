"""Any mix of windows answered one by one from materialised tuples: extents tried, sessions sorted and scanned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from operators.data.page import Row, Scalar
from operators.window import SlidingWindow
from operators.window.delimited import DelimitedWindow, FixedBandWindow
from operators.window.session import SessionWindow
from operators.window.user import EdgeWindow, ExtentWindow

Answer = Callable[[list[Row]], object]
Extent = tuple[int, int, int]
"""Window-id, begin, end."""


def naive_slicing(
    windows: Mapping[str, object],
    answers: Mapping[str, Answer],
    by: Sequence[str],
    rows: Sequence[Row],
    *,
    wattr: str = "ts",
    named: bool | None = None,
    since: Mapping[str, int] | None = None,
    others: Mapping[str, Callable[[list[Row]], Iterable[Extent]]] | None = None,
) -> list[Row]:
    """Give the results of all windows that have a tuple, for every group; windows in `since` count from a tick on.

    `others` finds, by name, the windows of kinds that only their own test knows, from all tuples.
    """
    results: list[Row] = []
    groups: dict[tuple[Scalar, ...], list[Row]] = {}
    for row in rows:
        if row[wattr] is not None:
            groups.setdefault(tuple(row[name] for name in by), []).append(row)
    for name, window in windows.items():
        counts_from = (since or {}).get(name)
        timed = [row for row in rows if row[wattr] is not None]
        for key, members in groups.items():
            ticks = sorted({_int(row[wattr]) for row in members})
            if others and name in others:
                shown = [row for row in timed if counts_from is None or _int(row[wattr]) >= counts_from]
                found = [f for f in others[name](shown) if counts_from is None or f[1] >= counts_from]
            elif isinstance(window, DelimitedWindow):
                marks = {_int(row[wattr]) for row in timed if row[window.mark]}
                found = between(sorted(mark for mark in marks if counts_from is None or mark >= counts_from))
            else:
                found = extents(window, ticks, counts_from)
            for wid, begin, end in found:
                inside = [row for row in members if begin <= _int(row[wattr]) < end]
                if not inside:
                    continue
                result: Row = dict(zip(by, key, strict=True))
                result |= {output: answer(inside) for output, answer in answers.items()}  # type: ignore[operator]
                if len(windows) > 1 if named is None else named:
                    result["window"] = name
                results.append(result | {"wid": wid, "window_start": begin, "window_end": end})
    return results


def extents(window: object, ticks: Sequence[int], since: int | None = None) -> Iterator[Extent]:
    """Give the windows that these ticks of one group may be in, of those that count from a tick on."""
    if isinstance(window, SessionWindow):
        yield from (found for found in sessions(window.gap, ticks) if since is None or found[1] >= since)
    elif isinstance(window, FixedBandWindow):
        if since is None or window.start >= since:
            yield 0, window.start, window.start + window.size
    elif isinstance(window, ExtentWindow):
        for wid in window.wids:
            begin, end = window.extent(wid)
            if since is None or begin >= since:
                yield wid, begin, end
    elif isinstance(window, EdgeWindow):
        ends = sorted({window.next_edge(tick) for tick in ticks})
        for end in ends:
            begin = end - 1
            while window.next_edge(begin - 1) == end and begin > ticks[0] - 100:
                begin -= 1
            if begin > ticks[0] - 100 and (since is None or begin >= since):
                yield begin, begin, end
    elif isinstance(window, SlidingWindow):
        if not ticks:
            return
        low = (ticks[0] - window.origin) // window.slide - 2
        high = (ticks[-1] + window.size - window.origin) // window.slide + 2
        for wid in range(low, high):
            begin, end = window.extent(wid)
            if (since is None or begin >= since) and (window.partial or begin >= window.origin):
                yield wid, begin, end
    else:
        raise TypeError(f"no naive answer for {window!r}")


def between(marks: Sequence[int]) -> Iterator[Extent]:
    """Give the windows from each mark to the next."""
    for begin, end in pairwise(marks):
        yield begin, begin, end


def sessions(gap: int, ticks: Sequence[int]) -> Iterator[Extent]:
    """Sort, then scan: a session ends where the next tick is a gap or more away."""
    begin: int | None = None
    last = 0
    for tick in sorted(ticks):
        if begin is not None and tick - last >= gap:
            yield begin, begin, last + gap
            begin = None
        begin = tick if begin is None else begin
        last = tick
    if begin is not None:
        yield begin, begin, last + gap


def _int(value: Scalar) -> int:
    assert isinstance(value, int)
    return value
