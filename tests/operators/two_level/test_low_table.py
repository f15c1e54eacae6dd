"""The compiled table does tuple by tuple what the figure says, and its partial aggregates leave in that order."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.functions import count
from operators.protocol import Element
from operators.window_aggregate.partial_final import (
    CompleteFlush,
    Flush,
    InOrderFlush,
    LazyFlush,
    LowAggregate,
    SlowFlush,
)
from punctuation import END, before
from tests.naive_two_level import NaiveTable

SCHEMA = Schema.of(k=pa.int64(), wid_from=pa.int64(), wid_until=pa.int64(), progress=["wid_from"])
flushes: st.SearchStrategy[Flush] = st.one_of(
    st.just(CompleteFlush()),
    st.builds(InOrderFlush, every=st.integers(1, 3)),
    st.builds(SlowFlush, every=st.integers(1, 3), delay=st.integers(0, 3)),
    st.builds(LazyFlush, delay=st.integers(0, 3)),
)


@st.composite
def tagged(draw: st.DrawFn) -> list[Element]:
    """Draw slices and keys in any order that true promises allow, the promises between."""
    elements: list[Element] = []
    bound = draw(st.integers(-3, 3))
    for _ in range(draw(st.integers(1, 6))):
        starts = draw(st.lists(st.integers(bound, bound + 3), max_size=8))
        keys = draw(st.lists(st.integers(0, 6), min_size=len(starts), max_size=len(starts)))
        spans = draw(st.lists(st.integers(1, 2), min_size=len(starts), max_size=len(starts)))
        elements.append(page(keys, starts, [a + n for a, n in zip(starts, spans, strict=True)]))
        bound += draw(st.integers(0, 2))
        elements.append(before("wid_from", bound))
    return elements


def page(keys: list[int], starts: list[int], untils: list[int]) -> Page:
    return Page.of(SCHEMA, {"k": keys, "wid_from": starts, "wid_until": untils})


def by_the_rules(table: NaiveTable, elements: list[Element]) -> list[tuple[object, ...]]:
    bound = None
    for element in elements:
        if isinstance(element, Page):
            table.sweep(len(element))
            for row in element.plain_rows():
                table.process((int(str(row["k"])),), int(str(row["wid_from"])), int(str(row["wid_until"])))
        else:
            said = element.bound("wid_from")
            assert isinstance(said, int)
            if bound is None or said > bound:
                table.promise(said)
                bound = said
    table.end()
    return [(*held.key, held.count, held.start, held.until) for held in table.out]


def left(found: list[Row]) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in found]


@given(tagged(), st.integers(1, 9), st.integers(1, 5), flushes, st.sampled_from([8, 9, 8192]))
def test_what_leaves_and_when_is_what_the_figure_says(
    elements: list[Element], size: int, probes: int, flush: Flush, page_rows: int
) -> None:
    low = LowAggregate({"n": count()}, ("k",), size=size, flush=flush, probes=probes, page_rows=page_rows)
    table = NaiveTable(size, probes, flush.every, isinstance(flush, InOrderFlush), flush.delay)
    assert left(rows(drive(low, [*elements, END]))) == by_the_rules(table, elements)


def test_one_old_group_leaves_every_so_many_tuples() -> None:
    low = LowAggregate({"n": count()}, ("k",), size=1 << 12, flush=SlowFlush(every=4, delay=9))
    drive(low, [page(list(range(40)), [0] * 40, [1] * 40), before("wid_from", 1)])
    assert low.statistics()["state_tuples"] == 40
    drive(low, [page([7] * 12, [1] * 12, [2] * 12)])
    # The table has more places than a step may look at, so a step may find nothing.
    assert 0 < low.statistics()["flushed_slowly"] <= 3
    drive(low, [page([7] * 400, [1] * 400, [2] * 400)])
    assert low.statistics()["flushed_slowly"] == 40
    assert low.statistics()["state_tuples"] == 1


def test_a_lazy_table_lets_go_of_what_is_due_without_a_surge() -> None:
    low = LowAggregate({"n": count()}, ("k",), size=64, flush=LazyFlush(delay=2))
    drive(low, [page(list(range(20)), [0] * 20, [1] * 20), before("wid_from", 1)])
    drive(low, [page([7] * 64, [1] * 64, [2] * 64)])
    assert low.statistics()["flushed_in_time"] == 0  # a whole window later they may still be there
    drive(low, [before("wid_from", 2), page([7] * 64, [2] * 64, [3] * 64)])
    assert low.statistics()["flushed_in_time"] == 20  # swept out in the last window in which they may be there
    assert low.statistics()["flushed_at_once"] == 0
    drive(low, [before("wid_from", 9)])
    assert low.statistics()["flushed_at_once"] == 2


def test_a_full_buffer_of_what_left_is_handed_on_in_the_middle_of_a_page() -> None:
    low = LowAggregate({"n": count()}, ("k",), size=1, page_rows=8)
    found = drive(low, [page(list(range(100)), [0] * 100, [1] * 100), END])
    assert [len(e) for e in found if isinstance(e, Page)][:3] == [6, 6, 6]
    assert [row["k"] for row in rows(found)] == list(range(100))


def test_a_key_may_be_of_any_types_and_null() -> None:
    fields = {
        "a": pa.int8(), "b": pa.uint64(), "c": pa.string(), "d": pa.float32(), "e": pa.binary(16), "f": pa.bool_(),
        "g": pa.timestamp("us"), "h": pa.date32(), "i": pa.dictionary(pa.int8(), pa.string()),
    }  # fmt: skip
    schema = Schema.of(**fields, wid_from=pa.int64(), wid_until=pa.int64())
    rng = np.random.default_rng(5)
    values: dict[str, list[object]] = {
        "a": [-3, None, 5], "b": [2**64 - 1, 0, None], "c": ["x", "", None], "d": [1.5, None, -0.0],
        "e": [b"0123456789abcdef", bytes(16), None], "f": [True, False, None], "g": [1, None, -1],
        "h": [0, 20000, None], "i": ["p", None, "q"],
    }  # fmt: skip
    picked = {name: [cells[i] for i in rng.integers(0, 3, 300)] for name, cells in values.items()}
    late = {name: [cells[0] or cells[1]] * 50 for name, cells in values.items()}  # the first page has no null

    def key(row: Row) -> str:
        return str([row[name] for name in fields]).replace("-0.0", "0.0")  # one number

    for size in (1, 7, 1000):
        low = LowAggregate({"n": count()}, tuple(fields), size=size)
        script = [_typed(schema, late), _typed(schema, picked), END]
        totals, expected = Counter[str](), Counter[str]()
        for row in rows(drive(low, script)):
            totals[key(row)] += int(str(row["*:count"]))
        for element in script[:2]:
            assert isinstance(element, Page)
            expected.update(key(row) for row in element.plain_rows())
        assert totals == expected


def _typed(schema: Schema, columns: dict[str, list[object]]) -> Page:
    n = len(columns["a"])
    arrays = {name: pa.array(cells, schema.field(name).type) for name, cells in columns.items()}
    return Page.of(schema, {**arrays, "wid_from": [0] * n, "wid_until": [1] * n})


def test_texts_that_no_row_has_any_more_are_forgotten() -> None:
    schema = Schema.of(k=pa.string(), wid_from=pa.int64(), wid_until=pa.int64(), progress=["wid_from"])
    low = LowAggregate({"n": count()}, ("k",), size=16)
    sizes = []
    for turn in range(40):
        texts = [f"a text of some length {turn} {i}" for i in range(500)]
        columns = {"k": texts, "wid_from": [turn] * 500, "wid_until": [turn + 1] * 500}
        found = rows(drive(low, [Page.of(schema, columns), before("wid_from", turn + 1)]))
        assert sorted(str(row["k"]) for row in found) == sorted(texts)
        sizes.append(low.statistics()["state_bytes"])
    assert max(sizes[20:]) <= max(sizes[:20])


def test_a_table_needs_a_place() -> None:
    with pytest.raises(ValueError, match="size"):
        LowAggregate({"n": count()}, size=0)
    with pytest.raises(ValueError, match="every is a whole number from 1 on, not 0"):
        SlowFlush(every=0)
    with pytest.raises(SchemaError, match="put a Bucket in front"):
        LowAggregate({"n": count()}).output_schema(Schema.of(k=pa.int64()))
