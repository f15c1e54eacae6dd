"""Results of one window and many groups leave and are taken back as a whole, and are what they are one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.functions import count
from operators.protocol import Element
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow
from operators.window_aggregate.early.refine import Refine
from operators.window_aggregate.stores.slices import SlicingAggregate, vectors
from punctuation import END, Below, Punctuation, before
from tests.examples import mostly_slow, share
from tests.naive_early import naive_refined
from tests.operators.early.test_early import ONE, SCHEMA, Asked, asked

RESULTS = Schema.of(
    k=pa.string(), n=pa.int64(), mean=pa.float64(), wid=pa.int64(), window_start=pa.int64(), window_end=pa.int64(),
    fired=pa.int64(), final=pa.bool_(), progress=["wid", "window_end", "fired"],
)  # fmt: skip
NAN = float("nan")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all groups be many."""
    monkeypatch.setattr(vectors, "FEW", 0)


@pytest.mark.parametrize("refinement", mostly_slow(["retract", "accumulate", "discard"], every=3))
def test_every_order_paging_and_punctuation_gives_the_naive_answer(refinement: str) -> None:
    @share(1)
    @given(asked(refinement), streams(SCHEMA, group=("k",), tuples=12))
    def check(one: Asked, script: Script) -> None:
        check_operator(attrs.evolve(one, by=("k",)).operator, script, naive=attrs.evolve(one, by=("k",)).naive)

    check()


def firing(window: int, fired: int, found: Mapping[str | None, tuple[int, float]]) -> Page:
    """Make the results of a window of 10 ticks that fired at once, by group; the page says so."""
    begin, end = 10 * window, 10 * window + 10
    same = {"wid": window, "window_start": begin, "window_end": end, "fired": fired, "final": fired == end}
    listed = [(k, n, mean, *same.values()) for k, (n, mean) in found.items()]
    return attrs.evolve(Page.of_rows(RESULTS, listed), same=same)


def refined(script: Sequence[Element], *, saved: bool = False) -> list[tuple[object, ...]]:
    """Return what is given and taken back, and check that nothing is taken back that does not stand."""
    operator, found, standing = Refine(("k",)), list[tuple[object, ...]](), dict[tuple[object, ...], int]()
    for element in script:
        if saved:
            state, operator = operator.state(), Refine(("k",))
            operator.restore(state)
        for row in rows(drive_on(operator, element)):
            sign = cast(int, row.pop("sign"))
            told = tuple("nan" if value != value else value for value in row.values())
            standing[told] = standing.get(told, 0) + sign
            assert standing[told] in (0, 1)
            found.append((*told, sign))
    assert operator.statistics()["state_tuples"] == 0
    return sorted(found, key=str)


def drive_on(operator: Refine, element: Element) -> list[Element]:
    emitted: list[Element] = []
    if isinstance(element, Page):
        operator.process(element, emitted.append)
    else:
        operator.punctuate(element, emitted.append)
    return emitted


def naive(script: Sequence[Element]) -> list[tuple[object, ...]]:
    found = [row for page in script if isinstance(page, Page) for row in page.plain_rows()]
    for row in found:
        row["mean"] = "nan" if row["mean"] != row["mean"] else row["mean"]
    return sorted((tuple(row.values()) for row in naive_refined(found, ["n", "mean"])), key=str)


@st.composite
def firings(draw: st.DrawFn) -> list[Element]:
    """Draw firings of two windows of some groups: in any order, with groups that come and go, and promises."""
    names = [*(f"k{i}" for i in range(draw(st.sampled_from([3, 20])))), None]
    script: list[Element] = []
    for fired in range(2, 21, 2):
        for window in (0, 1):
            after = fired - 10 * window
            if not 0 < after <= 10:
                continue
            groups = draw(st.permutations(names)) if draw(st.booleans()) else names
            groups = groups[: draw(st.integers(1, len(groups)))] if draw(st.booleans()) else groups
            step, mean = draw(st.sampled_from([0, 1, after])), draw(st.sampled_from([0.5, -0.0, 0.0, NAN]))
            rare = draw(st.integers(0, 2))
            results = {k: (step * (i % 7 <= rare), mean if i % 5 else 1.0) for i, k in enumerate(groups)}
            script.append(firing(window, fired, results))
        if draw(st.booleans()):
            script.append(Punctuation({"fired": Below(fired + 1)}))
    if draw(st.booleans()):
        script.append(Punctuation({"wid": Below(1)}))
    return [*script, END]


