"""The window aggregate of a stream in order: tuples fall into panes, stacks combine panes, no tuple is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import ClassVar

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import ROWS, Array, Int64s, Page
from operators.data.schema import Schema
from operators.errors import AggregateOverflow, SchemaError
from operators.functions.columns import frozen
from operators.functions.count import Count
from operators.functions.protocol import AggregateFunction
from operators.functions.sums import Avg
from operators.kernels.stacks import panes as kernels
from operators.kernels.ticks import BEFORE_ALL, LIMIT
from operators.plan_facts import ANY_DISTANCE, Together, Tolerance
from operators.protocol import Emit
from operators.streams.broken_promises import spoken
from operators.window import SlidingWindow
from operators.window_aggregate.results import (
    START,
    STOP,
    WID,
    extent_page,
    named_apart,
    ordering,
    result_page,
    window_fields,
)
from operators.window_aggregate.shell import RENAMED, Shell
from operators.window_aggregate.stores.stacks.finalize import Stacked, finalize, kind_of, stacked
from operators.window_aggregate.stores.stacks.kinds import Kind, WholeSum
from operators.window_aggregate.stores.stacks.panes import Panes, Spans
from operators.window_aggregate.stores.stacks.stack import Counts, Stack
from operators.window_aggregate.strategy import Named, Technique, check_technique, stack_technique
from punctuation import Punctuation, StreamViolation, before

_PANES = 1 << 15
"""Panes that are cut at a time, so that what they pass through stays in the cache."""
_EVERY = np.ones(1, np.bool_)


@attrs.frozen
class _Result:
    """One result attribute: its function, the attribute it reads by its own name, and where it is found."""

    function: Stacked
    argument: str | None
    stack: int | None
    """Which of the stacks it is found on; None for counts."""


@attrs.define
class _Counted(memory.Stateful):
    """Name what is counted: the values of attributes, or tuples."""

    counted: str = attrs.field(default="[]", metadata=memory.text())


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class StackAggregate(Shell):
    """Aggregate the tuples of each window of a stream that is in order of the windowing attribute, without groups.

    The input is the stream itself, no Bucket; the output is that of Bucket and WindowAggregate. A tuple out of order,
    or below a promise, is refused with StreamViolation.
    Pass: the results of a window at the first tuple at or past its end, or on the promise that completes it. Keep: one
    partial aggregate a pane (a slide, two where the size is no multiple of it) that is in a window still to come, never
    a tuple. Propagate: `[ts < v]` as `[wid < w]`, `[window_start < b]` and `[window_end < e]`.
    Cost: O(aggregates) a tuple; a window costs O(1) panes on average ("two_stacks", "subtract"), always ("daba"), or
    all of its panes ("recompute"). Sums of whole numbers are exact. Floating sums carry what rounding lost; by
    "subtract", which "auto" never chooses for them, they also carry the rounding of what has left.
    Source: Theodorakis et al., Hammer Slide (ADMS 2018), section 3.2, with the front stack in the panes' place;
    Tangwongsan, Hirzel, Schneider, DABA (DEBS 2017), in place.

    >>> from operators.drive import drive, rows
    >>> from operators.functions import max
    >>> page = Page.of(Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"]), {"ts": [3, 7, 12], "v": [9, 5, 6]})
    >>> window = SlidingWindow("ts", size=10, slide=5)
    >>> rows(drive(StackAggregate(window, {"most": max("v")}), [page]))  # doctest: +NORMALIZE_WHITESPACE
    [{'most': 9, 'wid': 0, 'window_start': -5, 'window_end': 5},
     {'most': 9, 'wid': 1, 'window_start': 0, 'window_end': 10}]
    """

    renamed: ClassVar[Mapping[str, str]] = {
        **RENAMED,
        "without_value": "count.without_value",
        "in_no_window": "count.in_no_window",
    }

    window: SlidingWindow
    functions: Mapping[str, AggregateFunction]
    technique: Technique = attrs.field(default="auto", kw_only=True)
    _computed: dict[str, _Result] = attrs.field(init=False, factory=dict)
    _panes: Panes | None = attrs.field(init=False, default=None, metadata=memory.part())
    _form: None = attrs.field(
        init=False,
        default=None,
        metadata=memory.form(_Counted, "_count_again", lambda own: own._counted_now(), optional=True),
    )
    _stacks: list[Stack] = attrs.field(init=False, factory=list, metadata=memory.parts("stack"))
    _counts: dict[str | None, Counts] = attrs.field(init=False, factory=dict, metadata=memory.parts("count"))
    _bound: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer(name="promise"))
    _floor: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer(name="bound"))
    """The tick below which no tuple may come: that of the last one, or of a promise."""
    _released: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    _tuples: int = attrs.field(init=False, default=0, metadata=memory.integer())
    _pages: int = attrs.field(init=False, default=0, metadata=memory.integer())
    _lost: dict[str, int] = attrs.field(
        init=False, factory=lambda: {"without_value": 0, "in_no_window": 0}, metadata=memory.counters()
    )

    def __attrs_post_init__(self) -> None:
        check_technique(self.technique)
        self._progressing = self.window.wattr

    @property
    def by(self) -> tuple[str, ...]:
        """Return the grouping attributes: none."""
        return ()

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        where, window = "aggregate by stacks", self.window
        if not isinstance(window, SlidingWindow):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SchemaError(
                f"{where}: {type(window).__name__} has no panes that leave in order; only sliding windows have.\n"
                "  Put a Bucket and a WindowAggregate in its place."
            )
        times = ordering(schema, window.wattr, where)
        fields = [stacked(f, schema).output_field(schema, name) for name, f in self.functions.items()]
        arrow = named_apart([*fields, *window_fields(times)], where)
        progressing = schema.progressing(window.wattr)
        return Schema(arrow, progress=[WID, START, STOP] if progressing else [])

    def techniques(self, schema: Schema) -> dict[str, Named]:
        """Say by which technique each result is found; counts are differences of running counts, whatever was asked."""
        kinds = {name: kind_of(stacked(function, schema), schema) for name, function in self.functions.items()}
        return {name: "subtract" if kind is None else self._choice(kind) for name, kind in kinds.items()}

    def together(self, *inputs: Schema) -> Together:
        return Together(why="a window without groups")

    def late_tolerance(self, attribute: str, melded: bool) -> Tolerance:
        # It refuses what is not in order, as a late tuple is not, rather than leave it out of open windows.
        taken = self.window.wattr == attribute
        return Tolerance(ANY_DISTANCE if melded else self.window.size, fixed=True) if taken else Tolerance()

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if len(page):
            self._take(page, emit)
            self._tuples += len(page)
        self._pages += 1

    def _take(self, page: Page, emit: Emit) -> None:
        panes = self._bind(page.schema)
        wattr = self.window.wattr
        values = frozen(page.ticks(wattr))
        refused = int(kernels.first_below(values, self._floor))
        number = self._tuples + refused
        if page.valid(wattr) is not None or refused >= 0 or values[0] <= -LIMIT or values[-1] >= LIMIT:
            usable = (values > -LIMIT) & (values < LIMIT)
            usable &= _EVERY if (valid := page.valid(wattr)) is None else valid
            places = np.flatnonzero(usable)
            if len(places) < len(page):
                self._lost["without_value"] += len(page) - len(places)
                page, values = page.select(usable), frozen(values[places])
                refused = int(kernels.first_below(values, self._floor))
                number = self._tuples + int(places[refused]) if refused >= 0 else number
        if refused >= 0:
            wrong = self._violation(page, values, refused, number)
            self._add(page.slice(0, refused), values[:refused], panes, emit)
            raise wrong
        self._add(page, values, panes, emit)

    def _add(self, page: Page, values: Int64s, panes: Panes, emit: Emit) -> None:
        columns = [stack.kind.values(page) for stack in self._stacks]
        valid = {name: None if name is None else page.valid(name) for name in self._counted(page)}
        at = 0
        while at < len(values):
            cut = panes.cut(values, at, _PANES)
            for stack, column in zip(self._stacks, columns, strict=True):
                stack.add(column, cut)
            for name, counts in self._counts.items():
                counts.add(valid[name], cut)
            self._lost["in_no_window"] += cut.in_no_window
            at = cut.end
            self._floor = int(values[at - 1])
            self._peak = max(self._peak, len(panes))
            self._release(self.window.complete(self._floor), emit)

    def _counted(self, page: Page) -> list[str | None]:
        """Return the attributes whose values are counted: those asked for, and those that have had a null."""
        assert self._panes is not None
        for stack in self._stacks:
            argument = stack.kind.argument
            if argument not in self._counts and page.column(argument).null_count:
                self._count(argument).assume(self._panes.low, self._panes.high)
        return list(self._counts)

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        if bound > self._floor:
            self._floor = bound
        wid = self.window.complete(self._floor)
        self._release(wid, emit)
        self._promise(wid, *self.window.extent(wid), assumed, emit)

    def _end(self, emit: Emit) -> None:
        assert self._panes is not None
        self._release(self._panes.horizon, emit)

    def _release(self, wid: int, emit: Emit) -> None:
        """Emit the windows before `wid` that were not yet, and forget the panes that are in no later one."""
        panes = self._panes
        if panes is None or wid <= self._released:
            return
        next_wid = max(self._released, self.window.least)
        while next_wid < wid and len(panes):
            spans, next_wid = panes.spans(next_wid, wid, ROWS)
            if len(spans.wids):
                self._emit(spans, emit)
        self._released = wid
        panes.drop(wid)

    def _open(self, most: int) -> Page:
        assert self._panes is not None and self._output is not None
        wids = self._panes.open(max(self._released, self.window.least), most)
        return extent_page(self._output, [], wids, *self.window.extents(wids))

    def closed_by(self, wid: int) -> Punctuation:
        return before(self.window.wattr, self.window.extent(wid)[1])

    def _emit(self, spans: Spans, emit: Emit) -> None:
        output = self._output
        assert output is not None
        wids, window = spans.wids, self.window
        begins, ends = np.empty(len(wids), np.int64), np.empty(len(wids), np.int64)
        kernels.bounds(wids, window.size, window.slide, window.origin, begins, ends)
        bounded = output.arrow.field(START).type.bit_width == 64
        page = result_page(output, list(self._answers(spans)), wids, begins, ends, bounded=bounded)
        self._results += len(wids)
        emit(page)

    def _answers(self, spans: Spans) -> Iterator[pa.Array]:
        schema, output = self._input, self._output
        assert schema is not None and output is not None
        counted: dict[str | None, Int64s] = {name: counts.answer(spans) for name, counts in self._counts.items()}
        found: list[Array] = [stack.answer(spans) for stack in self._stacks]
        for name, of in self._computed.items():
            if of.stack is None:
                yield pa.array(counted[of.argument])
                continue
            answer = partial(
                finalize, of.function, schema, self._stacks[of.stack].kind, found[of.stack], counted.get(of.argument)
            )
            try:
                yield self.overflow.filled(len(spans.wids), output.arrow.field(name).type, answer)
            except AggregateOverflow as overflow:
                wid = spans.wids[overflow.slot or 0]
                raise AggregateOverflow(f"aggregate {name} of window {wid}, all tuples: {overflow}") from overflow

    def _bind(self, schema: Schema) -> Panes:
        if self._panes is not None:
            return self._panes
        self._input, self._output = schema, self.output_schema(schema)
        self._panes = Panes(self.window)
        for name, given in self.functions.items():
            function = stacked(given, schema)
            kind = kind_of(function, schema)
            argument = None if function.argument is None else schema.resolve(function.argument, where=function.name)
            self._computed[name] = _Result(function, argument, None if kind is None else self._stack(kind))
            if isinstance(function, Count | Avg):
                self._count(argument)
        return self._panes

    def _stack(self, kind: Kind) -> int:
        """Return the place of the stack of a kind, made when it is first asked for: sum and avg share one."""
        assert self._panes is not None
        kinds = [stack.kind for stack in self._stacks]
        if kind in kinds:
            return kinds.index(kind)
        stack = Stack(kind, self._choice(kind), self._panes)
        self._stacks.append(stack)
        self._panes.admit(stack)
        return len(kinds)

    def _choice(self, kind: Kind) -> Named:
        exact = isinstance(kind, WholeSum)
        return stack_technique(
            self.technique, self.window.size, self.window.slide, few=kind.few, invertible_exactly=exact
        )

    def _count(self, argument: str | None) -> Counts:
        assert self._panes is not None
        if argument not in self._counts:
            self._counts[argument] = Counts(self._panes)
            self._panes.admit(self._counts[argument])
        return self._counts[argument]

    def _violation(self, page: Page, values: Int64s, index: int, number: int) -> StreamViolation:
        wattr = self.window.wattr
        kind = page.schema.field(wattr).type
        value = int(values[index])
        floor = max(self._floor, int(values[index - 1]) if index else BEFORE_ALL)
        if floor == self._bound and (index == 0 or int(values[index - 1]) < floor):
            after = f"the punctuation [{wattr} < {spoken(floor, kind)}]"
        else:
            after = f"a tuple with {wattr} = {spoken(floor, kind)}"
        return StreamViolation(
            f"aggregate by stacks: the stream is not in order of {wattr}: tuple {number} "
            f"(page {self._pages}) has {wattr} = {spoken(value, kind)}\n  after {after}.\n"
            f'  Sort it first, .reorder(on="{wattr}", slack=...), or aggregate with strategy="two_stacks" or without\n'
            "  a strategy: they take any order."
        )

    def _forget(self) -> None:
        super()._forget()
        self._panes = None
        self._computed.clear()
        self._stacks.clear()
        self._counts.clear()

    def _size(self) -> tuple[int, int]:
        if self._panes is None:
            return 0, 0
        return len(self._panes), self.nbytes

    def statistics(self) -> dict[str, int]:
        return super().statistics() | {
            "windows": self._results,
            "null_arguments": sum(
                self._counts[of.argument].nulls for of in self._computed.values() if of.argument in self._counts
            ),
        }

    def _counted_now(self) -> _Counted | None:
        return None if self._panes is None else _Counted(json.dumps(list(self._counts)))

    def _count_again(self, saved: _Counted) -> None:
        for name in json.loads(saved.counted):
            self._count(name)
