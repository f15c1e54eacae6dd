"""Measure the disorder of a capture, an export or any stream, in one pass and in bounded memory.

    print(oop.disorder("exports.pcap", format="netflow"))

shows what `oop-engine disorder` shows: for each time attribute and each exporter, how many tuples are late and by how
much, whether the disorder is a band or sorted in blocks, and which promises would fit. No tuple is dropped: a file, or
a stream with nothing between it and its source, is read as it arrives, whatever it promises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.api.read import read
from oop_engine.api.stream import Stream
from oop_engine.errors import PlanError
from oop_engine.plan.graph import SourceNode
from oop_engine.plan.ticks import tick_ns
from oop_engine.report.disorder_report import AttributeDisorder, Disorder, Scatter
from oop_engine.report.disorder_words import rounded_up
from oop_engine.sources.columns import ticks
from oop_engine.sources.paths import check_places
from oop_engine.sources.protocol import ARRIVAL
from operators.data.address import format_ip
from operators.data.keys import KeyIndex
from operators.data.page import Int64s, Page
from operators.data.schema import Schema, is_ip
from operators.streams.disorder import Measure, Point, lengths_of
from punctuation import NO_TIME

SHARE: Final = 0.001
GROUPS: Final = 64
"""Groups that are measured by themselves; tuples of further ones count in the whole."""
_MOST_KEYS: Final = 65_536
_EXPORT: Final = "export_ts"
_ROWS: Final = 65_536
_GROUPED: Final = ("exporter", "interface")


def disorder(
    what: Stream | str | Path | BinaryIO,
    *more: str | Path,
    on: str | Sequence[str] = (),
    by: str | Sequence[str] | None = None,
    against: str | None = None,
    share: float = SHARE,
    samples: int = 8192,
    format: str | None = None,
    types: Mapping[str, str | pa.DataType] | None = None,
) -> Disorder:
    """Measure the disorder of a stream or of files, and suggest promises that fit.

    - `what`: a stream, or a file that `oop.read` can read.
    - `more`: further files.
    - `on`: the attributes; by default all times but that of arrival.
    - `by`: measure each value of these attributes separately; by default the exporter of flows and the interface of
      packets.
    - `against`: the attribute on the x axis of a plot; by default the number of arrival.
    - `share`: how much, from 0 to 1, may stay late beyond the slack that is suggested.
    - `samples`: points of a plot; 0 for none.
    - `format`, `types`: as in `oop.read`.

    PlanError when the stream has no time.

    >>> stream = oop.rows([(3,), (1,), (5,)], oop.Schema.of(ts="int64"))
    >>> found = oop.disorder(stream).of("ts")
    >>> found.late, found.most, found.promise
    (1, 2, 'oop.slack(2, "ts")')
    """
    if not 0 <= share < 1:
        raise PlanError(f"share = {share}: the share of tuples that may stay late is from 0 to below 1, e.g. 0.001.")
    stream = what if isinstance(what, Stream) else _stream(what, more, format, types)
    schema = stream.schema
    wanted = [schema.resolve(name, where="disorder(on=...)") for name in ((on,) if isinstance(on, str) else on)]
    wanted = wanted or _times(schema)
    grouping = [schema.resolve(name, where="disorder(by=...)") for name in _grouping(schema, by)]
    beside = None if against is None else schema.resolve(against, where="disorder(against=...)")
    clocked = [_EXPORT, ARRIVAL] if _EXPORT in schema and ARRIVAL in schema else []
    needed = [*wanted, *grouping, *([] if beside is None else [beside]), *clocked]
    columns = [name for name in schema.names if name in needed]
    reading = _Reading(schema, tuple(wanted), tuple(grouping), beside, bool(clocked), samples)
    notes: list[str] = []
    for batch in _batches(stream, columns, notes):
        reading.take(batch)
    return reading.told(stream.node.label, share, notes)


def _stream(
    what: str | Path | BinaryIO,
    more: Sequence[str | Path],
    format: str | None,
    types: Mapping[str, str | pa.DataType] | None,
) -> Stream:
    check_places("disorder", (what, *more), takes="a stream, paths or binary streams")
    return read(what, *more, format=format, types=types)


def _times(schema: Schema) -> list[str]:
    """Name the times of a stream, but that of arrival."""
    found = [field.name for field in schema.arrow if pa.types.is_temporal(field.type) and field.name != ARRIVAL]
    found = found or (["ts"] if "ts" in schema and pa.types.is_integer(schema.field("ts").type) else [])
    if not found:
        raise PlanError(
            f"the stream has no time whose disorder could be measured: {', '.join(schema.names)}.\n"
            '  Name an attribute that progresses: on="sequence" (--on sequence), or give a column the type of a time.'
        )
    return found


def _grouping(schema: Schema, by: str | Sequence[str] | None) -> Sequence[str]:
    if by is None:
        return [name for name in _GROUPED if name in schema][:1]
    return (by,) if isinstance(by, str) else by


def _batches(stream: Stream, columns: list[str], notes: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the columns as they arrive, straight from the source where there is nothing between."""
    if not isinstance(stream.node, SourceNode):
        notes.append("measured after operators: what they or promises below them have dropped is not counted")
        for page in stream.project(*columns):
            yield page.batch
        return
    reader = stream.node.source.open(columns, _ROWS)
    for chunk in reader.chunks():
        if isinstance(chunk, Page):
            yield chunk.batch
        elif isinstance(chunk, pa.RecordBatch):
            yield chunk
    notes += reader.notes()


