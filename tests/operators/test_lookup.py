"""Lookup adds what a table knows of each tuple, whatever the order, and passes all promises."""

from __future__ import annotations

import doctest
from types import ModuleType

import attrs
import pyarrow as pa
import pytest
from hypothesis import given

from operators.data import lookup_table
from operators.data.address import parse_ip
from operators.data.lookup_table import LookupTable
from operators.data.page import Page
from operators.data.schema import Schema, ip_field
from operators.drive import drive, punctuations, rows
from operators.errors import SchemaError
from operators.rows import lookup as module
from operators.rows.lookup import Lookup
from operators.testing import Script, check_operator, streams
from punctuation import Below, Equals, Punctuation, before
from tests.examples import share
from tests.naive_lookup import naive_lookup

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), x=pa.int32(), progress=["ts", ("k", "ts")])
HOSTS = pa.record_batch({"key": ["a", "c"], "x": pa.array([1, 2], pa.int64()), "site": ["north", None]})
BROUGHT = {"site": "site", "known": "key"}


@pytest.mark.parametrize("required", [False, True])
def test_lookup_keeps_the_laws(required: bool) -> None:
    table = LookupTable.of("hosts", HOSTS, ["key"])

    @share(0.7)
    @given(streams(SCHEMA, group=("k",), nulls=("k", "x")))
    def keeps(script: Script) -> None:
        check_operator(
            lambda: Lookup(table, ("k",), BROUGHT, required=required),
            script,
            naive=lambda rows: naive_lookup(HOSTS.to_pylist(), rows, {"k": "key"}, BROUGHT, required=required),
            promised=lambda tables, progress: list(progress[0].promises()),
        )

    keeps()


VERSIONS = pa.record_batch({"key": ["a", "b", "a", "a"], "since": [4, 2, 9, 0], "site": ["two", "b", "three", "one"]})


@share(0.7)
@given(streams(SCHEMA, group=("k",), nulls=("k", "ts")))
def test_a_row_is_the_one_that_was_valid_at_the_time_of_the_tuple(script: Script) -> None:
    table = LookupTable.of("sites", VERSIONS, ["key"], valid_from="since")
    check_operator(
        lambda: Lookup(table, ("k",), {"site": "site"}, at="ts"),
        script,
        naive=lambda rows: naive_lookup(VERSIONS.to_pylist(), rows, {"k": "key"}, {"site": "site"}, valid_from="since"),
    )


def test_several_columns_are_one_key() -> None:
    table = LookupTable.of("hosts", HOSTS, ["key", "x"])
    page = Page.of(SCHEMA, {"ts": [1, 2, 3], "k": ["a", "a", "c"], "x": [1, 2, 2]})
    found = rows(drive(Lookup(table, ("k", "x"), {"site": "site", "n": "x"}), [page]))
    assert [row["n"] for row in found] == [1, None, 2]


def test_promises_pass_and_tuples_that_find_nothing_are_counted() -> None:
    lookup = Lookup(LookupTable.of("hosts", HOSTS, ["key"]), ("k",), {"site": "site"})
    page = Page.of(SCHEMA, {"ts": [1, 2, 3], "k": ["a", "z", None], "x": [1, 2, 2]})
    group_wise = Punctuation({"k": Equals("a"), "ts": Below(7)})
    assert punctuations(drive(lookup, [page, before("ts", 6), group_wise])) == [before("ts", 6), group_wise]
    assert lookup.statistics()["not_found"] == 2
    assert list(lookup.notes(lookup.statistics())) == []
    required = attrs.evolve(lookup, required=True)
    assert list(required.notes({"not_found": 2})) == ["2 tuples without a row in hosts left out"]


def test_what_nobody_asks_for_is_not_brought_and_not_read() -> None:
    lookup = Lookup(LookupTable.of("hosts", HOSTS, ["key"]), ("k",), BROUGHT)
    assert lookup.keeping({"ts", "site"}).columns == {"site": "site"}
    assert lookup.attributes_read(frozenset({"ts", "site"}), SCHEMA) == [{"ts", "k"}]
    assert lookup.keeping({"ts"}).attributes_read(frozenset({"ts"}), SCHEMA) == [{"ts"}]
    page = Page.of(Schema.of(ts=pa.int64()), {"ts": [1]})
    assert rows(drive(lookup.keeping({"ts"}), [page])) == [{"ts": 1}]


def test_addresses_of_a_table_stay_addresses() -> None:
    batch = pa.record_batch(
        [[1], pa.array([parse_ip("10.0.0.1")], pa.binary(16))],
        schema=pa.schema([pa.field("k", pa.int64()), ip_field("gate")]),
    )
    lookup = Lookup(LookupTable.of("gates", batch, ["k"]), ("x",), {"gate": "gate"})
    assert str(lookup.output_schema(SCHEMA)).endswith("gate ip | punctuated on {k, ts}, {ts}")


@pytest.mark.parametrize(
    ("batch", "keys", "message"),
    [
        ({"k": ["a", "b", "a"], "v": [1, 2, 3]}, ["k"], "hosts: rows 1 and 3 have the same key, k = a"),
        ({"k": ["a", None], "v": [1, 2]}, ["k"], r"hosts\.k: row 2 has no value"),
        ({"k": [1, 1], "v": [1, 1]}, ["k", "v"], "rows 1 and 2 have the same key, k = 1, v = 1"),
    ],
)
def test_a_key_with_two_rows_or_no_value_is_refused(
    batch: dict[str, list[object]], keys: list[str], message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        LookupTable.of("hosts", pa.record_batch(batch), keys)


def test_two_versions_that_begin_at_one_time_are_refused() -> None:
    batch = pa.record_batch({"k": ["a", "b", "a"], "since": [3, 3, 3]})
    with pytest.raises(SchemaError, match="rows 1 and 3 have the same key, k = a, since = 3"):
        LookupTable.of("hosts", batch, ["k"], valid_from="since")


@pytest.mark.parametrize(
    ("on", "columns", "message"),
    [
        (("x",), {"site": "site"}, '"x" is of type int32, and hosts.key of string'),
        (("k",), {"x": "x"}, 'already has an attribute "x"(.|\n)*prefix="hosts_"'),
        (("k",), {"name": "sight"}, 'no column "sight"(.|\n)*"site"'),
        (("q",), {"site": "site"}, 'no attribute "q"'),
    ],
)
def test_what_does_not_fit_is_refused(on: tuple[str, ...], columns: dict[str, str], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Lookup(LookupTable.of("hosts", HOSTS, ["key"]), on, columns).output_schema(SCHEMA)


def test_equal_tables_are_the_same_and_others_are_not() -> None:
    one, other = (Lookup(LookupTable.of("hosts", HOSTS, ["key"]), ("k",), {"site": "site"}) for _ in range(2))
    assert one.same_as(other)
    changed = HOSTS.set_column(2, "site", pa.array(["north", "south"]))
    assert not one.same_as(Lookup(LookupTable.of("hosts", changed, ["key"]), ("k",), {"site": "site"}))
    assert not one.same_as(attrs.evolve(other, required=True))


@pytest.mark.parametrize("where", [module, lookup_table])
def test_the_examples_in_docstrings_run(where: ModuleType) -> None:
    result = doctest.testmod(where)
    assert result.attempted and not result.failed
