"""Windows of n tuples that fire, by definition: final tuples go one by one, in order, to the windows of their rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from operators.data.page import Row
from operators.signals import Signal
from operators.window.counted import CountWindow
from operators.window_aggregate.triggers.condition import Condition
from punctuation import Progress, Punctuation, before
from tests.naive_triggers import FOREVER, Answers, Machine, groups_until, speaks_of_group

BEFORE_ALL = -(10**6)
Key = tuple[object, ...]


@attrs.define
class Open:
    """A group in a window: its tuples by number of arrival, those since it fired, and how often it did."""

    machine: Machine
    had: list[int] = attrs.field(factory=list)
    new: list[int] = attrs.field(factory=list)
    fired: int = 0


@attrs.define
class Part:
    """A partition: its tuples that are not final by number of arrival, how many are, and what is open."""

    rows: dict[int, Row] = attrs.field(factory=dict)
    own: int = BEFORE_ALL
    ranked: int = 0
    open: dict[tuple[int, Key], Open] = attrs.field(factory=dict)


def naive_triggered_ranks(
    window: CountWindow,
    condition: Condition,
    answers: Answers,
    by: Sequence[str],
    moments: Iterable[Row | Signal | int | Punctuation],
    *,
    partition: Sequence[str] | None = None,
    discard: bool = False,
) -> list[Row]:
    """Give all results, in any order, for tuples, signals and promises (ints are linear ones) as they come."""
    within = by if partition is None else partition
    parts: dict[Key, Part] = {}
    rows: dict[int, Row] = {}
    found: list[Row] = []
    progress, bound = Progress(), BEFORE_ALL

    def extent(wid: int) -> tuple[int, int]:
        return (wid + 1) * window.slide - window.size, (wid + 1) * window.slide

    def give(wid: int, key: Key, one: Open, *, final: bool) -> None:
        told = sorted(one.new if discard else one.had)
        if told:
            begin, end = extent(wid)
            row: Row = dict(zip(by, key, strict=True))  # type: ignore[arg-type]
            row |= {name: answer([rows[n] for n in told]) for name, answer in answers.items()}  # type: ignore[misc]
            row |= {"wid": wid, "window_start": begin, "window_end": end}
            found.append(row | {"fired": end if final else None, "final": final, "firing": one.fired})

    def look(wid: int, key: Key, one: Open) -> None:
        if one.machine.holds():
            give(wid, key, one, final=False)
            one.fired += 1
            one.new = []
            one.machine.begin_again()

    def settle(part: Part, limit: int, *, over: bool = False) -> None:
        final = sorted((_tick(row), n) for n, row in part.rows.items() if _tick(row) < limit)
        for _, number in final:
            row, rank = part.rows.pop(number), part.ranked
            part.ranked += 1
            key = tuple(row[name] for name in by)
            for wid in range(rank + window.size + 1):
                begin, end = extent(wid)
                if begin <= rank < end and (window.partial or begin >= 0):
                    one = part.open.setdefault((wid, key), Open(Machine(condition)))
                    one.had.append(number)
                    one.new.append(number)
                    one.machine.row()
                    look(wid, key, one)
        for wid, key in list(part.open):
            if over or extent(wid)[1] <= part.ranked:
                give(wid, key, part.open.pop((wid, key)), final=True)

    for number, moment in enumerate(moments):
        if isinstance(moment, int | Punctuation):
            promise = before("ts", moment) if isinstance(moment, int) else moment
            if not progress.advance(promise):
                continue
            if (linear := promise.bound("ts")) is not None:
                bound = max(bound, int(linear))
                for part in parts.values():
                    settle(part, max(bound, part.own))
            elif (until := groups_until(promise, within)) is not None:
                for key, part in list(parts.items()):
                    if speaks_of_group(promise, within, key):
                        part.own = max(part.own, until)
                        settle(part, max(bound, part.own), over=until == FOREVER)
        elif not isinstance(moment, dict):
            for part in parts.values():
                for (wid, key), one in part.open.items():
                    one.machine.hear(moment, new=bool(one.new))
                    look(wid, key, one)
        elif moment["ts"] is not None:
            part = parts.setdefault(tuple(moment[name] for name in within), Part())
            if _tick(moment) >= max(bound, part.own):
                rows[number] = part.rows[number] = moment
    for part in parts.values():
        settle(part, FOREVER, over=True)
    return found


def _tick(row: Row) -> int:
    return int(row["ts"])  # type: ignore[arg-type]
