"""Billing ranks the rates of all slots of a period, those without a tuple as zero, as a bill by percentile does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.group_text import group_text
from operators.data.keys import KeyIndex
from operators.data.page import Array, Bools, Int64s, Page, concatenate, tick_column
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.protocol import AggregateFunction
from operators.functions.shares import percent, rounded_up, share_of
from operators.functions.sharing import accumulators
from operators.kernels.ticks import FOREVER
from operators.overflow import Overflow
from operators.plan_facts import Together
from operators.protocol import Emit
from operators.retractions import Retracted, Retracting
from operators.window.sliding import SlidingWindow
from operators.window.user import EdgeWindow
from operators.window_aggregate.results import REVISION, START, STOP, WID, named_apart
from operators.window_aggregate.revised import last_given
from punctuation import END, Punctuation, before

SLOTS: Final = "slots"
EMPTY: Final = "empty"
MISSING: Final = "missing"
_COUNTS = ("periods", "slots", "empty", "peak_state_tuples")


def _share(billing: object, attribute: attrs.Attribute[float], value: float) -> None:
    share_of(value, where="billing", zero=False)


@attrs.define(eq=False)
class Billing(memory.Stateful):
    """Emit for each group and period the percentile and the maximum of a rate over all slots of the period.

    The input are results of windows, the slots, one of each group and window. A slot belongs to the period that it
    begins in. One without a result of the group is a rate of zero. The percentile is that of the nearest rank: of N
    slots in order of their rate the one with number ceil(share * N), so a month of 30 days in slots of 5 minutes, 8,640
    of them, leaves out the highest 432 at 0.95.

    - `value`: the attribute with the rate of a slot, a number. Null counts as zero.
    - `by`: the groups of the windows.
    - `slot`: the window of the slots.
    - `period`: the period that is billed, as edges.
    - `share`: the share of the slots that are not above the percentile.
    - `functions`: further aggregates over the results of the slots of a group and period.
    - `on_time`: aggregates over the results that were given first, before late tuples changed them.
    - `sources`: some of `by`. A slot in which no group with the same of these has a result is `missing`: nothing was
      heard of its source, as of an exporter that was off.

    Results: `by`, p95_<value> and max_<value> of the type of the rate, the functions, `slots` (all of the period),
    `empty` (those without a result of the group), `missing` (those without a result of the source), window_start and
    window_end of the period.

    Pass: a period when no slot in it can come. Keep: the results of the slots of periods that are not over. Propagate:
    bounds of window_start and window_end, as those of periods. Cost: O(log n) a result, amortised.

    >>> from operators.drive import drive, rows
    >>> schema = Schema.of(k=pa.string(), bps=pa.int64(), window_start=pa.int64(), window_end=pa.int64())
    >>> page = Page.of_rows(schema, [("a", 7, 0, 5), ("a", 9, 15, 20), ("b", 8, 5, 10)])
    >>> days = EdgeWindow("window_start", lambda tick: tick // 20 * 20 + 20)
    >>> billing = Billing("bps", ("k",), slot=SlidingWindow("ts", size=5, slide=5), period=days, share=0.75)
    >>> for row in rows(drive(billing, [page, END])):
    ...     print(row["k"], row["p75_bps"], row["max_bps"], row["slots"], row["empty"], row["missing"])
    a 7 9 4 2 1
    b 0 8 4 3 1
    """

    value: str
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    slot: SlidingWindow = attrs.field(kw_only=True)
    period: EdgeWindow = attrs.field(kw_only=True)
    share: float = attrs.field(default=0.95, kw_only=True, validator=_share)
    functions: Mapping[str, AggregateFunction] = attrs.field(factory=dict, kw_only=True)
    on_time: Mapping[str, AggregateFunction] = attrs.field(factory=dict, kw_only=True)
    sources: tuple[str, ...] = attrs.field(default=(), converter=tuple, kw_only=True)
    overflow: Overflow = attrs.field(init=False, factory=Overflow)
    _fitted: tuple[Schema, Schema] | None = attrs.field(init=False, default=None)
    _held: list[Page] = attrs.field(init=False, factory=list, metadata=memory.pages("held"))
    """Results of slots, each page less than half as long as the one before it."""
    _due: int = attrs.field(init=False, default=FOREVER)
    """Where the first period ends of which results are held."""
    _counts: dict[str, int] = attrs.field(
        init=False, factory=lambda: dict.fromkeys(_COUNTS, 0), metadata=memory.counters()
    )

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        return self._fit(schema)

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        return None if found is None or REVISION in found.standing else "refused"

    def together(self, *inputs: Schema) -> Together:
        return Together.by(self.sources, why="" if self.sources else "missing slots are counted over all groups")

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self._fit(page.schema)
        if not len(page):
            return
        self._due = min(self._due, self._end(int(page.ticks(START).min())))
        self._held.append(page)
        while len(self._held) > 1 and len(self._held[-2]) <= 2 * len(self._held[-1]):
            self._held[-2:] = [concatenate(page.schema, self._held[-2:])]
        self._counts["peak_state_tuples"] = max(self._counts["peak_state_tuples"], self._size())

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            self._settle(FOREVER, emit)
            emit(END)
            return
        begun = self._begun(punctuation)
        if begun is None:
            return
        self._settle(begun, emit)
        low, high, _, inside = self.period.around(begun)
        if inside:
            emit(before(STOP, high, assumed=punctuation.assumed))
            emit(before(START, low, assumed=punctuation.assumed))

    def statistics(self) -> dict[str, int]:
        return {"state_tuples": self._size(), "state_bytes": self.nbytes, **self._counts}

    def _size(self) -> int:
        return sum(map(len, self._held))

    def _after_restoring(self) -> None:
        starts = [int(page.ticks(START).min()) for page in self._held]
        self._due = self._end(min(starts)) if starts else FOREVER

    def _end(self, tick: int) -> int:
        """Return where the period ends that a tick is in."""
        return self.period.around(tick)[1]

    def _begun(self, promise: Punctuation) -> int | None:
        """Return the least tick at which a slot may begin that is still to come; None where nothing is said of it."""
        first = self.slot.origin - self.slot.size
        found: list[int] = []
        for name, length in ((START, 0), (STOP, self.slot.size)):
            bound = promise.bound(name)
            if isinstance(bound, int):
                found.append(first + -(-(bound - length - first) // self.slot.slide) * self.slot.slide)
        return max(found, default=None)

    def _settle(self, begun: int, emit: Emit) -> None:
        """Emit the periods that end before any slot that is still to come begins."""
        if begun < self._due or not self._held:
            return
        page = concatenate(self._held[0].schema, self._held)
        ends, place = self._periods(page)
        over: Bools = (ends < FOREVER if begun == FOREVER else ends <= begun)[place]
        self._held = [] if over.all() else [page.select(~over)]
        self._due = min((end for end in ends.tolist() if end > begun), default=FOREVER)
        page = page if over.all() else page.select(over)
        emit(self._billed(last_given(page, self.by), page))

    def _periods(self, page: Page) -> tuple[Int64s, Int64s]:
        """Return where the periods of a page end, in order, and the place there of the period of each tuple."""
        starts = page.ticks(START)
        ends: list[int] = []
        at, last = int(starts.min()), int(starts.max())
        while at <= last:
            ends.append(self._end(at))
            later = starts[starts >= ends[-1]]
            at = int(later.min()) if len(later) else last + 1
        return np.array(ends, np.int64), np.searchsorted(np.array(ends, np.int64), starts, side="right")

    def _billed(self, page: Page, given: Page) -> Page:
        """Return the results of the periods of a page, all of which are over; `given` has what came before, too."""
        output = self._fit(page.schema)
        ends, place = self._periods(page)
        begins = np.array([self.period.around(int(end) - 1)[0] for end in ends], np.int64)
        every = self._starting(ends) - self._starting(begins)
        ids, firsts = _numbered(page, self.by, place)
        groups = len(firsts)
        counted = np.bincount(ids, minlength=groups).astype(np.int64)
        period = place[firsts]
        slots = every[period]
        ranked, highest = self._ranked(page, ids, counted, slots)
        columns: dict[str, pa.Array] = {name: page.take(firsts).column(name) for name in self.by}
        columns[self._ranked_name] = ranked
        columns[f"max_{self.value}"] = highest
        numbers = np.arange(groups, dtype=np.int32)
        told = dict.fromkeys(self.functions, (page, ids))
        if self.on_time:
            told |= dict.fromkeys(self.on_time, self._first(given, page.take(firsts), place[firsts]))
        made = [
            *accumulators(self.functions.values(), page.schema),
            *accumulators(self.on_time.values(), page.schema),
        ]  # fmt: skip
        for accumulator, (rows, of_rows) in zip(made, told.values(), strict=True):
            accumulator.reserve(groups)
            accumulator.init(numbers)
            accumulator.update(of_rows.astype(np.int32), rows)

        def where(at: int) -> str:
            keys = [column.slice(at, 1) for column in map(columns.__getitem__, self.by)]
            return f"period {int(begins[period[at]])}, {group_text(output, self.by, keys)}"

        for name, accumulator in zip(told, made, strict=True):
            columns[name] = self.overflow.finalized(name, accumulator, numbers, output.arrow.field(name).type, where)
        of, some = _numbered(page, self.sources, place)
        _, heard = _numbered(page, (), of, page.ticks(START))
        there = np.bincount(of[heard], minlength=len(some)).astype(np.int64)
        columns[SLOTS] = pa.array(slots)
        columns[EMPTY] = pa.array(slots - counted)
        columns[MISSING] = pa.array(slots - there[of[firsts]])
        times = output.arrow.field(STOP).type
        columns[START], columns[STOP] = tick_column(begins[period], times), tick_column(ends[period], times)
        self._counts["periods"] += groups
        self._counts["slots"] += int(slots.sum())
        self._counts["empty"] += int((slots - counted).sum())
        return Page(output, pa.RecordBatch.from_arrays([columns[name] for name in output.names], schema=output.arrow))

    def _first(self, given: Page, each: Page, period: Int64s) -> tuple[Page, Int64s]:
        """Return the results that were given first, and the group of each; `each` is one tuple of every group."""
        # They are of the same periods as those that were given last.
        _, place = self._periods(given)
        if REVISION in given.schema:
            first: Bools = given.ticks(REVISION) == 0
            given, place = given.select(first), place[first]
        both = concatenate(given.schema, [each, given])
        return given, _numbered(both, self.by, np.concatenate([period, place]))[0][len(each) :]

    def _starting(self, ticks: Int64s) -> Int64s:
        """Return a number of each tick: two are as far apart as the slots that begin from one up to the other."""
        first = self.slot.origin - self.slot.size
        return np.asarray(-(-(ticks - first) // self.slot.slide))

    def _ranked(self, page: Page, ids: Int64s, counted: Int64s, slots: Int64s) -> tuple[pa.Array, pa.Array]:
        """Return the percentile and the maximum of each group, in which the slots without a result are zeros."""
        kind = page.schema.field(self.value).type
        given = page.column(self.value)
        values = given.fill_null(pa.scalar(0, pa.int64()).cast(kind)).to_numpy(zero_copy_only=False)
        order = np.lexsort((values, ids))
        values, begins = values[order], np.cumsum(counted) - counted
        below = np.bincount(ids[order], weights=values < 0, minlength=len(counted)).astype(np.int64)
        absent = slots - counted
        rank = np.maximum(rounded_up(share_of(self.share, where="billing", zero=False), slots), 1)
        found = [_at(values, begins, below, absent, of) for of in (rank, slots)]
        return pa.array(found[0], kind), pa.array(found[1], kind)

    @property
    def _ranked_name(self) -> str:
        return f"p{percent(self.share)}_{self.value}"

    def _fit(self, schema: Schema) -> Schema:
        if self._fitted is None or not self._fitted[0].arrow.equals(schema.arrow, check_metadata=True):
            fields = [schema.field(name, where="billing") for name in (self.value, START, STOP, *self.by)]
            kind = fields[0].type
            if not (pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)):
                raise SchemaError(
                    f'billing: "{self.value}" has type {kind}, and a rate is a number.\n'
                    '  Compute one behind the windows: derive(bps="sum_bytes * 8 / 300").'
                )
            if odd := [name for name in self.sources if name not in self.by]:
                raise SchemaError(
                    f"billing: sources has {odd[0]}, which is no group of the windows: {', '.join(self.by) or 'none'}."
                )
            if REVISION in schema:
                schema.field(WID, where="billing")
            made = [pa.field(name, kind) for name in (self._ranked_name, f"max_{self.value}")]
            told = (*self.functions.items(), *self.on_time.items())
            made += [function.output_field(schema, name) for name, function in told]
            made += [pa.field(name, pa.int64()) for name in (SLOTS, EMPTY, MISSING)]
            arrow = named_apart([*fields[3:], *made, *fields[1:3]], "billing")
            KeyIndex(fields[3:])
            promised = schema.progressing(START) or schema.progressing(STOP)
            self._fitted = (schema, Schema(arrow, progress=[(START,), (STOP,)] if promised else []))
        return self._fitted[1]


def _at(values: Array, begins: Int64s, below: Int64s, absent: Int64s, rank: Int64s) -> Array:
    """Return of each group the value of a rank, from 1, where `absent` zeros stand behind the `below` negative ones."""
    zero = (rank > below) & (rank <= below + absent)
    place = begins + np.where(rank > below, rank - absent, rank) - 1
    return np.where(zero, 0, values[np.where(zero, begins, place)]).astype(values.dtype)


def _numbered(page: Page, by: tuple[str, ...], *more: Int64s) -> tuple[Int64s, Int64s]:
    """Return the number of each tuple's group, by attributes and further columns, and the first tuple of each."""
    fields = [page.schema.field(name) for name in by]
    fields += [pa.field(f"_{place}", pa.int64()) for place in range(len(more))]
    ids = KeyIndex(fields).assign([*(page.column(name) for name in by), *map(pa.array, more)]).astype(np.int64)
    firsts = np.zeros(int(ids.max()) + 1, np.int64)
    firsts[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)
    return ids, firsts
