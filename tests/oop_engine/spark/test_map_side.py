"""What partitions do ahead of the front comes to what the front would have done itself, and counts as much."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

from oop_engine.api.stream import Stream
from oop_engine.drive.outcome import collect
from oop_engine.plan.graph import Plan
from oop_engine.plan.punctuate import Promise, ordered, slack, tuple_slack
from oop_engine.rewrite.demand import pruned
from oop_engine.spark.map_side import MapSide, Tally, map_sides
from oop_engine.spark.narrow import read_page
from oop_engine.spark.partial_final import cut_in_levels
from oop_engine.spark.stage_run import elsewhere
from oop_engine.spark.stages import FRONT, KEYED
from oop_engine.spark.wire import PAGE
from operators import functions as f
from operators.window import LIMIT, SlidingWindow
from punctuation import NO_TIME
from tests.examples import share
from tests.naive_clamp import naive_believed
from tests.oop_engine.spark.plans import FREE, Row, Streams, stream
from tests.oop_engine.spark.simulated import embedded, on_stream
from tests.oop_engine.spark.test_stage_run import micro_batches

NAMES = ("late", "late_for_some", "behind", "untimed", "tuples", "without_value")
FAR = (-(2**63), -LIMIT, -LIMIT + 1, LIMIT - 1, LIMIT, 2**63 - 1)


def found(result: Stream) -> dict[int, MapSide]:
    """Give the sources of a plan that are taken ahead."""
    whole = cut_in_levels(pruned(Plan((result.node,))), ordered=True)
    return map_sides(attrs.evolve(whole, plan=elsewhere(whole.plan)))


def counted(result: Stream) -> dict[str, int]:
    """Give what a plan counts in one process, by name."""
    counts = dict.fromkeys(NAMES, 0)
    for operator in collect(Plan((result.node,)), result.node).statistics.operators:
        for name in NAMES:
            counts[name] += operator.details.get(name, 0)
    return counts


def rows(times: st.SearchStrategy[int | None]) -> st.SearchStrategy[list[list[Row]]]:
    one = st.tuples(times, st.sampled_from(["a", "b", None]), st.integers(0, 2), st.integers(-9, 9))
    return st.lists(st.lists(one, min_size=1, max_size=6), max_size=8)


near = st.one_of(*[st.integers(0, 40)] * 4, st.none())


@pytest.mark.slow
@share(4)
@given(
    a=st.one_of(rows(near), rows(st.one_of(near, near, near, st.sampled_from(FAR)))),
    panes=st.integers(1, 4),
    slide=st.integers(1, 7),
    promise=st.one_of(st.integers(0, 12).map(slack), st.builds(ordered), st.just(tuple_slack(2))),
    buckets=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_answers_and_counts_are_those_of_one_task_that_reads_everything(
    a: list[list[Row]], panes: int, slide: int, promise: Promise, buckets: int, seed: int
) -> None:
    windows = stream("a", a, promise).window(range=panes * slide, slide=slide)
    result = windows.aggregate(f.count(), f.sum("x"), f.max("n"), by="k")
    assert (len(found(result)) == 1) == (promise.how != "slack of 2 tuples")
    arrivals = micro_batches(a, random.Random(seed))
    answer, counts = on_stream(result, arrivals, buckets=buckets, seed=seed)  # type: ignore[arg-type]
    assert answer == embedded(result, end=False)
    assert {name: counts.get(name, 0) for name in NAMES} == counted(result)


def sliding(s: Stream) -> Stream:
    return s.window(range=6, slide=2).aggregate(f.count(), by="k")


TAKEN: Mapping[str, Callable[[Streams], Stream]] = {
    "plain": lambda s: sliding(s["a"]),
    "renamed": lambda s: sliding(s["a"].project("ts", "k", y="x + 1")),
    "derived": lambda s: s["a"].derive(y="x + 1").window(range=6, slide=2).aggregate(f.sum("y"), by="k"),
    "filtered behind its windows": lambda s: (
        s["a"].window(range=4, slide=4).aggregate(c=f.count(), by="k").filter("c > 1")
    ),
}
LEFT: Mapping[str, Callable[[Streams], Stream]] = {
    "filtered": lambda s: sliding(s["a"].filter("x > 0")),
    "another time": lambda s: sliding(s["a"].project("k", ts="ts + 1")),
    "gaps": lambda s: s["a"].window(range=2, slide=3).aggregate(f.count(), by="k"),
    "uneven": lambda s: s["a"].window(range=5, slide=2).aggregate(f.count(), by="k"),
    "not in parts": lambda s: s["a"].window(range=4, slide=2).aggregate(f.median("x"), by="k"),
    "tuples themselves": lambda s: s["a"].filter("x > 0").project("k"),
    **{name: FREE[name] for name in ("sessions", "landmark", "groups", "meld", "join")},
}


@pytest.mark.parametrize("name", [*TAKEN, *LEFT])
def test_only_plans_whose_front_can_be_split_are(name: str) -> None:
    given = {n: stream(n, [], slack(4)) for n in "ab"}
    assert bool(found({**TAKEN, **LEFT}[name](given))) == (name in TAKEN)


@pytest.mark.parametrize(
    ("promise", "late"), [(slack(4, every=3), "drop"), (slack(4, step=3), "drop"), (slack(4), "revise")]
)
def test_only_promises_that_are_the_same_of_parts_are(promise: Promise, late: str) -> None:
    assert not found(sliding(stream("a", [], promise, late=late)))


@given(
    values=st.lists(st.one_of(st.integers(-50, 50), st.sampled_from(FAR)), min_size=1, max_size=40),
    slack=st.integers(0, 9),
    slide=st.integers(1, 6),
    panes=st.integers(1, 3),
    cut=st.integers(0, 40),
    jump=st.one_of(st.none(), st.integers(0, 30)),
)
def test_a_tally_is_what_a_loop_over_tuples_counts(
    values: list[int], slack: int, slide: int, panes: int, cut: int, jump: int | None
) -> None:
    window = SlidingWindow("ts", size=panes * slide, slide=slide, origin=3)
    ahead = MapSide(0, 1, slack, window, frozenset(), jump)
    tally = Tally(ahead)

    def place(value: int) -> int:
        farthest = 2**62 - 1
        return min(max(min(max(value, -farthest), farthest) - 3, -farthest), farthest) // slide

    for part in (values[:cut], values[cut:]):
        tally.add(np.array(part, np.int64), None)
    told = read_page(tally.told())
    expected: dict[tuple[int, int], int] = {}
    highest = NO_TIME
    for value, believed in zip(values, naive_believed(values, jump), strict=True):
        pane = place(value)
        behind = 0
        if highest > NO_TIME + slack:
            far = place(highest - slack) - pane
            behind = int(ahead.behind(np.array([far]))[0])
        key = (pane, behind + 4 * (abs(value) >= LIMIT))
        expected[key] = expected.get(key, 0) + 1
        highest = max(highest, believed)
    given: dict[tuple[int, int], int] = {}
    for row in told.to_pylist():
        for c in range(8):
            if row[str(c)]:
                given[row["pane"], c] = given.get((row["pane"], c), 0) + row[str(c)]
    assert given == expected
    assert told.schema.metadata[b"highest"] == str(highest).encode()


def test_what_makes_room_among_the_panes_at_hand_is_not_lost() -> None:
    ahead = MapSide(0, 1, 0, SlidingWindow("ts", size=1, slide=1), frozenset())
    tally = Tally(ahead)
    for _ in range(2):
        tally.add(np.arange(0, 5000, dtype=np.int64), None)
    told = read_page(tally.told())
    assert sum(sum(told.column(str(c)).to_pylist()) for c in range(8)) == 10_000
    assert set(told.column("pane").to_pylist()) == set(range(5000))


def test_no_tuple_crosses_into_the_front() -> None:
    from oop_engine.spark.batch import rows_of
    from oop_engine.spark.map_side import Taken
    from tests.oop_engine.spark.plans import batch

    result = sliding(stream("a", [], slack(4)))
    whole = cut_in_levels(pruned(Plan((result.node,))), ordered=True)
    small = attrs.evolve(whole, plan=elsewhere(whole.plan))
    given: pa.RecordBatch = batch([(n % 3, "ab"[n % 2], n, n) for n in range(900)])
    sent = list(rows_of(Taken(small, {FRONT: 1, KEYED: 2}, found(result)[0]).rows([given], 7)))
    assert {row.stage for row in sent} == {FRONT, KEYED}
    assert sum(read_page(row.body).num_rows for row in sent if row.kind == PAGE) == 4
    assert {row.origin for row in sent} == {7}
