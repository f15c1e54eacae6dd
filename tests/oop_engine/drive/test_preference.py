"""Sources that are preferred are read first, and no result changes by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pyarrow as pa
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.preference import IN_A_ROW, Preference, ranks_of
from oop_engine.drive.readings import Readings
from oop_engine.drive.runtime import run_plan, run_to_end
from oop_engine.errors import PlanError
from oop_engine.rewrite.passes import prepared
from operators.data.page import Page
from operators.protocol import Element
from tests.examples import share

SCHEMA = oop.Schema.of(ts="int64", k="int64", v="int64")
NAMES = ("a", "b", "c")
Rows = list[tuple[int, int, int]]


def source(rows: Iterable[tuple[int, int, int]], name: str) -> oop.Stream:
    return oop.rows(rows, SCHEMA, name=name, punctuate=oop.slack(8))


PLANS: dict[str, Callable[[list[oop.Stream]], oop.Stream]] = {
    "a meld": lambda s: oop.meld(*s).window(range=6, slide=2).aggregate(oop.count(), oop.sum("v"), by="k"),
    "a join": lambda s: s[0].join(oop.meld(*s[1:]), on="k", range=3, kind="full"),
    "sessions": lambda s: oop.meld(*s).window(oop.session(3)).aggregate(oop.sum("v"), by="k"),
    "the first": lambda s: oop.meld(*s).top(3, ("v", "ts"), within=()),
}
tuples = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2), st.integers(0, 5)), max_size=20)


def in_blocks(rows: Rows) -> Rows:
    """Put tuples into an order in which none is 8 late."""
    return sorted(rows, key=lambda row: row[0] // 8)


@pytest.mark.parametrize("name", PLANS)
@share(0.3)
@given(
    tables=st.tuples(tuples, tuples, tuples),
    asked=st.lists(st.lists(st.sampled_from(NAMES), unique=True), min_size=1, max_size=6),
    page_rows=st.sampled_from([1, 4]),
)
def test_results_are_the_same_in_every_order_of_reading(
    name: str, tables: tuple[Rows, Rows, Rows], asked: list[list[str]], page_rows: int
) -> None:
    def made() -> oop.Stream:
        return PLANS[name]([source(in_blocks(t), n) for t, n in zip(tables, NAMES, strict=True)])

    want = Counter(str(row) for row in made().run().table.to_pylist())
    found, waiting = Counter[str](), list(asked)
    with made().start(page_rows=page_rows) as running:
        while True:
            if waiting:
                running.prefer(*waiting.pop())
            page = next(running, None)
            if page is None:
                break
            found.update(str(row) for row in page.plain_rows())
    assert found == want


def read_in(order: tuple[str, ...], *, live: bool) -> list[int]:
    """Return the k of the tuples of three sources, as they came."""
    rows = [[(at, k, 0) for at in range(40)] for k in range(3)]
    streams = [
        oop.arrow((Page.of_rows(SCHEMA, [row]).batch for row in one), schema=SCHEMA.arrow, name=name) if live
        else oop.rows(one, SCHEMA, name=name)
        for one, name in zip(rows, NAMES, strict=True)
    ]  # fmt: skip
    plan, came = prepared(oop.meld(*streams).node), list[int]()
    ranks = ranks_of(plan, order)

    def take(element: Element) -> None:
        if isinstance(element, Page):
            came.extend(element["k"].tolist())

    def watch(circuit: Circuit) -> None:
        circuit.preference.ask(ranks)

    async def alone() -> None:
        await run_plan(plan, (take,), watch=watch, waiting=False, page_rows=1)

    if live:
        trio.run(alone)
    else:
        run_to_end(plan, (take,), watch=watch, page_rows=1)
    assert Counter(came) == {0: 40, 1: 40, 2: 40}
    return came


def test_a_file_that_is_preferred_is_read_first() -> None:
    assert read_in(("c", "a"), live=False) == [2] * 40 + [0] * 40 + [1] * 40


def test_a_live_source_that_is_preferred_goes_first_while_it_has_something() -> None:
    def mean(came: list[int], k: int) -> float:
        return sum(place for place, one in enumerate(came) if one == k) / 40

    came = read_in(("c",), live=True)
    assert mean(came, 2) < min(mean(came, 0), mean(came, 1)) - 10
    level = read_in((), live=True)
    assert abs(mean(level, 2) - mean(level, 0)) < 10


def test_another_has_its_turn_behind_many() -> None:
    preference = Preference(lambda place: 0)
    preference.ask({1: 0})
    turns = [preference.next_heard([0, 1]) for _ in range(2 * IN_A_ROW + 2)]
    assert turns == [*[1] * IN_A_ROW, 0] * 2
    assert preference.next_heard([2, 0]) == 2
    assert preference.before([0, 2]) == [1] and preference.before([1, 0]) == []


def test_of_what_has_arrived_the_preferred_is_taken() -> None:
    batches = [pa.record_batch({"x": [at]}) for at in range(2)]
    with Readings() as readings:
        for place in (0, 1):
            readings.start(place, lambda place=place: iter([batches[place]]))
        taken: list[int] = []

        def choose(places: list[int]) -> int:
            return max(places)

        while len(taken) < 4:
            arrived = readings.take(1.0, choose)  # pyright: ignore[reportArgumentType]
            if arrived is not None:
                taken.append(arrived[0])
        assert Counter(taken) == {0: 2, 1: 2}
        assert readings.take(0.0) is None


def test_a_name_that_no_source_has_is_refused() -> None:
    running = source([(1, 2, 3)], "exporter A").start()
    with running, pytest.raises(PlanError, match='prefer\\("exporter B"\\): no source of this run has') as caught:
        running.prefer("exporter B")
    assert 'Did you mean "exporter A"?' in str(caught.value)


def test_a_run_in_a_thread_is_told() -> None:
    shown: list[int] = []
    with source([(at, 0, 0) for at in range(9)], "a").to(lambda page: shown.extend(page["ts"])).start() as started:
        started.prefer("a")
        started.wait()
    assert shown == list(range(9))
