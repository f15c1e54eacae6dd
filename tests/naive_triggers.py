"""Windows that fire, by definition: tuple by tuple, each window of a group with a state machine of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import attrs

from operators.data.page import Row
from operators.signals import Signal
from operators.window import Window
from operators.window_aggregate.triggers.condition import AllOf, AnyOf, Condition, Rows, Then, Until, leaves
from operators.window_aggregate.triggers.promised import At, Every, Heard, Promised
from punctuation import Progress, Punctuation, before

FOREVER = 10**6
Answers = Mapping[str, Callable[[list[Row]], object]]


class Machine:
    """What one window of a group has seen of a condition; one that stops another counts the `whole` window."""

    def __init__(self, condition: Condition, *, whole: bool = False) -> None:
        self.condition, self.whole = condition, whole
        self.rows = 0
        self.seen: set[Signal | Heard] = set()
        self.behind = False
        self.parts: list[Machine] = []
        match condition:
            case AnyOf(of) | AllOf(of):
                self.parts = [Machine(one, whole=whole) for one in of]
            case Then(one, other):
                self.parts = [Machine(one), Machine(other)]
            case Until(one, other):
                self.parts = [Machine(one), Machine(other, whole=True)]
            case _:
                pass

    def row(self) -> None:
        self.rows += 1
        for part in self.parts:
            part.row()

    def hear(self, signal: Signal | Heard, *, new: bool) -> None:
        if new or self.whole:
            self.seen.add(signal)
        for part in self.parts:
            part.hear(signal, new=new)

    def holds(self) -> bool:
        match self.condition:
            case Rows(rows):
                return self.rows >= rows
            case AnyOf():
                return any(part.holds() for part in self.parts)
            case AllOf():
                return all(part.holds() for part in self.parts)
            case Then():
                return self.parts[self.behind].holds()
            case Until():
                return self.parts[0].holds() and not self.parts[1].holds()
            case signal:
                return signal in self.seen

    def begin_again(self) -> None:
        """Forget what was seen since the last firing, for the window has fired."""
        self.step()
        self.clear()

    def step(self) -> None:
        """Let each `then` whose first condition holds be at its second."""
        match self.condition:
            case Then():
                at = self.parts[self.behind]
                self.behind = self.behind or at.holds()
                at.step()
            case _:
                for part in self.parts:
                    part.step()

    def clear(self) -> None:
        if not self.whole:
            self.rows, self.seen = 0, set()
        for part in self.parts:
            part.clear()


@attrs.frozen
class Told:
    """A signal for the windows and groups alone that have these values; None stands for all."""

    signal: Signal
    where: Mapping[str, object]

    def reaches(self, row: Row) -> bool:
        return all(value is None or value == row[name] for name, value in self.where.items() if name in row)


@attrs.define
class Open:
    """A window of a group: its tuples, those since it fired, and how often it did."""

    machine: Machine
    members: list[Row] = attrs.field(factory=list)
    new: list[Row] = attrs.field(factory=list)
    fired: int = 0
    over: bool = False
    revision: int = 0
    given: Row | None = None
    """What a window that is over was given as last."""


def speaks_of_group(promise: Punctuation, by: Sequence[str], key: Sequence[object]) -> bool:
    """Tell whether a promise is of a group with these values."""
    values = dict(zip(by, key, strict=True))
    theirs = [(values[name], pattern) for name, pattern in promise.patterns if name in values]
    return all(value is not None and pattern.contains(value) for value, pattern in theirs)  # type: ignore[arg-type]


def groups_until(promise: Punctuation, by: Sequence[str]) -> int | None:
    """Tell up to which tick a promise on groups settles those it speaks of, FOREVER for all; None where it does not."""
    patterns = dict(promise.patterns)
    ticks = patterns.pop("ts", None)
    if not patterns or not set(patterns) <= set(by):
        return None
    bound = FOREVER if ticks is None else Punctuation({"ts": ticks}).bound("ts")
    return None if bound is None else int(bound)  # type: ignore[arg-type]


def naive_triggers(
    window: Window,
    condition: Condition,
    answers: Answers,
    by: Sequence[str],
    moments: Iterable[Row | Signal | Told | int | Punctuation],
    *,
    discard: bool = False,
    lateness: int = 0,
) -> list[Row]:
    """Give all results, in any order, for tuples, signals and promises (ints are linear ones) as they come.

    With a `lateness`, windows that are over take late tuples, and are given again at the next linear promise.
    """
    open_: dict[tuple[int, tuple[object, ...]], Open] = {}
    found: list[Row] = []
    progress, parts = Progress(), list(leaves(condition))
    reached = -(10**6)

    def give(wid: int, key: tuple[object, ...], one: Open, *, final: bool) -> None:
        members = one.new if discard else one.members
        if members:
            start, stop = window.extent(wid)
            row: Row = dict(zip(by, key, strict=True))  # type: ignore[arg-type]
            row |= {name: answer(members) for name, answer in answers.items()}  # type: ignore[misc]
            row |= {"wid": wid, "window_start": start, "window_end": stop}
            row |= {"fired": stop if final else None, "final": final, "firing": one.fired}
            found.append(row | {"revision": one.revision} if lateness else row)

    def give_over(bound: int) -> None:
        for (wid, key), one in list(open_.items()):
            if window.extent(wid)[1] > bound:
                continue
            values: Row = {name: answer(one.members) for name, answer in answers.items()}  # type: ignore[misc]
            if (one.new and discard) or (not discard and one.given != values):
                give(wid, key, one, final=True)
                one.fired, one.revision, one.given = one.fired + 1, one.revision + 1, values
            one.new, one.over = [], True
            if window.extent(wid)[1] <= bound - lateness:
                del open_[wid, key]

    def look(wid: int, key: tuple[object, ...], one: Open) -> None:
        if one.machine.holds():
            give(wid, key, one, final=False)
            one.fired += 1
            one.new = []
            one.machine.begin_again()

    def wids(row: Row) -> Iterator[int]:
        tick = int(row["ts"])  # type: ignore[arg-type]
        some = range(-abs(tick) - 20, abs(tick) + 20)
        yield from (wid for wid in some if window.extent(wid)[0] <= tick < window.extent(wid)[1])

    def over(promise: Punctuation, wid: int, key: tuple[object, ...]) -> bool:
        if (bound := promise.bound("ts")) is not None:
            return window.extent(wid)[1] <= bound  # type: ignore[operator]
        until = groups_until(promise, by)
        if until is None or not speaks_of_group(promise, by, key):
            return False
        return until == FOREVER or window.extent(wid)[1] <= until

    def ticks(wid: int, leaf: Every | At) -> list[int]:
        start, stop = window.extent(wid)
        found = [tick for tick in range(start + 1, stop) if (tick - start) % leaf.ticks == 0]
        return found if isinstance(leaf, Every) else [start + leaf.ticks]

    for moment in moments:
        if isinstance(moment, int | Punctuation):
            promise = before("ts", moment) if isinstance(moment, int) else moment
            if lateness and isinstance(bound := promise.bound("ts"), int):
                give_over(max(reached, bound))
            if not progress.advance(promise):
                continue
            bound = promise.bound("ts")
            now = reached if bound is None else max(reached, int(bound))
            for wid, key in list(open_):
                if not lateness and over(promise, wid, key):
                    give(wid, key, open_.pop((wid, key)), final=True)
            for (wid, key), one in open_.items():
                if one.over:
                    continue
                for leaf in parts:
                    heard = False
                    if isinstance(leaf, Promised) and leaf.matches(promise):
                        heard = any(promise.pattern("ts").contains(tick) for tick in range(*window.extent(wid)))
                        heard = heard and speaks_of_group(promise, by, key)
                    elif isinstance(leaf, Every | At):
                        heard = any(reached < tick <= now for tick in ticks(wid, leaf))
                    if heard:
                        one.machine.hear(leaf, new=bool(one.new))
                look(wid, key, one)
            reached = now
        elif not isinstance(moment, dict):
            told = moment if isinstance(moment, Told) else Told(moment, {})
            for (wid, key), one in open_.items():
                if one.over:
                    continue
                start, stop = window.extent(wid)
                named = dict(zip(by, key, strict=True)) | {"wid": wid, "window_start": start, "window_end": stop}
                if told.reaches(named):  # type: ignore[arg-type]
                    one.machine.hear(told.signal, new=bool(one.new))
                    look(wid, key, one)
        elif moment["ts"] is not None:
            key = tuple(moment[name] for name in by)
            for wid in wids(moment):
                if lateness and window.extent(wid)[1] <= reached - lateness:
                    continue
                if (wid, key) not in open_:
                    open_[wid, key] = Open(Machine(condition))
                    for leaf in parts:
                        if isinstance(leaf, Every | At) and any(tick <= reached for tick in ticks(wid, leaf)):
                            open_[wid, key].machine.hear(leaf, new=False)
                one = open_[wid, key]
                one.members.append(moment)
                one.new.append(moment)
                one.over = one.over or (bool(lateness) and window.extent(wid)[1] <= reached)
                if not one.over:
                    one.machine.row()
                    look(wid, key, one)
    if lateness:
        give_over(10**9)
    for (wid, key), one in open_.items():
        give(wid, key, one, final=True)
    return found
