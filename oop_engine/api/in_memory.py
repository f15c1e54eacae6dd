"""Streams of data that Python holds: dictionaries and tuples, Arrow data, pages, and generated packets.

`oop_engine.api.promising` explains promises and late tuples; all functions take its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from inspect import signature
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
    """Make a stream of dictionaries or tuples.

    - `records`: a collection, or an iterator, which is read only once. Addresses may be text.
    - `schema`: the attributes, as `oop.Schema` or `pyarrow.Schema`.
    - `name`: how plans and messages call the stream.
    - `punctuate`, `slack`, `on`, `late`, `divert`, `arrival_ts`: see `oop.from_source`.

    A collection is promised exactly. An iterator needs `punctuate` or `slack`, or yields punctuations between its
    tuples; then `schema` is an `oop.Schema` that says what they promise. Its rows wait at most 50 ms to share a page;
    in `for page in stream` without `lull`, until the next one comes. PlanError without a schema.

    >>> stream = oop.rows([{"ts": 3, "v": 1.5}, {"ts": 1, "v": 2.5}], oop.Schema.of(ts="int64", v="float64"))
    >>> stream.aggregate(oop.sum("v")).to_arrow().to_pylist()
    [{'sum_v': 4.0}]
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
        begin = partial(RowPages, records, shape)
        source = Once(name, shape.arrow, begin, _promised(shape), again=again, seek=_seek(records))
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
    """Make a stream of Arrow data, or of anything that exports it: frames of Polars and pandas, relations of DuckDB.

    - `data`: a table, a record batch, several of them, a reader, or an object with `__arrow_c_stream__`.
    - `schema`: that of the batches, if `data` is an iterator of batches.
    - `name`: how plans and messages call the stream.
    - `punctuate`, `slack`, `on`, `late`, `divert`, `arrival_ts`: see `oop.from_source`.

    Frames and relations are asked for their tuples anew in every run. Only exact promises, which are the default, keep
    the tuples in memory. A reader or an iterator is read once and needs `punctuate` or `slack`. Dictionary columns,
    such as pandas' categories, get indices of at least 32 bits. PlanError for other objects.

    >>> oop.arrow(pa.table({"ts": [3, 1], "v": [5, 7]})).aggregate(oop.max("v")).to_arrow().to_pylist()
    [{'max_v': 7}]
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
        source = Once(name, schema, lambda: map(renumbered, data), again=False, seek=_seek(data))
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
    """Make a stream of pages and punctuations of your own.

    - `elements`: pages, and punctuations between them.
    - `schema`: the attributes, and what the punctuations promise.
    - `name`: how plans and messages call the stream.
    - `punctuate`, `slack`, `on`: promise besides, if the pages bring no punctuation, or not on an attribute that is
      needed.
    - `late`, `divert`, `arrival_ts`: see `oop.from_source`.

    >>> from punctuation import before
    >>> schema = oop.Schema.of(ts="int64", progress=["ts"])
    >>> stream = oop.pages([oop.Page.of_rows(schema, [(3,), (1,)]), before("ts", 5)], schema)
    >>> stream.window(range=5).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [2]
    """
    again = not isinstance(elements, Iterator)
    begin = partial(from_pages, elements, schema)
    source = Once(name, schema.arrow, begin, _promised(schema), again=again, seek=_seek(elements))
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
    """Generate packets from a seed; the same seed gives the same stream.

    - `n`: how many packets.
    - `rate`: packets per second of event time.
    - `shape`: sources, zipf, disorder (`oop.Band`, `oop.Blocks`), late_share, skew, lulls, start, seed and link, as
      `oop_engine.sources.generator.packets` takes them.
    - `punctuate`, `slack`, `on`, `late`, `divert`: see `oop.from_source`.
    - `arrival_ts`: add the arrival times that are generated with the packets, and are the same in every run.

    >>> stream = oop.packets(10_000, rate=1_000, disorder=oop.Band("2 s"), slack="2 s")
    >>> stream.window(range="5 s").aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [5000, 5000]
    """
    # Start-up: only made packets need their generator.
    from oop_engine.sources.generated import GeneratedPackets
    from oop_engine.sources.generator import packets as generate

    takes = [name for name in signature(generate).parameters if name != "n"]
    for given in shape:
        if given not in takes:
            said = ("punctuate", "slack", "on", "late", "divert", "arrival_ts")
            raise PlanError(f'packets takes no "{given}".\n  {did_you_mean(given, [*takes, *said])}')
    source = GeneratedPackets(generate(n, rate=rate, **shape))
    return from_source(source, punctuate=punctuate, slack=slack, on=on, late=late, divert=divert, arrival_ts=arrival_ts)


def _seek(given: object) -> Callable[[int], object] | None:
    """Return how what was given goes on behind so many tuples, where it can."""
    found = getattr(given, "seek", None)
    return found if callable(found) else None


def _promised(schema: Schema) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(sorted(promise)) for promise in schema.progress)
