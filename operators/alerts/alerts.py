"""Alerts follow the results of windows: they open, go on and close; provisional ones are confirmed or withdrawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import memory
from operators.data.keys import KeyIndex
from operators.data.page import Bools, Int64s, Page, concatenate, tick_column
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.expression import Bound, Expression
from operators.kernels.alerts import follow as kernels
from operators.kernels.ticks import BEFORE_ALL, FOREVER, LIMIT
from operators.plan_facts import Together
from operators.protocol import Emit
from operators.retractions import SIGN, Retracted, Retracting
from operators.window_aggregate.early.firing import FINAL, FIRED, FIRING
from operators.window_aggregate.results import REVISION, START, STOP, WID
from operators.window_aggregate.revised import last_given
from punctuation import END, Punctuation, before

ALERT, EVENT, SINCE, WINDOWS = "alert", "event", "since", "windows"
EVENTS: Final = ("provisional", "open", "update", "close", "withdrawn")
"""The events, by the numbers that they have in the kernel."""
_NONE, _NO = np.empty(0, np.int64), np.empty(0, np.bool_)
_MEMORY = tuple(f"memory{place}" for place in range(kernels.MEMORY))


def _positive(alerts: object, attribute: attrs.Attribute[int], value: int) -> None:
    if not 1 <= value <= LIMIT:
        raise SchemaError(f"alert: {attribute.name} is {value}; write a number from 1 to 2**61.")


@attrs.define(eq=False)
class Alerts(memory.Stateful):
    """Emit the events of an alert for each group, from the results of windows that are `slide` ticks apart.

    An alert opens when `when` is true of `windows` windows in a row, and closes with the first window of which `clear`
    is true, by default that of which `when` is not. A window without a result ends a run and closes an alert. An early
    result that would open the alert makes it provisional; the complete window opens it or withdraws it. Of results that
    are given again, the last one counts.
    Pass: events of results before a bound, and of windows that ended before it without one; at once, those of results
    that fire as tuples arrive. Keep: results that are not before it, and a row for each group with a run, an open alert
    or a provisional one. Propagate: bounds of the time at which results are known: `fired` of results that are early on
    event time, else window_end.
    Cost: O(log n) a result by sorting, a promise O(groups kept).

    >>> from operators.drive import drive, rows
    >>> from operators.expression import Column
    >>> schema = Schema.of(n=pa.int64(), wid=pa.int64(), window_start=pa.int64(), window_end=pa.int64())
    >>> page = Page.of_rows(schema, [(9, 0, 0, 10), (8, 1, 10, 20), (1, 2, 20, 30)])
    >>> for row in rows(drive(Alerts("busy", Column("n") > 5, slide=10), [page, END])):
    ...     print(row["event"], row["n"], row["window_start"], row["since"], row["windows"])
    open 9 0 0 1
    update 8 10 0 2
    close 1 20 0 2
    """

    name: str
    when: Expression = attrs.field(validator=attrs.validators.instance_of(Expression))
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    slide: int = attrs.field(kw_only=True, validator=_positive)
    windows: int = attrs.field(default=1, kw_only=True, validator=_positive)
    clear: Expression | None = attrs.field(default=None, kw_only=True)
    _fitted: _Fitted | None = attrs.field(init=False, default=None)
    _held: list[Page] = attrs.field(init=False, factory=list, metadata=memory.pages("held"))
    """Results that no bound has reached."""
    _standing: list[Page] = attrs.field(init=False, factory=list, metadata=memory.pages("standing"))
    """The groups that are remembered, with the columns of the kernel's memory."""
    _counts: dict[str, int] = attrs.field(
        init=False, factory=lambda: dict.fromkeys(_COUNTS, 0), metadata=memory.counters()
    )

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        return self._fit(schema).output

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        replaced = found is None or found.replaced or REVISION in found.standing
        return None if replaced else "refused"

    def together(self, *inputs: Schema) -> Together:
        return Together.by(self.by, why="" if self.by else "there are no groups")

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        fitted = self._fit(page.schema)
        if len(page) and fitted.at_once:
            final, _, _ = fitted.masks(page)
            self._follow(fitted, None if final.all() else page.select(~final), BEFORE_ALL, emit)
            page = page.select(final)
        if len(page):
            self._held.append(page)
            self._counts["peak_state_tuples"] = max(self._counts["peak_state_tuples"], self._size())

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            self._settle(FOREVER, emit)
            self._held, self._standing = [], []
            emit(END)
            return
        time = STOP if self._fitted is None else self._fitted.time
        bound = punctuation.bound(time)
        if not isinstance(bound, int):
            return
        self._settle(bound, emit)
        emit(punctuation)
        if time == FIRED:
            # What fires later belongs to a window that ends no earlier.
            emit(before(STOP, bound, assumed=punctuation.assumed))

    def statistics(self) -> dict[str, int]:
        return {"state_tuples": self._size(), "state_bytes": self.nbytes, **self._counts}

    def _size(self) -> int:
        return sum(map(len, [*self._held, *self._standing]))

    def _settle(self, bound: int, emit: Emit) -> None:
        """Emit the events of results before a bound, and of windows that ended before it without one."""
        fitted = self._fitted
        if fitted is None or not (self._held or self._standing):
            return
        self._follow(fitted, self._due(fitted, bound), bound, emit)

    def _follow(self, fitted: _Fitted, due: Page | None, bound: int, emit: Emit) -> None:
        """Emit the events of these results, and of windows that ended before a bound without one."""
        standing = self._standing[0] if self._standing else None
        if due is None and standing is None:
            return
        rows = 0 if due is None else len(due)
        keys = [
            _joined([page.column(name) for page in (standing, due) if page is not None], fitted.keys.field(name).type)
            for name in self.by
        ]
        index = KeyIndex([fitted.keys.field(name) for name in self.by])
        known = 0 if standing is None else len(standing)
        ids = index.assign(keys) if self.by else np.zeros(known + rows, np.int32)
        groups = int(ids.max()) + 1
        kept = np.zeros((groups, kernels.MEMORY), np.int64)
        kept[:, kernels.DOUBT] = BEFORE_ALL
        if standing is not None:
            kept[ids[:known]] = np.column_stack([standing.ticks(name) for name in _MEMORY])
        events = np.empty((3 * rows + 2 * groups, kernels.EVENTS), np.int64)
        of = ids[known:].astype(np.int64)
        wids, starts, times, ends = (
            (_NONE,) * 4 if due is None else (due.ticks(WID), due.ticks(START), due.ticks(fitted.time), due.ticks(STOP))
        )
        final, hot, calm = (_NO,) * 3 if due is None else fitted.masks(due)
        if fitted.at_once:
            # What fires as tuples arrive does so in that order, and no time of it tells which windows are over.
            times, turns = np.where(final, times, BEFORE_ALL), np.where(final, wids, 0)
        else:
            turns = wids
        order = np.lexsort((turns, ~final, times, of))
        found = kernels.follow(
            of[order], (wids[order], starts[order], times[order], ends[order]),
            (final[order], hot[order], calm[order]), self.windows, self.slide, bound, kept, events,
        )  # fmt: skip
        firsts = np.zeros(groups, np.int64)
        firsts[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)
        if found:
            emit(self._events(fitted, events[:found], due, order, [key.take(pa.array(firsts)) for key in keys]))
        alive = np.flatnonzero((kept[:, kernels.RUN] > 0) | (kept[:, kernels.DOUBT] != BEFORE_ALL))
        self._standing = []
        if len(alive):
            group = [key.take(pa.array(firsts[alive])) for key in keys]
            batch = [*group, *(pa.array(kept[alive, place]) for place in range(kernels.MEMORY))]
            self._standing = [Page(fitted.keys, pa.RecordBatch.from_arrays(batch, schema=fitted.keys.arrow))]
        self._counts["open_now"] = int(np.count_nonzero(kept[:, kernels.IS_OPEN]))

    def _due(self, fitted: _Fitted, bound: int) -> Page | None:
        """Take the results before a bound out of those that are held; None for none."""
        if not self._held:
            return None
        page = concatenate(self._held[0].schema, self._held)
        due: Bools = page.ticks(fitted.time) < bound
        if not due.any():
            self._held = [page]
            return None
        self._held = [] if due.all() else [page.select(~due)]
        rows = page if due.all() else page.select(due)
        return last_given(rows, self.by)

    def _events(self, fitted: _Fitted, events: Int64s, due: Page | None, order: Int64s, groups: list[pa.Array]) -> Page:
        """Make a page of events; those of windows without a result have nulls for what was computed."""
        kinds, rows, of = events[:, kernels.KIND], events[:, kernels.ROW], events[:, kernels.GROUP]
        for place, name in enumerate(EVENTS):
            self._counts[name] += int(np.count_nonzero(kinds == place))
        absent = rows < 0
        row = np.zeros(len(rows), np.int64)
        row[~absent] = order[rows[~absent]]
        places = pa.array(row, mask=absent)
        schema = fitted.output.arrow
        times = schema.field(STOP).type
        made = {
            ALERT: pa.repeat(pa.scalar(self.name), len(events)),
            EVENT: pa.array(EVENTS).take(pa.array(kinds)),
            SINCE: tick_column(events[:, kernels.BEGAN], times),
            WINDOWS: pa.array(events[:, kernels.WINDOWS]),
            WID: pa.array(events[:, kernels.WID]),
            START: tick_column(events[:, kernels.START], times),
            STOP: tick_column(events[:, kernels.END], times),
        }
        for name, keys in zip(self.by, groups, strict=True):
            made[name] = keys.take(pa.array(of))
        for name in schema.names:
            if name in made:
                continue
            if due is None:
                made[name] = pa.nulls(len(events), schema.field(name).type)
            else:
                made[name] = due.column(name).take(places)
            # A window that had no result is known to have none when it ends.
            if name == FIRED:
                made[name] = pc.if_else(pa.array(absent), made[STOP], made[name])
            elif name == FINAL:
                made[name] = pc.if_else(pa.array(absent), pa.scalar(True), made[name])
        return Page(fitted.output, pa.RecordBatch.from_arrays([made[name] for name in schema.names], schema=schema))

    def _fit(self, schema: Schema) -> _Fitted:
        if self._fitted is None or not self._fitted.input.arrow.equals(schema.arrow, check_metadata=True):
            for name in (WID, START, STOP, *self.by):
                schema.field(name, where="alert")
            if taken := [name for name in _MEMORY if name in schema]:
                raise SchemaError(f'alert: "{taken[0]}" is the name of what an alert remembers; rename yours.')
            arrow = event_fields(schema, self.by)
            at_once = FIRING in schema
            time = FIRED if FIRED in schema and not at_once else STOP
            progress = [(time,), (STOP,)] if schema.progressing(time) else []
            keys = [schema.field(name) for name in self.by]
            self._fitted = _Fitted(
                schema,
                Schema(arrow, progress=progress),
                Schema(pa.schema([*keys, *(pa.field(name, pa.int64()) for name in _MEMORY)])),
                time,
                at_once,
                condition_of(self.when, schema, "when"),
                None if self.clear is None else condition_of(self.clear, schema, "clear"),
            )
            KeyIndex(keys)
        return self._fitted


