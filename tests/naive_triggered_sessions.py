"""Sessions that fire, by definition: tuple by tuple, with the sessions of all that has come sought anew each time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from operators.data.page import Row
from operators.signals import Signal
from operators.window_aggregate.triggers.condition import Condition, leaves
from operators.window_aggregate.triggers.promised import At, Every, Lull
from punctuation import Progress, Punctuation, before
from tests.naive_early_sessions import sessions, tick
from tests.naive_triggers import FOREVER, Answers, Machine, groups_until, speaks_of_group

BEFORE_ALL = -(10**6)


@attrs.define
class Session:
    """A session that is certain: its tuples as they came, those since it fired, and how often it did."""

    machine: Machine
    members: list[int] = attrs.field(factory=list)
    new: list[int] = attrs.field(factory=list)
    fired: int = 0


@attrs.define
class Group:
    """The tuples of a group by their number of arrival, what is promised of it alone, and its certain sessions."""

    rows: dict[int, Row] = attrs.field(factory=dict)
    bound: int = BEFORE_ALL
    certain: dict[int, Session] = attrs.field(factory=dict)


def passes(leaf: Every | At, begin: int, since: int, now: int) -> bool:
    """Tell whether a promise passes a tick of a session that begins there, which the one before had not passed."""
    ticks = [begin + leaf.ticks] if isinstance(leaf, At) else range(begin + leaf.ticks, now + 1, leaf.ticks)
    return any(since < tick <= now for tick in ticks)


def naive_triggered_sessions(
    gap: int,
    condition: Condition,
    answers: Answers,
    by: Sequence[str],
    moments: Iterable[Row | Signal | int | Punctuation],
    *,
    discard: bool = False,
) -> list[Row]:
    """Give all results, in any order, for tuples, signals and promises (ints are linear ones) as they come.

    A promise on a group counts while the group has an open session.
    """
    groups: dict[tuple[object, ...], Group] = {}
    found: list[Row] = []
    progress, bound = Progress(), BEFORE_ALL
    lulls = [leaf for leaf in leaves(condition) if isinstance(leaf, Lull)]
    moments_of = [leaf for leaf in leaves(condition) if isinstance(leaf, Every | At)]

    def parts(group: Group) -> list[list[int]]:
        numbers = {id(row): number for number, row in group.rows.items()}
        return [sorted(numbers[id(row)] for row in one) for one in sessions(gap, group.rows.values())]

    def span(group: Group, members: Sequence[int]) -> tuple[int, int]:
        ticks = [tick(group.rows[number]) for number in members]
        return min(ticks), max(ticks) + gap

    def give(key: tuple[object, ...], group: Group, members: list[int], one: Session, *, final: bool) -> None:
        told = one.new if discard else members
        if told:
            begin, end = span(group, members)
            row: Row = dict(zip(by, key, strict=True))  # type: ignore[arg-type]
            row |= {name: answer([group.rows[n] for n in sorted(told)]) for name, answer in answers.items()}  # type: ignore[misc]
            row |= {"wid": begin, "window_start": begin, "window_end": end}
            found.append(row | {"fired": end if final else None, "final": final, "firing": one.fired})

    def notice(group: Group, members: list[int]) -> Session:
        """Let a session, which need not be certain, have the tuples that belong to it by now."""
        begin, _ = span(group, members)
        one = group.certain.setdefault(begin, Session(Machine(condition)))
        for number in members:
            if number not in one.members:
                one.members.append(number)
                one.new.append(number)
                one.machine.row()
        return one

    def look(
        key: tuple[object, ...],
        group: Group,
        signal: Signal | None = None,
        *,
        promised: bool = False,
        since: int = BEFORE_ALL,
    ) -> None:
        for members in parts(group):
            if span(group, members)[0] > max(bound, group.bound):
                continue
            one = notice(group, members)
            if signal is not None:
                one.machine.hear(signal, new=bool(one.new))
            for lull in lulls if promised else ():
                if span(group, members)[1] - gap + lull.ticks <= max(bound, group.bound):
                    one.machine.hear(lull, new=bool(one.new))
            for leaf in moments_of if promised else ():
                if passes(leaf, span(group, members)[0], since, max(bound, group.bound)):
                    one.machine.hear(leaf, new=bool(one.new))
            if one.machine.holds():
                give(key, group, members, one, final=False)
                one.fired += 1
                one.new = []
                one.machine.begin_again()

    def settle(key: tuple[object, ...], group: Group, limit: int) -> None:
        for members in parts(group):
            begin, end = span(group, members)
            if end <= limit:
                give(key, group, members, notice(group, members), final=True)
                del group.certain[begin]
                for number in members:
                    del group.rows[number]

    for number, moment in enumerate(moments):
        if isinstance(moment, int | Punctuation):
            promise = before("ts", moment) if isinstance(moment, int) else moment
            news = progress.advance(promise)
            since = {key: max(bound, group.bound) for key, group in groups.items()}
            if (linear := promise.bound("ts")) is not None:
                bound = max(bound, int(linear))
            elif (until := groups_until(promise, by)) is not None:
                for key, group in groups.items():
                    if speaks_of_group(promise, by, key):
                        group.bound = max(group.bound, until)
                        # One that was made while the group had no open session is news when it is made again.
                        news = news or group.bound > since[key]
            if not news:
                continue
            for key, group in list(groups.items()):
                settle(key, group, max(bound, group.bound))
                look(key, group, promised=True, since=since[key])
                if not group.rows:
                    del groups[key]
        elif not isinstance(moment, dict):
            for key, group in groups.items():
                look(key, group, moment)
        elif moment["ts"] is not None:
            key = tuple(moment[name] for name in by)
            group = groups.setdefault(key, Group())
            group.rows[number] = moment
            look(key, group)
    for key, group in groups.items():
        settle(key, group, FOREVER)
    return found
