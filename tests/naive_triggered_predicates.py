"""Windows of predicates that fire, by definition: final tuples go one by one, in order, to the window they are in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from operators.data.page import Row
from operators.signals import Signal
from operators.window_aggregate.triggers.condition import AnyOf, Condition, leaves
from operators.window_aggregate.triggers.promised import At, Every
from punctuation import Progress, Punctuation, before
from tests.naive_predicate import Rule, extents, members
from tests.naive_triggers import FOREVER, Answers, Machine, groups_until, speaks_of_group

BEFORE_ALL = -(10**6)
Key = tuple[object, ...]


@attrs.define
class Open:
    """A group in a window: its tuples by number of arrival, those since it fired, and up to where ticks were heard."""

    machine: Machine
    reached: int
    had: list[int] = attrs.field(factory=list)
    new: list[int] = attrs.field(factory=list)
    fired: int = 0


@attrs.define
class Part:
    """A partition: all its tuples by number of arrival, up to where they are final, what is open and what is over."""

    rows: dict[int, Row] = attrs.field(factory=dict)
    own: int = BEFORE_ALL
    until: int = BEFORE_ALL
    open: dict[tuple[int, Key], Open] = attrs.field(factory=dict)
    over: set[int] = attrs.field(factory=set)


def naive_triggered_predicates(
    rule: Rule,
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
    found: list[Row] = []
    progress, bound = Progress(), BEFORE_ALL
    heard = [leaf for leaf in leaves(condition) if isinstance(leaf, Every | At)]
    several = condition.of if isinstance(condition, AnyOf) else (condition,)
    on_ticks = len(heard) == len(several) and all(isinstance(one, Every | At) for one in several)

    def give(part: Part, begin: int, key: Key, one: Open, end: int, *, final: bool, fires: int | None) -> None:
        told = sorted(one.new if discard else one.had)
        if told:
            row: Row = dict(zip(by, key, strict=True))  # type: ignore[arg-type]
            row |= {name: answer([part.rows[n] for n in told]) for name, answer in answers.items()}  # type: ignore[misc]
            row |= {"wid": begin, "window_start": begin, "window_end": end}
            found.append(row | {"fired": fires, "final": final, "firing": one.fired})

    def fire(part: Part, begin: int, key: Key, one: Open, fires: int | None) -> None:
        end = max(_tick(part.rows[n]) for n in one.had) + 1
        give(part, begin, key, one, end, final=False, fires=fires)
        one.fired += 1
        one.new = []
        one.machine.begin_again()

    def look(part: Part, begin: int, key: Key, one: Open) -> None:
        if one.machine.holds():
            fire(part, begin, key, one, None)

    def ticks(begin: int, leaf: Every | At, until: int) -> list[int]:
        if isinstance(leaf, At):
            return [begin + leaf.ticks]
        return list(range(begin + leaf.ticks, until + 1, leaf.ticks))

    def reach(part: Part, begin: int, key: Key, one: Open, until: int) -> None:
        """Let event time be at a tick for a window: it fires, or hears."""
        for leaf in [] if on_ticks else heard:
            if any(one.reached < tick <= until for tick in ticks(begin, leaf, until)):
                one.machine.hear(leaf, new=bool(one.new))
        if on_ticks:
            for tick in sorted({tick for leaf in heard for tick in ticks(begin, leaf, until)}):
                if one.reached < tick <= until and one.new:
                    fire(part, begin, key, one, tick)
        one.reached = max(one.reached, until)

    def settle(part: Part, limit: int, *, over: bool = False) -> None:
        final = sorted(((n, row) for n, row in part.rows.items() if _tick(row) < limit), key=lambda one: _tick(one[1]))
        numbers = {id(row): n for n, row in final}
        for begin, end, ended in extents(rule, [row for _, row in final]):
            if begin in part.over:
                continue
            mine = members(rule, [row for _, row in final], begin, end)
            for row in mine:
                if _tick(row) >= part.until:
                    key = tuple(row[name] for name in by)
                    if (begin, key) not in part.open:
                        part.open[begin, key] = Open(Machine(condition), begin)
                        for leaf in heard:
                            if any(tick <= part.until for tick in ticks(begin, leaf, limit)):
                                part.open[begin, key].machine.hear(leaf, new=False)
                        part.open[begin, key].reached = max(begin, part.until)
                    one = part.open[begin, key]
                    if on_ticks:
                        reach(part, begin, key, one, _tick(row))
                    one.had.append(numbers[id(row)])
                    one.new.append(numbers[id(row)])
                    one.machine.row()
                    look(part, begin, key, one)
            done = over or (ended and (end <= limit or rule.within is None or end < begin + rule.within))
            for (start, key), one in list(part.open.items()):
                if start == begin:
                    if on_ticks or not done:
                        reach(part, begin, key, one, end - 1 if done else limit)
                        look(part, begin, key, one)
                    if done:
                        give(part, begin, key, part.open.pop((begin, key)), end, final=True, fires=end)
            if done:
                part.over.add(begin)
        part.until = max(part.until, limit)

    for number, moment in enumerate(moments):
        if isinstance(moment, int | Punctuation):
            promise = before("ts", moment) if isinstance(moment, int) else moment
            if not progress.advance(promise):
                continue
            if (linear := promise.bound("ts")) is not None:
                bound = max(bound, int(linear))
                for part in parts.values():
                    if max(bound, part.own) > part.until:
                        settle(part, max(bound, part.own))
            elif (until := groups_until(promise, within)) is not None:
                for key, part in parts.items():
                    if speaks_of_group(promise, within, key):
                        part.own = max(part.own, until)
                        if max(bound, part.own) > part.until:
                            settle(part, max(bound, part.own), over=until == FOREVER)
        elif not isinstance(moment, dict):
            for part in parts.values():
                for (begin, key), one in part.open.items():
                    one.machine.hear(moment, new=bool(one.new))
                    look(part, begin, key, one)
        elif moment["ts"] is not None:
            part = parts.setdefault(tuple(moment[name] for name in within), Part())
            if _tick(moment) >= max(bound, part.own):
                part.rows[number] = moment
    for part in parts.values():
        settle(part, FOREVER, over=True)
    return found


def _tick(row: Row) -> int:
    return int(row["ts"])  # type: ignore[arg-type]