@attrs.frozen(eq=False)
class _Fitted:
    """An alert over one input: the schemas of results, events and groups, and its conditions over them."""

    input: Schema
    output: Schema
    keys: Schema
    time: str
    at_once: bool
    """Whether windows fire as tuples arrive."""
    when: Bound
    clear: Bound | None

    def masks(self, page: Page) -> tuple[Bools, Bools, Bools]:
        """Return which results are of whole windows, which meet the condition, and which end an alert."""
        final: Bools = page[FINAL].astype(np.bool_) if FINAL in page.schema else np.ones(len(page), np.bool_)
        hot = holding(self.when, page)
        return final, hot, ~hot if self.clear is None else holding(self.clear, page)


_COUNTS = (*EVENTS, "open_now", "peak_state_tuples")


def event_fields(schema: Schema, by: Sequence[str]) -> pa.Schema:
    """Return the attributes of events about results of a schema; SchemaError where an alert cannot follow these.

    - `by`: the groups. What was computed of them may be null in an event.
    """
    if SIGN in schema:
        raise SchemaError(
            'alert: the input takes early results back (RETRACT, refine="retract"), and an alert follows whole'
            ' ones.\n  Write EARLY without RETRACT, in Python refine="accumulate".'
        )
    if taken := [name for name in (ALERT, EVENT, SINCE, WINDOWS) if name in schema]:
        raise SchemaError(f'alert: "{taken[0]}" is the name of what an alert says; rename yours.')
    kept = (*by, WID, START, STOP)
    told = [field if field.name in kept else field.with_nullable(True) for field in schema.arrow]
    made = [
        pa.field(ALERT, pa.string()),
        pa.field(EVENT, pa.string()),
        pa.field(SINCE, schema.field(STOP).type),
        pa.field(WINDOWS, pa.int64()),
    ]
    return pa.schema([*made, *told])


def condition_of(expression: Expression, schema: Schema, what: str) -> Bound:
    """Return a condition over results; SchemaError where it gives no truth value."""
    bound = expression.bind(schema)
    if not pa.types.is_boolean(bound.type):
        raise SchemaError(
            f"alert({what}={expression}): this is of type {bound.type}, and an alert takes a truth value.\n"
            "  Compare it with something, e.g. count > 100."
        )
    return bound


def holding(bound: Bound, page: Page) -> Bools:
    """Return of which results a condition is true; null is not."""
    return pc.fill_null(bound.evaluate(page), False).to_numpy(zero_copy_only=False)


def _joined(columns: list[pa.Array], kind: pa.DataType) -> pa.Array:
    return columns[0] if len(columns) == 1 else pa.concat_arrays([column.cast(kind) for column in columns])