@given(firings(), st.booleans())
def test_firings_follow_one_another_as_the_naive_ones_do(script: list[Element], saved: bool) -> None:
    plain = [Page(page.schema, page.batch) if isinstance(page, Page) else page for page in script]
    assert refined(script, saved=saved) == refined(plain) == naive(script)


def test_a_firing_that_changed_one_group_takes_back_that_one_and_the_next_one_both() -> None:
    script = [firing(0, 2, {"a": (1, 0.5), "b": (1, 0.5)}), firing(0, 4, {"a": (1, 0.5), "b": (2, 0.5)})]
    script += [firing(0, 10, {"a": (1, 0.5), "b": (2, 0.5)})]
    found = [(k, n, fired, sign) for k, n, _, _, _, _, fired, _, sign in refined([*script, END])]
    first = [("a", 1, 2, 1), ("b", 1, 2, 1), ("b", 1, 2, -1), ("b", 2, 4, 1)]
    assert sorted(found) == sorted([*first, ("a", 1, 2, -1), ("a", 1, 10, 1), ("b", 2, 4, -1), ("b", 2, 10, 1)])


@pytest.mark.parametrize("same", [1, 4, 5])
def test_long_firings_leave_in_pieces_without_the_few_groups_that_did_not_change(same: int) -> None:
    begin: dict[str | None, tuple[int, float]] = {f"k{i}": (1, 0.5) for i in range(2000)}
    unchanged = [0, 700, 1200, 1999, 1300][:same]
    later = {k: (1 if i in unchanged else 2, 0.5) for i, k in enumerate(begin)}
    script = [firing(0, 2, begin), firing(0, 4, later), firing(0, 10, later), END]
    assert refined(script) == refined([Page(p.schema, p.batch) if isinstance(p, Page) else p for p in script])


def test_a_page_says_what_all_of_its_results_have_in_common() -> None:
    schema = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts"])
    page = Page.of(schema, {"ts": [0, 1, 3], "k": ["a", "b", "a"], "v": [1, 2, 3]})
    for page_of in drive(attrs.evolve(ONE, refinement="accumulate").operator(), [page, before("ts", 9), END]):
        if isinstance(page_of, Page):
            assert set(page_of.same) == {"wid", "window_start", "window_end", "fired", "final"}
            assert all(row[name] == value for row in page_of.plain_rows() for name, value in page_of.same.items())


def test_tuples_behind_a_promise_go_where_those_before_it_are_unless_a_window_begins_there() -> None:
    schema = Schema.of(ts=pa.int64(), k=pa.string(), progress=["ts"])
    windows = {f"w{size}": SlidingWindow("ts", size=size, slide=8, origin=size) for size in (2, 4, 8)}
    slicing = SlicingAggregate(windows, {"n": count()}, ("k",))
    found = list[Element]()
    for ticks, bound, slices in (([0, 1, 2], 2, 1), ([3, 5], 4, 1), ([7, 9], 8, 1), ([11], 12, 1)):
        page = Page.of(schema, {"ts": ticks, "k": ["a"] * len(ticks)})
        found += drive_slices(slicing, page, before("ts", bound))
        assert slicing.statistics()["slices"] == slices
    told = sorted((row["window"], row["n"]) for row in rows(found))
    assert told == [("w2", 1), ("w2", 2), ("w4", 2), ("w4", 4), ("w8", 6)]


def drive_slices(slicing: SlicingAggregate, page: Page, promise: Punctuation) -> list[Element]:
    emitted: list[Element] = []
    slicing.process(page, emitted.append)
    slicing.punctuate(promise, emitted.append)
    return emitted
