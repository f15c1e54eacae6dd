"""An aggregate whose early results tell what is still missing: estimates of the final values, with an interval."""

from __future__ import annotations

from typing import ClassVar, Final

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.protocol import AggregateFunction, Slots
from operators.lazy import is_of
from operators.protocol import Element, Emit
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Alike, Tagged
from operators.window_aggregate.early.firing import ARRIVED, ENDINGS
from operators.window_aggregate.results import START, STOP
from operators.window_aggregate.store import Released
from operators.window_aggregate.stores.per_window.store import SliceStore
from operators.window_aggregate.stores.per_window.vector_store import VectorStore
from operators.window_aggregate.triggers.aggregate import TriggeredAggregate
from operators.window_aggregate.triggers.expected import Expected, Float64s, checked
from punctuation import Punctuation

_HIGHEST: Final = "highest time seen"
"""What a page is given besides: of each tuple, the highest time up to it."""


@attrs.define(on_setattr=attrs.setters.NO_OP)
class IntervalAggregate(TriggeredAggregate):
    """Aggregate as a TriggeredAggregate does, and say of each early result how much of its window has arrived.

    Emits `arrived` besides, the share of the tuples of the window that has come, and for each count, sum and mean, such
    as `n`, its final value `n_expected` and an interval from `n_low` to `n_high` that holds it in `interval` of all
    windows. These are null while the highest time seen is before the end of the window, and the interval also until
    enough windows are over to know how wrong such estimates are. A final result is its own estimate.

    Estimates are by all that came before the last promise: more promises change them.
    Keep: besides, each estimate of an open window, 65,536 at most.
    """

    VERSION: ClassVar[int] = 3
    OLDEST: ClassVar[int] = 3

    interval: float = attrs.field(kw_only=True)
    _expected: Expected = attrs.field(init=False, metadata=memory.part())
    _at: tuple[Int64s, Int64s] = attrs.field(init=False, factory=lambda: (np.empty(0, np.int64), np.empty(0, np.int64)))
    """Of the results that are given next, the highest time seen and the tuples of their windows."""
    _given: tuple[Schema, Schema] | None = attrs.field(init=False, default=None)
    """The schema of a page, and that with the highest time besides."""
    _all: Schema | None = attrs.field(init=False, default=None)
    """The schema of results with estimates."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        checked(self.interval)
        if self.discards:
            raise SchemaError(
                "aggregate(early=..., interval=...): an interval is for the whole of a window, and DISCARD gives what"
                " is new.\n  Leave one of them out."
            )
        if not isinstance(self.window, SlidingWindow):
            raise SchemaError(
                "aggregate(early=..., interval=...): how much of a window has arrived follows from its times.\n"
                "  Sliding and tumbling windows have an interval."
            )
        self._expected = self._fresh()

    def _fresh(self) -> Expected:
        return Expected(self.interval, max(len(self.estimated), 1))

    @property
    def estimated(self) -> dict[str, bool]:
        """Name the results that are estimated, and whether each grows with the tuples of its window."""
        kinds = {name: _grows(function) for name, function in self.functions.items()}
        return {name: grows for name, grows in kinds.items() if grows is not None}

    def results_schema(self, schema: Schema) -> Schema:
        plain = super().results_schema(schema)
        estimated = [
            name
            for name in self.estimated
            if pa.types.is_integer(kind := plain.field(name).type) or pa.types.is_floating(kind)
        ]
        if len(estimated) < max(len(self.estimated), 1):
            others = sorted({*self.functions} - set(estimated))
            raise SchemaError(
                f"aggregate(early=..., interval=...): {', '.join(others)}: counts, sums and means of numbers have an"
                " interval, and none of these has.\n  Compute one of them besides, or leave the interval out."
            )
        names = [ARRIVED, *(f"{name}_{ending}" for name in estimated for ending in ENDINGS)]
        for name in names:
            if name in plain:
                raise SchemaError(f'early results: "{name}" is the name of an estimate; rename yours.')
        fields = [pa.field(name, pa.float64()) for name in names]
        return Schema(pa.schema([*plain.arrow, *fields]), progress=plain.progress)

    def _bind(self, schema: Schema) -> SliceStore | VectorStore:
        store = super()._bind(schema)
        self._all, self._told = self._told, TriggeredAggregate.results_schema(self, self._tags(schema))
        return store

    def _take_page(self, store: SliceStore, found: Alike | Tagged, emit: Emit) -> None:
        page, ticks = found.page, found.page.ticks(self.window.wattr)
        highest = np.maximum.accumulate(np.maximum(ticks, self._expected.highest))
        if self._given is None or self._given[0] != page.schema:
            fields = [*page.schema.arrow, pa.field(_HIGHEST, pa.int64())]
            self._given = page.schema, Schema(pa.schema(fields), progress=page.schema.progress)
        schema = self._given[1]
        columns = [*page.batch.columns, pa.array(highest)]
        page = Page(schema, pa.RecordBatch.from_arrays(columns, schema=schema.arrow))
        super()._take_page(store, attrs.evolve(found, page=page), emit)
        self._expected.observe(ticks)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        super().punctuate(punctuation, emit, port)
        self._expected.settle()

    def _note(self, page: Page, fires: Int64s, rows: Int64s) -> None:
        self._at = page.ticks(_HIGHEST)[fires], rows

    def _note_all(self, slots: Slots) -> None:
        self._at = np.full(len(slots), self._expected.highest), self._firings.had(slots)

    def _give(self, released: Released, numbers: Int64s, emit: Emit, *, final: bool) -> None:
        told, at = self._all, 0
        assert told is not None

        def tell(element: Element) -> None:
            nonlocal at
            assert isinstance(element, Page)
            which = slice(at, at + len(element))
            at += len(element)
            values = _values(element, list(self.estimated))
            if final:
                self._expected.learn(released.some(which), values)
                columns = [np.ones(len(element)), *np.repeat(values, len(ENDINGS), axis=1).T]
            else:
                columns = self._estimates(element, values, released.some(which), which)
            made = [*element.batch.columns, *(pa.array(column, from_pandas=True) for column in columns)]
            emit(Page(told, pa.RecordBatch.from_arrays(made, schema=told.arrow)))

        super()._give(released, numbers, tell, final=final)

    def _estimates(self, page: Page, values: Float64s, places: Released, which: slice) -> list[Float64s]:
        """Return the share that has arrived, and of each value what is expected and its bounds, nan for null."""
        expected, grows = self._expected, np.array(list(self.estimated.values()))
        highest, rows = (column[which] for column in self._at)
        starts, stops = page.ticks(START), page.ticks(STOP)
        share = expected.arrived(highest, starts, stops)
        over = (highest >= stops) & ~np.isnan(share)
        part = np.where(over, share, np.nan)[:, None]
        estimates = np.where(grows, values / part, np.where(np.isnan(part), np.nan, values))
        # Of so many tuples that are still to come, the number varies as their square root does.
        spread = np.abs(estimates) * np.sqrt((1.0 - part) / rows[:, None])
        bounds = expected.bounds()
        low, high = (np.full_like(estimates, np.nan),) * 2
        if bounds is not None:
            with np.errstate(invalid="ignore"):
                low, high = (estimates + bound * spread for bound in bounds)
            low, high = (np.where(np.isfinite(bound), bound, np.nan) for bound in (low, high))
            counts = np.array([_is_count(self.functions[name]) for name in self.estimated])
            # A count does not fall, and is whole.
            low = np.where(counts, np.maximum(np.floor(low), values), low)
            high = np.where(counts, np.maximum(np.ceil(high), values), high)
        if over.any():
            expected.remember(places.some(over), estimates[over], spread[over])
        return [share, *np.stack((estimates, low, high), axis=2).reshape(len(page), -1).T]

    def _forget(self) -> None:
        super()._forget()
        self._expected, self._all = self._fresh(), None

    def statistics(self) -> dict[str, int]:
        return super().statistics() | {"estimates_forgotten": self._expected.forgotten}


def _grows(function: AggregateFunction) -> bool | None:
    """Return whether a result grows with the tuples of its window; None for one that is not estimated."""
    if _is_count(function) or is_of(function, "operators.functions.sums", "Sum"):
        return True
    return False if is_of(function, "operators.functions.sums", "Avg") else None


def _is_count(function: AggregateFunction) -> bool:
    return is_of(function, "operators.functions.count", "Count")


def _values(page: Page, names: list[str]) -> Float64s:
    """Return results as floating numbers, shape (n, values), nan for null."""
    columns = [page.column(name).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) for name in names]
    return np.stack(columns, axis=1)
