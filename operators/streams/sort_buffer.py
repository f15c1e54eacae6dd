"""Tuples wait in the order of an attribute until a bound lets them out; promises wait for the tuples they speak of.

The part that Merge and Reorder share: both hold tuples back, and a promise may leave only when no held tuple matches
it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import pairwise

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Int64s, Page, concatenate
from operators.data.saved import ROOM, bounded
from operators.data.schema import Schema
from operators.data.steps import in_steps
from operators.errors import SchemaError
from punctuation import Punctuation


def orderable(schema: Schema, attribute: str, where: str) -> str:
    """Return the attribute's own name; SchemaError when tuples cannot be ordered by it in ticks."""
    name = schema.resolve(attribute, where=where)
    kind = schema.arrow.field(name).type
    if not in_steps(kind):
        raise SchemaError(f'{where}: attribute "{name}" has type {kind}.\n  Order by an integer, a time or a decimal.')
    return name


@attrs.define(eq=False)
class _Run:
    """Tuples of one port sorted by tick, each with its arrival number."""

    page: Page
    ticks: Int64s
    arrivals: Int64s
    port: int
    _nbytes: int = attrs.field(init=False, default=-1)

    @property
    def nbytes(self) -> int:
        """Return how many bytes it takes, which is counted once: for a slice of many columns that takes 20 us."""
        if self._nbytes < 0:
            self._nbytes = self.page.batch.nbytes + self.ticks.nbytes + self.arrivals.nbytes
        return self._nbytes

    def rank(self) -> tuple[int, int]:
        """Return what decides between tuples of one tick: the port, then the arrival."""
        return self.port, int(self.arrivals[0])

    def part(self, start: int, stop: int) -> _Run:
        return _Run(self.page.slice(start, stop), self.ticks[start:stop], self.arrivals[start:stop], self.port)


def _follows(later: _Run, earlier: _Run) -> bool:
    """Return whether all tuples of a run leave after all those of another: blocks of a time each need no sorting."""
    last, first = earlier.ticks[-1], later.ticks[0]
    return bool(last < first or (last == first and earlier.rank() < later.rank()))


def _integers() -> Int64s:
    return np.empty(0, np.int64)


@attrs.define
class Runs(memory.Stateful):
    """Runs as they are saved, one after the other: run i is of ports[i] and has lengths[i] tuples."""

    pages: list[Page] = attrs.field(factory=list, metadata=memory.pages("page"))
    ticks: Int64s = attrs.field(factory=_integers, metadata=memory.array())
    arrivals: Int64s = attrs.field(factory=_integers, metadata=memory.array(length="ticks"))
    ports: Int64s = attrs.field(factory=_integers, metadata=memory.array())
    lengths: Int64s = attrs.field(factory=_integers, metadata=memory.array(least=1, below=ROOM, length="ports"))


@attrs.define(eq=False)
class Held(memory.Stateful):
    """Hold tuples in sorted runs under a heap.

    Cost: to add n tuples O(n log n), nothing to sort when they come in order; to release k tuples O(k log k + runs).
    """

    tuples: int = attrs.field(init=False, default=0)
    peak: int = attrs.field(init=False, default=0, metadata=memory.integer())
    _arrived: int = attrs.field(init=False, default=0, metadata=memory.integer())
    _serial: int = attrs.field(init=False, default=0)
    _runs: list[tuple[int, int, _Run]] = attrs.field(init=False, factory=list)
    _form: None = attrs.field(
        init=False, default=None, metadata=memory.form(Runs, "_become", lambda own: own.runs(), optional=True)
    )
    _waiting: list[tuple[Punctuation, int]] = attrs.field(init=False, factory=list, metadata=memory.waiting())

    @property
    def nbytes(self) -> int:
        """Return how many bytes the tuples take."""
        return sum(run.nbytes for _, _, run in self._runs)

    def add(self, page: Page, ticks: Int64s, *, port: int = 0) -> None:
        """Hold the tuples of a page, their ticks of shape (n,); ties will leave by port, then in order of arrival."""
        count = len(page)
        if count == 0:
            return
        arrivals = np.arange(self._arrived, self._arrived + count)
        self._arrived += count
        self.tuples += count
        self.peak = max(self.peak, self.tuples)
        if np.any(ticks[1:] < ticks[:-1]):
            order = np.argsort(ticks, kind="stable")
            page, ticks, arrivals = page.take(order), ticks[order], arrivals[order]
        self._push(_Run(page, ticks, arrivals, port))

    def release(self, bound: int | None) -> Page | None:
        """Let out the tuples with a tick below a bound (all, when None), in order; None when there are none."""
        out: list[_Run] = []
        while self._runs and (bound is None or self._runs[0][0] < bound):
            _, _, run = heapq.heappop(self._runs)
            cut = len(run.ticks) if bound is None else int(np.searchsorted(run.ticks, bound))
            out.append(run.part(0, cut))
            if cut < len(run.ticks):
                self._push(run.part(cut, len(run.ticks)))
        if not out:
            return None
        ordered = all(_follows(later, earlier) for earlier, later in pairwise(out))
        if not ordered:
            # Runs of one port hold disjoint ranges of arrivals, so a stable sort leaves ties by port, then by arrival.
            out.sort(key=_Run.rank)
        page = concatenate(out[0].page.schema, [run.page for run in out])
        self.tuples -= len(page)
        if ordered:
            return page
        return page.take(np.argsort(np.concatenate([run.ticks for run in out]), kind="stable"))

    def delay(self, promise: Punctuation) -> bool:
        """Return whether a held tuple matches a promise; it then waits until `ready` gives it."""
        latest: int | None = None
        for _, _, run in self._runs:
            matched = run.ticks[run.page.matching(promise)]
            if len(matched) and (latest is None or matched[-1] > latest):
                latest = int(matched[-1])
        if latest is None:
            return False
        self._waiting.append((promise, latest))
        return True

    def ready(self, bound: int) -> Iterator[Punctuation]:
        """Yield the promises that waited for tuples with a tick below a bound only."""
        waiting, self._waiting = self._waiting, []
        for promise, latest in waiting:
            if latest < bound:
                yield promise
            else:
                self._waiting.append((promise, latest))

    def clear(self) -> None:
        """Drop what waits; for the end of the stream."""
        self._runs, self._waiting, self.tuples = [], [], 0

    def _push(self, run: _Run) -> None:
        self._serial += 1
        heapq.heappush(self._runs, (int(run.ticks[0]), self._serial, run))

    def runs(self) -> Runs | None:
        """Return all runs, None where there is none."""
        runs = [run for _, _, run in self._runs]
        if not runs:
            return None
        return Runs(
            [run.page for run in runs],
            np.concatenate([run.ticks for run in runs]),
            np.concatenate([run.arrivals for run in runs]),
            np.array([run.port for run in runs]),
            np.array([len(run.ticks) for run in runs]),
        )

    def _become(self, runs: Runs) -> None:
        (page,) = runs.pages
        bounded(runs.ticks, "ticks", least=None, below=None, length=len(page))
        if int(runs.lengths.sum()) != len(page):
            raise ValueError(f"the saved state has {len(page)} tuples in runs of {int(runs.lengths.sum())}")
        self.tuples = len(page)
        everything = _Run(page, runs.ticks, runs.arrivals, 0)
        stops: Sequence[int] = np.cumsum(runs.lengths).tolist()
        for stop, length, port in zip(stops, runs.lengths.tolist(), runs.ports.tolist(), strict=True):
            self._push(attrs.evolve(everything.part(stop - length, stop), port=port))
