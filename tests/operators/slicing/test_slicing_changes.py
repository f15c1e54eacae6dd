"""Windows come and go while the stream runs: each gives what it gives alone, from where it counts to where it ends."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.saved import decode_state, encode_state
from operators.data.schema import Schema
from operators.drive import deliver, drive, rows
from operators.errors import SchemaError
from operators.functions import count
from operators.protocol import Element
from operators.testing import Script, streams
from operators.window import SlidingWindow, tumbling
from operators.window.delimited import DelimitedWindow
from operators.window.session import SessionWindow
from operators.window.user import EdgeWindow, ExtentWindow
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END, Punctuation, before
from tests.naive_slicing import naive_slicing
from tests.operators.slicing.contexts import CONTEXTS, FOUND
from tests.operators.slicing.mixes import (
    ANSWERS,
    FUNCTIONS,
    SCHEMA,
    Change,
    Mix,
    changing,
    mixed,
    next_prime_gap,
    sliced,
)

Bag = Counter[tuple[tuple[str, object], ...]]


def bag(found: Sequence[Row]) -> Bag:
    return Counter(tuple(sorted(row.items())) for row in found)


shown = st.sampled_from(list(CONTEXTS.values()))
LEAVING_LATER = (CONTEXTS["marks"], CONTEXTS["thirds"], CONTEXTS["before big"])
"""Windows whose end is a tuple, which is known to have come at the bound after it."""


@given(
    st.lists(st.one_of(sliced, shown), min_size=1, max_size=3).map(mixed),
    st.lists(st.tuples(st.integers(0, 14), st.one_of(sliced, shown, st.integers(0, 4))), min_size=1, max_size=5),
    st.sampled_from([(), ("k",)]),
    st.sampled_from(["lazy", "eager", "changing"]),
    st.booleans(),
    streams(SCHEMA, tuples=14, promises=("linear",)),
)
def test_windows_added_and_removed_at_any_time_give_the_naive_answer(
    first: Mix, planned: list[Change], by: tuple[str, ...], store: str, saving: bool, script: Script
) -> None:
    changed(first, planned, by, store, saving, script)


@pytest.mark.parametrize("origin", [-90, 0, 90])
def test_the_first_session_may_come_while_groups_share_their_slices(origin: int) -> None:
    # Seldom drawn otherwise: a group with a tuple before the session came, and two after it on both sides of an edge.
    for seed in range(60):
        drawn = random.Random(seed)
        windows: dict[str, object] = {}
        for name in "ab":
            size, slide = drawn.randint(1, 9), drawn.randint(1, 9)
            windows[name] = SlidingWindow("ts", size=size, slide=slide, origin=drawn.choice((0, 1, -7)))
        ticks = [origin + place + drawn.choice((0, 0, 1, 4)) for place in range(0, 48, 2)]
        elements: list[tuple[int, Element]] = []
        for at in range(0, len(ticks), 4):
            rows = [[tick, drawn.choice("ab"), drawn.randint(-1, 3)] for tick in ticks[at : at + 4]]
            elements.append((0, Page.of_rows(SCHEMA, rows)))
            if ticks[at + 4 :]:
                elements.append((0, before("ts", min(ticks[at + 4 :]))))
        script = Script((SCHEMA,), (*elements, (0, END)))
        place = drawn.randint(1, 4)
        planned: list[Change] = [(place, SessionWindow("ts", gap=drawn.randint(1, 7)))]
        if drawn.random() < 0.6:
            planned.append((place + drawn.randint(0, 2), drawn.randint(0, 1)))
        changed(windows, planned, ("k",), "auto", drawn.random() < 0.2, script)


def changed(first: Mix, planned: list[Change], by: tuple[str, ...], store: str, saving: bool, script: Script) -> None:
    """Check what windows give that are changed as planned."""
    windows: dict[str, object] = dict(first)

    def make() -> SlicingAggregate:
        if store == "changing" and not by:
            return changing(windows, FUNCTIONS, every=1, named=True)
        return SlicingAggregate(windows, FUNCTIONS, by, store="auto" if by else store, named=True)  # type: ignore[arg-type]

    operator = make()
    since: dict[str, int] = {}
    ended: dict[str, int] = {}
    bound = -(2**62)
    emitted: list[Element] = []
    for place, (port, element) in enumerate(script):
        for change in (change for at, change in planned if at == place):
            if not isinstance(change, int):
                name = f"more{len(windows)}"
                since[name] = operator.add(name, change)  # type: ignore[arg-type]
                windows[name] = change
            elif len(running := list(operator.windows)) > 1:
                operator.remove(gone := running[change % len(running)])
                ended[gone] = bound - (windows[gone] in LEAVING_LATER)
        deliver(operator, element, emitted.append, port)
        if isinstance(element, Punctuation) and isinstance(value := element.bound("ts"), int):
            bound = max(bound, value)
        if saving:
            fresh = make()
            fresh.restore(decode_state(encode_state(operator.state())))
            operator = fresh
    others = {name: FOUND[kind] for name, window in windows.items() for kind in FOUND if window == CONTEXTS[kind]}
    table = script.tables()[0]
    expected = naive_slicing(windows, ANSWERS, by, table, named=True, since=since, others=others)
    expected = [row for row in expected if row["window_end"] <= ended.get(str(row["window"]), 2**62)]  # type: ignore[operator]
    assert bag(rows(emitted)) == bag(expected)
    assert operator.statistics()["state_tuples"] == 0


def test_an_added_window_counts_after_the_largest_tick_and_the_bound() -> None:
    schema = Schema.of(ts=pa.int64(), progress=["ts"])
    page = Page.of(schema, {"ts": [3, 7]})
    operator = SlicingAggregate({"a": tumbling("ts", 10)}, {"n": count()}, named=True)
    assert operator.add("at once", tumbling("ts", 4)) == -(2**62)
    drive(operator, [page])
    assert operator.add("b", tumbling("ts", 4)) == 8
    drive(operator, [before("ts", 12)])
    assert operator.add("c", SessionWindow("ts", gap=3)) == 14
    later = rows(drive(operator, [Page.of(schema, {"ts": [12, 13, 16, 17]}), END]))
    found = [(r["window"], r["wid"], r["n"]) for r in later if r["window"] in "bc"]
    # A tuple at 11, which would have been in a session with the one at 12, is nothing that was kept.
    assert found == [("b", 3, 2), ("b", 4, 2), ("c", 16, 2)]


def test_an_added_session_is_given_whole_or_not_at_all() -> None:
    schema = Schema.of(ts=pa.int64(), progress=["ts"])
    operator = SlicingAggregate({"a": tumbling("ts", 5)}, {"n": count()}, named=True)
    drive(operator, [Page.of(schema, {"ts": [1, 9]}), before("ts", 10)])
    assert operator.add("talk", SessionWindow("ts", gap=10)) == 19
    # [1, 26) has five tuples, three of which came after the window; the next one begins at 40.
    later = [Page.of(schema, {"ts": [10, 12, 16, 40, 41]}), END]
    found = [row for row in rows(drive(operator, later)) if row["window"] == "talk"]
    assert [(r["window_start"], r["window_end"], r["n"]) for r in found] == [(40, 51, 2)]
    assert operator.statistics()["state_tuples"] == 0


def test_a_removed_window_gives_no_more_results_and_its_edges_go() -> None:
    schema = Schema.of(ts=pa.int64(), progress=["ts"])
    operator = SlicingAggregate({"fine": tumbling("ts", 1), "coarse": tumbling("ts", 100)}, {"n": count()})
    drive(operator, [Page.of(schema, {"ts": list(range(50))}), before("ts", 10)])
    assert operator.statistics()["slices"] == 41
    operator.remove("fine")
    drive(operator, [before("ts", 50)])
    found = rows(drive(operator, [before("ts", 60), before("ts", 100)]))
    assert [(r["window"], r["n"]) for r in found] == [("coarse", 50)]
    assert operator.statistics()["slices"] == 0


def next_ten(t: int) -> int:
    """Edges at the multiples of ten."""
    return t // 10 * 10 + 10


def next_dozen(t: int) -> int:
    """Edges at the multiples of twelve."""
    return t // 12 * 12 + 12


TIMES = Schema.of(ts=pa.int64(), progress=["ts"])


def test_a_window_that_overlaps_others_keeps_its_edges_when_windows_come() -> None:
    shifts = {1: (0, 10), 2: (5, 15)}
    windows = {"shifts": ExtentWindow("ts", shifts.__getitem__, shifts), "b": tumbling("ts", 7)}
    operator = SlicingAggregate(windows, {"n": count()})
    drive(operator, [Page.of(TIMES, {"ts": [1, 6, 8]}), before("ts", 2)])
    operator.add("c", tumbling("ts", 3))
    found = rows(drive(operator, [before("ts", 9), END]))
    assert [(r["wid"], r["n"]) for r in found if r["window"] == "shifts"] == [(1, 3), (2, 2)]


def test_slices_go_when_the_last_window_that_repeats_was_removed() -> None:
    windows = {"a": EdgeWindow("ts", next_prime_gap), "b": tumbling("ts", 10)}
    operator, counted = SlicingAggregate(windows, {"n": count()}), 0
    for tick in range(0, 900, 9):
        if tick == 90:
            operator.remove("b")
        found = rows(drive(operator, [Page.of(TIMES, {"ts": [tick]}), before("ts", tick)]))
        counted += sum(int(row["n"]) for row in found if row["window"] == "a")  # type: ignore[arg-type]
        assert operator.statistics()["state_tuples"] <= 3
    assert counted == 99


def test_what_was_added_counts_from_its_first_whole_window_on() -> None:
    operator = SlicingAggregate({"a": tumbling("ts", 2), "gone": tumbling("ts", 3)}, {"n": count()})
    drive(operator, [Page.of(TIMES, {"ts": list(range(13))}), before("ts", 12)])
    shifts = {1: (10, 20), 2: (20, 30)}
    assert operator.add("edges", EdgeWindow("ts", next_ten)) == 13
    operator.add("shifts", ExtentWindow("ts", shifts.__getitem__, shifts))
    operator.remove("a")
    operator.remove("gone")
    found = rows(drive(operator, [Page.of(TIMES, {"ts": list(range(13, 30))}), END]))
    assert [(r["window"], r["window_start"], r["n"]) for r in found] == [("edges", 20, 10), ("shifts", 20, 10)]


def test_a_window_between_marks_joins_groups_that_shared_their_slices() -> None:
    schema = Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"])
    operator = SlicingAggregate({"a": tumbling("ts", 4)}, {"n": count()}, ("v",), named=True)
    drive(operator, [Page.of(schema, {"ts": [0, 1], "v": [0, 1]})])
    assert operator.add("marks", DelimitedWindow("ts", "v")) == 2
    found = rows(drive(operator, [Page.of(schema, {"ts": [5, 2, 3], "v": [1, 1, 0]}), END]))
    assert {(r["wid"], r["v"], r["n"]) for r in found if r["window"] == "marks"} == {(2, 1, 1), (2, 0, 1)}


def test_names_are_taken_once_and_known_when_removed() -> None:
    operator = SlicingAggregate({"a": tumbling("ts", 1)}, {"n": count()}, named=True)
    with pytest.raises(SchemaError, match='a window "a" already'):
        operator.add("a", tumbling("ts", 2))
    with pytest.raises(SchemaError, match='no window "b" to remove; there are a'):
        operator.remove("b")
    with pytest.raises(SchemaError, match="slices are shared over one attribute"):
        operator.add("b", tumbling("other", 2))
    with pytest.raises(SchemaError, match="write named=True"):
        SlicingAggregate({"a": tumbling("ts", 1)}, {"n": count()}).add("b", tumbling("ts", 2))


@pytest.mark.parametrize("origin", [-1000, 1000])
def test_a_session_that_joins_groups_that_shared_their_slices_does_not_fall_apart(origin: int) -> None:
    schema = Schema.of(ts=pa.int64(), g=pa.int64(), progress=["ts"])
    windows = {"a": SlidingWindow("ts", size=7, slide=5, origin=1), "b": SlidingWindow("ts", size=3, slide=5)}
    operator = SlicingAggregate(windows, {"n": count()}, ("g",))

    def page(*ticks: int) -> Page:
        return Page.of(schema, {"ts": [origin + tick for tick in ticks], "g": [0] * len(ticks)})

    drive(operator, [page(-100, 51), before("ts", origin - 50)])
    assert operator.add("s", SessionWindow("ts", gap=2)) == origin + 53
    operator.remove("b")
    found = rows(drive(operator, [page(53, 54), END]))
    sessions = [(r["window_start"] - origin, r["window_end"] - origin, r["n"]) for r in found if r["window"] == "s"]  # type: ignore[operator]
    assert sessions == [(53, 56, 2)]


def test_cells_left_by_a_removed_window_are_narrower_than_those_to_come() -> None:
    schema = Schema.of(ts=pa.int64(), k=pa.int64(), progress=["ts"])
    dozens = EdgeWindow("ts", next_dozen)

    def left(lateness: int, by: tuple[str, ...], kept: EdgeWindow | ExtentWindow) -> list[tuple[object, ...]]:
        windows = {"pairs": tumbling("ts", 2), "dozen": kept}
        operator = SlicingAggregate(windows, {"n": count()}, by, lateness=lateness)
        drive(operator, [Page.of(schema, {"ts": [2, 8], "k": [1, 1]}), before("ts", 2)])
        operator.remove("pairs")
        found = rows(drive(operator, [Page.of(schema, {"ts": [5, 11], "k": [1, 1]}), END]))
        return [(r["window_start"], r["window_end"], r["n"]) for r in found]

    for lateness, by in ((0, ()), (20, ()), (0, ("k",))):
        assert left(lateness, by, dozens) == [(0, 12, 4)]
    assert left(0, (), ExtentWindow("ts", {0: (0, 12)}.__getitem__, (0,))) == [(0, 12, 4)]


VALUES = Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"])
BIG = CONTEXTS["before big"]


@pytest.mark.parametrize("by", [(), ("v",)])
def test_tuples_from_before_a_window_that_looks_back_stay_in_their_slices(by: tuple[str, ...]) -> None:
    windows = {"a": tumbling("ts", 10), "b": tumbling("ts", 20)}
    operator = SlicingAggregate(windows, {"n": count()}, by)
    drive(operator, [Page.of(VALUES, {"ts": [12], "v": [1]}), before("ts", 11)])
    assert operator.add("big", BIG) == 13
    # It begins after 13, within the slice of 12 if there were no edge where it counts from.
    found = rows(drive(operator, [Page.of(VALUES, {"ts": [14, 19], "v": [0, 3]}), END]))
    counted = Counter((str(r["window"]), r["window_start"]) for r in found for _ in range(int(r["n"])))  # type: ignore[call-overload]
    assert counted == {("a", 10): 3, ("b", 0): 3, ("big", 14): 1}


def test_no_window_that_looks_back_begins_before_it_counts() -> None:
    operator = SlicingAggregate({"a": tumbling("ts", 10), "others": BIG}, {"n": count()})
    drive(operator, [Page.of(VALUES, {"ts": [35, 38, 39], "v": [0, 0, 0]}), before("ts", 40)])
    assert operator.add("big", BIG) == 40
    found = rows(drive(operator, [Page.of(VALUES, {"ts": [42, 41, 44, 46], "v": [0, 1, 3, 5]}), END]))
    spans = [(r["window"], r["window_start"], r["window_end"], r["n"]) for r in found if r["window"] != "a"]
    assert spans == [("others", 39, 44, 3), ("others", 41, 46, 3), ("big", 41, 46, 3)]


def test_a_window_that_looks_back_may_come_again() -> None:
    operator = SlicingAggregate({"g": SessionWindow("ts", gap=3), "big": BIG}, {"n": count()})
    found = drive(operator, [Page.of(VALUES, {"ts": [-6], "v": [1]}), before("ts", -5)])
    operator.remove("big")
    assert operator.statistics()["waiting"] == 0
    found += drive(operator, [before("ts", 6)])
    assert operator.add("big", BIG) == 6
    found += drive(operator, [Page.of(VALUES, {"ts": [29, 33], "v": [1, 3]}), END])
    assert [(r["window"], r["wid"], r["n"]) for r in rows(found)] == [
        ("g", -6, 1),
        ("big", 28, 1),
        ("g", 29, 1),
        ("g", 33, 1),
    ]
