"""Tuples with one key go to one bucket, none is lost, and promises go to whom they concern."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

from oop_engine.spark.narrow import read_page
from oop_engine.spark.scatter import labels, spark_hash
from oop_engine.spark.stages import KEYED, Edge
from oop_engine.spark.wire import (
    PAGE,
    Splitter,
    WireRow,
    from_batch,
    promise_bytes,
    read_promise,
    to_batches,
)
from operators.data.page import Page
from operators.data.schema import Schema
from punctuation import END, Below, Equals, OneOf, Punctuation, before
from tests.oop_engine.spark.plans import ARROW, Row, batch, pages

SCHEMA = Schema(ARROW, progress=["ts"])


def splitter(keys: tuple[str, ...], buckets: int, ranked: str | None = "ts") -> Splitter:
    """Make a splitter by some attributes."""
    kinds = tuple(ARROW.field(name).type for name in keys)
    return Splitter(Edge(0, KEYED, ((1, 0),), keys, kinds, ranked), 0, buckets)


def split(by: Splitter, page: Page) -> list[WireRow]:
    """Split a page."""
    return list(by.split(page, origin=0, seq=0))


@given(given_pages=pages, buckets=st.integers(1, 6), keys=st.sampled_from([("k",), ("n",), ("k", "n"), ("x", "k")]))
def test_each_tuple_goes_to_the_one_bucket_of_its_key(
    given_pages: list[list[Row]], buckets: int, keys: tuple[str, ...]
) -> None:
    by = splitter(keys, buckets)
    found: Counter[tuple[object, ...]] = Counter()
    where: dict[tuple[object, ...], int] = {}
    for rows in given_pages:
        for row in split(by, Page(SCHEMA, batch(rows))):
            part = read_page(row.body)
            assert 0 <= row.bucket < buckets and part.schema.equals(ARROW)
            times = [t for t in part.column("ts").to_pylist() if t is not None]
            assert all(row.rank <= time for time in times) and (not times or row.rank == min(times))
            for values in part.to_pylist():
                found[tuple(values.values())] += 1
                key = tuple(values[name] for name in keys)
                assert where.setdefault(key, row.bucket) == row.bucket
    assert found == Counter(row for rows in given_pages for row in rows)


def test_a_page_keeps_the_order_of_arrival_in_a_bucket() -> None:
    rows: list[Row] = [(i, "abc"[i % 3], 0, i) for i in range(30)]
    for row in split(splitter(("k",), 2), Page(SCHEMA, batch(rows))):
        numbers = read_page(row.body).column("x").to_pylist()
        assert numbers == sorted(numbers)


def test_keys_are_spread() -> None:
    page = Page.of(Schema.of(key=pa.int64()), {"key": range(10_000)})
    edge = Edge(0, KEYED, ((1, 0),), ("key",), (pa.int64(),), None)
    sizes = [len(read_page(row.body)) for row in split(Splitter(edge, 0, 8), page)]
    assert len(sizes) == 8 and min(sizes) > 1000 and sum(sizes) == 10_000


def test_one_key_has_one_bucket_in_any_type_that_compares_equal() -> None:
    edge = Edge(0, KEYED, ((1, 0),), ("key",), (pa.int64(),), None)
    by = Splitter(edge, 0, 97)
    for kind in (pa.int8(), pa.uint16(), pa.int32(), pa.int64()):
        assert by.bucket([pa.array([5, 77, None], kind)]).tolist() == by.bucket([pa.array([5, 77, None])]).tolist()


def to(by: Splitter, promise: Punctuation) -> dict[int, str]:
    """Give what is promised to which bucket."""
    return {row.bucket: str(read_promise(row.body)) for row in by.split(promise, origin=0, seq=0)}


def test_promises_go_to_whom_they_concern() -> None:
    by = splitter(("k",), 3)
    (a,) = by.bucket([pa.array(["a"])]).tolist()
    assert to(by, before("ts", 7)) == dict.fromkeys(range(3), "[ts < 7]")
    assert set(to(by, END)) == {0, 1, 2}
    assert to(by, Punctuation({"k": Equals("a"), "ts": Below(9)})) == {a: "[k = a, ts < 9]"}
    assert set(to(by, Punctuation({"n": Equals(1), "ts": Below(9)}))) == {0, 1, 2}
    values = list("abcdefgh")
    whole = Punctuation({"k": OneOf(frozenset(values)), "ts": Below(9)})
    listed = {row.bucket: read_promise(row.body).pattern("k") for row in by.split(whole, origin=0, seq=0)}
    for value in values:
        (bucket,) = by.bucket([pa.array([value])]).tolist()
        assert [b for b, pattern in listed.items() if pattern.contains(value)] == [bucket]


def test_labels_are_spread_evenly_by_sparks_hash() -> None:
    found = labels(48)
    assert len(set(found)) == 48 and found[:5] == labels(5)
    for partitions in (1, 2, 3, 4, 5, 6, 8, 12, 16, 24):
        places = Counter((spark_hash(np.array(found, np.int32)).astype(np.int64) % partitions).tolist())
        assert set(places.values()) == {48 // partitions} or 48 % partitions


def test_rows_go_through_record_batches() -> None:
    rows = [WireRow(1, bucket, 0, 7, bucket, -5, PAGE, bytes([bucket]) * 9) for bucket in range(5)]
    assert [row for made in to_batches(rows) for row in from_batch(made)] == rows
    assert list(to_batches([])) == []


def test_a_promise_is_read_as_it_was_written() -> None:
    for promise in (END, before("ts", 3, assumed=True), Punctuation({"k": Equals(b"\0\1"), "ts": Below(9)})):
        read = read_promise(promise_bytes(promise))
        assert read == promise and read.assumed == promise.assumed
