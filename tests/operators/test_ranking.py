"""Ranking emits the first n tuples of each group, in an order that does not depend on that of arrival."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import OperatorBug, SchemaError
from operators.rows import largest, ranking
from operators.rows.largest import Largest
from operators.rows.ranking import Ranking
from operators.testing import Script, check_operator, streams
from punctuation import END, Below, Equals, Progress, Punctuation, before
from tests.examples import share

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), x=pa.int8(), progress=["ts", ("k", "ts")])
FLOATS = Schema.of(ts=pa.int64(), x=pa.float64(), progress=["ts"])


def place(row: Row, order: Sequence[str], falling: bool) -> tuple[object, ...]:
    """Return what says where a tuple stands: its nulls last, whatever the direction."""
    found: list[object] = []
    for name in (*order, *(n for n in row if n not in order)):
        value = row[name]
        turned = -value if falling and name in order and isinstance(value, int) else value
        found += [value is None, 0 if value is None else turned]
    return tuple(found)


def naive(n: int | None, by: Sequence[str], falling: bool, table: Sequence[Row]) -> list[Row]:
    found: list[Row] = []
    for key in {tuple(row[b] for b in by) for row in table}:
        group = [row for row in table if tuple(row[b] for b in by) == key]
        found += sorted(group, key=lambda row: place(row, ("x",), falling))[:n]
    return found


@share(2)
@given(
    streams(SCHEMA, group=("k",), nulls=("ts", "k", "x")), st.sampled_from([1, 2, 5, None]), st.booleans(),
    st.sampled_from([("ts",), ("k", "ts"), ()]),
)  # fmt: skip
def test_the_first_of_each_group_keep_the_laws(
    script: Script, n: int | None, falling: bool, by: tuple[str, ...]
) -> None:
    def settled(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Row]:
        promises = [p for p in progress[0].promises() if set(p.attributes) <= set(by)]
        return [row for row in naive(n, by, falling, tables[0]) if any(p.matches(row) for p in promises)]

    check_operator(
        lambda: Ranking(("x",), n, by, descending=("x",) if falling else ()),
        script,
        naive=lambda table: naive(n, by, falling, table),
        settled=settled,
        promised=lambda tables, progress: [p for p in progress[0].promises() if set(p.attributes) <= set(by)],
    )


@given(streams(SCHEMA))
def test_an_operator_that_keeps_one_tuple_too_few_is_caught(script: Script) -> None:
    (table,) = script.tables()
    assume(len(naive(2, ("ts",), False, table)) > len(naive(1, ("ts",), False, table)))
    with pytest.raises(OperatorBug, match="law 10"):
        check_operator(lambda: Ranking(("x",), 1, ("ts",)), script, naive=lambda t: naive(2, ("ts",), False, t))


def test_a_group_leaves_in_order_and_nulls_last() -> None:
    ranking = Ranking(("x",), 2, ("ts",), descending=("x",))
    page = Page.of(SCHEMA, {"ts": [1, 2, 1, 1, 1], "k": list("abcde"), "x": [3, 9, 7, None, 7]})
    assert [(row["k"], row["x"]) for row in rows(drive(ranking, [page, before("ts", 2)]))] == [("c", 7), ("e", 7)]
    assert [row["x"] for row in rows(drive(ranking, [END]))] == [9]
    assert ranking.statistics()["state_tuples"] == 0


def test_ties_do_not_depend_on_arrival_where_tuples_differ_in_zeros_or_lists_alone() -> None:
    schema = Schema(
        pa.schema([pa.field("x", pa.int64()), pa.field("f", pa.float64()), pa.field("l", pa.list_(pa.int64()))])
    )
    table = [(1, 0.0, [2]), (1, -0.0, [2]), (1, 0.0, [1]), (1, float("nan"), [1])]
    found = set()
    for order in np.random.default_rng(1).permuted(np.tile(np.arange(4), (20, 1)), axis=1):
        page = Page.of_rows(schema, [table[place] for place in order])
        found.add(str(rows(drive(Ranking(("x",), 2), [page, END]))))
    assert len(found) == 1


@pytest.mark.parametrize(
    "column",
    [
        pa.array(np.array([2, 1], np.float16)),
        pa.array(["b", "a"]).dictionary_encode(),
        pa.array([b"b", b"a"], pa.binary(1)),
        pa.array([True, False]),
    ],
)
def test_all_plain_types_are_ordered(column: pa.Array) -> None:
    kind = column.type
    schema = Schema(pa.schema([pa.field("x", kind), pa.field("n", pa.int64())]))
    page = Page(schema, pa.RecordBatch.from_arrays([column, pa.array([1, 2])], schema=schema.arrow))
    (ranked,) = (e for e in drive(Ranking(("x",), 2), [page, END]) if isinstance(e, Page))
    assert ranked["n"].tolist() == [2, 1]


def test_what_cannot_come_first_is_not_held() -> None:
    ranking, random = Ranking(("x",), 3, ("ts",)), np.random.default_rng(1)
    for _ in range(50):
        page = Page.of(SCHEMA, {"ts": [1] * 1000, "k": ["a"] * 1000, "x": random.integers(-100, 100, 1000)})
        assert drive(ranking, [page]) == []
    assert ranking.statistics()["peak_state_tuples"] <= 6000


@contextmanager
def looking_often() -> Generator[None]:
    """Have operators look for the n-th tuple though they hold few."""
    with pytest.MonkeyPatch.context() as patched:
        for module in (ranking, largest):
            patched.setattr(module, "_LEAST", 0)
        yield


@given(
    st.lists(st.lists(st.one_of(st.none(), st.floats(width=32), st.integers(-3, 3).map(float)), max_size=9)),
    st.integers(1, 4), st.booleans(), st.booleans(),
)  # fmt: skip
def test_what_is_not_needed_makes_no_difference(
    pages: list[list[float | None]], n: int, falling: bool, level: bool
) -> None:
    def made() -> Ranking | Largest:
        return Largest("x", n) if level else Ranking(("x",), n, descending=("x",) if falling else ())

    pruned, whole, place = made(), made(), 0
    for values in pages:
        page = Page.of(FLOATS, {"ts": list(range(place, place + len(values))), "x": values})
        place += len(values)
        drive(whole, [page])
        if (needless := pruned.needless(0)) is not None:
            page = page.select(~page.matching(needless))
        with looking_often():
            drive(pruned, [page])
    found, want = (rows(drive(operator, [END])) for operator in (pruned, whole))
    # NaN is not equal to itself.
    assert str(found) == str(want)


@pytest.mark.parametrize(
    ("kind", "values", "falling", "told"),
    [
        (pa.int64(), [5, 9, 7], False, "[x >= 8]"),
        (pa.uint8(), [5, 9, 7], True, "[x < 7]"),
        (pa.timestamp("s"), [5, 9, 7], False, "[x >= 8]"),
        (pa.float32(), [0.5, float("nan"), 2.5], True, "[x < 0.5]"),
        (pa.float64(), [float("nan"), 0.5, None], False, "None"),
        (pa.string(), ["a", "c", "b"], False, "[x > b]"),
        (pa.bool_(), [True, False, True], False, "None"),
    ],
)
def test_what_comes_after_n_that_are_held_is_not_needed(
    kind: pa.DataType, values: list[object], falling: bool, told: str
) -> None:
    schema = Schema(pa.schema([pa.field("x", kind), pa.field("t", pa.int64())]))
    operator = Ranking(("x", "t"), 2, descending=("x",) if falling else ())
    columns = [pa.array(values, kind), pa.array(range(3), pa.int64())]
    with looking_often():
        drive(operator, [Page(schema, pa.RecordBatch.from_arrays(columns, schema=schema.arrow))])
    assert str(operator.needless(0)) == told


def test_groups_need_all_of_their_tuples() -> None:
    ranking = Ranking(("x",), 1, ("ts",))
    drive(ranking, [Page.of(SCHEMA, {"ts": [1] * 9000, "k": ["a"] * 9000, "x": [1] * 9000})])
    assert ranking.statistics()["state_tuples"] == 1
    assert ranking.needless(0) is None


def test_only_promises_on_the_groups_pass() -> None:
    group_wise = Punctuation({"k": Equals("a"), "ts": Below(4)})
    assert [str(p) for p in drive(Ranking(("x",), 1, ("k",)), [before("ts", 4), group_wise, END])] == ["[END]"]
    assert Ranking(("x",), 1, ("ts", "k")).output_schema(SCHEMA).progress == SCHEMA.progress


def test_what_has_no_order_is_refused() -> None:
    lists = Schema(pa.schema([pa.field("l", pa.list_(pa.int64()))]))
    with pytest.raises(SchemaError, match="whose values have no order"):
        Ranking(("l",)).output_schema(lists)
    with pytest.raises(SchemaError, match="keep one tuple"):
        Ranking(("x",), 0)
