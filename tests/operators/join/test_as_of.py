"""A lookup in a stream gives what the whole table would have given, whatever comes first, late or twice."""

from __future__ import annotations

import doctest
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import deliver, drive, punctuations, rows
from operators.errors import SchemaError
from operators.join import as_of as module
from operators.join.as_of import AsOfLookup
from operators.protocol import Element
from operators.testing import Script, check_operator, streams
from operators.testing.variants import fewer, in_turn, interleaved, last_first, one_by_one, reordered, repaged
from punctuation import END, before
from tests.examples import share
from tests.naive_lookup import naive_as_of

STREAM = Schema.of(ts=pa.int64(), k=pa.string(), x=pa.int32(), progress=["ts"])
TABLE = Schema.of(since=pa.int64(), key=pa.string(), site=pa.string(), progress=["since"])
ON, BROUGHT = {"k": "key"}, {"site": "site"}
SCRIPTS = streams([STREAM, TABLE], wattr=("ts", "since"), group=("k", "key"), tuples=8)


def lookup(**more: object) -> AsOfLookup:
    made = AsOfLookup("sites", ("k",), ("key",), "ts", "since", BROUGHT, **more)  # pyright: ignore[reportArgumentType]
    made.output_schema(STREAM, TABLE)
    return made


def naive(
    stream: Sequence[Row], table: Sequence[Row], *, required: bool = False, first_holds: bool = False
) -> list[Row]:
    return naive_as_of(table, stream, ON, BROUGHT, since="since", required=required, first_holds=first_holds)


@pytest.mark.parametrize("required", [False, True])
def test_a_lookup_that_waits_keeps_the_laws(required: bool) -> None:
    @share(0.7)
    @given(SCRIPTS)
    def keeps(script: Script) -> None:
        check_operator(
            lambda: lookup(wait=True, required=required),
            script,
            naive=lambda stream, table: naive(stream, table, required=required),
        )

    keeps()


def left(results: Sequence[Row]) -> Counter[tuple[tuple[str, object], ...]]:
    """Count what stands after all that was taken back."""
    counts: Counter[tuple[tuple[str, object], ...]] = Counter()
    for row in results:
        sign = row.pop("sign")
        assert isinstance(sign, int)
        key = tuple(row.items())
        counts[key] += sign
        assert counts[key] >= 0, "a tuple is taken back that was not given"
    return +counts


@pytest.mark.parametrize("required", [False, True])
def test_what_stands_in_the_end_is_the_answer_for_every_order_of_arrival(required: bool) -> None:
    @share(0.7)
    @given(SCRIPTS, st.randoms(use_true_random=False))
    def stands(script: Script, random_: object) -> None:
        answer = Counter(tuple(row.items()) for row in naive(*script.tables(), required=required))
        variants = [script, repaged(script, 1), repaged(script, None), fewer(script, lambda i: False)]
        variants += [reordered(script, lambda n: range(n - 1, -1, -1))]
        variants += [interleaved(script, rounds) for rounds in (one_by_one, last_first, in_turn)]
        for variant in variants:
            for saving in (False, True):
                operator, emitted = lookup(required=required), list[Element]()
                for port, element in variant.steps:
                    deliver(operator, element, emitted.append, port)
                    if saving:
                        state, operator = operator.state(), lookup(required=required)
                        operator.restore(state)
                assert left(rows(emitted)) == answer
                assert punctuations(emitted)[-1] == END
                assert operator.statistics()["state_tuples"] == 0

    stands()


@share(0.7)
@given(SCRIPTS)
def test_the_first_row_of_a_key_was_valid_before_where_nothing_is_decided_yet(script: Script) -> None:
    """Without promises before the end, in which all is decided, no order of arrival makes a difference."""
    silent = fewer(script, lambda i: False)
    answer = Counter(tuple(row.items()) for row in naive(*script.tables(), first_holds=True))
    for variant in (silent, repaged(silent, 1), reordered(silent, lambda n: range(n - 1, -1, -1))):
        for rounds in (one_by_one, last_first, in_turn):
            steps = interleaved(variant, rounds).steps
            for wait in (False, True):
                operator, emitted = lookup(first_holds=True, wait=wait), list[Element]()
                for port, element in steps:
                    deliver(operator, element, emitted.append, port)
                    state, operator = operator.state(), lookup(first_holds=True, wait=wait)
                    operator.restore(state)
                found = rows(emitted)
                assert (Counter(tuple(r.items()) for r in found) if wait else left(found)) == answer


@share(0.7)
@given(SCRIPTS)
def test_promises_are_true_where_the_first_row_was_valid_before(script: Script) -> None:
    # A first row that comes behind a promise is too late for what left by it, so 4, 6 and 7 do not hold.
    check_operator(lambda: lookup(first_holds=True, wait=True), script, laws={1, 2, 3, 5, 8, 9})
    check_operator(lambda: lookup(first_holds=True, revise=3), script, laws={2, 3, 8, 9})