@attrs.define
class _Reading:
    """The measures of one pass: of each attribute over all tuples, then over those of each group."""

    schema: Schema
    wanted: tuple[str, ...]
    grouping: tuple[str, ...]
    against: str | None
    clocked: bool
    samples: int
    tuples: int = attrs.field(init=False, default=0)
    whole: list[Measure] = attrs.field(init=False)
    groups: list[list[Measure]] = attrs.field(init=False, factory=list)
    index: KeyIndex | None = attrs.field(init=False)
    clocks: list[int] = attrs.field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self.whole = self._measures(self.samples)
        self.index = KeyIndex([self.schema.field(name) for name in self.grouping]) if self.grouping else None

    def _measures(self, samples: int = 0) -> list[Measure]:
        found: list[Measure] = []
        for name in self.wanted:
            tick = tick_ns(self.schema.field(name).type)
            found.append(Measure(lengths_of(None if tick is None else 1_000_000_000 // tick), samples=samples))
        return found

    def take(self, batch: pa.RecordBatch) -> None:
        """Measure a batch of tuples."""
        if not len(batch):
            return
        marks = None if self.index is None else self._marks(self.index, batch)
        places = (
            np.arange(self.tuples, self.tuples + len(batch)) if self.against is None else ticks(batch, self.against)
        )
        self.tuples += len(batch)
        columns = [ticks(batch, name) for name in self.wanted]
        for measure, column in zip(self.whole, columns, strict=True):
            measure.observe(column, places, marks)
        ahead = ticks(batch, _EXPORT) - ticks(batch, ARRIVAL) if self.clocked else None
        if ahead is not None:
            there = (ticks(batch, _EXPORT) != NO_TIME) & (ticks(batch, ARRIVAL) != NO_TIME)
            ahead = np.where(there, ahead, NO_TIME)
        for group, rows in _parts(marks, len(batch)):
            while group >= len(self.clocks):
                self.clocks.append(NO_TIME)
            if ahead is not None:
                self.clocks[group] = max(self.clocks[group], int(ahead[rows].max()))
            if marks is not None:
                while group >= len(self.groups):
                    self.groups.append(self._measures())
                for measure, column in zip(self.groups[group], columns, strict=True):
                    measure.observe(column[rows])

    def _marks(self, index: KeyIndex, batch: pa.RecordBatch) -> Int64s:
        """Return the number of each tuple's group, GROUPS for those that are not measured by themselves."""
        ids = index.assign([batch.column(name) for name in self.grouping])
        if len(index) > _MOST_KEYS:
            raise PlanError(
                f"{', '.join(self.grouping)} has more than {_MOST_KEYS:,} values, and disorder is measured for each.\n"
                "  Group by the senders of tuples, exporters or interfaces, or by nothing: by=()."
            )
        return np.minimum(ids, GROUPS).astype(np.int64)

    def told(self, name: str, share: float, notes: Sequence[str]) -> Disorder:
        """Return what was found."""
        names = self._names()
        whole = tuple(self._found(w, m, None, share) for w, m in zip(self.wanted, self.whole, strict=True))
        several = len(names) > 1
        groups = tuple(
            self._found(attribute, measures[k], group, share)
            for k, attribute in enumerate(self.wanted)
            for group, measures in zip(names, self.groups, strict=False)
            if several
        )
        against = None if self.against is None else self.schema.field(self.against)
        scatters = tuple(
            Scatter(found, _placed(measure), names if several else (), against)
            for found, measure in zip(whole, self.whole, strict=True)
            if self.samples
        )
        clocks = {
            group: ahead for group, ahead in zip(names or ("all",), self.clocks, strict=False) if ahead != NO_TIME
        }
        hidden = 0 if self.index is None else len(self.index) - GROUPS
        more = (
            [f"{hidden:,} more values of {', '.join(self.grouping)} are not measured separately"] if hidden > 0 else []
        )
        by = self.grouping if several else ()
        return Disorder(name, self.tuples, by, whole, groups, clocks if self.clocked else {}, scatters, (*notes, *more))

    def _names(self) -> tuple[str, ...]:
        if self.index is None:
            return ()
        keys = self.index.keys(np.arange(min(len(self.index), GROUPS), dtype=np.int32))
        columns = [_texts(column, self.schema.field(name)) for column, name in zip(keys, self.grouping, strict=True)]
        return tuple(", ".join(texts) for texts in zip(*columns, strict=True))

    def _found(self, attribute: str, measure: Measure, group: str | None, share: float) -> AttributeDisorder:
        kind = self.schema.field(attribute).type
        slack = rounded_up(measure.slack(share), tick_ns(kind))
        shaped = measure.shape()
        fitting = [
            (length, broken)
            for length, broken in measure.broken().items()
            if shaped.shape == "block-sorted" and broken <= share * measure.seen and length <= 2 * slack
        ]
        blocks, broken = fitting[0] if fitting else (None, 0)
        jump, jump_at, behind = measure.jump
        p50, p90, p99 = (measure.quantile(q) or 0 for q in (0.5, 0.9, 0.99))
        return AttributeDisorder(
            attribute, group, kind, measure.seen, measure.nulls, measure.late, p50, p90, p99, measure.most, jump,
            jump_at, behind, shaped, slack, measure.beyond(slack), blocks, broken, measure.extent,
        )  # fmt: skip


def _parts(marks: Int64s | None, n: int) -> Iterator[tuple[int, Int64s | slice]]:
    """Yield the rows of each group that is measured, in order of arrival."""
    if marks is None or (len(marks) and (marks == marks[0]).all()):
        group = 0 if marks is None else int(marks[0])
        if group < GROUPS:
            yield group, slice(0, n)
        return
    order = np.argsort(marks.astype(np.int16), kind="stable")
    counts = np.bincount(marks, minlength=GROUPS + 1)
    ends = np.cumsum(counts)
    for group in np.flatnonzero(counts[:GROUPS]).tolist():
        yield group, order[ends[group] - counts[group] : ends[group]]


def _placed(measure: Measure) -> tuple[Point, ...]:
    """Return the points that have a place; those without a value of what they are drawn against have none."""
    return tuple(point for point in measure.points() if point.place != NO_TIME)


def _texts(column: pa.Array, field: pa.Field) -> list[str]:
    shown = format_ip(column) if is_ip(field) else column
    return ["none" if value is None else str(value) for value in shown.to_pylist()]
