"""A flushed join releases tuples without a partner little by little, where a promise settles many of them at once."""

from __future__ import annotations

from bisect import bisect_right

import attrs

from operators.data import memory
from operators.data.page import Page, concatenate
from operators.data.schema import Schema
from operators.join.bounds import latest
from operators.join.oa import OAJoin
from operators.kernels.ticks import BEFORE_ALL
from operators.plan_facts import HeldBack
from operators.protocol import Emit
from operators.retractions import refused
from punctuation import Punctuation, whole


@attrs.define(eq=False)
class FlushedJoin(memory.Stateful):
    """Emit one tuple without a partner every `every` tuples, none for 0, and at most `delay` windows late.

    Pass: pairs at once. A tuple without a partner waits in a queue from the promise that settles it. It leaves as
    tuples of either input come, first in, first out. It leaves at the latest with the promise of the same input that is
    `delay` spans of the window above the one that settled it, and with the end of either input. A promise of single
    keys counts as the last promise of its input on all keys. Keep: what the join keeps, and the queue, whose length is
    `waiting` in the statistics. Propagate: the promises of the join, each when what was queued before it has left.
    Cost: the join's, and O(1) a tuple queued. Source: slow and lazy flush, thesis 8.3.3.

    >>> import pyarrow as pa
    >>> from operators.drive import drive, rows
    >>> from operators.join.window import Band
    >>> from punctuation import before
    >>> schema = Schema.of(ts=pa.int64(), progress=["ts"])
    >>> join = FlushedJoin(OAJoin(Band("ts", "ts", left=2, right=2), kind="anti"), every=1, delay=9)
    >>> output = join.output_schema(schema, schema)
    >>> three, later = Page.of(schema, {"ts": [1, 2, 3]}), Page.of(schema, {"ts": [8]})
    >>> first = drive(join, [(0, three), (1, before("ts", 7))])
    >>> rows(first), rows(drive(join, [(1, later)]))
    ([], [{'ts': 1}])
    """

    join: OAJoin = attrs.field(metadata=memory.part())
    every: int = attrs.field(default=160, kw_only=True, validator=attrs.validators.ge(0))
    delay: int = attrs.field(default=2, kw_only=True, validator=attrs.validators.ge(0))
    _wattrs: tuple[str, str] = attrs.field(init=False, default=("", ""))
    _queue: list[Page] = attrs.field(init=False, factory=list, metadata=memory.pages("queue"))
    _queued: int = attrs.field(init=False, default=0, metadata=memory.integer())
    """The tuples that were queued since the queue was empty."""
    _released: int = attrs.field(init=False, default=0, metadata=memory.integer())
    """Those of them that have left."""
    _promises: list[tuple[int, Punctuation]] = attrs.field(init=False, factory=list, metadata=memory.waiting())
    """The promises that wait, each with the number of tuples that leave before it."""
    _left: list[tuple[int, int]] = attrs.field(init=False, factory=list, metadata=memory.waiting())
    """How many tuples were queued after a promise of the left input, and its bound; both ascend."""
    _right: list[tuple[int, int]] = attrs.field(init=False, factory=list, metadata=memory.waiting())
    _bounds: list[int] = attrs.field(init=False, factory=lambda: [BEFORE_ALL, BEFORE_ALL], metadata=memory.numbers())
    _came: int = attrs.field(init=False, default=0, metadata=memory.integer())
    """The tuples that came since one left the queue."""
    _peak: int = attrs.field(init=False, default=0, metadata=memory.integer())

    def __attrs_post_init__(self) -> None:
        # Each copy, such as that of a lane, has a join of its own.
        self.join = attrs.evolve(self.join)

    retracted = refused

    @property
    def inputs(self) -> int:
        return 2

    def __len__(self) -> int:
        """Return the number of stored and of queued tuples."""
        return len(self.join) + self._waiting

    def output_schema(self, *inputs: Schema) -> Schema:
        schema = self.join.output_schema(*inputs)
        left, right = (s.resolve(n, where="join") for s, n in zip(inputs, self.join.window.attributes, strict=True))
        self._wattrs = left, right
        return schema

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self.join.process(page, lambda e: emit(e) if isinstance(e, Page) else self._promise(e, emit), port)
        if self._waiting and self.every:
            due, self._came = divmod(self._came + len(page), self.every)
            if due:
                self._release(self._released + due, emit)
        self._peak = max(self._peak, len(self))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        before = self._queued
        self.join.punctuate(
            punctuation, lambda e: self._hold(e) if isinstance(e, Page) else self._promise(e, emit), port
        )
        self._peak = max(self._peak, len(self))
        if punctuation.is_end:
            self._release(self._queued, emit)
            return
        bound = whole(punctuation.bound(self._wattrs[port]))
        if bound is not None:
            self._bounds[port] = max(self._bounds[port], latest(bound))
        marks = self._left if port == 0 else self._right
        if self._queued > before:
            marks.append((self._queued, self._bounds[port]))
        late = self._bounds[port] - self.delay * self.join.window.span
        due = bisect_right(marks, late, key=lambda mark: mark[1])
        if due:
            self._release(marks[due - 1][0], emit)

    def held_back(self, attribute: str, bound: int | None) -> HeldBack | None:
        """Return what waits in the queue before a promise that waits there, too; None where no such promise waits.

        - `attribute`: what the promise is on.
        - `bound`: what it must promise at least; None for any.
        """
        waits = (
            place
            for place, promise in self._promises
            if promise.is_end
            or ((far := whole(promise.bound(attribute))) is not None and (bound is None or far >= bound))
        )
        place = next(waits, None)
        if place is None:
            return None
        tuples, late = place - self._released, self.delay * self.join.window.span
        promises = tuple(
            (port, self._wattrs[port], mark[1] + late)
            for port, marks in enumerate((self._left, self._right))
            if (mark := next((mark for mark in marks if mark[0] >= place), None)) is not None
        )
        return HeldBack(tuples, tuples * self.every - self._came if self.every else None, promises)

    def needless(self, port: int) -> Punctuation | None:
        """Return which tuples of an input show in nothing, as the join says."""
        return self.join.needless(port)

    def statistics(self) -> dict[str, int]:
        join = self.join.statistics()
        return {
            **join,
            "state_tuples": join["state_tuples"] + self._waiting,
            "state_bytes": join.get("state_bytes", 0) + sum(page.batch.nbytes for page in self._queue),
            "waiting": self._waiting,
            "peak_state_tuples": self._peak,
        }

    @property
    def _waiting(self) -> int:
        return self._queued - self._released

    def _hold(self, page: Page) -> None:
        self._queue.append(page)
        self._queued += len(page)

    def _promise(self, promise: Punctuation, emit: Emit) -> None:
        """Emit a promise, or let it wait for the tuples before it."""
        if self._waiting:
            self._promises.append((self._queued, promise))
        else:
            emit(promise)

    def _release(self, until: int, emit: Emit) -> None:
        """Emit the queued tuples up to a number, and the promises that waited for them."""
        until = min(until, self._queued)
        parts: list[Page] = []
        whole_pages = 0
        for page in self._queue:
            missing = until - self._released
            if missing <= 0:
                break
            parts.append(page.slice(0, min(missing, len(page))))
            self._released += len(parts[-1])
            if len(parts[-1]) < len(page):
                self._queue[whole_pages] = page.slice(missing, len(page))
                break
            whole_pages += 1
        del self._queue[:whole_pages]
        if parts:
            released, most = concatenate(parts[0].schema, parts), self.join.page_rows
            for start in range(0, len(released), most):
                emit(released.slice(start, min(start + most, len(released))))
        passed = bisect_right(self._promises, self._released, key=lambda waiting: waiting[0])
        for _, promise in self._promises[:passed]:
            emit(promise)
        del self._promises[:passed]
        for marks in (self._left, self._right):
            del marks[: bisect_right(marks, self._released, key=lambda mark: mark[0])]
        if not self._waiting:
            self._queued = self._released = self._came = 0

    def _after_restoring(self) -> None:
        if sum(map(len, self._queue)) != self._waiting:
            raise ValueError(f"the saved state has {sum(map(len, self._queue))} waiting tuples, not {self._waiting}")
        for waiting in (self._promises, self._left, self._right):
            places = [place for place, _ in waiting]
            if places != sorted(places) or any(not self._released < place <= self._queued for place in places):
                raise ValueError(f"the saved state has {places} as places between {self._released} and {self._queued}")
