"""Encode what goes from one stage to the next as rows of bytes: pages and promises, with bucket and place.

A row is a page of tuples of one bucket, or a promise, what was counted, or what is told of tuples taken ahead. Rows of
one origin are in the order of `seq`; `rank` is a number below which no tuple of the page is, in the attribute in whose
order pages are best taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.spark.narrow import page_bytes
from oop_engine.spark.stages import Edge
from operators.data.keys import Ids
from operators.data.page import Int64s, Page
from operators.data.scatter import Scatter
from operators.data.schema import Schema
from operators.data.steps import from_ticks, held_as_ticks
from operators.protocol import Element
from punctuation import NEVER, NO_TIME, GroupPromise, Punctuation, one_of
from punctuation.plain import from_plain, to_plain

PAGE, PROMISE, COUNTS, TOLD = 0, 1, 2, 3
ROWS: Final = pa.schema(
    [
        pa.field("stage", pa.int32()),
        pa.field("bucket", pa.int32()),
        pa.field("port", pa.int32()),
        pa.field("origin", pa.int64()),
        pa.field("seq", pa.int64()),
        pa.field("rank", pa.int64()),
        pa.field("kind", pa.int32()),
        pa.field("body", pa.binary()),
    ]
)
DDL: Final = "stage int, bucket int, port int, origin bigint, seq bigint, rank bigint, kind int, body binary"
_BATCH_BYTES: Final = 32 << 20


@attrs.frozen
class WireRow:
    """A page, a promise or the like on the way to a bucket; `port` is the edge's number in the stage it goes to."""

    stage: int
    bucket: int
    port: int
    origin: int
    seq: int
    rank: int
    kind: int
    body: bytes = attrs.field(repr=False)


def to_batches(rows: Iterable[WireRow]) -> Iterator[pa.RecordBatch]:
    """Yield rows as record batches of `ROWS`, each of a bounded number of bytes."""
    waiting: list[WireRow] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += len(row.body)
        if size >= _BATCH_BYTES:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(rows: Sequence[WireRow]) -> pa.RecordBatch:
    columns = zip(*(attrs.astuple(row) for row in rows), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ROWS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROWS)


def from_batch(batch: pa.RecordBatch) -> list[WireRow]:
    """Read the rows of a record batch of `ROWS`."""
    columns = [batch.column(name).to_pylist() for name in ROWS.names]
    return [WireRow(*values) for values in zip(*columns, strict=True)]


def pages_batch(bodies: pa.Array, *, stage: int, port: int, origin: int, seq: int) -> pa.RecordBatch:
    """Return a record batch of `ROWS` of pages for bucket 0, numbered from `seq` on; their bytes are not copied."""
    same = {"stage": stage, "bucket": 0, "port": port, "origin": origin, "rank": NO_TIME, "kind": PAGE}
    columns: dict[str, pa.Array] = {
        name: pa.repeat(pa.scalar(value, ROWS.field(name).type), len(bodies)) for name, value in same.items()
    }
    columns |= {"seq": pa.array(range(seq, seq + len(bodies)), pa.int64()), "body": bodies}
    return pa.RecordBatch.from_arrays([columns[name] for name in ROWS.names], schema=ROWS)


def promise_bytes(punctuation: Punctuation) -> bytes:
    """Return a punctuation as text in bytes."""
    return json.dumps([to_plain(punctuation), punctuation.assumed]).encode()


def read_promise(body: bytes) -> Punctuation:
    """Read what `promise_bytes` gave."""
    plain, assumed = json.loads(body)
    return attrs.evolve(from_plain(plain), assumed=bool(assumed))


def counts_bytes(counts: Mapping[str, int]) -> bytes:
    """Return counts by name as text in bytes."""
    return json.dumps(dict(counts)).encode()


def read_counts(body: bytes) -> dict[str, int]:
    """Read what `counts_bytes` gave."""
    return {str(name): int(count) for name, count in json.loads(body).items()}


@attrs.define(eq=False)
class Splitter:
    """Split what crosses an edge by bucket: a page's tuples each to theirs, a promise to all whom it concerns.

    Cost: O(1) a tuple, in three compiled passes and one copy. Equal keys have one bucket whatever page they come in.
    """

    edge: Edge
    port: int
    buckets: int
    _scatter: Scatter = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._scatter = Scatter(self.edge.keys, self.edge.kinds, self.buckets)

    def split(self, element: Element, *, origin: int, seq: int, least: int = NO_TIME) -> Iterator[WireRow]:
        """Yield the rows of an element; `least` is a rank that none of them may be below, for pages that keep order."""
        if isinstance(element, Punctuation):
            for bucket, promise in self._concerned(element):
                yield WireRow(self.edge.stage, bucket, self.port, origin, seq, least, PROMISE, promise_bytes(promise))
            return
        for bucket, page, rank in self._parts(element):
            body = page_bytes(page.batch)
            yield WireRow(self.edge.stage, bucket, self.port, origin, seq, max(rank, least), PAGE, body)

    def bucket(self, columns: Sequence[pa.Array]) -> Ids:
        """Return the bucket of each key, shape (n,)."""
        return self._scatter.parts_of(columns)

    def _parts(self, page: Page) -> Iterator[tuple[int, Page, int]]:
        if not len(page):
            return
        if self.buckets == 1 or not self.edge.keys:
            yield 0, page, _least(self._ranks(page))
            return
        starts, order = self._scatter.order(page)
        sorted_page = page.take(order)
        ranks = self._ranks(sorted_page)
        cuts = starts.tolist()
        for bucket, (start, stop) in enumerate(pairwise(cuts)):
            if stop > start:
                yield bucket, sorted_page.slice(start, stop), _least(None if ranks is None else ranks[start:stop])

    def _ranks(self, page: Page) -> Int64s | None:
        name = self.edge.ranked
        if name is None or name not in page.schema:
            return None
        values, valid = page.ticks(name), page.valid(name)
        return values if valid is None else np.where(valid, values, NEVER)

    def _concerned(self, promise: Punctuation) -> Iterator[tuple[int, Punctuation]]:
        """Yield the buckets that a promise says something to, and what it says to each."""
        groups = GroupPromise.of(promise)
        if self.buckets == 1 or not self.edge.keys or groups is None:
            yield from ((bucket, promise) for bucket in range(self.buckets))
            return
        names = groups.shape[0]
        if not set(self.edge.keys) <= set(names):
            yield from ((bucket, promise) for bucket in range(self.buckets))
            return
        columns = [
            _constants([key[names.index(name)] for key in groups.keys], kind)
            for name, kind in zip(self.edge.keys, self.edge.kinds, strict=True)
        ]
        buckets = self.bucket(columns).tolist()
        for bucket in sorted(set(buckets)):
            if len(names) > 1:
                yield bucket, promise
                continue
            mine = one_of(next(iter(key)) for key, where in zip(groups.keys, buckets, strict=True) if where == bucket)
            yield bucket, Punctuation({**dict(promise.patterns), next(iter(names)): mine}, assumed=promise.assumed)


def _least(ranks: Int64s | None) -> int:
    return NO_TIME if ranks is None or not len(ranks) else int(ranks.min())


def _constants(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """Make a column of the constants of a promise, which holds times and decimals in ticks."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return from_ticks(pa.array(values, pa.int64()), kind) if held_as_ticks(kind) else pa.array(values, kind)


def edge_schema(edge: Edge, given: Schema, arrow: pa.Schema) -> Schema:
    """Return the schema of pages of an edge that bring these attributes, with the promises that can be on them."""
    names = set(arrow.names)
    return Schema(arrow, progress=[promise for promise in given.progress if promise <= names])
