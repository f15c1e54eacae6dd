"""Sources that meet take turns by their promises, in steps that bound what joins, merges and unions hold meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.drive.circuit import PAGE_ROWS
from oop_engine.drive.synchronous import Run
from oop_engine.drive.turns import TURN, Turns
from oop_engine.plan.graph import Plan
from operators.data.page import Page

N = 150_000
US, NS = pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")


def table(seed: int, unit: pa.DataType = US) -> Stream:
    """Give a stream of a tuple a millisecond, in a batch, disordered by up to 50 ms."""
    drawn = np.random.default_rng(seed)
    ts = np.arange(N) * 1000 + drawn.integers(0, 50_000, N)
    columns = {"ts": pa.array(ts, US).cast(unit), "k": drawn.integers(0, 500, N)}
    return oop.arrow(pa.table(columns))


PLANS: dict[str, Callable[[], Stream]] = {
    "join": lambda: table(1).join(table(2), "k", range="1 s"),
    "outer tumbling join": lambda: table(1).join(table(2), "k", tumbling="1 s", kind="full"),
    "merge": lambda: oop.merge(table(1), table(2)).filter("k = 7"),
    "windows over a union": lambda: (
        oop.meld(table(1), table(2), table(3)).window("50 ms").aggregate(oop.count(), by="k")
    ),
}


def ordered(found: pa.Table) -> pa.Table:
    """Give the rows in an order of their own, so that tables of the same rows are equal."""
    return found.sort_by([(name, "ascending") for name in found.column_names]).combine_chunks()


@pytest.mark.parametrize("name", PLANS)
def test_what_waits_for_another_source_is_bounded_by_a_turn(name: str) -> None:
    stream, outcome = PLANS[name](), PLANS[name]().run()
    # A merge holds the tuples of the last turn as well, until their promise.
    turns = Turns.of(Plan((stream.node,)))
    most = (len(turns.meeting) - (name != "merge")) * turns.least + 10_000
    assert outcome.statistics.peak_state < most
    run = Run(Plan((stream.node,)))
    pages = [element.batch for _, element in run if isinstance(element, Page)]
    peaks = [o.details.get("peak_state_tuples", 0) for o in run.circuit.statistics()]
    assert max(peaks) < most
    there = pa.Table.from_batches(pages, stream.schema.arrow)
    assert ordered(there) == ordered(outcome.table)


def test_the_answer_is_that_of_pages_of_any_size() -> None:
    make = PLANS["join"]
    small = Run(Plan((make().node,)), page_rows=1000)
    pages = [element.batch for _, element in small if isinstance(element, Page)]
    assert ordered(pa.Table.from_batches(pages)) == ordered(make().run().table)


def test_times_in_other_units_are_compared_as_times() -> None:
    union = oop.meld(
        *(table(seed, unit).project(t="cast(ts, 'timestamp[s]')", k="k") for seed, unit in ((1, US), (2, NS)))
    )
    held = union.window("1 s", wattr="t").aggregate(oop.count(), by="k").run().statistics.peak_state
    # A source that is ahead by a turn is ahead by 66 windows of 500 groups at most; by all, it would be by 150.
    assert held < 40_000


def test_a_source_that_meets_no_other_gives_pages_as_large_as_they_come() -> None:
    one = table(1)
    assert Turns.of(Plan((one.filter("k = 7").node,))).rows(0, PAGE_ROWS, PAGE_ROWS, lambda: N) == PAGE_ROWS
    itself = one.join(one, "k", range="1 s")
    assert Turns.of(Plan((itself.node,))).meeting == frozenset()


def test_turns_grow_where_next_to_nothing_is_held_and_shrink_again() -> None:
    turns = Turns.of(Plan((oop.meld(table(1), table(2)).node,)))
    least = turns.least
    assert least > TURN

    def after(held: int) -> int:
        return [turns.rows(0, PAGE_ROWS, PAGE_ROWS, lambda: held) for _ in range(4)][-1]

    assert [after(10), after(10), after(10)] == [2 * least, 4 * least, 4 * least]
    assert after(N) == least


def test_what_is_held_is_not_asked_where_a_turn_would_change_nothing() -> None:
    turns = Turns.of(Plan((oop.meld(table(1), table(2)).node,)))
    asked: list[int] = []
    for most, left in ((8_192, N), (PAGE_ROWS, 1), (PAGE_ROWS, turns.least)):
        assert turns.rows(0, most, left, lambda: asked.append(1) or N) == most
    assert asked == []
    assert turns.rows(0, PAGE_ROWS, turns.least + 1, lambda: asked.append(1) or N) == turns.least
    assert asked == [1]
