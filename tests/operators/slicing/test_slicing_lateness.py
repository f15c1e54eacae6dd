"""Allowed lateness: what is given at a promise is exactly what changed in the naive answer since the last one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.saved import decode_state, encode_state
from operators.data.schema import Schema
from operators.drive import deliver, drive, punctuations, rows
from operators.errors import SchemaError
from operators.functions import count, sum
from operators.functions import max as max_of
from operators.protocol import Element
from operators.testing import Script, streams
from operators.window import tumbling
from operators.window.delimited import DelimitedWindow
from operators.window.session import SessionWindow
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END, Punctuation, before
from tests.naive_slicing import extents, naive_slicing
from tests.operators.slicing.mixes import (
    ANSWERS,
    FUNCTIONS,
    SCHEMA,
    Change,
    Mix,
    asked,
    bands,
    changes,
    mixed,
    mixes,
    sliced,
    slidings,
)

Key = tuple[object, ...]


def keyed(found: list[Row], by: tuple[str, ...]) -> dict[Key, Row]:
    """Give rows by what identifies a result."""
    return {tuple(row[name] for name in (*by, "window", "wid")): row for row in found}


def within(page: Page, bound: int) -> Page:
    """Leave out the tuples before a bound."""
    return page.select(page.ticks("ts") >= bound)


@given(
    st.lists(sliced, min_size=1, max_size=4).map(mixed),
    st.one_of(st.just([]), changes),
    st.sampled_from([tuple(FUNCTIONS), ("most", "kinds")]),
    st.integers(1, 12),
    st.integers(1, 8),
    st.sampled_from([(), ("k",)]),
    st.booleans(),
    streams(SCHEMA, tuples=16, disorder=2, promises=("linear",), nulls=("v",)),
)
def test_what_is_given_again_is_what_changed_whatever_windows_come_and_go(
    first: Mix,
    planned: list[Change],
    names: tuple[str, ...],
    lateness: int,
    early: int,
    by: tuple[str, ...],
    saving: bool,
    script: Script,
) -> None:
    windows, used = dict(first), dict(first)
    functions, answers = ({name: of[name] for name in names} for of in (FUNCTIONS, ANSWERS))

    def make() -> SlicingAggregate:
        return SlicingAggregate(windows, functions, by, lateness=lateness, named=True)  # type: ignore[arg-type]

    operator = make()
    since: dict[str, int] = {}
    seen: list[Row] = []
    shown: dict[Key, Row] = {}
    given_before: dict[Key, int] = {}
    bound = -(2**62)
    for place, (_, element) in enumerate(script):
        for change in (change for at, change in planned if at == place):
            if not isinstance(change, int):
                name = f"more{len(windows)}"
                since[name] = operator.add(name, change)  # type: ignore[arg-type]
                windows[name] = used[name] = change
            elif len(used) > 1:
                operator.remove(gone := list(used)[change % len(used)])
                del used[gone]
                shown = {key: row for key, row in shown.items() if row["window"] != gone}
        if isinstance(element, Page):
            # Tuples behind the lateness may change windows that are settled; those have no naive answer.
            element = within(element, bound - lateness)
            emitted: list[Element] = []
            deliver(operator, element, emitted.append)
            assert not rows(emitted)
            seen += element.rows()
            continue
        if element.is_end:
            bound, promise = 2**62, element
        else:
            value = element.bound("ts")
            assert isinstance(value, int)
            # The promise is made too early by a few ticks, so that tuples come late.
            bound = max(bound, value + early)
            promise = before("ts", bound)
        emitted = []
        operator.punctuate(promise, emitted.append)
        answer = naive_slicing(used, answers, by, seen, named=True, since=since)
        now = keyed([row for row in answer if int(row["window_end"]) <= bound], by)  # type: ignore[arg-type]
        changed = {key for key in now.keys() | shown.keys() if now.get(key) != shown.get(key)}
        found = rows(emitted)
        by_key = keyed(found, by)
        assert len(by_key) == len(found), "a result was given twice at once"
        assert set(by_key) == changed
        for key, row in by_key.items():
            assert row["revision"] == given_before.get(key, 0)
            given_before[key] = given_before.get(key, 0) + 1
            content = {name: value for name, value in row.items() if name != "revision"}
            if key in now:
                assert content == now[key]
            else:
                assert row["window_end"] is None and all(row[name] is None for name in names)
        shown = now
        if saving and not element.is_end:
            fresh = make()
            fresh.restore(decode_state(encode_state(operator.state())))
            operator = fresh
    assert operator.statistics()["state_tuples"] == 0


@given(
    mixes,
    st.integers(0, 12),
    st.sampled_from([(), ("k",)]),
    streams(SCHEMA, tuples=14, disorder=3, promises=("linear",), nulls=("v",)),
)
def test_promises_stay_true_when_tuples_come_late(mix: Mix, lateness: int, by: tuple[str, ...], script: Script) -> None:
    operator = SlicingAggregate(mix, FUNCTIONS, by, lateness=lateness + 1)  # type: ignore[arg-type]
    made: list[Punctuation] = []
    bound = -(2**62)
    for _, element in script:
        if isinstance(element, Page):
            element = within(element, bound - lateness - 1)
        if isinstance(element, Punctuation) and isinstance(value := element.bound("ts"), int):
            bound = max(bound, value + lateness // 2)
            element = before("ts", bound)
        for out in drive(operator, [element]):
            if isinstance(out, Punctuation):
                made.append(out)
            else:
                for row in out.rows():  # type: ignore[union-attr]
                    assert not any(promise.matches(row) for promise in made), (row, made)


SMALL = Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"])


def test_a_session_that_grows_together_takes_the_old_ones_back() -> None:
    windows = {"busy": SessionWindow("ts", gap=3)}
    operator = SlicingAggregate(windows, {"n": count(), "total": sum("v")}, lateness=100)
    found = rows(drive(operator, [Page.of(SMALL, {"ts": [1, 5], "v": [1, 2]}), before("ts", 20)]))
    assert [(r["wid"], r["window_end"], r["n"], r["revision"]) for r in found] == [(1, 4, 1, 0), (5, 8, 1, 0)]
    found = rows(drive(operator, [Page.of(SMALL, {"ts": [3], "v": [4]}), before("ts", 21)]))
    assert found == [
        {"n": 3, "total": 7, "wid": 1, "window_start": 1, "window_end": 8, "revision": 1},
        {"n": None, "total": None, "wid": 5, "window_start": 5, "window_end": None, "revision": 1},
    ]


def test_revisions_are_numbered_by_window_when_others_were_removed() -> None:
    windows = {"a": tumbling("ts", 5), "b": tumbling("ts", 10), "busy": SessionWindow("ts", gap=3)}
    operator = SlicingAggregate(windows, {"n": count()}, lateness=20)
    drive(operator, [Page.of(SMALL, {"ts": [12, 22], "v": [0, 0]}), before("ts", 23)])
    operator.remove("a")
    found = rows(drive(operator, [Page.of(SMALL, {"ts": [13], "v": [0]}), before("ts", 40)]))
    assert [(r["window"], r["wid"], r["n"], r["revision"]) for r in found] == [
        ("b", 1, 2, 1),
        ("b", 2, 1, 0),
        ("busy", 12, 2, 1),
        ("busy", 22, 1, 0),
    ]


def test_a_window_that_a_late_tuple_leaves_as_it_was_is_not_given_again() -> None:
    operator = SlicingAggregate({"w": tumbling("ts", 5)}, {"most": max_of("v")}, lateness=10)
    drive(operator, [Page.of(SMALL, {"ts": [1], "v": [5]}), before("ts", 6)])
    assert rows(drive(operator, [Page.of(SMALL, {"ts": [2], "v": [2]}), before("ts", 7)])) == []
    found = rows(drive(operator, [Page.of(SMALL, {"ts": [2], "v": [7]}), before("ts", 8)]))
    assert [(r["most"], r["revision"]) for r in found] == [(7, 1)]
    assert operator.statistics()["results"] == 2


def test_a_tuple_later_than_allowed_changes_nothing_and_is_counted() -> None:
    operator = SlicingAggregate({"w": tumbling("ts", 5)}, {"n": count()}, lateness=10)
    drive(operator, [Page.of(SMALL, {"ts": [1, 7], "v": [0, 0]}), before("ts", 15)])
    assert rows(drive(operator, [Page.of(SMALL, {"ts": [2], "v": [0]}), before("ts", 16)])) == []
    assert operator.statistics()["late"] == 1
    found = rows(drive(operator, [Page.of(SMALL, {"ts": [8, 8], "v": [0, 0]}), before("ts", 17)]))
    assert [(r["wid"], r["n"], r["revision"]) for r in found] == [(1, 3, 1)]
    assert rows(drive(operator, [END])) == []


def test_promises_lag_by_the_lateness() -> None:
    operator = SlicingAggregate({"w": tumbling("ts", 5)}, {"n": count()}, lateness=10)
    made = punctuations(drive(operator, [Page.of(SMALL, {"ts": [1], "v": [0]}), before("ts", 20)]))
    assert [str(p) for p in made] == ["[wid < 2]", "[window_start < 10]", "[window_end < 15]"]


def test_lateness_is_refused_where_tuples_wait_or_slices_are_combined_ahead() -> None:
    with pytest.raises(SchemaError, match="a late tuple may set an edge within a slice"):
        SlicingAggregate({"m": DelimitedWindow("ts", "v")}, {"n": count()}, lateness=1).output_schema(SMALL)
    with pytest.raises(SchemaError, match=r'Write store="lazy"'):
        SlicingAggregate({"w": tumbling("ts", 5)}, {"n": count()}, lateness=1, store="eager").output_schema(SMALL)
    with pytest.raises(SchemaError, match="number of ticks from 0 on"):
        SlicingAggregate({"w": tumbling("ts", 5)}, {"n": count()}, lateness=-1)


@given(
    st.lists(st.one_of(slidings, slidings, bands, asked), min_size=1, max_size=3).map(mixed),
    st.lists(st.tuples(st.integers(-4, 16), st.sampled_from("ab"), st.integers(0, 5)), max_size=24),
    st.integers(1, 24),
    st.sampled_from([(), ("k",)]),
    st.sampled_from([0, 3]),
)
def test_a_tuple_is_late_for_the_windows_it_belongs_to_and_no_other(
    mix: Mix, drawn: list[tuple[int, str, int]], size: int, by: tuple[str, ...], lateness: int
) -> None:
    operator = SlicingAggregate(mix, {"n": count()}, by, lateness=lateness)  # type: ignore[arg-type]
    bound = -(2**62)
    expected = dict.fromkeys(("late", "late_for_some", "in_no_window"), 0)
    for at in range(0, len(drawn), size):
        page = drawn[at : at + size]
        rows = [[tick, k, 0] for tick, k, _ in page]
        deliver(operator, Page.of_rows(SCHEMA, rows), list[Element]().append)
        for tick, _, _ in page:
            around = [e for window in mix.values() for e in extents(window, [tick]) if e[1] <= tick < e[2]]
            over = len([end for _, _, end in around if end <= bound - lateness])
            fate = "late_for_some" if 0 < over < len(around) else "late" if over else ""
            if fate or not around:
                expected[fate or "in_no_window"] += 1
        # Some of the tuples to come are below what is promised here.
        bound = max(bound, page[-1][0] + page[-1][2] - 3)
        deliver(operator, before("ts", bound), list[Element]().append)
    assert {name: operator.statistics()[name] for name in expected} == expected


def test_a_tuple_is_late_for_a_session_only_if_its_own_is_over() -> None:
    windows = {"hundred": tumbling("ts", 100), "talk": SessionWindow("ts", gap=5)}
    for tick, late in ((14, 0), (9, 0), (3, 1)):
        operator = SlicingAggregate(windows, {"n": count()})
        drive(
            operator, [Page.of_rows(SCHEMA, [[12, "a", 0]]), before("ts", 13), Page.of_rows(SCHEMA, [[tick, "a", 0]])]
        )
        counts = operator.statistics()
        assert (counts["late_for_some"], counts["late"], counts["slices"]) == (late, 0, 1 + late)
    alone = SlicingAggregate({"talk": SessionWindow("ts", gap=5)}, {"n": count()})
    drive(alone, [before("ts", 13), Page.of_rows(SCHEMA, [[3, "a", 0]])])
    assert (alone.statistics()["late_for_some"], alone.statistics()["late"]) == (0, 1)
