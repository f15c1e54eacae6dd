"""Sessions that fire and that late tuples change, by definition: tuple by tuple, with all sessions sought anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from operators.data.page import Row
from operators.signals import Signal
from operators.window_aggregate.triggers.condition import Condition, leaves
from operators.window_aggregate.triggers.promised import At, Every, Lull
from punctuation import Progress, Punctuation, before
from tests.naive_early_sessions import sessions, tick
from tests.naive_triggered_sessions import passes
from tests.naive_triggers import Answers, Machine

BEFORE_ALL, FOREVER = -(10**6), 10**6


@attrs.define
class Session:
    """A session whose begin was promised: its tuples, whether any is new, and how often it was given."""

    machine: Machine
    members: list[int] = attrs.field(factory=list)
    new: bool = False
    given: int = 0
    revision: int = 0
    """How often it was given since it was over."""
    values: object = None
    """What it was over all its tuples, and its end, when it was given since it was over."""


@attrs.define
class Group:
    """The tuples of a group that are in no settled session, by their number of arrival, and its sessions by begin."""

    rows: dict[int, Row] = attrs.field(factory=dict)
    known: dict[int, Session] = attrs.field(factory=dict)


def naive_late_sessions(
    gap: int,
    condition: Condition,
    answers: Answers,
    by: Sequence[str],
    moments: Iterable[Row | Signal | int | Punctuation],
    *,
    lateness: int,
) -> list[Row]:
    """Give all results, in any order, for tuples, signals and promises (ints are linear ones) as they come.

    A tuple is late if it is more than the lateness below what is promised of all. Other promises say nothing.
    """
    groups: dict[tuple[object, ...], Group] = {}
    found: list[Row] = []
    progress, bound = Progress(), BEFORE_ALL
    lulls = [leaf for leaf in leaves(condition) if isinstance(leaf, Lull)]
    moments_of = [leaf for leaf in leaves(condition) if isinstance(leaf, Every | At)]

    def parts(group: Group) -> list[tuple[int, int, list[int]]]:
        """Give begin, end and tuples of each session."""
        numbers = {id(row): number for number, row in group.rows.items()}
        listed = [sorted(numbers[id(row)] for row in one) for one in sessions(gap, group.rows.values())]
        ticks = [[tick(group.rows[number]) for number in members] for members in listed]
        return [(min(some), max(some) + gap, members) for some, members in zip(ticks, listed, strict=True)]

    def give(key: tuple[object, ...], begin: int, one: Session, values: Row, end: int | None, *, final: bool) -> None:
        row: Row = dict(zip(by, key, strict=True))  # type: ignore[arg-type]
        row |= values | {"wid": begin, "window_start": begin, "window_end": end}
        row |= {"fired": end if final else None, "final": final, "firing": one.given, "revision": one.revision}
        found.append(row)
        one.given += 1

    def values_of(group: Group, members: list[int]) -> Row:
        return {name: answer([group.rows[n] for n in members]) for name, answer in answers.items()}  # type: ignore[misc]

    def notice(key: tuple[object, ...], group: Group) -> list[tuple[int, int, list[int], Session]]:
        """Give the sessions whose begin is promised, each with the tuples that belong to it by now.

        One that is no more is taken back, if anything was given of it.
        """
        listed = [(begin, end, members) for begin, end, members in parts(group) if begin <= bound]
        for begin in set(group.known) - {begin for begin, _, _ in listed}:
            one = group.known.pop(begin)
            if one.given:
                give(key, begin, one, dict.fromkeys(answers), None, final=one.revision > 0)
                found[-1]["fired"] = None
        told: list[tuple[int, int, list[int], Session]] = []
        for begin, end, members in listed:
            one = group.known.setdefault(begin, Session(Machine(condition)))
            for number in members:
                if number not in one.members:
                    one.members.append(number)
                    one.new = True
                    one.machine.row()
            told.append((begin, end, members, one))
        return told

    def look(
        key: tuple[object, ...],
        group: Group,
        signal: Signal | None = None,
        *,
        promised: bool = False,
        since: int = BEFORE_ALL,
    ) -> None:
        """Let sessions that are not over fire."""
        for begin, end, members, one in notice(key, group):
            if end <= bound:
                continue
            if signal is not None:
                one.machine.hear(signal, new=one.new)
            for lull in lulls if promised else ():
                if end - gap + lull.ticks <= bound:
                    one.machine.hear(lull, new=one.new)
            for leaf in moments_of if promised else ():
                if passes(leaf, begin, since, bound):
                    one.machine.hear(leaf, new=one.new)
            if one.machine.holds():
                give(key, begin, one, values_of(group, members), end, final=False)
                one.new = False
                one.machine.begin_again()

    def give_over(key: tuple[object, ...], group: Group) -> None:
        """Give the sessions that are over, if they are not as they were given last; forget those that are settled."""
        for begin, end, members, one in notice(key, group):
            if end > bound:
                continue
            values = values_of(group, members)
            if one.values != (values, end):
                give(key, begin, one, values, end, final=True)
                one.values, one.revision = (values, end), one.revision + 1
            one.new = False
            one.machine.clear()
            if end <= bound - lateness or bound == FOREVER:
                del group.known[begin]
                for number in members:
                    del group.rows[number]

    for number, moment in enumerate(moments):
        if isinstance(moment, int | Punctuation):
            promise = before("ts", moment) if isinstance(moment, int) else moment
            linear = promise.bound("ts")
            if linear is None:
                continue
            since, bound, news = bound, max(bound, int(linear)), progress.advance(promise)
            for key, group in groups.items():
                give_over(key, group)
                if news:
                    look(key, group, promised=True, since=since)
        elif not isinstance(moment, dict):
            for key, group in groups.items():
                look(key, group, moment)
        elif moment["ts"] is not None and tick(moment) >= bound - lateness:
            key = tuple(moment[name] for name in by)
            group = groups.setdefault(key, Group())
            group.rows[number] = moment
            look(key, group)
    bound = FOREVER
    for key, group in groups.items():
        give_over(key, group)
    return found
