"""Windows of RANGE ALL that fire, by definition: tuple by tuple, each window of a group with a state machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from operators.data.page import Row
from operators.signals import Signal
from operators.window import LandmarkWindow
from operators.window_aggregate.triggers.condition import Condition, leaves
from operators.window_aggregate.triggers.promised import At, Every
from punctuation import Progress, Punctuation, before
from tests.naive_triggers import FOREVER, Answers, Machine, groups_until, speaks_of_group

BEFORE_ALL = -(10**6)


@attrs.define
class Begun:
    """A window of a group that has begun: its tuples since it fired, how often it did, and whether it is over."""

    machine: Machine
    new: list[Row]
    fired: int = 0
    over: bool = False


@attrs.define
class Group:
    """The tuples of a group with the first window of each, its windows that have begun, and which of all are over."""

    members: list[tuple[int, Row]] = attrs.field(factory=list)
    begun: dict[int, Begun] = attrs.field(factory=dict)
    over: int = BEFORE_ALL


def naive_triggered_landmarks(
    window: LandmarkWindow,
    condition: Condition,
    answers: Answers,
    by: Sequence[str],
    moments: Iterable[Row | Signal | int | Punctuation],
    *,
    discard: bool = False,
) -> list[Row]:
    """Give all results, in any order, for tuples, signals and promises (ints are linear ones) as they come."""
    groups: dict[tuple[object, ...], Group] = {}
    found: list[Row] = []
    progress, parts = Progress(), list(leaves(condition))
    reached = bound = latest = BEFORE_ALL

    def give(key: tuple[object, ...], group: Group, wid: int, *, final: bool) -> None:
        members = [row for first, row in group.members if first <= wid]
        one = group.begun.get(wid)
        told = one.new if discard and one is not None else members
        if told:
            row: Row = dict(zip(by, key, strict=True))  # type: ignore[arg-type]
            row |= {name: answer(told) for name, answer in answers.items()}  # type: ignore[misc]
            stop = window.extent(wid)[1]
            row |= {"wid": wid, "window_start": None, "window_end": stop}
            number = 0 if one is None else one.fired
            found.append(row | {"fired": stop if final else None, "final": final, "firing": number})

    def look(key: tuple[object, ...], group: Group, wid: int, one: Begun) -> None:
        if one.machine.holds():
            give(key, group, wid, final=False)
            one.fired += 1
            one.new = []
            one.machine.begin_again()

    def settle(key: tuple[object, ...], group: Group, until: int) -> None:
        """Give the windows of a group up to the last that any tuple begins."""
        least = min(first for first, _ in group.members)
        for wid in range(max(least, group.over), min(until, latest + 1)):
            give(key, group, wid, final=True)
            if wid in group.begun:
                group.begun[wid].over = True
        group.over = max(group.over, min(until, latest + 1))

    def ticks(wid: int, leaf: Every | At) -> list[int]:
        stop = window.extent(wid)[1]
        start = stop - window.slide
        if isinstance(leaf, At):
            return [start + leaf.ticks]
        return [tick for tick in range(start + 1, stop) if (tick - start) % leaf.ticks == 0]

    for moment in moments:
        if isinstance(moment, int | Punctuation):
            promise = before("ts", moment) if isinstance(moment, int) else moment
            if not progress.advance(promise):
                continue
            linear = promise.bound("ts")
            now = reached if linear is None else max(reached, int(linear))
            if linear is not None:
                bound = max(bound, window.complete(int(linear)))
                for key, group in groups.items():
                    settle(key, group, bound)
            elif (until := groups_until(promise, by)) is not None:
                complete = latest + 1 if until == FOREVER else window.complete(until)
                for key, group in groups.items():
                    if speaks_of_group(promise, by, key):
                        settle(key, group, complete)
            for key, group in groups.items():
                for wid, one in group.begun.items():
                    for leaf in parts:
                        if isinstance(leaf, Every | At) and any(reached < tick <= now for tick in ticks(wid, leaf)):
                            one.machine.hear(leaf, new=bool(one.new))
                    if not one.over:
                        look(key, group, wid, one)
            reached = now
        elif not isinstance(moment, dict):
            for key, group in groups.items():
                for wid, one in group.begun.items():
                    if not one.over:
                        one.machine.hear(moment, new=bool(one.new))
                        look(key, group, wid, one)
        elif moment["ts"] is not None:
            first = max(_first(window, int(moment["ts"])), bound)  # type: ignore[arg-type]
            key = tuple(moment[name] for name in by)
            group = groups.setdefault(key, Group())
            if first not in group.begun:
                one = Begun(Machine(condition), [row for wid, row in group.members if wid <= first])
                one.over = first < group.over
                for leaf in parts:
                    if isinstance(leaf, Every | At) and any(tick <= reached for tick in ticks(first, leaf)):
                        one.machine.hear(leaf, new=False)
                group.begun[first] = one
            group.members.append((first, moment))
            for wid, one in sorted(group.begun.items()):
                if wid >= first:
                    one.new.append(moment)
                    one.machine.row()
                    if not one.over:
                        look(key, group, wid, one)
            latest = max(latest, first)
            for group_key, other in groups.items():
                settle(group_key, other, bound)
    latest = latest if latest != BEFORE_ALL else 0
    for key, group in groups.items():
        settle(key, group, latest + 1)
    return found


def _first(window: LandmarkWindow, tick: int) -> int:
    """Give the first window that ends behind a tick."""
    return next(wid for wid in range(-abs(tick) - 20, abs(tick) + 20) if tick < window.extent(wid)[1])
