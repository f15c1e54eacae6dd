"""Rows and pages of Python become elements of a stream, in order, with the promises between them where they stand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

import oop_engine as oop
from oop_engine.sources.errors import SourceError
from oop_engine.sources.memory import Once, Rows
from oop_engine.sources.rows import from_pages, from_rows
from operators.data.page import Page
from operators.data.schema import Schema, ip_field
from operators.errors import SchemaError
from operators.protocol import Element
from punctuation import NO_TIME, Below, Equals, OneOf, Punctuation, before

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string())
PROMISE = before("ts", 5)


def plain(elements: Sequence[Element]) -> list[object]:
    return [[tuple(row.values()) for row in e.plain_rows()] if isinstance(e, Page) else str(e) for e in elements]


def test_rows_are_mappings_or_sequences_and_a_missing_key_is_null() -> None:
    assert plain(list(from_rows([{"k": "a", "ts": 1}, (2, "b"), {"ts": 3}, [None, None]], SCHEMA))) == [
        [(1, "a"), (2, "b"), (3, None), (None, None)]
    ]
    assert list(from_rows([], SCHEMA)) == []


steps = st.lists(st.one_of(st.integers(0, 9), st.just(PROMISE)), max_size=30)


@given(steps, st.integers(1, 6))
def test_a_promise_closes_the_page_in_progress_and_no_page_is_larger_than_asked(
    given_steps: list[int | Punctuation], page_rows: int
) -> None:
    rows = [s if isinstance(s, Punctuation) else (s, "a") for s in given_steps]
    elements = list(from_rows(rows, SCHEMA, page_rows=page_rows))
    flat = [step for e in elements for step in ([r["ts"] for r in e.plain_rows()] if isinstance(e, Page) else [e])]
    assert flat == given_steps
    assert all(0 < len(e) <= page_rows for e in elements if isinstance(e, Page))
    for one, other in itertools.pairwise(elements):
        if isinstance(one, Page) and isinstance(other, Page):
            assert len(one) == page_rows


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([(1, "a"), {"tss": 2}], 'row 1: "tss" is no attribute.\n  Did you mean "ts"?'),
        ([(1, "a"), (1,)], "row 1 has 1 values, but the schema 2: ts, k"),
        ([(1, "a", 2)], "row 0 has 3 values, but the schema 2: ts, k"),
        ([("x", "a")], 'row 0: "ts" is int64, but a value is not: '),
        ([(1, "a"), (2, 7)], 'rows 0 to 1: "k" is string, but a value is not: '),
        ([(1, "a"), PROMISE, (2, "b"), (2**63, "b")], 'rows 2 to 3: "ts" is int64, but a value is not: '),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(rows: list[object], text: str) -> None:
    with pytest.raises(SchemaError) as caught:
        list(from_rows(rows, SCHEMA))  # type: ignore[arg-type]
    assert str(caught.value).startswith(text)


def test_pages_before_a_wrong_row_are_given() -> None:
    elements = from_rows([(1, "a"), (2, "b"), (3,)], SCHEMA, page_rows=2)
    assert plain([next(elements)]) == [[(1, "a"), (2, "b")]]
    with pytest.raises(SchemaError, match="row 2 has 1 values"):
        next(elements)


def test_addresses_may_be_text_or_bytes() -> None:
    schema = Schema(pa.schema([ip_field("ip")]))
    (page,) = from_rows([("10.0.0.1",), (bytes(16),), (None,)], schema)
    assert isinstance(page, Page)
    assert [row["ip"] for row in page.plain_rows()] == [bytes(10) + b"\xff\xff\x0a\x00\x00\x01", bytes(16), None]
    with pytest.raises(SchemaError, match='"ip" is an ip, but a value is not'):
        list(from_rows([("10.0.0.256",)], schema))


def test_pages_batches_tables_and_promises_are_taken_in_order() -> None:
    batch = Page.of_rows(SCHEMA, [(1, "a")]).batch
    table = pa.Table.from_batches([batch, Page.of_rows(SCHEMA, [(2, "b")]).batch])
    found = list(from_pages([batch, PROMISE, table, Page.of_rows(SCHEMA, [(3, "c")])], SCHEMA))
    assert plain(found) == [[(1, "a")], "[ts < 5]", [(1, "a")], [(2, "b")], [(3, "c")]]


def test_pages_of_another_schema_or_of_nothing_known_are_refused() -> None:
    with pytest.raises(
        SchemaError,
        match=r"element 0 is not of the stream.s schema.\n  element: ts int64.*\n  stream: ts int64, k string",
    ):
        list(from_pages([Page.of_rows(Schema.of(ts=pa.int64()), [(1,)])], SCHEMA))
    with pytest.raises(SourceError, match="element 0 is a dict; give pages, batches or punctuations"):
        list(from_pages([{"ts": 1}], SCHEMA))  # type: ignore[list-item]


def test_batches_in_memory_can_be_read_again_and_ahead() -> None:
    batches = [Page.of_rows(SCHEMA, rows).batch for rows in ([(1, "a"), (None, "b")], [(3, "c")])]
    source = Rows("mine", batches)
    assert source.rewindable and source.arrow == SCHEMA.arrow
    assert [v.tolist() for v in source.values("ts")] == [[1, NO_TIME], [3]]
    for _ in range(2):
        reader = source.open(("k",), 10)
        assert reader.progress() == (0, 3)
        assert [chunk.to_pydict() for chunk in reader.chunks()] == [{"k": ["a", "b"]}, {"k": ["c"]}]  # type: ignore[union-attr]
        assert reader.progress() == (3, 3)


def test_what_comes_once_has_its_columns_pruned_and_cannot_be_read_ahead() -> None:
    page = Page.of_rows(SCHEMA, [(1, "a")])
    source = Once("link", SCHEMA.arrow, lambda: iter([page, PROMISE, page.batch]), ("ts",))
    reader = source.open(("ts",), 10)
    found = list(reader.chunks())
    assert [c if isinstance(c, Punctuation) else c.to_pydict() for c in found] == [{"ts": [1]}, PROMISE, {"ts": [1]}]  # type: ignore[union-attr]
    assert not source.rewindable
    assert reader.progress()[1] is None
    with pytest.raises(TypeError, match="link comes only once"):
        source.values("ts")


KEYED = oop.Schema.of(ts=pa.int64(), k=pa.string(), ip="ip", f=pa.float64(), progress=["ts"])


def with_promise(promise: Punctuation) -> oop.Stream:
    rows = [(1, "a", "10.0.0.1", 0.5), promise, before("ts", 10), (20, "b", "10.0.0.2", 1.5)]
    return oop.rows(iter(rows), KEYED)


@pytest.mark.parametrize(
    "promise", [Punctuation({"k": Equals("a")}), Punctuation({"k": OneOf(["a"]), "ts": Below(10)}), before("f", 0.5)]
)
def test_a_promise_on_what_nobody_reads_does_not_end_a_run(promise: Punctuation) -> None:
    def counted() -> oop.Stream:
        return with_promise(promise).window(5).aggregate(oop.count())

    assert counted().to_arrow()["count"].to_pylist() == [1, 1]
    assert [row["count"] for page in counted() for row in page.rows()] == [1, 1]


@pytest.mark.parametrize(
    ("promise", "told"),
    [
        (Punctuation({"k": Equals(4)}), r'rows: the promise \[k = 4\] compares "k" \(string\) with 4[^$]*Write text'),
        (Punctuation({"k": OneOf(["a", 4])}), r'compares "k" \(string\) with 4'),
        (before("ts", "x"), r'the promise \[ts < x\] compares "ts" \(int64\) with \'x\'[^$]*Write a number'),
        (before("ts", True), r'compares "ts" \(int64\) with True'),
        (Punctuation({"ip": Equals("10.0.0.1")}), r"Write its 16 bytes, operators.data.address.parse_ip"),
        (before("tss", 5), r'is about "tss", which the stream does not have.\n  Did you mean "ts"'),
    ],
)
def test_a_promise_is_about_attributes_of_the_stream_and_constants_of_their_types(
    promise: Punctuation, told: str
) -> None:
    with pytest.raises(oop.SchemaError, match=told):
        with_promise(promise).window(5).aggregate(oop.count(), by="k").run()
