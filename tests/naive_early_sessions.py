"""Early results of sessions by definition: at each tick at which one fires, ask which tuples lie before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from operators.data.page import Row

Answers = Mapping[str, Callable[[list[Row]], object]]


def naive_early_sessions(
    gap: int,
    every: int,
    after: Sequence[int],
    answers: Answers,
    by: Sequence[str],
    table: Iterable[Row],
    *,
    discard: bool = False,
) -> list[Row]:
    """Give the results of sessions that fire each `every` ticks (0: never) and so many ticks `after` they begin.

    A session that has ended before a tick does not fire there; its final result fires where it ends.
    """
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in table:
        if row["ts"] is not None:
            groups.setdefault(tuple(row[key] for key in by), []).append(row)
    found: list[Row] = []
    for key, members in groups.items():
        for session in sessions(gap, members):
            begin, end = tick(session[0]), tick(session[-1]) + gap
            marks = {begin + n for n in (*after, *(range(every, end - begin, every) if every else ()))}
            since = begin
            for mark in sorted({m for m in marks if m < end} | {end}):
                before = [row for row in session if tick(row) < mark]
                known_end = tick(before[-1]) + gap
                # It went on, for a session with a longer pause would be two.
                assert known_end >= mark
                over = mark == end
                if known_end == mark and not over:
                    continue
                some = [row for row in before if tick(row) >= since] if discard else before
                since = mark
                if not some:
                    continue
                result: Row = dict(zip(by, key, strict=True))  # type: ignore[arg-type]
                result |= {column: answer(some) for column, answer in answers.items()}  # type: ignore[misc]
                result |= {"wid": begin, "window_start": begin, "window_end": known_end}
                found.append(result | {"fired": mark, "final": over})
    return found


def tick(row: Row) -> int:
    """Give the time of a tuple."""
    return int(row["ts"])  # type: ignore[arg-type]


def sessions(gap: int, rows: Iterable[Row]) -> Iterable[list[Row]]:
    """Sort the tuples, and part them where the next one is a gap or more away."""
    one: list[Row] = []
    for row in sorted(rows, key=tick):
        if one and tick(row) - tick(one[-1]) >= gap:
            yield one
            one = []
        one.append(row)
    if one:
        yield one