@share(0.7)
@given(SCRIPTS)
def test_promises_of_a_lookup_that_takes_back_are_true(script: Script) -> None:
    check_operator(lookup, script, laws={2, 3, 8, 9})
    check_operator(lambda: lookup(revise=3), script, laws={2, 3, 8, 9})


def flow(ts: int, k: str = "a") -> Page:
    return Page.of(STREAM, {"ts": [ts], "k": [k], "x": [0]})


def row(since: int | None, site: str, key: str | None = "a") -> Page:
    return Page.of(TABLE, {"since": [since], "key": [key], "site": [site]})


def test_an_idle_table_delays_nothing() -> None:
    given = [(1, row(1, "north")), (0, flow(5)), (0, before("ts", 9)), (0, flow(10))]
    assert [found["site"] for found in rows(drive(lookup(), given))] == ["north", "north"]
    assert rows(drive(lookup(wait=True), given)) == []


def test_a_late_row_takes_back_what_it_changes_and_nothing_else() -> None:
    given = [(1, row(1, "north")), (0, flow(5)), (0, flow(3)), (1, row(4, "south")), (1, row(4, "south"))]
    found = [(r["ts"], r["site"], r["sign"]) for r in rows(drive(lookup(), given))]
    assert found == [(5, "north", 1), (3, "north", 1), (5, "north", -1), (5, "south", 1)]


def test_tuples_are_kept_no_longer_than_asked_for_and_late_rows_are_counted() -> None:
    operator = lookup(revise=10)
    given = [(0, flow(5)), (0, flow(50)), (0, before("ts", 50)), (1, row(1, "north"))]
    found = [(r["ts"], r["site"], r["sign"]) for r in rows(drive(operator, given))]
    assert found == [(5, None, 1), (50, None, 1), (50, None, -1), (50, "north", 1)]
    assert operator.statistics()["late_rows"] == 1
    assert next(iter(operator.notes(operator.statistics()))).startswith("1 row of sites came too late")


_KEYS = st.sampled_from("ab")


@given(
    st.lists(st.tuples(st.integers(0, 3), _KEYS), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 4), _KEYS), max_size=5, unique=True),
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_rows_that_come_behind_the_last_tuple_are_not_needed(
    flows: list[tuple[int, str]], table: list[tuple[int, str]], first: int, promised: bool, wait: bool, holds: bool
) -> None:
    pages = [row(since, f"{since}{key}", key) for since, key in table]
    begun: list[tuple[int, Element]] = [(1, page) for page in pages[:first]]
    if promised and pages[first:]:
        begun.append((1, before("since", min(since for since, _ in table[first:]))))
    begun += [*((0, flow(ts, key)) for ts, key in flows), (0, END)]

    def standing(leaves: bool) -> Counter[tuple[tuple[str, object], ...]]:
        operator, found = lookup(wait=wait, first_holds=holds), list[Element]()
        for port, element in begun:
            (operator.process if isinstance(element, Page) else operator.punctuate)(element, found.append, port)  # type: ignore[arg-type]
        needless = operator.needless(1)
        assert operator.needless(0) is None and (needless is not None or holds)
        for page in pages[first:]:
            if not leaves or needless is None or not page.matching(needless).any():
                operator.process(page, found.append, 1)
        operator.punctuate(END, found.append, 1)
        results = rows(found)
        return Counter(tuple(result.items()) for result in results) if wait else left(results)

    assert standing(leaves=True) == standing(leaves=False)


def test_rows_that_nobody_can_ask_for_are_dropped() -> None:
    operator = lookup()
    drive(operator, [(1, row(t, str(t))) for t in range(20)])
    drive(operator, [(1, before("since", 20)), (0, before("ts", 15))])
    assert operator.statistics()["state_tuples"] == 5


def test_a_row_without_a_time_was_always_valid_and_one_without_a_key_is_counted() -> None:
    operator = lookup()
    found = rows(drive(operator, [(1, row(None, "ever")), (1, row(3, "none", None)), (0, flow(-7))]))
    assert [r["site"] for r in found] == ["ever"]
    assert operator.statistics()["rows_without_key"] == 1


@pytest.mark.parametrize(
    ("stream", "table", "message"),
    [
        (STREAM, Schema.of(since=pa.int32(), key=pa.string(), site=pa.string()), "Both are to be of one type"),
        (STREAM, Schema.of(since=pa.int64(), key=pa.int64(), site=pa.string()), '"k" is of type string, and sites.key'),
        (Schema.of(ts=pa.int64(), k=pa.string(), site=pa.int64()), TABLE, 'already has an attribute "site"'),
        (Schema.of(ts=pa.int64(), k=pa.string(), sign=pa.int64()), TABLE, '"sign" says what is taken back'),
    ],
)
def test_what_does_not_fit_is_refused(stream: Schema, table: Schema, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        lookup().output_schema(stream, table)


def test_the_examples_in_docstrings_run() -> None:
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
