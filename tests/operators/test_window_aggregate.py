"""Bucket and window aggregate together answer what `extent()` says, for every order, paging and punctuation."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.schema import Schema, ip_field
from operators.drive import drive, punctuations, rows
from operators.errors import AggregateOverflow, OperatorBug, SchemaError
from operators.functions import count, count_distinct, max, min, sum
from operators.testing import Script, check_operator, streams
from operators.window import LandmarkWindow, PartitionedWindow, SlidingWindow, Window
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.group_by import GroupAggregate
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from punctuation import END, Below, Equals, Progress, Punctuation, before
from tests.examples import share
from tests.naive_aggregate import naive_groups, naive_windows

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
FUNCTIONS = {"n": count(), "total": sum("v"), "most": max("v"), "least": min("v"), "kinds": count_distinct("v")}


def _values(members: list[Row]) -> list[int]:
    return [int(r["v"]) for r in members if r["v"] is not None]  # type: ignore[arg-type]


def _if_any(function: object, members: list[Row]) -> object:
    return function(_values(members)) if _values(members) else None  # type: ignore[operator]


ANSWERS = {
    "n": len,
    "total": lambda m: _if_any(__builtins__["sum"], m),
    "most": lambda m: _if_any(__builtins__["max"], m),
    "least": lambda m: _if_any(__builtins__["min"], m),
    "kinds": lambda m: len(set(_values(m))),
}

sliding = st.builds(
    SlidingWindow, st.just("ts"), size=st.integers(1, 6), slide=st.integers(1, 5), origin=st.integers(-2, 2)
)
landmark = st.builds(LandmarkWindow, st.just("ts"), slide=st.integers(1, 5), origin=st.integers(-2, 2))
windows = st.one_of(sliding, sliding, landmark)
partitioned = st.builds(
    PartitionedWindow,
    st.builds(SlidingWindow, st.just("row_num"), size=st.integers(1, 4), slide=st.integers(1, 3))
    | st.builds(LandmarkWindow, st.just("row_num"), slide=st.integers(1, 3)),
    st.just(("k",)),
)
"""Rows counted in each partition."""


def chained(window: Window, by: Sequence[str]) -> Chain:
    return Chain([Bucket(window), WindowAggregate(window, FUNCTIONS, by)])


def must_be_out(window: Window, by: Sequence[str], table: list[Row], progress: Progress) -> list[Row]:
    """Give the results of windows that the linear promises complete."""
    bound = progress.bound("ts")
    results = naive_windows(window, ANSWERS, by, table)
    if progress.ended:
        return results
    return [] if bound is None else [r for r in results if r["window_end"] <= bound]  # type: ignore[operator]


@share(1)
@given(windows, st.sampled_from([(), ("k",), ("k", "v")]), streams(SCHEMA, group=("k",), tuples=12))
def test_every_order_paging_and_punctuation_gives_the_naive_answer(
    window: Window, by: tuple[str, ...], script: Script
) -> None:
    check_operator(
        lambda: chained(window, by),
        script,
        naive=lambda table: naive_windows(window, ANSWERS, by, table),
        settled=lambda tables, progress: must_be_out(window, by, tables[0], progress[0]),
    )


@given(sliding, streams(SCHEMA, group=("k",), tuples=12, promises=("linear", "group")))
def test_state_is_one_partial_aggregate_for_each_open_slice_and_group(window: SlidingWindow, script: Script) -> None:
    def kept(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> int:
        if progress[0].ended:
            return 0
        held = set()
        for row in tables[0]:
            first, last = (int(r[0]) for r in window.wids(np.array([row["ts"]])))
            key = (row["k"],)
            bound = progress[0].effective((("k",), "ts"), key) if row["k"] is not None else progress[0].bound("ts")
            over = row["k"] is not None and progress[0].implies(Punctuation({"k": Equals(row["k"])}))
            if first < last and not over and (bound is None or last > window.complete(int(bound))):
                held.add((first, last, key))
        return len(held)

    check_operator(lambda: chained(window, ("k",)), script, kept=lambda t, p: kept(t, p), laws={2})


@given(windows, streams(SCHEMA, group=("k",), tuples=12, promises=("linear",)))
def test_a_bucket_of_windows_that_a_tuple_alone_tells_keeps_nothing_of_tuples(window: Window, script: Script) -> None:
    """A new bucket that hears the promises alone makes of the rest of the stream what the one that saw all does."""
    elements = [element for _, element in script]
    middle = len(elements) // 2
    old, new = Bucket(window), Bucket(window)
    old.output_schema(SCHEMA)
    new.output_schema(SCHEMA)
    drive(old, elements[:middle])
    drive(new, [element for element in elements[:middle] if isinstance(element, Punctuation)])
    found, expected = (
        [element.rows() if isinstance(element, Page) else element for element in drive(bucket, elements[middle:])]
        for bucket in (new, old)
    )
    assert window.context == "CF" and found == expected


@given(landmark, streams(SCHEMA, group=("k",), tuples=12, promises=("linear",)))
def test_a_landmark_window_keeps_one_partial_aggregate_a_group_and_one_an_open_slide(
    window: LandmarkWindow, script: Script
) -> None:
    def kept(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> int:
        if progress[0].ended:
            return 0
        bound = progress[0].bound("ts")
        open_from = -1000 if (bound := progress[0].bound("ts")) is None else window.complete(int(str(bound)))
        firsts = [(int(window.wids(np.array([row["ts"]]))[0][0]), row["k"]) for row in tables[0]]
        # What all open windows have is one partial aggregate of a group.
        return len({(first if first >= open_from else "all", k) for first, k in firsts})

    check_operator(lambda: chained(window, ("k",)), script, kept=kept, laws={2})


@share(1)
@given(partitioned, st.sampled_from([(), ("v",)]), streams(SCHEMA, group=("k",), tuples=14))
def test_partitioned_rows_are_counted_in_each_partition(
    window: PartitionedWindow, extra: tuple[str, ...], script: Script
) -> None:
    by = ("k", *extra)

    def over(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Row]:
        results = naive_windows(window, ANSWERS, by, tables[0])
        if progress[0].ended:
            return results
        promised = [r for r in results if r["k"] is not None]
        return [r for r in promised if progress[0].implies(Punctuation({"k": Equals(r["k"])}))]

    check_operator(
        lambda: chained(window, by),
        script,
        naive=lambda table: naive_windows(window, ANSWERS, by, table),
        settled=over,
        order_matters=True,
    )


def test_a_partition_leaves_as_soon_as_its_own_rows_complete_a_window() -> None:
    window = PartitionedWindow(SlidingWindow("row_num", size=2, slide=2), ("k",))
    page = Page.of(SCHEMA, {"ts": [0, 0, 0], "k": ["a", "b", "a"], "v": [1, 2, 3]})
    found = rows(drive(chained(window, ("k",)), [page]))
    assert [(r["k"], r["total"], r["wid"]) for r in found] == [("a", 4, 0)]


@share(1)
@given(st.sampled_from([(), ("k",), ("ts", "k")]), streams(SCHEMA, group=("k",), tuples=12))
def test_the_plain_aggregate_releases_groups_that_a_promise_ends(by: tuple[str, ...], script: Script) -> None:
    def settled(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Row]:
        found = naive_groups(ANSWERS, by, tables[0])
        if progress[0].ended:
            return found
        return [
            r for r in found if by and any(p.matches(r) for p in progress[0].promises() if set(p.attributes) <= set(by))
        ]

    check_operator(
        lambda: GroupAggregate(FUNCTIONS, by),
        script,
        naive=lambda table: naive_groups(ANSWERS, by, table),
        settled=settled,
    )


@share(1)
@given(sliding, streams(SCHEMA, tuples=8, promises=("linear",), disorder=2))
def test_empty_windows_between_others_are_given_on_request(window: SlidingWindow, script: Script) -> None:
    def naive(table: list[Row]) -> list[Row]:
        found = {int(str(r["wid"])): r for r in naive_windows(window, ANSWERS, (), table)}
        nothing = {name: answer([]) for name, answer in ANSWERS.items()}
        wids = range(__builtins__["min"](found), __builtins__["max"](found) + 1) if found else ()
        bounds = {wid: window.extent(wid) for wid in wids}
        return [
            found.get(wid, {**nothing, "wid": wid, "window_start": bounds[wid][0], "window_end": bounds[wid][1]})
            for wid in wids
        ]

    check_operator(
        lambda: Chain([Bucket(window), WindowAggregate(window, FUNCTIONS, (), empty=True)]), script, naive=naive
    )


def test_empty_windows_of_groups_are_refused() -> None:
    window = SlidingWindow("ts", size=1, slide=1)
    with pytest.raises(SchemaError, match="the groups of an empty window are unknown"):
        WindowAggregate(window, FUNCTIONS, ("k",), empty=True).output_schema(Bucket(window).output_schema(SCHEMA))


@attrs.frozen
class EarlyWindow(SlidingWindow):
    """A window whose bound is one tick too generous: it is released while a tuple may still come."""

    def complete(self, bound: int) -> int:
        return SlidingWindow.complete(self, bound + 1)


def test_a_window_released_one_tick_early_is_caught() -> None:
    schema = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts"])
    caught = 0

    @given(streams(schema, tuples=12, promises=("linear",)))
    def attempt(script: Script) -> None:
        nonlocal caught
        window = EarlyWindow("ts", size=3, slide=3)
        try:
            check_operator(
                lambda: chained(window, ("k",)), script, naive=lambda t: naive_windows(window, ANSWERS, ("k",), t)
            )
        except OperatorBug:
            caught += 1

    attempt()
    assert caught > 0


def test_group_wise_promises_release_single_groups() -> None:
    window = SlidingWindow("ts", size=10, slide=10)
    page = Page.of(SCHEMA, {"ts": [1, 2, 11], "k": ["a", "b", "a"], "v": [1, 2, 3]})
    operator = chained(window, ("k",))
    early = drive(operator, [page, Punctuation({"k": Equals("a"), "ts": Below(10)})])
    assert [(r["k"], r["total"]) for r in rows(early)] == [("a", 1)]
    assert str(punctuations(early)[-1]) == "[k = a, wid < 1]"
    assert operator.statistics()["state_tuples"] == 2
    late = drive(operator, [before("ts", 10)])
    assert [(r["k"], r["total"]) for r in rows(late)] == [("b", 2)]


def test_a_late_tuple_is_counted_in_the_windows_that_are_still_open() -> None:
    window = SlidingWindow("ts", size=10, slide=5)
    page = Page.of(SCHEMA, {"ts": [7], "k": ["a"], "v": [1]})
    operator = chained(window, ())
    assert rows(drive(operator, [before("ts", 10), page])) == []
    # 7 belongs to [0, 10), which is released, and to [5, 15), which is open.
    assert [r["wid"] for r in rows(drive(operator, [END]))] == [2]
    assert operator.statistics()["late_for_some"] == 1


def test_a_late_tuple_is_in_no_window_when_consistency_is_asked_for() -> None:
    window = SlidingWindow("ts", size=10, slide=5)
    operator = Chain([Bucket(window, consistent=True), WindowAggregate(window, FUNCTIONS, ())])
    page = Page.of(SCHEMA, {"ts": [7, 11], "k": ["a", "a"], "v": [1, 1]})
    found = rows(drive(operator, [before("ts", 10), page, END]))
    assert [(r["wid"], r["n"]) for r in found] == [(2, 1), (3, 1)]
    assert operator.statistics()["late"] == 1


def test_tuples_in_no_window_and_without_a_value_are_counted() -> None:
    window = SlidingWindow("ts", size=2, slide=5)
    operator = chained(window, ())
    page = Page.of(SCHEMA, {"ts": [6, 8, None, 2**62], "k": list("abcd"), "v": [1, 2, 3, 4]})
    assert [r["n"] for r in rows(drive(operator, [page, END]))] == [1]
    counted = operator.statistics()
    assert (counted["in_no_window"], counted["without_value"]) == (1, 2)


def test_addresses_and_times_are_keys_and_window_bounds() -> None:
    schema = Schema(pa.schema([pa.field("ts", pa.timestamp("us", "UTC")), ip_field("ip")]), progress=["ts"])
    address = bytes(10) + b"\xff\xff\x0a\x00\x00\x00"
    page = Page.of(schema, {"ts": [1, 2, 11], "ip": [address, None, address]})
    window = SlidingWindow("ts", size=10, slide=10)
    operator = Chain([Bucket(window), WindowAggregate(window, {"n": count()}, ("ip",))])
    output = operator.output_schema(schema)
    assert output.field("window_start").type == pa.timestamp("us", "UTC")
    found = rows(drive(operator, [page, END]))
    assert {(r["ip"], r["n"], r["window_end"]) for r in found} == {(address, 1, 10), (None, 1, 10), (address, 1, 20)}


def test_a_sum_that_does_not_fit_names_the_aggregate_the_window_and_the_group() -> None:
    window = SlidingWindow("ts", size=10, slide=10)
    operator = Chain([Bucket(window), WindowAggregate(window, {"total": sum("v")}, ("k",))])
    page = Page.of(SCHEMA, {"ts": [1, 2], "k": ["a", "a"], "v": [2**63 - 1, 1]})
    with pytest.raises(AggregateOverflow, match="total of window 0, k = a"):
        drive(operator, [page, END])


def test_a_window_on_text_is_refused_with_a_way_out() -> None:
    with pytest.raises(SchemaError, match="an integer, a time or a decimal"):
        Bucket(SlidingWindow("k", size=1, slide=1)).output_schema(SCHEMA)


def test_results_of_one_name_are_refused() -> None:
    window = SlidingWindow("ts", size=1, slide=1)
    tagged = Bucket(window).output_schema(SCHEMA)
    with pytest.raises(SchemaError, match="two results are named k"):
        WindowAggregate(window, {"k": count()}, ("k",)).output_schema(tagged)


def test_hundred_thousand_groups_and_tiny_pages_leave_no_state_behind() -> None:
    window = SlidingWindow("ts", size=4, slide=2)
    schema = Schema.of(ts=pa.int64(), k=pa.int64(), progress=["ts"])
    operator = Chain([Bucket(window), WindowAggregate(window, {"n": count()}, ("k",))])
    keys = np.arange(100_000)
    found = 0
    for ts in range(6):
        page = Page.of(schema, {"ts": np.full(100_000, ts), "k": keys})
        for element in drive(operator, [page, page.slice(0, 1), page.slice(0, 0), before("ts", ts)]):
            found += len(element) if isinstance(element, Page) else 0
    found += len(rows(drive(operator, [END])))
    assert found == 100_000 * 4
    assert operator.statistics()["state_tuples"] == 0
