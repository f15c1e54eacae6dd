"""The low level aggregates into a table of fixed size; what has no place there leaves as a partial aggregate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs
import pyarrow as pa

from operators.data import memory
from operators.data.page import Bools, Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.protocol import AggregateFunction
from operators.functions.sharing import accumulators
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.pace import Paces
from operators.plan_facts import Together
from operators.protocol import Emit
from operators.window_aggregate.bucket import FROM, UNTIL
from operators.window_aggregate.partial_final.flush import CompleteFlush, Flush, InOrderFlush
from operators.window_aggregate.partial_final.partials import partials
from operators.window_aggregate.partial_final.table import COUNTED, Leaving, LowTable
from operators.window_aggregate.partial_final.words import KeyWords
from operators.window_aggregate.results import named_apart
from operators.window_aggregate.shell import Shell
from punctuation import Punctuation, before, below, whole

TABLE, PROBES = 1 << 16, 4
"""Partial aggregates in a table, and places that a group may have, unless said otherwise."""
_CHUNK = 1 << 14


@attrs.define(on_setattr=attrs.setters.NO_OP)
class LowAggregate(Shell):
    """Reduce the tuples of each slice and group, as far as a table of fixed size can; the input is a Bucket's output.

    Emits the grouping attributes, the columns of partial values, wid_from and wid_until; a group of a slice may come
    several times, and what it comes to in all is exact.
    Pass: a partial aggregate when another needs its place, or when the flush says so. Keep: at most `size` partial
    aggregates. Propagate: `[wid_from < w]` up to the oldest window in the table; promises on grouping attributes once
    what they match has left (not under the in-order flush, which may not let it go).
    Cost: O(probes + aggregates) a tuple; a promise O(size) when something must leave at once, or groups are named.
    Source: thesis 8.3.3 and Fig 8-6, as corrected in docs/semantics.md rows 38 to 42.

    >>> from operators.window_aggregate.bucket import Bucket
    >>> from operators.drive import drive, rows
    >>> from operators.functions import count
    >>> from operators.window import tumbling
    >>> page = Page.of(Schema.of(ts=pa.int64(), k=pa.int64(), progress=["ts"]), {"ts": [1, 2, 3], "k": [7, 8, 7]})
    >>> tagged = drive(Bucket(tumbling("ts", 10)), [page, END])
    >>> rows(drive(LowAggregate({"n": count()}, ("k",), size=1), tagged))  # doctest: +NORMALIZE_WHITESPACE
    [{'k': 7, '*:count': 1, 'wid_from': 0, 'wid_until': 1},
     {'k': 8, '*:count': 1, 'wid_from': 0, 'wid_until': 1},
     {'k': 7, '*:count': 1, 'wid_from': 0, 'wid_until': 1}]
    """

    in_ticks: ClassVar[bool] = False

    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    size: int = attrs.field(default=TABLE, kw_only=True, validator=attrs.validators.in_(range(1, 1 << 31)))
    """Partial aggregates that the table holds."""
    flush: Flush = attrs.field(factory=CompleteFlush, kw_only=True)
    probes: int = attrs.field(default=PROBES, kw_only=True, validator=attrs.validators.ge(1))
    """Neighbouring places of a group: an empty one first, then that of the oldest (docs/semantics.md row 40)."""
    page_rows: int = attrs.field(default=1 << 13, kw_only=True, validator=attrs.validators.ge(8))
    """Partial aggregates a page, at most."""
    _table: LowTable | None = attrs.field(init=False, default=None, metadata=memory.part())
    _firm: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    """The highest bound that was not assumed."""
    _promised_bound: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    _partials: int = attrs.field(init=False, default=0, metadata=memory.integer())
    _counted: dict[str, int] = attrs.field(
        init=False, factory=lambda: dict.fromkeys(COUNTED, 0), metadata=memory.counters()
    )

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        # Partial aggregates bear the promises of the tuples that they are made of.
        return [{name: pace for name, pace in wanted.items() if name in inputs[0]}]

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        for name in (FROM, UNTIL):
            if name not in schema:
                raise SchemaError(f'two levels: the input has no "{name}"; put a Bucket in front of the low level.')
        fields = [schema.field(name, where="two levels") for name in self.by]
        KeyWords(fields)
        fields += [function.output_field(schema, name) for name, function in partials(self.functions).items()]
        named_apart(fields, "two levels", what="attributes")
        fields += [pa.field(name, pa.int64(), nullable=False) for name in (FROM, UNTIL)]
        passed = {FROM} if self._in_order else {FROM, *self.by}
        return Schema(pa.schema(fields), progress=[promise for promise in schema.progress if promise <= passed])

    @property
    def _in_order(self) -> bool:
        return isinstance(self.flush, InOrderFlush)

    def reduces(self) -> bool:
        return True

    def together(self, *inputs: Schema) -> Together:
        return Together.anywhere(self.by)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if len(page) == 0:
            return
        table = self._bind(page.schema, emit)
        leave = self._leaving(emit)
        first, last = page.ticks(FROM), page.ticks(UNTIL)
        keys = [page.column(name) for name in self.by]
        for at in range(0, len(page), _CHUNK):
            to = min(at + _CHUNK, len(page))
            some = page if to - at == len(page) else page.slice(at, to)
            table.enter(some, [key.slice(at, to - at) for key in keys], first[at:to], last[at:to], leave)
        self._settle(table, emit)

    def _advance(self, bound: int, assumed: bool, emit: Emit) -> None:
        self._firm = self._firm if assumed else bound
        if self._table is not None:
            self._age(self._table, bound, emit)
            self._settle(self._table, emit)
        else:
            self._promise_rest(emit)

    def _advance_groups(self, punctuation: Punctuation, emit: Emit) -> None:
        if set(punctuation.attributes) <= {FROM, *self.by} and not self._in_order:
            self._finish(punctuation, emit)

    def _end(self, emit: Emit) -> None:
        assert self._table is not None
        self._empty(self._table, emit)

    def _forget(self) -> None:
        super()._forget()
        self._bound = self._firm = self._promised_bound = BEFORE_ALL

    def let_go(self, emit: Emit) -> None:
        """Hand on all partial aggregates held, as if others needed their places; later tuples begin anew."""
        if self._table is not None:
            self._empty(self._table, emit)
            self._promise_rest(emit)

    def _empty(self, table: LowTable, emit: Emit) -> None:
        leave = self._leaving(emit)
        if self._in_order:
            table.push_out(leave, table.newest)
        table.push_out(leave)
        table.drain(leave)
        self._counted = self._totals(table)
        self._table = self._input = None

    def _age(self, table: LowTable, bound: int, emit: Emit) -> None:
        """Let go of what may no longer stay, and say what is old now."""
        leave = self._leaving(emit)
        match self.flush:
            case CompleteFlush():
                table.push_out(leave, bound)
            case InOrderFlush():
                if bound > table.newest:
                    table.push_out(leave, table.newest)
                    table.age(old=bound)
            case slow:
                table.push_out(leave, bound - slow.delay)
                table.age(old=bound if slow.every else None, due=min(bound, bound - slow.delay + 1))

    def _finish(self, promise: Punctuation, emit: Emit) -> None:
        """Let go of the groups that a promise names, then pass it on."""
        patterns = dict(promise.patterns)
        limit: int | None = FOREVER
        if FROM in patterns:
            limit = whole(below(patterns.pop(FROM)))
        if limit is None or not self._promised.advance(promise):
            return
        table = self._table
        if table is not None:
            schema = Schema(pa.schema(list(table.words.fields)))

            def matching(keys: list[pa.Array]) -> Bools:
                page = Page(schema, pa.RecordBatch.from_arrays(keys, schema=schema.arrow))
                return page.matching(Punctuation(patterns))

            table.push_out_where(self._leaving(emit), matching, limit)
            self._settle(table, emit)
        emit(promise)

    def _settle(self, table: LowTable, emit: Emit) -> None:
        self._peak = max(self._peak, len(table))
        table.settle(self._leaving(emit))
        self._promise_rest(emit)

    def _promise_rest(self, emit: Emit) -> None:
        """Promise what is true of what is still to leave: nothing below the oldest window in the table."""
        bound = self._bound if self._table is None else min(self._bound, self._table.oldest())
        if bound > self._promised_bound:
            self._promised_bound = bound
            promise = before(FROM, bound, assumed=bound > self._firm)
            if self._promised.advance(promise):
                emit(promise)

    def _leaving(self, emit: Emit) -> Leaving:
        """Return what makes pages of partial aggregates that left."""

        def leave(columns: list[pa.Array]) -> None:
            output = self._output
            assert output is not None
            page = Page(output, pa.RecordBatch.from_arrays(columns, schema=output.arrow))
            self._partials += len(page)
            emit(page)

        return leave

    def _totals(self, table: LowTable) -> dict[str, int]:
        """Add what a table counted to what those before it did."""
        return {name: count + table.counted[name] for name, count in self._counted.items()}

    def _bind(self, schema: Schema, emit: Emit = lambda element: None) -> LowTable:
        if self._table is not None:
            return self._table
        self._input, self._output = schema, self.output_schema(schema)
        self._table = LowTable(
            KeyWords([schema.field(name) for name in self.by]),
            accumulators(partials(self.functions).values(), schema),
            self.size,
            self.probes,
            self.flush.every,
            self._in_order,
            self.page_rows,
        )
        if self._bound != BEFORE_ALL:
            self._age(self._table, self._bound, emit)
        return self._table

    def _size(self) -> tuple[int, int]:
        return (0, 0) if self._table is None else (len(self._table), self._table.nbytes)

    def statistics(self) -> dict[str, int]:
        tuples, nbytes = self._size()
        return {
            "state_tuples": tuples,
            "state_bytes": nbytes,
            "peak_state_tuples": self._peak,
            "partials": self._partials,
            **(self._counted if self._table is None else self._totals(self._table)),
        }
