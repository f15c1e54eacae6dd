"""The answers to the windows in use: which of them a promise completes, and what each of their results is made of.

Windows end at edges of cells, so a complete one has final slices only. Bands and asked windows are answered by the
store, sessions by the chains of slices of their group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Int32s, Int64s
from operators.kernels.slicing import place as slicer
from operators.kernels.slicing import release as kernels
from operators.kernels.slicing import sessions
from operators.kernels.slicing import settle as settling
from operators.kernels.ticks import FAR, FOREVER
from operators.window.user import Extent
from operators.window_aggregate.stores.slices.eager import Eager
from operators.window_aggregate.stores.slices.grouped import Grouped
from operators.window_aggregate.stores.slices.lazy import Lazy, combined
from operators.window_aggregate.stores.slices.results import Results
from operators.window_aggregate.stores.slices.revisions import Revisions
from operators.window_aggregate.stores.slices.slices import NO_GRID, Slices
from operators.window_aggregate.stores.slices.windows import Columns, Windows

Store: TypeAlias = Lazy | Eager | Grouped
_UNKNOWN = np.empty(0, np.int64)


@attrs.define(eq=False)
class Answers(memory.Stateful):
    """Release windows from slices, and let go of what no window needs."""

    slices: Slices = attrs.field(metadata=memory.part())
    used: Windows
    store: Store = attrs.field(metadata=memory.counted())
    bound: int
    """No tuple before it will come."""
    lateness: int = 0
    """How far behind the bound tuples still change windows."""
    revisions: Revisions | None = attrs.field(default=None, metadata=memory.part())
    once: frozenset[str] = frozenset()
    """The windows that are given once, whatever comes late."""
    begin: int = attrs.field(init=False, default=-FAR)
    end: int = attrs.field(init=False, default=-FAR)
    """The least begin and end of the context-free windows that are not settled."""
    _next: int = attrs.field(init=False, default=-FAR)
    """The least end of those that were not given."""
    _first: int = attrs.field(init=False, default=-FAR)
    _looked: int = attrs.field(init=False, default=-FAR)
    _earliest: int = attrs.field(init=False, default=-FAR)
    """The first tick that a session window still needs, if a kernel told it behind all else that was done."""

    def __attrs_post_init__(self) -> None:
        # Windows that ended before the first tuple came are over, should one come too late.
        self.used.skip(self.bound)
        self._look(told=False)

    @property
    def settled(self) -> int:
        """Return the tick before which no tuple changes any window."""
        return self.bound if abs(self.bound) == FAR else self.bound - self.lateness

    def _look(self, *, told: bool) -> None:
        """Find what is unfinished now, and tell the slicer; `told` when the windows before have been given."""
        used, settled, self._earliest = self.used, self.settled, -FAR
        following = used.upcoming(self.bound) if told else used.unfinished(self.bound)
        self._next = following[1]
        self.begin, self.end = following if self.lateness == 0 else used.unfinished(settled)
        self.slices.ledger[slicer.BOUND], self.slices.ledger[slicer.LOW] = settled, self.begin

    def heard(self, bound: int, begin: int, end: int, earliest: int = -FAR) -> None:
        """Take notice that all was done that a bound asks for, and of the least begin and end of the windows left.

        And of the first tick that a session window still needs, where it is known.
        """
        self.bound, self.begin, self.end, self._next, self._earliest = bound, begin, end, end, earliest

    def change(self, removed: int | None = None) -> None:
        """Take notice that windows were added, or that the one at a place was removed."""
        if removed is not None and self.revisions is not None:
            self.revisions.remove(removed)
        self.store.clear()
        if self.used.tracked and isinstance(self.store, Eager):
            # Slices that end where a context has set no edge yet are never final.
            self.store = Lazy(self.slices)
        self._look(told=False)
        self._settle()

    @property
    def _due(self) -> bool:
        """Return whether the bound may complete or settle anything."""
        ledger, dues = self.slices.ledger, self.slices.dues
        passed = self.bound >= self._next or self.settled >= self.end
        return passed or self.revising or bool(ledger[slicer.DUES] and dues[0, 0] <= self.bound)

    @property
    def revising(self) -> bool:
        """Return whether a tuple came late to windows that were given."""
        return self.revisions is not None and len(self.revisions.ticks) > 0

    def disturb(self, ticks: Int64s, groups: Int32s | None) -> None:
        """Take notice of tuples that came behind the bound, and of their groups."""
        self.store.disturb()
        if self.revisions is not None:
            self.revisions.touch(ticks, np.zeros(len(ticks), np.int32) if groups is None else groups)

    def overdue(self, ticks: Int64s, slots: Int32s) -> int:
        """Count the tuples, by their ticks and the slices they are in, that came too late for some of their windows."""
        slices, used, settled = self.slices, self.used, self.settled
        behind = ticks < settled
        ticks, slots = ticks[behind], slots[behind]
        late = np.zeros(len(ticks), np.bool_)
        kernels.overdue(ticks, used.bands, settled, late)
        for _, since, bit, _ in used.sessions.tolist():
            # A slice that a session window has no use for, though its ticks count.
            late |= (slices.times[slots, slicer.DONE] & bit != 0) & (ticks >= since)
        for _, window in used.asked:
            for i in np.flatnonzero(~late).tolist():
                tick = int(ticks[i])
                late[i] = any(True for _ in window.complete(-FAR, settled, [(tick, tick + 1)]))
        return int(np.count_nonzero(late))

    def linear(self, bound: int, found: Sequence[tuple[int, list[Extent]]] = ()) -> Iterator[Results]:
        """Yield the results of all windows that end at or before a bound, then let go; slots hold until the next.

        `found` are windows, by place, that were found elsewhere to be complete. With `revisions`, results that late
        tuples may have changed are given again; these are to be numbered before the next are asked for.
        """
        since, since_settled = self.bound, self.settled
        self.bound = bound
        if not self._due:
            self.slices.ledger[slicer.BOUND] = self.settled
            return
        told = bound >= self._next
        if not told:
            self.store.advance(bound)
        if self.revisions is not None:
            yield from self._revised(self.revisions, since_settled, since)
        if told:
            yield from self._complete(since, found)
        over: list[Int32s] = []
        if len(self.used.sessions):
            yield from self._complete_sessions(over)
        if self.revisions is not None:
            self._forget(self.revisions)
        self._look(told=told)
        held = len(self.slices)
        self._over(over)
        self._settle()
        self.store.settled(held - len(self.slices))

    def _revised(self, revisions: Revisions, settled: int, bound: int) -> Iterator[Results]:
        """Yield again the windows that end in (settled, bound] and to which a late tuple came; sessions apart."""
        used, ticks = self.used, revisions.ticks
        if len(ticks) == 0:
            return
        self._hasten(revisions.groups)
        bands = used.bands
        nexts = np.maximum((settled - bands[:, slicer.ORIGIN]) // bands[:, slicer.SLIDE], bands[:, slicer.LEAST])
        spans = [(tick, tick + 1) for tick in ticks.tolist()]
        again = np.array([name not in self.once for name in used.names], np.bool_)
        rounds = [(*found[:4], _UNKNOWN) for found in used.completed(bound, ticks, NO_GRID, nexts)]
        rounds += [self._listed(place, list(window.complete(settled, bound, spans))) for place, window in used.asked]
        for windows in rounds:
            for results in self._answered(*windows):
                came = revisions.touched(results.groups, results.opens, results.closes) & again[results.places]
                if came.any():
                    yield results.where(came)

    def _hasten(self, groups: Int32s) -> None:
        """Let the sessions of groups be looked at again."""
        slices, n = self.slices, int(self.slices.ledger[slicer.DUES])
        if len(self.used.sessions):
            slices.make_dues(len(groups))
            slices.ledger[slicer.DUES] = sessions.hasten(groups, self.bound, slices.bounds, slices.dues, n)

    def _forget(self, revisions: Revisions) -> None:
        slices = self.slices
        firsts = np.full(len(slices.chains), FAR)
        if len(self.used.sessions):
            sessions.begun(slices.memory, firsts)
        revisions.forget(self.settled, firsts)

    def _complete(self, since: int, found: Sequence[tuple[int, list[Extent]]]) -> Iterator[Results]:
        used = self.used
        if isinstance(self.store, Eager):
            yield from self.store.complete(self.bound, used)
        else:
            self.store.advance(self.bound)
            for windows in used.completed(self.bound, self.store.keys(), self.store.grid):
                yield from self._answered(*windows)
        if used.asked:
            spans = self.slices.spans()
            for place, window in used.asked:
                yield from self._answered(*self._listed(place, list(window.complete(since, self.bound, spans))))
        for place, extents in found:
            yield from self._answered(*self._listed(place, extents))

    def _listed(self, place: int, extents: list[Extent]) -> Columns:
        wids, opens, closes = np.array(extents, np.int64).reshape(-1, 3).T.copy()
        return np.full(len(wids), place), wids, opens, closes, _UNKNOWN

    def _answered(
        self, places: Int64s, wids: Int64s, opens: Int64s, closes: Int64s, firsts: Int64s
    ) -> Iterator[Results]:
        if len(wids):
            for held in self.store.answers(opens, closes, firsts):
                of = held.of
                yield Results(of(places), of(wids), of(opens), of(closes), held.groups, held.slots)

    def _complete_sessions(self, over: list[Int32s]) -> Iterator[Results]:
        slices = self.slices
        listed: list[tuple[Int64s, Int64s, Int32s]] = []
        most = len(slices) * len(self.used.sessions)
        room, finished = min(most, 1 << 18), most == 0
        while not finished:
            buffers = _Buffers.of(room)
            results, pairs, done, finished = sessions.complete_sessions(
                self.bound, self.settled, slices.memory, slices.sessions, most, tuple(buffers)
            )
            for some in self._sessions(buffers, int(results), int(pairs)):
                if self.revisions is None:
                    yield some
                    continue
                listed.append((some.places, some.wids, some.groups))
                changed = self.revisions.changed(some.places, some.wids, some.groups, some.opens, some.closes)
                if changed.any():
                    yield some.where(changed)
            if done:
                over.append(buffers.over[:done])
            room = max(room, -int(results))
        if self.revisions is not None:
            yield from self._taken_back(self.revisions, listed)

    def _taken_back(self, revisions: Revisions, listed: list[tuple[Int64s, Int64s, Int32s]]) -> Iterator[Results]:
        """Yield the sessions that a late tuple joined to others or opened again; the listed ones are what is left."""
        none = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32))
        places, wids, groups = (np.concatenate(columns) for columns in zip(none, *listed, strict=True))
        gone = revisions.lost((places, wids, groups), self.used.sessions[:, slicer.WHICH], revisions.groups)
        if len(gone):
            places, wids, owners, numbers = gone.T.copy()
            never = np.full(len(gone), FOREVER)
            yield Results(places, wids, wids, never, owners.astype(np.int32), none[2], numbers, gone=True)

    def _sessions(self, buffers: _Buffers, results: int, pairs: int) -> Iterator[Results]:
        if results <= 0:
            return
        which, firsts, lasts = buffers.which[:results], buffers.firsts[:results], buffers.lasts[:results]
        closes = lasts + self.used.sessions[which, slicer.GAP]
        places = self.used.sessions[which, slicer.WHICH]
        if isinstance(self.store, Eager):
            held = self.store.answers(firsts, lasts + 1, _UNKNOWN)
        else:
            args = buffers.groups[:results], buffers.into[:pairs], buffers.source[:pairs]
            held = combined(self.slices, np.arange(results), *args)
        for some in held:
            of = some.of
            yield Results(of(places), of(firsts), of(firsts), of(closes), some.groups, some.slots)

    def _over(self, over: list[Int32s]) -> None:
        """Drop slices that no session needs any more, unless another window does."""
        slices = self.slices
        for done in over:
            gone = np.empty(len(done), np.int32)
            n = settling.drop_over(done, slices.ledger[slicer.LOW], slices.memory, gone)
            slices.drop(gone[:n])

    def _settle(self) -> None:
        """Drop slices that are in no window after the bound, and join those that no open window tells apart."""
        self.slices.settle(self.settled, self.begin, join=self.store.joins and not self.used.looks_back)

    def of_groups(self, which: Int32s, bound: int) -> Iterator[Results]:
        """Yield the results of single groups whose windows end at or before their own bound, then let go."""
        slices, used = self.slices, self.used
        if isinstance(self.store, Grouped):
            yield from self._vectors_of_groups(self.store, which, bound)
            return
        done, room = 0, 1 << 10
        while done < len(which) and len(used.bands):
            found = np.empty((4, room), np.int64)
            groups, into, source = np.empty((3, room), np.int32)
            done, results, pairs = kernels.cover_groups(
                which, used.bands, bound, self.bound, slices.memory, done, found, groups, into, source
            )
            room = max(room, -int(results))
            if results > 0:
                places, wids, opens, closes = found[:, :results]
                for held in combined(slices, np.arange(results), groups[:results], into[:pairs], source[:pairs]):
                    yield Results(places, wids, opens, closes, held.groups, held.slots)
        if used.asked:
            yield from self._asked_of_groups(which, bound)
        over: list[Int32s] = []
        done, room = 0, 1 << 10
        while done < len(which) and len(used.sessions):
            buffers = _Buffers.of(room)
            done, results, pairs, n = sessions.sessions_of(
                which, done, bound, slices.memory, slices.sessions, tuple(buffers)
            )
            room = max(room, -int(results))
            yield from self._sessions(buffers, int(results), int(pairs))
            over.append(buffers.over[:n])
        slices.bounds[which, slicer.OWN] = np.maximum(slices.bounds[which, slicer.OWN], bound)
        low, _ = used.unfinished(bound)
        gone = np.empty(len(slices), np.int32)
        n = settling.drop_groups(which, low, slices.memory, gone)
        slices.drop(gone[:n])

    def _vectors_of_groups(self, store: Grouped, which: Int32s, bound: int) -> Iterator[Results]:
        bands, own = self.used.bands, store.vectors.bounds(which)
        since = max(self.bound, int(own.min()))
        nexts = np.maximum((since - bands[:, slicer.ORIGIN]) // bands[:, slicer.SLIDE], bands[:, slicer.LEAST])
        for places, wids, opens, closes, _ in self.used.completed(bound, store.begins(which), NO_GRID, nexts):
            for held in store.of_groups(which, self.bound, opens, closes):
                of = held.of
                yield Results(of(places), of(wids), of(opens), of(closes), held.groups, held.slots)
        store.vectors.promise(which, bound)
        store.drop_groups(which, self.used.unfinished(bound)[0])

    def bounds(self, which: Int32s) -> Int64s:
        """Return the bound that was promised of each of these groups alone."""
        if isinstance(self.store, Grouped):
            return self.store.vectors.bounds(which)
        return self.slices.bounds[which, slicer.OWN]

    def _asked_of_groups(self, which: Int32s, bound: int) -> Iterator[Results]:
        """Yield the windows of single groups that say themselves what they are, one group at a time."""
        slices = self.slices
        for g in which.tolist():
            own: list[tuple[int, int, int]] = []
            slot = int(slices.chains[g, slicer.OLDEST])
            while slot >= 0:
                begin, end = slices.cells[slices.links[slot, slicer.CELL], [slicer.BEGIN, slicer.END]].tolist()
                own.append((begin, end, slot))
                slot = int(slices.links[slot, slicer.NEWER])
            since = max(self.bound, int(slices.bounds[g, slicer.OWN]))
            for place, window in self.used.asked:
                for wid, begin, end in window.complete(since, bound, [(b, e) for b, e, _ in own]):
                    source = np.array([slot for b, _, slot in own if begin <= b < end], np.int32)
                    if len(source):
                        into, group = np.zeros(len(source), np.int32), np.array([g], np.int32)
                        for held in combined(slices, np.zeros(1, np.int64), group, into, source):
                            columns = np.array([[place], [wid], [begin], [end]])
                            yield Results(columns[0], columns[1], columns[2], columns[3], held.groups, held.slots)

    def earliest(self) -> int:
        """Return a tick before which no session that is still to be given begins; with groups it may lag by a gap."""
        slices = self.slices
        if self._earliest > -FAR:
            return min(self.settled, self._earliest)
        if slices.single or self.bound >= self._looked + int(slices.ledger[slicer.NEAR]):
            self._first = min(self.settled, int(sessions.earliest(slices.memory)))
            self._looked = self.bound
        return self._first

    def _before_saving(self) -> None:
        # What was combined ahead is let go, and combined anew when it is needed.
        self.store.clear()

    def _after_restoring(self) -> None:
        self._look(told=False)


class _Buffers(NamedTuple):
    """Room for the sessions that a kernel lists, and for the slices that are done with."""

    over: Int32s
    which: Int64s
    groups: Int32s
    firsts: Int64s
    lasts: Int64s
    into: Int32s
    source: Int32s

    @classmethod
    def of(cls, room: int) -> _Buffers:
        groups, into, source, over = (np.empty(room, np.int32) for _ in range(4))
        which, firsts, lasts = (np.empty(room, np.int64) for _ in range(3))
        return cls(over, which, groups, firsts, lasts, into, source)
