"""Dedup finds the flow records that tell of a flow which another observer tells of, so that it counts once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import memory
from operators.data.keys import KeyIndex
from operators.data.page import Bools, Int64s, Page, concatenate
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.kernels.rates.cover import cover
from operators.kernels.ticks import BEFORE_ALL, FOREVER, LIMIT
from operators.pace import Pace, Paces, want
from operators.plan_facts import Attributes, Together
from operators.protocol import Emit
from operators.retractions import refused
from operators.window.columns import check_times_of_flow
from punctuation import END, Progress, Punctuation, before

_COUNTS: Final = ("flows", "duplicates", "without_time", "peak_state_tuples")
_WITHIN = [attrs.validators.ge(0), attrs.validators.le(LIMIT)]


@attrs.define(eq=False)
class Dedup(memory.Stateful):
    """Mark the flow records that others of the same flow count already, or leave them out.

    Records with equal `keys` are of one flow, and those with equal `observers` come from one point of observation: an
    exporter, and whether it meters packets as they come in or go out. Observers are in the order of these attributes,
    the least first, nulls last. A record is a duplicate if records of observers before its own tell of at least half
    of the time that it lasts; each of those counts as `reach` ticks longer at both ends, as clocks and timeouts differ.
    So a flow that moves from one exporter to another counts once on both, and what no exporter before it saw counts.

    - `mark`: the name of a new attribute that is true for duplicates. Without it they are left out.
    - `step`: promises are rounded down to multiples of this, which spares work.

    A record that ends before it starts lasts no time. One without a usable start is no duplicate.

    Pass: records with no usable start at once, others when no record before their end can come. Keep: those that are
    not judged, and those that may tell of one of these. Propagate: bounds of `start`, not beyond what is kept.
    Cost: a step O(n log n) for the n records kept.

    >>> from operators.drive import drive, rows
    >>> schema = Schema.of(ts=pa.int64(), end_ts=pa.int64(), port=pa.int64(), exporter=pa.string(), progress=["ts"])
    >>> page = Page.of_rows(schema, [(0, 60, 80, "r2"), (1, 59, 80, "r1"), (0, 60, 443, "r2")])
    >>> dedup = Dedup(("port",), ("exporter",), mark="duplicate")
    >>> for row in rows(drive(dedup, [page, END])):
    ...     print(row["port"], row["exporter"], row["duplicate"])
    80 r2 True
    80 r1 False
    443 r2 False
    """

    keys: tuple[str, ...] = attrs.field(converter=tuple)
    observers: tuple[str, ...] = attrs.field(converter=tuple)
    mark: str | None = attrs.field(default=None, kw_only=True)
    reach: int = attrs.field(default=0, kw_only=True, validator=_WITHIN)
    step: int = attrs.field(default=1, kw_only=True, validator=[attrs.validators.ge(1), attrs.validators.le(LIMIT)])
    start: str = attrs.field(default="ts", kw_only=True)
    end: str = attrs.field(default="end_ts", kw_only=True)
    _schemas: tuple[Schema, Schema] | None = attrs.field(init=False, default=None)
    _open: list[Page] = attrs.field(init=False, factory=list, metadata=memory.pages("open"))
    """Records that are not judged."""
    _past: list[Page] = attrs.field(init=False, factory=list, metadata=memory.pages("past"))
    """Records that are, and may tell of one that is not."""
    _due: int = attrs.field(init=False, default=FOREVER)
    """The least tick at which a record that is not judged no longer matters to those that come."""
    _promised: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress())
    _counts: dict[str, int] = attrs.field(
        init=False, factory=lambda: dict.fromkeys(_COUNTS, 0), metadata=memory.counters()
    )

    retracted = refused

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        return self._fit(schema)

    def together(self, *inputs: Schema) -> Together:
        return Together.by(self.keys, why="" if self.keys else "all records are of one flow")

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Collection[str]]:
        return [wanted - {self.mark} | {self.start, self.end, *self.keys, *self.observers}]

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        paces: Paces = {}
        want(paces, self.start, Pace(self.step))
        return [paces]

    def notes(self, counts: Mapping[str, int]) -> Iterator[str]:
        if twice := counts.get("duplicates", 0):
            records = "1 flow record" if twice == 1 else f"{twice:,} flow records"
            done = "left out" if self.mark is None else f"marked as {self.mark}"
            yield f"{records} of {counts.get('flows', 0):,} {done}, as other observers tell of the same flows"

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if not len(page):
            return
        self._fit(page.schema)
        starts = page.ticks(self.start)
        usable: Bools = (starts > -LIMIT) & (starts < LIMIT)
        if (valid := page.valid(self.start)) is not None:
            usable &= valid
        self._counts["flows"] += len(page)
        if not usable.all():
            self._counts["without_time"] += len(page) - int(usable.sum())
            self._give(page.select(~usable), np.zeros(len(page) - int(usable.sum()), np.bool_), emit)
            page = page.select(usable)
            if not len(page):
                return
        self._due = min(self._due, int(self._ends(page).min()) + self.reach + 1)
        self._open.append(page)
        self._counts["peak_state_tuples"] = max(self._counts["peak_state_tuples"], self._size())

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            self._settle(FOREVER, emit)
            self._open, self._past, self._due, self._promised = [], [], FOREVER, Progress()
            emit(END)
            return
        bound = punctuation.bound(self.start)
        if not isinstance(bound, int):
            return
        bound = max(bound, BEFORE_ALL + self.step) // self.step * self.step
        self._settle(bound, emit)
        firsts = [int(page.ticks(self.start).min()) for page in self._open]
        promise = before(self.start, min([bound, *firsts]), assumed=punctuation.assumed)
        if self._promised.advance(promise):
            emit(promise)

    def statistics(self) -> dict[str, int]:
        return {"state_tuples": self._size(), "state_bytes": self.nbytes, **self._counts}

    def _size(self) -> int:
        return sum(map(len, [*self._open, *self._past]))

    def _after_restoring(self) -> None:
        ends = [int(self._ends(page).min()) for page in self._open]
        self._due = min(ends) + self.reach + 1 if ends else FOREVER

    def _ends(self, page: Page) -> Int64s:
        """Return the last tick of each record: its start where it has no usable end, or one before it."""
        starts, ends = page.ticks(self.start), page.ticks(self.end)
        if (valid := page.valid(self.end)) is not None:
            ends = np.where(valid, ends, starts)
        return np.minimum(np.maximum(starts, ends), LIMIT)

    def _settle(self, bound: int, emit: Emit) -> None:
        """Judge the records that no record from a bound on can tell of."""
        if bound < self._due or not self._open:
            return
        schema = self._open[0].schema
        fresh = sum(map(len, self._open))
        page = concatenate(schema, [*self._open, *self._past])
        starts, ends = page.ticks(self.start), self._ends(page)
        waits: Bools = np.arange(len(page)) < fresh
        judged: Bools = waits & (ends < bound - self.reach if bound < FOREVER else True)
        waits &= ~judged
        keys = self._numbered(page, self.keys)
        ranks = self._ranks(page)
        order = np.lexsort((starts, ranks, keys))
        found = np.zeros(len(page), np.bool_)
        room = np.empty((5, int(np.bincount(keys).max())), np.int64)
        covered = np.zeros(len(page), np.bool_)
        cover(
            keys[order], ranks[order], starts[order], ends[order], self.reach, judged[order], tuple(room), covered
        )  # fmt: skip
        found[order] = covered
        self._counts["duplicates"] += int(found.sum())
        # What is judged stays for those of its flow that are not, begin before it ends, and are of later observers.
        first = np.full(int(keys.max()) + 1, FOREVER, np.int64)
        np.minimum.at(first, keys[waits], starts[waits])
        highest = np.full(len(first), -1, np.int64)
        np.maximum.at(highest, keys[waits], ranks[waits])
        stays: Bools = ~waits & (ranks < highest[keys]) & (ends >= first[keys] - self.reach)
        self._open = [page.select(waits)] if waits.any() else []
        self._past = [page.select(stays)] if stays.any() else []
        self._due = int(ends[waits].min()) + self.reach + 1 if waits.any() else FOREVER
        self._give(page.select(judged), found[judged], emit)

    def _give(self, page: Page, duplicate: Bools, emit: Emit) -> None:
        output = self._fit(page.schema)
        if self.mark is None:
            page = page.select(~duplicate)
            if len(page):
                emit(Page(output, page.batch))
            return
        batch = pa.RecordBatch.from_arrays([*page.batch.columns, pa.array(duplicate)], schema=output.arrow)
        emit(Page(output, batch))

    def _numbered(self, page: Page, names: Sequence[str]) -> Int64s:
        fields = [page.schema.field(name) for name in names]
        if not fields:
            return np.zeros(len(page), np.int64)
        return KeyIndex(fields).assign([page.column(name) for name in names]).astype(np.int64)

    def _ranks(self, page: Page) -> Int64s:
        """Return the place of each record's observer in the order of observers."""
        ids = self._numbered(page, self.observers)
        firsts = np.zeros(int(ids.max()) + 1, np.int64)
        firsts[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)
        each = page.take(firsts)
        columns = [each.column(name) for name in self.observers]
        plain = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in columns]
        table = pa.table(plain, names=[str(place) for place in range(len(plain))])
        order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
        ranks = np.empty(len(firsts), np.int64)
        ranks[order.to_numpy()] = np.arange(len(firsts))
        return ranks[ids]

    def _fit(self, schema: Schema) -> Schema:
        if self._schemas is None or self._schemas[0] is not schema:
            start, end = (schema.field(name, where="dedup") for name in (self.start, self.end))
            check_times_of_flow(start, end, "dedup")
            KeyIndex([schema.field(name, where="dedup") for name in self.keys])
            if not self.observers:
                raise SchemaError("dedup: name what tells observers apart, e.g. direction and exporter.")
            for name in self.observers:
                field = schema.field(name, where="dedup")
                if pa.types.is_nested(field.type):
                    raise SchemaError(f'dedup: "{name}" has type {field.type}, whose values have no order.')
            KeyIndex([schema.field(name) for name in self.observers])
            if self.mark is not None and self.mark in schema:
                raise SchemaError(
                    f'dedup: the input already has an attribute "{self.mark}".\n  Choose another name for mark.'
                )
            arrow = schema.arrow
            if self.mark is not None:
                arrow = arrow.append(pa.field(self.mark, pa.bool_(), nullable=False))
            promised = [(self.start,)] if schema.progressing(self.start) else []
            self._schemas = (schema, Schema(arrow, progress=promised))
        return self._schemas[1]
