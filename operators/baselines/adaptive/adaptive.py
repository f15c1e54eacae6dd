"""AdaptWID aggregates dense groups eagerly and sparse groups lazily, and follows them when they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import attrs
import numpy as np
import pyarrow as pa

from operators.baselines.adaptive.cost import Cost
from operators.baselines.adaptive.panes import MixedPanes
from operators.baselines.adaptive.watermarks import Watermarks
from operators.baselines.buffer.log import TupleLog, attributes
from operators.baselines.buffer.mixed import EAGER, LAZY, MixedStore, Policy
from operators.baselines.buffer.objects import Objects
from operators.baselines.buffer.panes import refuse_arrival
from operators.baselines.buffer.windowed import Buffering
from operators.data import memory
from operators.data.keys import KeyIndex
from operators.data.page import Int32s, Int64s, Page, Scalar, plain_values
from operators.data.saved import save_schema
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.arguments import plain_type
from operators.functions.ordered import refuse_ordered
from operators.functions.protocol import AggregateFunction
from operators.kernels.ticks import BEFORE_ALL
from operators.plan_facts import Attributes
from operators.protocol import Emit
from operators.streams.named_groups import matched
from operators.window_aggregate import facts
from operators.window_aggregate.bucket import FROM
from punctuation import GroupPromise, Punctuation

_SUMS = ("switches_to_eager", "switches_to_lazy", "replayed")
_SAMPLE = 1024
_SOURCES = 8
"""Sources of which statistics tell the progress; `sources` has all."""
_GROUP_BYTES, _ITEM_BYTES = 28, 72


@attrs.frozen
class Source:
    """The progress of one data source; times in ticks of the windowing attribute, None before the first."""

    key: Scalar
    high_watermark: int | None
    """hwTime, the largest value seen."""
    punctuated: int | None
    """punctuatedWid, the last window promised to be complete."""
    offset: int
    """How far hwTime is behind that of the source that is furthest."""
    volume: int
    """Unexpired tuples of all groups."""


@attrs.define(on_setattr=attrs.setters.NO_OP)
class AdaptiveAggregate(Buffering[MixedStore | MixedPanes]):
    """Aggregate windows by group, each group eagerly or lazily, whichever takes less memory; the input is a Bucket's.

    Emits what a WindowAggregate emits. A lazy group's tuples wait in a buffer that all groups share, an eager one has a
    partial aggregate for each open window. Every group starts lazy; it turns eager when its window volume (its
    unexpired tuples) rises above the threshold of condition 6.9, and lazy again when it falls below a lower one; until
    the partial aggregates it has then are released, it is in transition and has both. Late tuples are Bucket's affair.
    Pass: the results of a window on the promise that completes it. Keep: for each group tuples or partial aggregates,
    and one entry a group with an unexpired tuple. Propagate: as WindowAggregate does; `[source = s, wid_from < w]` is
    noted and goes no further.
    Cost: O(1) a tuple of a lazy group, O(its windows) of an eager one; a switch O(the group's tuples and windows); the
    release of a window O(lazy tuples in it + its partial aggregates). The state depends on the order of tuples, not on
    pages; the results on neither.
    Source: thesis 6.3, Eq. 6.5 to 6.9, Fig 6-17 and 6-18, with docs/semantics.md rows 17 to 21.

    >>> from operators.window_aggregate.bucket import Bucket
    >>> from operators.drive import drive, rows
    >>> from operators.functions import count
    >>> from operators.window import SlidingWindow
    >>> from punctuation import before
    >>> window = SlidingWindow("ts", size=10, slide=5)
    >>> schema = Schema.of(ts=pa.int64(), k=pa.string(), progress=["ts"])
    >>> page = Page.of(schema, {"ts": [7, 3, 4, 3, 12], "k": ["a", "b", "b", "b", "a"]})
    >>> operator = AdaptiveAggregate(window, {"n": count()}, ("k",), cost=Cost())
    >>> tagged = drive(Bucket(window), [page, before("ts", 10)])
    >>> [(row["k"], row["n"], row["window_end"]) for row in rows(drive(operator, tagged[:1]))]
    []
    >>> operator.accounts().to_pylist()  # doctest: +NORMALIZE_WHITESPACE
    [{'k': 'a', 'aggregation': 'lazy', 'window_volume': 2, 'buffered': 2, 'partial_aggregates': 0},
     {'k': 'b', 'aggregation': 'eager', 'window_volume': 3, 'buffered': 0, 'partial_aggregates': 2}]
    >>> sorted((row["k"], row["n"], row["window_end"]) for row in rows(drive(operator, tagged[1:])))
    [('a', 1, 10), ('b', 3, 5), ('b', 3, 10)]
    """

    cost: Cost | None = attrs.field(default=None, kw_only=True)
    """What a partial aggregate and a tuple cost, and the band; when not said, their bytes."""
    band: float = attrs.field(default=Cost().band, kw_only=True, metadata={memory.PARAMETER_ADDED: True})
    """The band, where the costs are bytes."""
    source: str | None = attrs.field(default=None, kw_only=True)
    """The attribute that names the data source of a tuple, when the input is a union of several."""
    panes: bool = attrs.field(default=False, kw_only=True)
    """Decide for each pane of a group: a list of tuples becomes a partial aggregate when it would be the larger."""
    always: Literal["lazy", "eager"] | None = attrs.field(default=None, kw_only=True)
    """Take one alternative for all groups: what buffering, or WID with one partial aggregate a window, would hold."""
    _watermarks: Watermarks = attrs.field(init=False, metadata=memory.part(name="marks"))
    _sources: KeyIndex | None = attrs.field(
        init=False, default=None, metadata=memory.part(KeyIndex, fields="source_fields")
    )
    _cost: Cost = attrs.field(init=False, factory=Cost)
    _earlier: dict[str, int] = attrs.field(init=False, factory=lambda: {}, metadata=memory.tally())

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._watermarks = Watermarks(self.window)

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        (read,) = facts.attributes_read(self, wanted, *inputs)
        return [read if self.source is None else read | {inputs[0].resolve(self.source, where="plan")}]

    def results_schema(self, schema: Schema) -> Schema:
        if self.endless:
            raise SchemaError(
                "aggregate(adaptive): no tuple of a window of RANGE ALL ever expires, so buffering never pays.\n"
                "  Use a WindowAggregate, or give the window a RANGE."
            )
        refuse_ordered(self.functions, self.window, "aggregate(adaptive)")
        if self.panes:
            refuse_arrival(self.functions, "panes=True")
        if self.source is not None:
            KeyIndex([schema.field(self.source, where="aggregate(source)")])
        return super().results_schema(schema)

    def _make(self, schema: Schema) -> MixedStore | MixedPanes:
        names = attributes(self.functions, schema)
        if self.source is not None:
            self._sources = KeyIndex([schema.field(self.source)])
        tup, aggr = _tuple_bytes(names, schema), _aggregate_bytes(self.functions, schema)
        self._cost = self.cost or Cost(aggr=aggr, tup=tup, band=self.band)
        weights = (round(tup), round(aggr), _ITEM_BYTES if self.panes else _GROUP_BYTES)
        objects = Objects(self._accumulators(schema), TupleLog(schema, names))
        return (MixedPanes if self.panes else MixedStore)(objects, self._policy(), weights)

    def _policy(self) -> Policy:
        marks = self._watermarks
        if self.always is not None:
            return LAZY if self.always == "lazy" else EAGER
        cost, length = self._cost, marks.range
        if self.panes:
            # A list becomes a partial aggregate when it would be the larger, and never turns back.
            return Policy(cost.tup, cost.aggr, 0.0, 1.0)
        rate = cost.tup * marks.slide
        return Policy(rate * length, cost.aggr * marks.wed * length, rate, cost.band)

    def _update(
        self,
        store: MixedStore | MixedPanes,
        page: Page,
        first: Int64s,
        last: Int64s,
        groups: Int32s,
        capacity: int,
    ) -> None:
        self._count_nulls(page)
        # The rows of a partition have their own count, and no promise on all of them ever asks for it.
        ticks = page.ticks(self.window.wattr) if self.window.wattr in page.schema else None
        self._watermarks.arrived(first, last)
        sources = self._source_ids(page, store, self._watermarks)
        store.update(page, first, last, groups, capacity, ticks, sources)

    def _source_ids(self, page: Page, store: MixedStore | MixedPanes, marks: Watermarks) -> Int32s | None:
        if self._sources is None or self.source is None:
            return None
        ids = self._sources.assign([page.column(self.source)])
        store.objects.grow_sources(self._sources.capacity)
        marks.grow(self._sources.capacity)
        return ids

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        store, marks = self._store, self._watermarks
        marks.closed(bound, BEFORE_ALL if store is None else int(store.objects.high.max()))
        if store is not None:
            store.policy = self._policy()
        super()._advance(bound, assumed, emit)

    def _advance_groups(self, punctuation: Punctuation, emit: Emit) -> None:
        self._note_source(punctuation, self._watermarks)
        super()._advance_groups(punctuation, emit)

    def _forget(self) -> None:
        if self._store is not None:
            self._earlier = self._measured(self._store)
        super()._forget()
        self._watermarks, self._sources = Watermarks(self.window), None

    def _note_source(self, punctuation: Punctuation, marks: Watermarks) -> None:
        """Note a promise of single sources, whose windows stay open for the others' sake."""
        promise = GroupPromise.of(punctuation)
        if promise is None or self._sources is None or self.source is None or promise.shape != ((self.source,), FROM):
            return
        assert isinstance(promise.bound, int)
        for k in matched(self._sources, Punctuation({self.source: punctuation.pattern(self.source)})).tolist():
            marks.promised(promise.bound, k)

    def sources(self) -> list[Source]:
        """Return what is known of each data source, in the order of their first tuples; one when none is named."""
        store, marks = self._store, self._watermarks
        if store is None:
            return []
        high = store.objects.high.tolist()
        keys: list[Scalar] = [None]
        if self._sources is not None:
            keys = plain_values(self._sources.keys(np.arange(len(high), dtype=np.int32))[0])
        volumes = store.account(self._live())[0].sum(axis=0).tolist()
        return [
            Source(
                key,
                None if time == BEFORE_ALL else time,
                None if wid == BEFORE_ALL else wid,
                max(high) - time if time != BEFORE_ALL else 0,
                volume,
            )
            for key, time, wid, volume in zip(keys, high, marks.punctuated.tolist(), volumes, strict=True)
        ]

    def accounts(self) -> pa.RecordBatch:
        """Return the account of each group: its key, how it is aggregated, its window volume and what is held of it."""
        store, index = self._store, self._groups
        live = self._live()
        fields: list[pa.Field] = [] if index is None else list(index.fields)
        keys: list[pa.Array] = [] if index is None else index.keys(live)
        fields += [pa.field("aggregation", pa.string())]
        fields += [pa.field(name, pa.int64()) for name in ("window_volume", "buffered", "partial_aggregates")]
        if store is None:
            return save_schema(pa.schema(fields))
        volumes, eager, partial, buffered = store.account(live)
        named = np.where(eager == 1, "eager", np.where(partial > 0, "transition", "lazy"))
        numbers = [pa.array(column.astype(np.int64)) for column in (volumes.sum(axis=1), buffered, partial)]
        return pa.RecordBatch.from_arrays([*keys, pa.array(named, pa.string()), *numbers], schema=pa.schema(fields))

    def _live(self) -> Int32s:
        index, store = self._groups, self._store
        if index is None:
            return np.arange(0 if store is None else store.objects.entries, dtype=np.int32)
        return np.sort(index.live())

    def _measured(self, store: MixedStore | MixedPanes) -> dict[str, int]:
        to_eager, to_lazy = store.objects.switches
        found = {
            "switches_to_eager": to_eager,
            "switches_to_lazy": to_lazy,
            "replayed": store.objects.scanned,
            "peak_objects": store.objects.peak,
            "peak_held_bytes": store.objects.peak_weight,
            "peak_temporary": store.temporary,
        }
        earlier = self._earlier
        return {n: v + earlier.get(n, 0) if n in _SUMS else max(v, earlier.get(n, 0)) for n, v in found.items()}

    def statistics(self) -> dict[str, int]:
        found = super().statistics()
        store, marks = self._store, self._watermarks
        if store is None:
            return {**found, **self._earlier}
        _, eager, partial, _ = store.account(self._live())
        eagerly, mixed = int(np.count_nonzero(eager)), int(np.count_nonzero((eager == 0) & (partial > 0)))
        found |= {
            "groups_lazy": len(eager) - eagerly - mixed,
            "groups_eager": eagerly,
            "groups_in_transition": mixed,
            "buffered": store.objects.buffered,
            "partial_aggregates": store.objects.partial,
            "objects": len(store) + store.objects.entries,
            "wed": marks.wed,
        }
        return {**found, **self._progress_by_source(), **self._measured(store)}

    def _progress_by_source(self) -> dict[str, int]:
        """Return hwTime, punctuatedWid and winVol of each source, as far as known, of the furthest behind if many."""
        found: dict[str, int] = {}
        sources = self.sources()
        for one in sorted(sources, key=lambda one: -one.offset)[:_SOURCES]:
            of = "" if self.source is None else f" of {one.key}"
            told = {"hw_time": one.high_watermark, "punctuated_wid": one.punctuated, "window_volume": one.volume}
            found |= {f"{name}{of}": value for name, value in told.items() if value is not None}
        if self.source is not None:
            found["sources"] = len(sources)
        return found

    def _after_restoring(self) -> None:
        super()._after_restoring()
        if self._store is not None:
            self._store.policy = self._policy()


def _aggregate_bytes(functions: Mapping[str, AggregateFunction], schema: Schema) -> float:
    """Return the bytes of a partial aggregate: its accumulators' and its row's."""
    held = 36.0
    for function in functions.values():
        accumulator = function.accumulator(schema)
        accumulator.reserve(_SAMPLE)
        held += accumulator.nbytes / _SAMPLE
    return held


def _tuple_bytes(names: Sequence[str], schema: Schema) -> float:
    """Return the bytes of a buffered tuple: its row and the attributes kept, 16 for one of no fixed width."""
    held = 32.0
    for name in names:
        kind = plain_type(schema.field(name).type)
        try:
            held += kind.bit_width / 8
        except ValueError:
            held += 16
    return held
