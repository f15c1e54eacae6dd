"""Alerts by definition: every window of a group is asked in turn, those without a result too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from operators.data.page import Row

Holds = Callable[[Row], bool]


def naive_alerts(
    results: Iterable[Row], name: str, when: Holds, clear: Holds, *, by: Sequence[str], slide: int, windows: int
) -> list[Row]:
    """Give the events of an alert, in any order, for results with `fired` and `final` or those of whole windows.

    Of results that fire as tuples arrive, in the order in which they do, `fired` is the last tick that was promised.
    """
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in results:
        groups.setdefault(tuple(row[key] for key in by), []).append(row)
    return [event for rows in groups.values() for event in _of_group(rows, name, when, clear, by, slide, windows)]


def _of_group(
    rows: Sequence[Row], name: str, when: Holds, clear: Holds, by: Sequence[str], slide: int, windows: int
) -> list[Row]:
    complete = {int(row["wid"]): row for row in rows if row.get("final", True)}  # type: ignore[arg-type]
    sample = rows[0]
    first, last = min(int(r["wid"]) for r in rows), max(int(r["wid"]) for r in rows)  # type: ignore[arg-type]
    moments: list[tuple[int, int, int, Row]] = []
    for wid in range(first, last + 2):
        away = (wid - int(sample["wid"])) * slide  # type: ignore[arg-type]
        absent: Row = {key: sample[key] if key in by else None for key in sample} | {"wid": wid}
        for bound in ("window_start", "window_end"):
            absent[bound] = int(sample[bound]) + away  # type: ignore[arg-type]
        if "fired" in sample:
            absent |= {"fired": absent["window_end"], "final": True}
        row = complete.get(wid, absent)
        moments.append((int(row["window_end"]), 0, wid, row))  # type: ignore[arg-type]
    # Those that fire at one time do so in the order of their windows, and as tuples arrive in that of their arrival.
    moments += [
        (int(r["fired"]), 1, place if "firing" in r else int(r["wid"]), r)  # type: ignore[arg-type]
        for place, r in enumerate(rows)
        if not r.get("final", True)
    ]
    events: list[Row] = []
    run: list[Row] = []
    is_open, doubt = False, None

    def say(event: str, row: Row, since: object, count: int) -> None:
        events.append({"alert": name, "event": event, "since": since, "windows": count, **row})  # type: ignore[dict-item]

    for _, early, wid, row in sorted(moments, key=lambda moment: moment[:3]):
        there = early or wid in complete
        if early:
            follows = [*run, row] if run and run[-1]["wid"] == wid - 1 else [row]
            if not is_open and doubt is None and when(row) and len(follows) >= windows:
                doubt = (wid, follows[0]["window_start"], len(follows))
                say("provisional", row, *doubt[1:])
            continue
        if is_open:
            closes = not there or clear(row)
            run = run if closes else [*run, row]
            say("close" if closes else "update", row, run[0]["window_start"], len(run))
            is_open, run = not closes, [] if closes else run
        elif there and when(row):
            run = [*run, row]
            if len(run) >= windows:
                is_open, doubt = True, None
                say("open", row, run[0]["window_start"], len(run))
        else:
            run = []
        if doubt is not None and doubt[0] <= wid:
            say("withdrawn", row, *doubt[1:])
            doubt = None
    return events
