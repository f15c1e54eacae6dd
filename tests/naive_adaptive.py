"""AdaptWID one tuple at a time, in dictionaries and lists, as thesis 6.3.4.2 tells it with semantics rows 17 to 21.

Input is what a Bucket emits. `planted` names readings that the semantics page found wrong: "row 18" leaves tupleCnt of
replayed tuples unset, "row 19" lets only buffered tuples lower the window volume of a group in transition.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction

import attrs

from operators.data.page import Page, Row
from operators.protocol import Element
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import FROM, UNTIL
from punctuation import GroupPromise, Punctuation

Key = tuple[object, ...]


@attrs.define
class NaivePart:
    """A partial aggregate, as the tuples in it; `leaving` counts, by source, those that expire with it (tupleCnt)."""

    rows: list[Row] = attrs.field(factory=list)
    leaving: dict[object, int] = attrs.field(factory=dict)


@attrs.define
class NaiveGroup:
    """An entry of H."""

    eager: bool = False
    volume: dict[object, int] = attrs.field(factory=dict)
    parts: dict[int, NaivePart] = attrs.field(factory=dict)
    waiting: list[Row] = attrs.field(factory=list)

    @property
    def total(self) -> int:
        return sum(self.volume.values())

    @property
    def aggregation(self) -> str:
        return "eager" if self.eager else "transition" if self.parts else "lazy"


@attrs.define
class NaiveAdaptive:
    """AdaptWID for costs and a band given as exact numbers; results are (wid, key, rows), in no particular order."""

    window: SlidingWindow
    by: Sequence[str]
    aggr: Fraction
    tup: Fraction
    band: Fraction
    source: str | None = None
    planted: Collection[str] = ()
    groups: dict[Key, NaiveGroup] = attrs.field(factory=dict)
    results: list[tuple[int, Key, list[Row]]] = attrs.field(factory=list)
    high: dict[object, int] = attrs.field(factory=dict)
    punctuated: dict[object, int] = attrs.field(factory=dict)
    bound: int | None = None
    wed: int = 0
    began: dict[int, int | None] = attrs.field(factory=dict)
    peak: int = 0
    switches: list[tuple[Key, str]] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.wed = self.window.size

    @property
    def objects(self) -> int:
        return sum(1 + len(g.parts) + len(g.waiting) for g in self.groups.values())

    def take(self, element: Element) -> None:
        """Take one element of a Bucket's output."""
        if isinstance(element, Page):
            for row in element.rows():
                self.arrive(row)
        elif element.is_end:
            wids = [row[UNTIL] for g in self.groups.values() for row in g.waiting]
            wids += [wid + 1 for g in self.groups.values() for wid in g.parts]
            self.release(list(self.groups), max(map(int, wids), default=0))
        elif isinstance(bound := element.bound(FROM), int):
            if self.bound is None or bound > self.bound:
                self.close(bound)
        else:
            self.promise_groups(element)

    def arrive(self, row: Row) -> None:
        key = tuple(row[name] for name in self.by)
        source = row[self.source] if self.source else None
        self.high[source] = max(self.high.get(source, int(row[self.window.wattr])), int(row[self.window.wattr]))
        for wid in range(int(row[FROM]), int(row[UNTIL])):
            low = None if self.bound is None else self.window.extent(self.bound - 1)[1]
            self.began.setdefault(wid, low)
        group = self.groups.setdefault(key, NaiveGroup())
        group.volume[source] = group.volume.get(source, 0) + 1
        if group.eager:
            self.update(group, row, True)
        elif group.total > self.threshold(group):
            for waiting in group.waiting:
                self.update(group, waiting, "row 18" not in self.planted)
            self.update(group, row, True)
            group.waiting, group.eager = [], True
            self.switches.append((key, "eager"))
        else:
            group.waiting.append(row)
        self.peak = max(self.peak, self.objects)

    def update(self, group: NaiveGroup, row: Row, counted: bool) -> None:
        """Add a tuple to the partial aggregates of its windows that are not complete."""
        source = row[self.source] if self.source else None
        for wid in range(self.open_from(row), int(row[UNTIL])):
            part = group.parts.setdefault(wid, NaivePart())
            part.rows.append(row)
            if wid == int(row[UNTIL]) - 1 and counted:
                part.leaving[source] = part.leaving.get(source, 0) + 1

    def open_from(self, row: Row) -> int:
        return int(row[FROM]) if self.bound is None else max(int(row[FROM]), self.bound)

    def threshold(self, group: NaiveGroup) -> Fraction:
        """The right side of condition 6.9."""
        found = self.aggr * self.wed / (self.tup * self.window.slide)
        for source, number in group.volume.items():
            if number:
                found += Fraction(number * (max(self.high.values()) - self.high[source]), self.window.size)
        return found

    def close(self, bound: int) -> None:
        """Take a linear promise: measure wed, then release, then decide about groups whose tuples expired."""
        closed = [wid for wid in self.began if wid < bound]
        if closed and (low := self.began[max(closed)]) is not None:
            self.wed = max(0, max(self.high.values()) - low)
        for wid in closed:
            del self.began[wid]
        self.release(list(self.groups), bound)
        self.bound = bound

    def punctuated_wid(self, source: object) -> int | None:
        """Give the last window complete as far as a source goes: what was promised of it, or of all."""
        promised = [self.punctuated[source]] if source in self.punctuated else []
        return max(promised + ([] if self.bound is None else [self.bound - 1]), default=None)

    def promise_groups(self, punctuation: Punctuation) -> None:
        promise = GroupPromise.of(punctuation)
        if promise is None:
            return
        if self.source is not None and promise.shape == ((self.source,), FROM):
            for (source,) in promise.keys:
                if source in self.high:
                    wid = int(promise.bound) - 1  # type: ignore[arg-type]
                    self.punctuated[source] = max(wid, self.punctuated.get(source, wid))
        if set(promise.shape[0]) <= set(self.by) and promise.shape[1] in (None, FROM):
            matching = Punctuation({n: p for n, p in punctuation.patterns if n != FROM})
            which = [key for key in self.groups if matching.matches(dict(zip(self.by, key, strict=True)))]  # type: ignore[arg-type]
            wids = [int(row[UNTIL]) for key in which for row in self.groups[key].waiting]
            wids += [wid + 1 for key in which for wid in self.groups[key].parts]
            self.release(which, max(wids, default=0) if promise.bound is None else int(promise.bound))

    def release(self, which: Sequence[Key], bound: int) -> None:
        for key in which:
            group = self.groups[key]
            before = group.total
            transition = not group.eager
            answers: dict[int, list[Row]] = {}
            for wid in sorted(wid for wid in group.parts if wid < bound):
                part = group.parts.pop(wid)
                answers[wid] = list(part.rows)
                for source, number in part.leaving.items():
                    if not (transition and "row 19" in self.planted):
                        group.volume[source] -= number
            kept: list[Row] = []
            for row in group.waiting:
                for wid in range(self.open_from(row), min(int(row[UNTIL]), bound)):
                    answers.setdefault(wid, []).append(row)
                if int(row[UNTIL]) <= bound:
                    group.volume[row[self.source] if self.source else None] -= 1
                else:
                    kept.append({**row, FROM: max(int(row[FROM]), bound)})
            group.waiting = kept
            self.results += [(wid, key, rows) for wid, rows in answers.items()]
            if not group.parts and not group.waiting:
                del self.groups[key]
            elif group.eager and group.total < before and group.total < (1 - self.band) * self.threshold(group):
                group.eager = False
                self.switches.append((key, "lazy"))
