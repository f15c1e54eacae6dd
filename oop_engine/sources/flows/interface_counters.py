"""The interface counters of sFlow agents as a stream of their own, from captures and files of datagrams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oop_engine.sources.columns import ticks
from oop_engine.sources.flows import counter_samples as c
from oop_engine.sources.flows.captured import CapturedDatagrams
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.source import check_ports, feed_of, notes_of, ports_of
from oop_engine.sources.flows.stored import StoredDatagrams
from oop_engine.sources.reading import OfFiles, Reading, size_of
from oop_engine.sources.turn import Turn
from operators.data.page import Int64s
from operators.data.schema import ip_field
from punctuation import NO_TIME

_COUNTERS: Final = (
    ("if_index", pa.uint32()), ("if_type", pa.uint32()), ("if_speed", pa.uint64()), ("if_direction", pa.uint32()),
    ("if_status", pa.uint32()),
    ("in_bytes", pa.uint64()), ("in_unicast", pa.uint32()), ("in_multicast", pa.uint32()),
    ("in_broadcast", pa.uint32()), ("in_discards", pa.uint32()), ("in_errors", pa.uint32()),
    ("in_unknown", pa.uint32()),
    ("out_bytes", pa.uint64()), ("out_unicast", pa.uint32()), ("out_multicast", pa.uint32()),
    ("out_broadcast", pa.uint32()), ("out_discards", pa.uint32()), ("out_errors", pa.uint32()),
    ("promiscuous", pa.uint32()),
)  # fmt: skip
"""The counters as they lie in a record."""

COUNTER_SCHEMA: Final = pa.schema(
    [
        pa.field("ts", pa.timestamp("ns", "UTC")),
        ip_field("exporter"),
        pa.field("domain", pa.uint32()),
        pa.field("sequence", pa.uint32()),
        pa.field("uptime", pa.uint32()),
        *(pa.field(name, kind) for name, kind in _COUNTERS),
    ]
)
"""One row an interface and sample. `ts` is when the datagram came, null where a file does not tell; `exporter` the
agent as it says itself, `domain` its sub-agent, `sequence` the number of the sample, `uptime` the agent's in ms.
Counters count from when the agent began, those of 32 bits begin anew after 4,294,967,295; what an agent does not count
is null."""


@attrs.frozen
class InterfaceCounters(OfFiles):
    """The interface counters in captures of sFlow datagrams to these ports, or in files of datagrams."""

    paths: tuple[Path | BinaryIO, ...] = attrs.field(converter=tuple)
    ports: frozenset[int] = attrs.field(converter=ports_of, default=None, validator=check_ports, kw_only=True)
    label: str = attrs.field(default="", kw_only=True)
    strict: bool = attrs.field(default=False, kw_only=True)
    _turn: Turn = attrs.field(init=False, factory=Turn, eq=False, repr=False)

    @property
    def arrow(self) -> pa.Schema:
        return COUNTER_SCHEMA

    def open(self, columns: Sequence[str], batch_rows: int) -> CounterReader:
        if not self.rewindable:
            self._turn.take(self.name)
        return self._reader(columns, batch_rows)

    def values(self, column: str) -> Iterator[Int64s]:
        for batch in self._reader((column,), 65_536).chunks():
            yield ticks(batch, column)

    def _reader(self, columns: Sequence[str], batch_rows: int) -> CounterReader:
        schema = pa.schema([field for field in COUNTER_SCHEMA if field.name in columns])
        return CounterReader(self.paths, self.ports, self.strict, schema, batch_rows)


@attrs.define
class CounterReader(Reading):
    """One reading of interface counters."""

    paths: tuple[Path | BinaryIO, ...]
    ports: frozenset[int]
    strict: bool
    schema: pa.Schema
    batch_rows: int
    counts: NDArray[np.int64] = attrs.field(init=False, factory=lambda: np.zeros(4, np.int64))
    """Datagrams, those that are none of sFlow, bad samples, records of other counters."""
    _feeds: list[CapturedDatagrams | StoredDatagrams] = attrs.field(init=False, factory=list)
    _ended: bool = attrs.field(init=False, default=False)

    def chunks(self) -> Iterator[pa.RecordBatch]:
        for path in self.paths:
            feed = feed_of(path, self.ports, strict=self.strict)
            self._feeds.append(feed)
            for datagrams in feed.blocks():
                batch = counter_batch(datagrams, self.schema, self.counts)
                for start in range(0, len(batch), self.batch_rows):
                    yield batch.slice(start, self.batch_rows)
        self._ended = True

    def progress(self) -> tuple[int, int | None]:
        read = sum(f.capture.position if isinstance(f, CapturedDatagrams) else f.position for f in self._feeds)
        return read, size_of(self.paths)

    def notes(self) -> list[str]:
        found = [note for feed in self._feeds for note in notes_of(feed, ended=self._ended)]
        return [*found, *(f"interface counters: {told}" for told in counter_troubles(self.counts))]


def counter_batch(datagrams: Datagrams, schema: pa.Schema, counts: NDArray[np.int64]) -> pa.RecordBatch:
    """Read the counters in datagrams into these columns, and add to `counts` as `counter_rows` does."""
    return columns_of(counter_rows(datagrams, counts), datagrams, schema)


def counter_rows(datagrams: Datagrams, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the samples in datagrams as `read_counters` has them, and add to `counts`: datagrams, those that are none
    of sFlow, bad samples, records of other counters.
    """
    found = np.empty((int(datagrams.length.sum(dtype=np.int64)) // c.RECORD + 1, c.WIDTH), np.int64)
    return found[: int(c.read_counters(datagrams.tables, found, counts))]


def columns_of(rows: NDArray[np.int64], datagrams: Datagrams, schema: pa.Schema) -> pa.RecordBatch:
    """Return these columns of samples that were read from datagrams."""
    return pa.RecordBatch.from_arrays([_column(field, rows, datagrams) for field in schema], schema=schema)


def counter_troubles(counts: NDArray[np.int64]) -> list[str]:
    """Say what was left out, none where nothing was."""
    _, others, bad, skipped = counts.tolist()
    told = (
        (others, "datagrams of other protocols left out"),
        (bad, "samples were cut, or reach beyond what holds them"),
        (skipped, "records of other counters than those of interfaces left out"),
    )
    return [f"{number:,} {what}" for number, what in told if number]


_PLACES: Final = {
    "domain": c.C_DOMAIN,
    "sequence": c.C_SEQUENCE,
    "uptime": c.C_UPTIME,
    **{name: c.C_FIRST + place for place, (name, _) in enumerate(_COUNTERS)},
}


def _column(field: pa.Field, rows: NDArray[np.int64], datagrams: Datagrams) -> pa.Array:
    """Make a column of rows; what an agent does not count has all bits set, and is null."""
    if field.name == "ts":
        arrival = datagrams.arrival[rows[:, c.C_DATAGRAM]]
        return pa.array(arrival, pa.int64(), mask=arrival == NO_TIME).cast(field.type)
    if field.name == "exporter":
        words = np.ascontiguousarray(rows[:, [c.C_HIGH, c.C_LOW]]).astype("<i8", copy=False)
        bitmap = pa.py_buffer(np.packbits((words != 0).any(axis=1), bitorder="little"))
        return pa.Array.from_buffers(field.type, len(rows), [bitmap, pa.py_buffer(words)])
    values = rows[:, _PLACES[field.name]].astype(field.type.to_pandas_dtype())
    counted = field.name.startswith(("in_", "out_", "if_"))
    return pa.array(values, field.type, mask=values == np.iinfo(values.dtype).max if counted else None)
