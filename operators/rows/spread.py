"""Spread puts a flow's bytes where they belong: over the panes between its start and its end, few or many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import ROWS, Bools, Int64s, Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.arguments import floating, plain, whole
from operators.functions.columns import frozen
from operators.kernels.ticks import FAR, LIMIT
from operators.kernels.windows.spread import cut, floating_parts, measure, whole_parts
from operators.pace import Paces, want
from operators.plan_facts import Attributes, Passage
from operators.protocol import Emit
from operators.window.columns import check_times_of_flow
from punctuation import END, Below, Pattern, Progress, Punctuation, below
from punctuation import whole as whole_bound

_COUNTERS = ("flows", "parts", "backwards", "in_wide_parts", "too_long", "without_time")


@attrs.define
class Spread(memory.Stateful):
    """Cut each tuple at the edges of panes: one tuple for each pane between its start and its end.

    Amounts (`columns`) are shared out in proportion to the time in each pane: what a flow of L ticks has had after x of
    them is floor(v x / L), of a negative amount the same with its sign, and a pane gets the difference, so whole
    amounts add up exactly (floating ones up to rounding); the rest is repeated. `into`, the time of a part, is where
    the pane begins, or the flow if that is later. A flow of no length, or one that ends before it starts (a clock
    error, counted as `backwards`), is a single part at its start. A flow over more than `max_panes` panes is cut at the
    edges of wider ones, each so many panes that it is over at most `max_panes` of these (counted as `in_wide_parts`):
    its amounts stay spread over all of its time, to within a part. A tuple without a start or an end has no part
    (counted as `without_time`).

    A flow may reach back from its end as far as it likes, so a promise on the end alone promises nothing of its parts.
    With `reach` it may only reach back so many panes: the amounts of a longer one all go to the last ones, the wrong
    place (counted as `too_long`), so that a promise on the end promises something of the past. That is for streams
    which promise the end and not the start, as `needs_reach` tells.

    Pass: a tuple's parts at once. Keep: nothing. Propagate: promises on attributes that stay as they are; `[start < v]`
    as `[into < v]`; with `reach`, `[end < v]` as `[into < e]`, e so much earlier.
    Cost: O(panes), at most max_panes, a tuple; no state.

    >>> from operators.drive import drive, punctuations, rows
    >>> from punctuation import before
    >>> schema = Schema.of(ts=pa.int64(), end_ts=pa.int64(), bytes=pa.int64(), progress=["end_ts"])
    >>> page = Page.of(schema, {"ts": [8], "end_ts": [23], "bytes": [100]})
    >>> found = drive(Spread(step=10, columns=("bytes",), reach=3), [page, before("end_ts", 40)])
    >>> [(row["ts"], row["bytes"]) for row in rows(found)], str(punctuations(found)[-1])
    ([(8, 13), (10, 67), (20, 20)], '[ts < 10]')
    """

    columns: tuple[str, ...] = attrs.field(converter=tuple)
    """Attributes that add up, such as bytes and packets."""
    step: int = attrs.field(kw_only=True, validator=[attrs.validators.ge(1), attrs.validators.le(LIMIT)])
    """The length of a pane in ticks; windows over `into` whose edges are edges of panes get exactly their share."""
    origin: int = attrs.field(
        default=0, kw_only=True, validator=[attrs.validators.ge(-LIMIT), attrs.validators.le(LIMIT)]
    )
    start: str = attrs.field(default="ts", kw_only=True)
    end: str = attrs.field(default="end_ts", kw_only=True)
    into: str = attrs.field(default="ts", kw_only=True)
    """The attribute that has the time of a part: a new one, or `start`, which it then replaces."""
    max_panes: int = attrs.field(
        default=4096, kw_only=True, validator=[attrs.validators.ge(1), attrs.validators.le(FAR)]
    )
    """Parts of a flow at most."""
    reach: int | None = attrs.field(
        default=None,
        kw_only=True,
        validator=attrs.validators.optional([attrs.validators.ge(1), attrs.validators.le(FAR)]),
    )
    """Panes that a flow reaches back from its end at most, None for any number."""
    _schemas: tuple[Schema, Schema] | None = attrs.field(init=False, default=None)
    _promised: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress())
    _counts: dict[str, int] = attrs.field(
        init=False, factory=lambda: dict.fromkeys(_COUNTERS, 0), metadata=memory.counters()
    )

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        where = "spread"
        times = [self._field(schema, name) for name in (self.start, self.end)]
        check_times_of_flow(times[0], times[1], where)
        if self.into in schema and self.into != self.start:
            raise SchemaError(
                f'{where}(into="{self.into}"): the input already has an attribute "{self.into}".\n'
                f'  Choose another name, or "{self.start}", which then is the time of a part.'
            )
        self._check_amounts(schema)
        arrow = schema.arrow
        if self.into not in schema:
            arrow = arrow.append(pa.field(self.into, times[0].type))
        progress: list[frozenset[str]] = []
        for promise in schema.progress:
            if promise & set(self.columns):
                continue
            if self.into not in promise:
                progress.append(promise)
            if promise & {self.start, self.end} and not (self.reach is None and self.end in promise):
                progress.append(promise - {self.start, self.end} | {self.into})
        return Schema(arrow, progress=progress)

    def comes_from(self, name: str, *inputs: Schema) -> str | None:
        return None if name in (self.into, *self.columns) else name

    def notes(self, counts: Mapping[str, int]) -> Iterator[str]:
        if without := counts.get("without_time", 0):
            yield f"{_many(without, 'tuple')} without a usable {self.start} and {self.end} left out"
        if far := counts.get("too_long", 0):
            yield (
                f"{_many(far, 'flow')} over more than {self.reach:,} panes spread over the last of these alone,"
                f" as {self.end} is promised and {self.start} is not; promise both, or raise max_panes"
            )
        if wide := counts.get("in_wide_parts", 0):
            yield (
                f"{_many(wide, 'flow')} over more than {self.max_panes:,} panes cut into parts longer than"
                " a pane; raise max_panes to cut finer"
            )
        if backwards := counts.get("backwards", 0):
            ends = "ends before it starts" if backwards == 1 else "end before they start"
            yield f"{_many(backwards, 'flow')} that {ends}, not spread"

    def passage(self, attribute: str | None) -> Passage:
        if self.reach is not None and attribute == self.end:
            return Passage(self.into, back=self.reach * self.step, ends=frozenset((self.end,)))
        return Passage(self.into if attribute == self.start else None)

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        return [wanted - {self.into} | {self.start, self.end, *self.columns}]

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        paces = {name: pace for name, pace in wanted.items() if name in inputs[0] and name != self.into}
        if (asked := wanted.get(self.into)) is not None:
            want(paces, self.start if inputs[0].progressing(self.start) else self.end, asked)
        return [paces]

    def _check_amounts(self, schema: Schema) -> None:
        if not self.columns:
            raise SchemaError('spread: name the attributes that are shared out, as in columns=("bytes", "packets").')
        for name in self.columns:
            kind = self._field(schema, name).type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_duration(kind)):
                raise SchemaError(
                    f'spread: "{name}" has type {kind}; amounts that add up are numbers or durations.\n'
                    "  Leave it out: what is not named is repeated in every part."
                )
            if name in (self.start, self.end):
                raise SchemaError(f'spread: "{name}" is a time of the flow, not an amount to share out.')

    def _field(self, schema: Schema, name: str) -> pa.Field:
        """Return an attribute by its own name, in which promises are made."""
        field = schema.field(name, where="spread")
        if field.name != name:
            raise SchemaError(f'spread: "{name}" is another name for "{field.name}"; write "{field.name}".')
        return field

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if len(page) == 0:
            return
        output = self._output(page.schema)
        begins, lengths, widths, panes = (np.empty(len(page), np.int64) for _ in range(4))
        odd = measure(
            frozen(page.ticks(self.start)), frozen(page.ticks(self.end)), self._valid(page), LIMIT, self.step,
            self.origin, self.max_panes, FAR if self.reach is None else self.reach, begins, lengths, widths, panes,
        )  # fmt: skip
        counted = (len(page), int(panes.sum()), *odd)
        for name, count in zip(_COUNTERS, counted, strict=True):
            self._counts[name] += count
        for at, to in _runs(panes):
            each = (begins[at:to], lengths[at:to], widths[at:to], panes[at:to])
            emit(self._parts(page.slice(at, to), *each, output))

    def _valid(self, page: Page) -> Bools:
        found = [valid for name in (self.start, self.end) if (valid := page.valid(name)) is not None]
        return frozen(np.logical_and.reduce(found) if found else np.empty(0, np.bool_))

    def _parts(
        self, page: Page, begins: Int64s, lengths: Int64s, widths: Int64s, panes: Int64s, output: Schema
    ) -> Page:
        """Cut the tuples of a page."""
        rows, times, upto = (np.empty(int(panes.sum()), np.int64) for _ in range(3))
        cut(begins, lengths, widths, panes, self.origin, rows, times, upto)
        taken = pa.array(rows)
        columns: dict[str, pa.Array] = {}
        for field in output.arrow:
            if field.name == self.into:
                columns[field.name] = _of_type(times, None, field.type)
            elif field.name in self.columns:
                columns[field.name] = _shared(page, field, lengths, rows, upto)
            else:
                columns[field.name] = page.column(field.name).take(taken)
        return Page(output, pa.RecordBatch.from_arrays(list(columns.values()), schema=output.arrow))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            self._promised = Progress()
            emit(END)
            return
        for promise in self._images(punctuation):
            if self._promised.advance(promise):
                emit(promise)

    def _images(self, promise: Punctuation) -> Iterator[Punctuation]:
        """Yield what a promise on whole tuples promises of their parts."""
        patterns: dict[str, Pattern] = dict(promise.patterns)
        if patterns.keys() & set(self.columns):
            return
        bounds: list[int] = []
        if self.start in patterns and (bound := whole_bound(below(patterns[self.start]))) is not None:
            bounds.append(bound)
        if self.end in patterns and self.reach is not None:
            bound = whole_bound(below(patterns[self.end]))
            if bound is not None:
                bounds.append(self._reaching_back(bound, self.reach))
        if self.into not in patterns:
            yield promise
        times = patterns.keys() & {self.start, self.end}
        if bounds and len(bounds) == len(times):
            rest = {name: pattern for name, pattern in patterns.items() if name not in times}
            yield Punctuation({**rest, self.into: Below(min(bounds))}, assumed=promise.assumed)

    def _reaching_back(self, end: int, reach: int) -> int:
        """Return where the first part of a flow may begin that ends at `end` or later."""
        return self.origin + ((end - 1 - self.origin) // self.step - reach + 1) * self.step

    def _output(self, schema: Schema) -> Schema:
        if self._schemas is None or self._schemas[0] is not schema:
            self._schemas = (schema, self.output_schema(schema))
        return self._schemas[1]

    def statistics(self) -> dict[str, int]:
        return {**self._counts, "state_tuples": 0}


def needs_reach(schema: Schema, start: str, end: str) -> bool:
    """Return whether a stream promises the end of flows where it does not promise their start as well.

    Then nothing but a `reach` lets a promise on the end promise of parts; else what is promised of the start does.
    """
    return any(
        end in promise and not any(start in other and other <= promise - {end} | {start} for other in schema.progress)
        for promise in schema.progress
    )


def _runs(panes: Int64s) -> Iterator[tuple[int, int]]:
    """Yield runs of tuples [at, to) that make no page too long, and some part."""
    total = np.cumsum(panes)
    at, done = 0, 0
    while at < len(panes):
        to = max(at + 1, int(np.searchsorted(total, done + ROWS, side="right")))
        if total[to - 1] > done:
            yield at, to
        at, done = to, int(total[to - 1])


def _shared(page: Page, field: pa.Field, lengths: Int64s, rows: Int64s, upto: Int64s) -> pa.Array:
    """Return the parts of an amount; null where it is."""
    column = plain(page, field.name)
    valid = page.valid(field.name)
    absent = None if valid is None else ~valid[rows]
    if pa.types.is_floating(field.type):
        shares = np.empty(len(rows), np.float64)
        floating_parts(floating(column), lengths, rows, upto, shares)
        return pa.array(shares, mask=absent).cast(field.type)
    parts = np.empty(len(rows), np.int64)
    with np.errstate(over="ignore"):
        whole_parts(whole(column), not pa.types.is_uint64(field.type), lengths, rows, upto, parts)
    return _of_type(parts, absent, field.type)


def _of_type(values: Int64s, absent: Bools | None, kind: pa.DataType) -> pa.Array:
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.array(values.astype(np.int32), mask=absent).view(kind)
    array = pa.array(values, mask=absent)
    if pa.types.is_temporal(kind) or pa.types.is_uint64(kind):
        return array.view(kind)
    return array if kind == pa.int64() else array.cast(kind)


def _many(number: int, one: str) -> str:
    return f"{number:,} {one if number == 1 else one + 's'}"
