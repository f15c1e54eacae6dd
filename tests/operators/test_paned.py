"""The two sub-queries of Paned-WID give what the query itself gives, and the cost model prefers what is cheaper."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Mapping
from math import gcd

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, punctuations, rows
from operators.errors import SchemaError
from operators.functions import avg, count, count_distinct, max, min, sum
from operators.functions.protocol import AggregateFunction
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.paned import SUBS, split, sub_aggregates
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.strategy import Costs
from punctuation import before
from tests.examples import share

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts")])
FUNCTIONS: dict[str, AggregateFunction] = {
    "n": count(), "some": count("v"), "total": sum("v"), "most": max("v"), "least": min("v"), "mean": avg("v"),
}  # fmt: skip
sliding = st.builds(
    SlidingWindow, st.just("ts"), size=st.integers(1, 12), slide=st.integers(1, 9), origin=st.integers(-3, 3)
)


def direct(window: SlidingWindow, by: tuple[str, ...]) -> Chain:
    return Chain([Bucket(window), WindowAggregate(window, FUNCTIONS, by)])


def in_two(window: SlidingWindow, by: tuple[str, ...]) -> Chain:
    """Chain the sub-queries by hand; the pane-level results are a stream like any other."""
    plq, wlq = split(window)
    panes: dict[str, AggregateFunction] = {}
    windows: dict[str, AggregateFunction] = {}
    for name, function in FUNCTIONS.items():
        names = tuple(f"{name}{i}" for i in range(SUBS[function.name]))
        sub = sub_aggregates(function, names)
        panes |= dict(zip(names, sub.panes, strict=True))
        windows |= dict(zip(names, sub.windows, strict=True))
    lower, upper = WindowAggregate(plq, panes, by), WindowAggregate(wlq, windows, by)
    return Chain([Bucket(plq), lower, Bucket(wlq), upper])


def finished(found: list[Row], by: tuple[str, ...]) -> list[tuple[object, ...]]:
    def mean(row: Mapping[str, object]) -> object:
        if "mean" in row:
            return row["mean"]
        total, number = row["mean0"], row["mean1"]
        return total / number if number else None  # type: ignore[operator]

    names = ("n", "some", "total", "most", "least")
    return sorted(
        (
            (*(str(row[k]) for k in by), row["wid"], *(row.get(n, row.get(f"{n}0")) for n in names), mean(row))
            for row in found
        ),
        key=str,
    )


@given(sliding, st.sampled_from([(), ("k",)]), streams(SCHEMA, group=("k",), tuples=14, nulls=("v",)))
def test_two_sub_queries_give_what_the_query_gives(window: SlidingWindow, by: tuple[str, ...], script: Script) -> None:
    elements = [element for _, element in script.steps]
    expected = finished(rows(drive(direct(window, by), elements)), by)
    assert finished(rows(drive(in_two(window, by), elements)), by) == expected


def test_panes_are_numbered_from_the_origin_and_not_from_the_first_that_comes() -> None:
    """1,500 random streams: of the panes of a tuple, its windows follow; by numbers from the first pane they do not."""
    rng = np.random.default_rng(6)
    wrong = {"from the origin": 0, "from the first": 0}
    for _ in range(1_500):
        size, slide, origin, first = (int(rng.integers(*ends)) for ends in ((1, 13), (1, 13), (-5, 6), (-50, 51)))
        window = SlidingWindow("ts", size=size, slide=slide, origin=origin)
        plq, wlq = split(window)
        ts = first + rng.integers(0, 40, 20)
        panes, behind = plq.wids(ts)
        assert (behind == panes + 1).all()
        wanted = np.array(window.wids(ts))
        for name, start in zip(wrong, (0, panes.min()), strict=True):
            wrong[name] += not np.array_equal(wlq.wids(panes - start), wanted)
    assert wrong["from the origin"] == 0
    assert wrong["from the first"] > 750


@pytest.mark.parametrize("by", [(), ("k",)])
def test_a_promise_passes_the_panes_that_are_empty(by: tuple[str, ...]) -> None:
    """A window leaves at the promise behind its end, whether or not a later pane has a tuple."""
    window = SlidingWindow("ts", size=9, slide=6)
    lone = Page.of(SCHEMA, {"ts": [1], "k": ["a"], "v": [5]})
    for operator in (direct(window, by), in_two(window, by)):
        assert rows(drive(operator, [lone, before("ts", 5)])) == []
        (left,) = rows(drive(operator, [before("ts", 6)]))
        assert left["wid"] == 0
        assert next(str(p) for p in punctuations(drive(operator, [before("ts", 60)]))) == "[wid < 10]"


@share(1)
@given(sliding, streams(SCHEMA, group=("k",), tuples=10))
def test_the_sub_queries_in_a_row_keep_the_laws(window: SlidingWindow, script: Script) -> None:
    check_operator(lambda: in_two(window, ("k",)), script)


@given(sliding)
def test_panes_are_as_long_as_they_can_be(window: SlidingWindow) -> None:
    plq, wlq = split(window)
    assert plq.size == plq.slide == gcd(window.size, window.slide)
    for wid in range(-5, 6):
        first, last = wlq.extent(wid)
        assert (plq.extent(first)[0], plq.extent(last - 1)[1]) == window.extent(wid)


def test_a_function_without_sub_aggregates_is_refused() -> None:
    with pytest.raises(SchemaError, match="count_distinct_v: a pane's result does not tell"):
        sub_aggregates(count_distinct("v"), ("n",))


@pytest.mark.parametrize(
    ("size", "slide", "tuples", "groups", "differential", "expected"),
    [
        (240, 60, 1e6, 100, False, True),  # 4 panes of 250,000 tuples
        (240, 60, 1e6, 4e5, False, False),  # as many groups as would undo it: c P G alone is more than a T
        (60, 60, 1e6, 10, False, False),  # one pane a window: nothing is shared
        (540, 360, 1e6, 1e4, True, True),  # two panes a slide: 1e6/3 + 1e4 + 4e4 against 2/3 * 2e6
        (540, 360, 1e6, 3e5, True, False),
    ],
)
def test_the_cost_model_prefers_what_is_cheaper(
    size: int, slide: int, tuples: float, groups: float, differential: bool, expected: bool
) -> None:
    window = SlidingWindow("ts", size=size, slide=slide)
    assert Costs().prefer_panes(window, tuples=tuples, groups=groups, differential=differential) is expected


def test_no_way_is_cheaper_than_the_one_that_is_chosen() -> None:
    """On 2,000 random points, of which each way is the cheapest at hundreds."""
    rng, found = np.random.default_rng(61), Counter[str]()
    for _ in range(2_000):
        slide = int(rng.integers(1, 7))
        window = SlidingWindow("ts", size=slide + int(rng.integers(0, 60)), slide=slide)
        tuples, groups = (int(10 ** rng.uniform(*ends)) for ends in ((0, 7), (0, 6)))
        invertible, costs = (
            bool(rng.integers(2)),
            Costs(*rng.uniform(0.1, 10, 4).tolist(), carried=float(rng.choice([0, 100, 16_384]))),
        )
        pane = gcd(window.size, window.slide)
        panes, moved = window.size // pane, window.slide // pane
        into = costs.tuple_in * tuples / panes + costs.pane_out * groups
        ways = {"panes": into + costs.pane_in * panes * groups, "wid": costs.tuple_in_window * tuples}
        if invertible and window.size > window.slide:
            ways["differential"] = into + 2 * costs.pane_in * groups * moved + costs.carried
        chosen = costs.cheapest(window, tuples=tuples, groups=groups, invertible=invertible)
        assert ways[chosen] == pytest.approx(builtins.min(ways.values()))
        found[chosen] += 1
    assert found.keys() == {"panes", "wid", "differential"} and builtins.min(found.values()) > 200


def test_the_costs_are_those_of_the_equations() -> None:
    costs, window = Costs(2.0, 3.0, 5.0, 7.0), SlidingWindow("ts", size=9, slide=6)
    assert costs.paned(window, tuples=30, groups=4, differential=False) == 2 * 30 / 3 + 3 * 4 + 5 * 3 * 4  # 6.1
    assert costs.paned(window, tuples=30, groups=4, differential=True) == 2 * 30 / 3 + 3 * 4 + 2 * 5 * 4 * 2  # 6.2
    assert costs.plain(window, tuples=30, differential=False) == 7 * 30  # 6.3
    assert costs.plain(window, tuples=30, differential=True) == 2 * 7 * 6 * 30 / 9  # 6.4
