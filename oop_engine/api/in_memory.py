"""Streams of what Python has: dictionaries and tuples, Arrow data, pages of one's own, and packets that are generated.

What is said of promises and late tuples is in `oop_engine.api.promising`; all take all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from oop_engine.api.promising import Arrival, Promises, from_source
from oop_engine.api.stream import Stream
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Divert, Late
from oop_engine.plan.ticks import Amount
from oop_engine.sources.dictionaries import renumbered, widely_numbered
from oop_engine.sources.exported import Exported, ExportsArray, ExportsStream, exported
from oop_engine.sources.memory import Once, Rows
from oop_engine.sources.protocol import Source
from oop_engine.sources.rows import PlainRow, RowPages, from_pages, from_rows
from operators.data.page import Page
from operators.data.schema import Schema
from operators.errors import did_you_mean
from operators.protocol import Element
from punctuation import Punctuation


def rows(
    records: Iterable[PlainRow | Punctuation],
    schema: Schema | pa.Schema,
    *,
    name: str = "rows",
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: Late = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Make a stream of dictionaries or tuples, IP addresses also as text.

    A collection can be punctuated exactly. An iterator, read only once, needs `punctuate` or `slack`, or brings its own
    punctuations between the tuples: then `schema` is a `Schema` that says on what. Its rows wait for one another no
    longer than 50 ms, also while the next one is waited for; in `for page in stream` without `lull`, until it comes.
    """
    if not isinstance(schema, (Schema, pa.Schema)):
        raise PlanError(
            f"rows needs a schema, and {type(schema).__name__} is none.\n"
            '  Write pa.schema([("ts", pa.int64()), ("x", pa.float64())]), or oop.Schema.of(ts=pa.int64(), ...).'
        )
    shape = schema if isinstance(schema, Schema) else Schema(schema)
    source: Source
    if isinstance(records, Iterator) or shape.progress:
        again = not isinstance(records, Iterator)
        source = Once(name, shape.arrow, lambda: RowPages(records, shape), _promised(shape), again=again)
    else:
        pages = (element for element in from_rows(records, shape) if isinstance(element, Page))
        source = Rows(name, tuple(page.batch for page in pages), shape.arrow)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


def arrow(
    data: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch] | ExportsStream | ExportsArray,
    *,
    name: str = "arrow",
    schema: pa.Schema | None = None,
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: Late = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Make a stream of an Arrow table, of record batches, or of what exports Arrow data (`__arrow_c_stream__`).

    Frames of Polars and pandas and relations of DuckDB are such. They are asked for their tuples anew in every run and
    read as a stream; only exact promises, where neither `punctuate` nor `slack` says others, keep the tuples in memory.
    A reader or an iterator of batches is read once and needs `punctuate` or `slack`, an iterator of batches also
    `schema`. Dictionaries, as of pandas' categories, are numbered by int32 at least: batches together have more words
    than one. PlanError for anything else.
    """
    source: Source
    schema = None if schema is None else widely_numbered(schema)
    if isinstance(data, pa.Table):
        known = widely_numbered(data.schema)  # pyright: ignore[reportAttributeAccessIssue]
        batches = data.to_batches()  # pyright: ignore[reportAttributeAccessIssue]
        source = Rows(name, tuple(map(renumbered, batches)), known)
    elif isinstance(data, pa.RecordBatch):
        source = Rows(name, (renumbered(data),))
    elif isinstance(data, Iterator) and isinstance(data, ExportsStream):
        reader = exported(data)
        known = widely_numbered(reader.schema.remove_metadata())
        source = Once(name, known, lambda: map(renumbered, reader), again=False)
    elif isinstance(data, Iterator):
        if schema is None:
            raise PlanError(
                "arrow: an iterator of record batches can be read only once, and its first batch is not looked at.\n"
                "  Write arrow(batches, schema=..., punctuate=...), or give a pyarrow.RecordBatchReader."
            )
        source = Once(name, schema, lambda: map(renumbered, data), again=False)
    elif isinstance(data, ExportsStream):
        source = Exported(name, data)
    elif isinstance(data, ExportsArray):
        source = Rows(name, (renumbered(pa.record_batch(data)),))  # pyright: ignore[reportArgumentType]
    else:
        batches = tuple(data) if isinstance(data, Iterable) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if batches is None or not all(isinstance(batch, pa.RecordBatch) for batch in batches):
            raise PlanError(
                f"arrow takes a table or record batches, or what has __arrow_c_stream__; {type(data).__name__} is none"
                ' of these.\n  Write arrow(pa.table(...)), for rows oop.rows(...), for a file oop.read("...").'
            )
        source = Rows(name, tuple(map(renumbered, batches)), schema)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


def pages(
    elements: Iterable[Element],
    schema: Schema,
    *,
    name: str = "pages",
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: Late = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
) -> Stream:
    """Make a stream of pages and punctuations of your own; `schema` says on what it is punctuated.

    `punctuate` and `slack` promise besides, for pages that bring no punctuation, or not on an attribute that is needed.
    """
    again = not isinstance(elements, Iterator)
    source = Once(name, schema.arrow, lambda: from_pages(elements, schema), _promised(schema), again=again)
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


def packets(
    n: int,
    *,
    rate: float = 100_000,
    punctuate: Promises = None,
    slack: Amount | None = None,
    on: str = "ts",
    late: Late = "drop",
    divert: Divert = None,
    arrival_ts: Arrival = False,
    **shape: Any,
) -> Stream:
    """Generate n packets at `rate` a second of event time from a seed; the same seed gives the same stream.

    `shape` is what `oop_engine.sources.generator.packets` takes: sources, zipf, disorder (`Band`, `Blocks`),
    late_share, skew, lulls, start, seed, link. Their `arrival_ts` is the generated one, which is always the same.
    """
    from inspect import signature

    from oop_engine.sources.generated import GeneratedPackets
    from oop_engine.sources.generator import packets as generate

    takes = [name for name in signature(generate).parameters if name != "n"]
    for given in shape:
        if given not in takes:
            said = ("punctuate", "slack", "on", "late", "divert", "arrival_ts")
            raise PlanError(f'packets takes no "{given}".\n  {did_you_mean(given, [*takes, *said])}')
    source = GeneratedPackets(generate(n, rate=rate, **shape))
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


def _promised(schema: Schema) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(sorted(promise)) for promise in schema.progress)
