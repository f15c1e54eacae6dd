"""Reorder sorts a stream that is almost in order: it waits out a slack, and what comes later than that is late."""

from __future__ import annotations

from typing import Literal

import attrs
import numpy as np
import numpy.typing as npt

from operators.data import memory
from operators.data.page import Bools, Int64s, Page
from operators.data.schema import Schema
from operators.kernels.streams.slack import tuple_slack
from operators.kernels.ticks import BEFORE_ALL
from operators.protocol import Emit
from operators.retractions import as_it_is
from operators.streams.sort_buffer import Held, orderable
from punctuation import END, Punctuation, before, whole

_not_negative = attrs.validators.optional([attrs.validators.instance_of(int), attrs.validators.ge(0)])


@attrs.define(eq=False)
class Reorder(memory.Stateful):
    """Put tuples in the order of an attribute, ties by arrival, as Aurora's BSort does.

    After each tuple there is a bound: with `slack_time` s the greatest value so far less s, with `slack_tuples` n the
    (n+1)-th largest value so far (what remains are the n largest, BSort's buffer), and in any case what the input
    promised. A tuple below the bound before it is late, at whatever page size. "consistent" drops it and counts it: it
    is in no window at all. "generous" counts it as `behind` and passes it at once, right behind the promise it breaks,
    so that a window aggregate counts it in the windows that are still open, and as late when none is; only then does
    this output break its promises, and only where the slack was too small.
    (Thesis 6.1.5.2 calls slack consistent when a tuple that must be dropped from one extent is dropped from all. A sort
    knows no extents: consistent here drops every tuple that would break the order, also one that is late for none.)

    Pass: the tuples up to the bound, in order; a tuple without the attribute at once, it has no place in the order.
    Keep: the tuples above the bound. Propagate: `[attribute < bound]` once a page, with `step` at multiples of it only
    (the slide of a window downstream is enough); other promises when no held tuple matches. Without slack (both None)
    the input's promises alone let tuples out.
    Cost: O(log n) a tuple; generous: a page is cut at each late tuple that follows a new promise, so give a `step`
    where many are late. State: the slack.
    The order of arrival decides which tuples are late, so laws 4 and 6 hold only where the slack suffices. Source:
    thesis 3.1 (slack, BSort), 6.1.5.2; docs/semantics.md rows 34 and 44.

    >>> import pyarrow as pa
    >>> from operators.drive import drive
    >>> page = Page.of(Schema.of(ts=pa.int64()), {"ts": [1, 5, 3, 9, 4]})
    >>> sort = Reorder("ts", slack_time=3)
    >>> found, promise = drive(sort, [page])
    >>> [row["ts"] for row in found.plain_rows()], str(promise), sort.statistics()["late"]
    ([1, 3, 5], '[ts < 6]', 1)
    """

    attribute: str
    slack_time: int | None = attrs.field(default=None, kw_only=True, validator=_not_negative)
    slack_tuples: int | None = attrs.field(default=None, kw_only=True, validator=_not_negative)
    mode: Literal["consistent", "generous"] = attrs.field(
        default="consistent", kw_only=True, validator=attrs.validators.in_(("consistent", "generous"))
    )
    step: int | None = attrs.field(
        default=None,
        kw_only=True,
        validator=attrs.validators.optional([attrs.validators.instance_of(int), attrs.validators.ge(1)]),
    )
    _on: str = attrs.field(init=False)
    """The attribute by its own name, which `output_schema` finds where it was given by another."""
    _held: Held = attrs.field(init=False, factory=Held, metadata=memory.part())
    _bound: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    _promised: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    _largest: Int64s = attrs.field(init=False, metadata=memory.array(length="_largest"))
    _filled: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0, most="_largest"))
    _late: int = attrs.field(init=False, default=0, metadata=memory.integer())

    def __attrs_post_init__(self) -> None:
        if self.slack_time is not None and self.slack_tuples is not None:
            raise ValueError("reorder takes a slack in time or in tuples, not both; leave one of them out")
        self._on = self.attribute
        self._largest = np.zeros(1 if self.slack_tuples is None else self.slack_tuples + 1, np.int64)

    retracted = as_it_is

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        self._on = orderable(schema, self.attribute, "reorder")
        return schema if not self._slack else schema.with_progress([*schema.progress, {self._on}])

    def order_from(self, name: str, *inputs: Schema) -> str | None:
        return name if name == self.order_wanted(*inputs) else None

    def order_wanted(self, *inputs: Schema) -> str | None:
        return inputs[0].resolve(self.attribute, where="plan")

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        valid = page.valid(self._on)
        if valid is not None:
            emit(page.select(~valid))
            page = page.select(valid)
        if not len(page):
            return
        ticks = page.ticks(self._on)
        limits = self._limits(ticks)
        late = ticks < limits
        count = int(late.sum())
        self._late += count
        if count and self.mode == "generous":
            self._pass_late(page, ticks, late, limits, emit)
        else:
            self._hold(page, ticks, late if count else None)
        self._advance(self._after(), emit)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            released = self._held.release(None)
            if released is not None:
                emit(released)
            self._held.clear()
            emit(END)
            return
        bound = whole(punctuation.bound(self._on))
        if bound is not None:
            self._advance(max(bound, self._bound), emit)
        elif not self._held.delay(punctuation):
            emit(punctuation)

    def statistics(self) -> dict[str, int]:
        held = self._held
        return {
            "state_tuples": held.tuples,
            "state_bytes": held.nbytes,
            "peak_state_tuples": held.peak,
            "late" if self.mode == "consistent" else "behind": self._late,
        }

    @property
    def _slack(self) -> bool:
        return self.slack_time is not None or self.slack_tuples is not None

    def _limits(self, ticks: Int64s) -> Int64s:
        """Return for each tuple, shape (n,), the bound that held when it arrived."""
        if self.slack_tuples is not None:
            limits = np.empty(len(ticks), np.int64)
            read_only: npt.NDArray[np.int64] = ticks.view()
            read_only.flags.writeable = False
            self._filled = tuple_slack(read_only, self._largest, self._filled, self._bound, limits)
            return limits
        if self.slack_time is None:
            return np.full(len(ticks), self._bound, np.int64)
        highest = np.maximum.accumulate(ticks)
        if self._filled:
            highest = np.maximum(highest, self._largest[0])
        bounds = np.maximum(highest, BEFORE_ALL + self.slack_time) - self.slack_time
        limits = np.empty(len(ticks), np.int64)
        limits[1:] = np.maximum(bounds[:-1], self._bound)
        limits[0] = self._bound
        self._largest[0], self._filled = highest[-1], 1
        return limits

    def _after(self) -> int:
        """Return the bound after the tuples seen so far."""
        if self.slack_tuples is not None:
            full = self._filled == len(self._largest)
            return max(self._bound, int(self._largest[0])) if full else self._bound
        if self.slack_time is None:
            return self._bound
        return max(self._bound, int(self._largest[0]) - self.slack_time, BEFORE_ALL)

    def _hold(self, page: Page, ticks: Int64s, late: Bools | None) -> None:
        if late is None:
            self._held.add(page, ticks)
        else:
            self._held.add(page.select(~late), ticks[~late])

    def _pass_late(self, page: Page, ticks: Int64s, late: Bools, limits: Int64s, emit: Emit) -> None:
        """Hold what is in time; pass each late tuple right behind the promise it breaks, whatever the page size."""
        start = 0
        places = np.flatnonzero(late)
        bounds = limits[places]
        changes = np.flatnonzero(np.diff(bounds if self.step is None else bounds // self.step))
        for first, last in zip([0, *(changes + 1).tolist()], [*changes.tolist(), len(places) - 1], strict=True):
            stop = int(places[last]) + 1
            part, is_late = page.slice(start, stop), late[start:stop]
            self._hold(part, ticks[start:stop], is_late)
            self._advance(int(bounds[first]), emit)
            emit(part.select(is_late))
            start = stop
        self._hold(page.slice(start, len(page)), ticks[start:], late[start:])

    def _advance(self, bound: int, emit: Emit) -> None:
        """Let out what a bound allows and promise it, unless that was promised already."""
        self._bound = bound
        if bound == BEFORE_ALL:
            return
        # Later tuples may equal the bound: those that wait with that very value come before them.
        released = self._held.release(bound + 1)
        if released is not None:
            emit(released)
        for waited in self._held.ready(bound + 1):
            emit(waited)
        promised = bound if self.step is None else bound // self.step * self.step
        if promised > self._promised:
            self._promised = promised
            emit(before(self._on, promised))
