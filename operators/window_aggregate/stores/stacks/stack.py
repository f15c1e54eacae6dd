"""A stack holds one kind of partial aggregate for every pane and answers windows that move forward."""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt

from operators.data import memory
from operators.data.memory import grown
from operators.data.page import Array, Bools, Int64s
from operators.data.saved import bounded
from operators.kernels.stacks import layout
from operators.kernels.stacks import panes as stacks_panes
from operators.window_aggregate.stores.stacks.kinds import Kind
from operators.window_aggregate.stores.stacks.panes import Cut, Panes, Spans, moved
from operators.window_aggregate.strategy import Named


@attrs.define(eq=False)
class Stack(memory.Stateful):
    """Answer windows by one technique. Cost: the columns of the kind, once a pane; see the kernels for time.

    The front stack lies where its panes lay: a pane of the front holds the aggregate up to the flip, so that the flip
    copies nothing and a pane is never held twice.
    """

    kind: Kind
    technique: Named
    panes: Panes
    _columns: Array = attrs.field(
        init=False,
        metadata=memory.array(length="_columns", wide=True, of=lambda stack: stack._columns[:, : stack.panes.high]),
    )
    _marks: Int64s = attrs.field(
        init=False, factory=lambda: np.zeros(layout.PLACES, np.int64), metadata=memory.array(length="_marks")
    )
    _kept: npt.NDArray[np.generic] = attrs.field(init=False, metadata=memory.array(length="_kept"))

    def __attrs_post_init__(self) -> None:
        self._columns = np.empty((self.kind.width, 0), self.kind.dtype)
        self._kept = self.kind.kept()

    def add(self, values: Array, cut: Cut) -> None:
        """Add the tuples of a cut to their panes."""
        self._columns[:, cut.fresh : cut.at + len(cut.begins)] = self.kind.identity
        self.kind.lift(values, cut, self._columns)

    def answer(self, spans: Spans) -> Array:
        """Return the aggregate of each window, shape (columns of the kind, windows)."""
        out = np.empty((self.kind.width, len(spans.wids)), self.kind.dtype)
        self._step(spans.heads, spans.tails, spans.steady, out)
        return out

    def _step(self, heads: Int64s, tails: Int64s, steady: bool, out: Array) -> None:
        step = self.kind.technique(self.technique)
        step(self._columns, heads, tails, steady, self._marks, self._kept, out)

    def _let_go(self, low: int) -> None:
        """Let go of the panes before `low`, which no later window has."""
        if self.technique not in ("subtract", "daba"):
            return
        tail = int(self._marks[layout.TAIL if self.technique == "subtract" else layout.END])
        if low < tail:
            out = np.empty((self.kind.width, 1), self.kind.dtype)
            self._step(np.array([low]), np.array([tail]), False, out)
        else:
            self._marks[:] = low
            self._kept = self.kind.kept()

    def move(self, low: int, high: int, capacity: int) -> None:
        self._let_go(low)
        columns = self._columns
        if capacity != columns.shape[1]:
            self._columns = np.empty((len(columns), capacity), columns.dtype)
        self._columns[:, : high - low] = columns[:, low:high]
        self._marks -= low

    def _after_restoring(self) -> None:
        columns, panes = self._columns, len(self.panes)
        if columns.shape[1] != panes:
            raise ValueError(f'the saved state has {columns.shape[1]} panes in "columns", where there are {panes}')
        self._columns = np.empty((len(columns), self.panes.capacity), columns.dtype)
        self._columns[:, :panes] = columns
        self._marks = self.panes.marked(self._marks)


@attrs.define(eq=False)
class Counts(memory.Stateful):
    """Count tuples, or those with a value of an attribute: what came before each pane; a window is a difference.

    Cost: 8 bytes a pane, O(1) a window, whatever the technique.
    """

    panes: Panes
    nulls: int = attrs.field(init=False, default=0, metadata=memory.integer(least=0))
    _before: Int64s = attrs.field(
        init=False,
        factory=lambda: np.zeros(1, np.int64),
        metadata=memory.array(least=0, of=lambda counts: counts._before[: counts.panes.high + 1] - counts._before[0]),
    )

    def add(self, valid: Bools | None, cut: Cut) -> None:
        """Count the tuples of a cut, or those that are valid."""
        before, at, end = self._before, cut.at, cut.at + len(cut.begins)
        if len(cut.begins) == 0:
            return
        held = int(before[cut.fresh])
        if at == cut.fresh:
            before[at + 1] = held
        stacks_panes.count(cut.begins, cut.stops, np.empty(0, np.bool_) if valid is None else valid, at, before)
        if valid is not None:
            self.nulls += int((cut.stops - cut.begins).sum()) - (int(before[end]) - held)

    def answer(self, spans: Spans) -> Int64s:
        """Return the count of each window."""
        found = np.empty(len(spans.wids), np.int64)
        stacks_panes.counted(self._before, spans.heads, spans.tails, found)
        return found

    def assume(self, low: int, high: int) -> None:
        """Take it that each of the panes low <= k < high, counted by nobody, has a value."""
        self._before[low : high + 1] = np.arange(high - low + 1)

    def move(self, low: int, high: int, capacity: int) -> None:
        self._before = moved(self._before, low, high + 1, capacity + 1)

    def _after_restoring(self) -> None:
        bounded(self._before, "before", below=None, length=len(self.panes) + 1)
        self._before = grown(self._before, self.panes.capacity + 1)
