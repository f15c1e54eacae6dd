"""Early results by definition: at each tick at which a window fires, ask every tuple whether it lies before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from operators.data.page import Row
from operators.window import SlidingWindow

Answers = Mapping[str, Callable[[list[Row]], object]]


def naive_early(
    windows: Mapping[str, SlidingWindow],
    after: Mapping[str, Sequence[int]],
    answers: Answers,
    by: Sequence[str],
    table: Iterable[Row],
    *,
    discard: bool = False,
) -> list[Row]:
    """Give the results of windows at so many ticks `after` they begin, in any order; the last is at their end."""
    given = [row for row in table if row["ts"] is not None]
    found: list[Row] = []
    for name, window in windows.items():
        ticks = [int(row["ts"]) for row in given]  # type: ignore[arg-type]
        if not ticks:
            continue
        first = (min(ticks) - window.origin) // window.slide
        wids = range(first, (max(ticks) - window.origin + window.size) // window.slide + 1)
        for wid in wids:
            start, stop = window.extent(wid)
            if wid < window.least:
                continue
            for i, behind in enumerate(after[name]):
                since = start + after[name][i - 1] if discard and i else start
                groups: dict[tuple[object, ...], list[Row]] = {}
                for row in given:
                    if since <= int(row["ts"]) < start + behind:  # type: ignore[arg-type]
                        groups.setdefault(tuple(row[key] for key in by), []).append(row)
                for key, members in groups.items():
                    result: Row = dict(zip(by, key, strict=True))  # type: ignore[arg-type]
                    result |= {column: answer(members) for column, answer in answers.items()}  # type: ignore[misc]
                    result |= {"window": name} if len(windows) > 1 else {}
                    result |= {"wid": wid, "window_start": start, "window_end": stop}
                    found.append(result | {"fired": start + behind, "final": start + behind == stop})
    return found


def naive_refined(results: Iterable[Row], values: Sequence[str]) -> list[Row]:
    """Give each result after what stands is taken back; one that is not final and changes nothing is not given."""
    stands: dict[tuple[object, ...], Row] = {}
    found: list[Row] = []
    for row in sorted(results, key=lambda row: int(row["fired"])):  # type: ignore[arg-type]
        telling = tuple(v for name, v in row.items() if name not in (*values, "window_end", "fired", "final"))
        before = stands.get(telling)
        if before is not None and not row["final"] and all(row[name] == before[name] for name in values):
            continue
        if before is not None:
            found.append({**before, "sign": -1})
        found.append({**row, "sign": 1})
        stands[telling] = row
    return found
