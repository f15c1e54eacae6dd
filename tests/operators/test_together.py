"""A page that comes with its promises goes through one-to-one operators as it does piece by piece."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import deliver
from operators.expression import Column
from operators.protocol import Element, EmitsTogether, Promises, TakesPromises
from operators.rows.apply import Apply
from operators.rows.filter import Filter
from operators.rows.project import Project
from operators.testing import Script, check_operator, streams
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import Progress, Punctuation

SCHEMA = Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts", "v"])
TS, V = Column("ts"), Column("v")
LINKS = {
    "some": lambda: Filter(V > 2),
    "none": lambda: Filter(V > 99),
    "all": lambda: Filter(V < 99),
    "kept": lambda: Project({"when": TS, "v": V}),
    "twice": lambda: Project({"ts": TS, "again": TS}),
    "rising": lambda: Project({"ten": TS // 10}),
    "negative": lambda: Project({"shifted": TS - 5, "v": V}),
    "lost": lambda: Project({"v": V}),
    "more": lambda: Apply({"double": V + V}),
    "later": lambda: Apply({"late": TS + 5}),
}
page_values = st.lists(st.tuples(st.integers(0, 40), st.none() | st.integers(0, 5)), max_size=8)


class Collected:
    """Take elements, or pages with their promises, and remember which way they came."""

    def __init__(self) -> None:
        self.elements: list[Element] = []
        self.together_times = 0

    def __call__(self, element: Element) -> None:
        self.elements.append(element)

    def together(self, page: Page, promises: Promises) -> None:
        assert len(page) and len(promises.positions)
        self.together_times += 1
        self.elements += promises.one_by_one(page)


def told(elements: Sequence[Element]) -> list[object]:
    """Give tuples and promises in order, without promises that say nothing new."""
    progress, found = Progress(), list[object]()
    for element in elements:
        if isinstance(element, Punctuation):
            found += [str(element)] if progress.advance(element) else []
        else:
            found += element.plain_rows()
    return found


@pytest.mark.parametrize("link", LINKS)
@given(st.lists(st.tuples(page_values, st.lists(st.integers(1, 9), max_size=3), st.data()), max_size=3))
def test_promises_go_through_with_their_page(
    link: str, steps: list[tuple[list[tuple[int, int | None]], list[int], st.DataObject]]
) -> None:
    one, other, collected, apart, bound = LINKS[link](), LINKS[link](), Collected(), list[Element](), 0
    assert isinstance(one, TakesPromises) and isinstance(collected, EmitsTogether)
    assert one.output_schema(SCHEMA).names == other.output_schema(SCHEMA).names
    for values, rises, data in steps:
        page = Page.of(SCHEMA, {"ts": [t for t, _ in values], "v": [v for _, v in values]})
        if not rises:
            one.process(page, collected)
            other.process(page, apart.append)
            continue
        positions = np.array(sorted(data.draw(st.integers(0, len(values))) for _ in rises))
        bounds = bound + np.cumsum(rises)
        bound = int(bounds[-1])
        promises = Promises("ts", positions, bounds)
        one.process_with(page, promises, collected)
        for element in promises.one_by_one(page):
            deliver(other, element, apart.append)
    assert told(collected.elements) == told(apart)


def test_one_promise_that_says_one_thing_goes_on_with_its_page() -> None:
    page = Page.of(SCHEMA, {"ts": [1, 7, 30], "v": [1, 3, 5]})
    promises = Promises("ts", np.array([1, 2, 3]), np.array([5, 7, 30]))
    for link, times in (("some", 1), ("none", 0), ("kept", 1), ("rising", 1), ("more", 1), ("twice", 0), ("lost", 0)):
        collected = Collected()
        LINKS[link]().process_with(page, promises, collected)
        assert collected.together_times == times, link


@pytest.mark.parametrize("link", ["some", "kept", "more"])
@given(script=streams(SCHEMA, tuples=10))
def test_the_laws_hold_with_promises_in_pages(link: str, script: Script) -> None:
    check_operator(LINKS[link], script)


def test_a_filter_before_windows_leaves_pages_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    plain = SlicingAggregate.process_with

    def counted(self: SlicingAggregate, page: Page, promises: Promises, *others: object) -> None:
        taken.append(len(page))
        plain(self, page, promises, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(SlicingAggregate, "process_with", counted)
    n = 60_000
    table = pa.table({"ts": np.arange(n), "v": np.arange(n) % 10})
    stream = oop.arrow(table, slack=0).filter("v < 5").derive(double="v + v")
    of = stream.windows(a=oop.tumbling(1000), b=oop.tumbling(3000)).aggregate(oop.sum("double"))
    found = [row for page in of for row in page.plain_rows()]
    assert len(found) == 80 and max(taken) > 3000
    assert sum(int(str(row["sum_double"])) for row in found) == 2 * 2 * sum(v for v in range(5)) * n // 10
