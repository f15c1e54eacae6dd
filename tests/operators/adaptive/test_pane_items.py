"""By panes, each item is a list of tuples while that is the smaller, then a partial aggregate at once and for good."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.baselines.adaptive.adaptive import AdaptiveAggregate
from operators.baselines.adaptive.cost import Cost
from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.saved import decode_state, encode_state
from operators.drive import drive, punctuations, rows
from operators.errors import SchemaError
from operators.functions import avg, count, first
from operators.protocol import Element
from operators.testing import Script, check_operator, streams
from operators.testing.variants import repaged
from operators.window import PartitionedWindow, SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from punctuation import Progress, before
from tests.examples import share
from tests.naive_aggregate import naive_windows
from tests.operators.adaptive.test_adaptive import BY, SCHEMA, costs, sliding
from tests.operators.test_window_aggregate import ANSWERS, FUNCTIONS, must_be_out


def chained(window: SlidingWindow | PartitionedWindow, by: Sequence[str], cost: Cost) -> Chain:
    return Chain([Bucket(window), AdaptiveAggregate(window, FUNCTIONS, by, cost=cost, panes=True, source="v")])


@share(1)
@given(sliding, st.sampled_from(BY), costs, streams(SCHEMA, group=("k",), tuples=12))
def test_every_order_paging_and_punctuation_gives_the_naive_answer(
    window: SlidingWindow, by: tuple[str, ...], cost: Cost, script: Script
) -> None:
    check_operator(
        lambda: chained(window, by, cost),
        script,
        naive=lambda table: naive_windows(window, ANSWERS, by, table),
        settled=lambda tables, progress: must_be_out(window, by, tables[0], progress[0]),
    )


@given(sliding, st.sampled_from(BY), costs, streams(SCHEMA, group=("k",), tuples=16))
def test_every_element_is_answered_as_the_window_aggregate_answers_it(
    window: SlidingWindow, by: tuple[str, ...], cost: Cost, script: Script
) -> None:
    functions = {**FUNCTIONS, "mean": avg("v")}
    one = AdaptiveAggregate(window, functions, by, cost=cost, panes=True)
    other = WindowAggregate(window, functions, by)
    for element in drive(Bucket(window), script):
        found, wanted = drive(one, [element]), drive(other, [element])
        assert list(map(str, punctuations(found))) == list(map(str, punctuations(wanted)))
        assert sorted(map(repr, rows(found))) == sorted(map(repr, rows(wanted)))


@given(sliding, st.integers(1, 4), streams(SCHEMA, tuples=16, promises=("linear",), nulls=()))
def test_an_item_is_the_smaller_of_its_tuples_and_a_partial_aggregate(
    window: SlidingWindow, aggr: int, script: Script
) -> None:
    """What is held of each pane and group is min(tuples, aggr), a pane being the tuples of one range of windows."""
    operator = AdaptiveAggregate(window, {"n": count()}, ("k",), cost=Cost(aggr=aggr), panes=True)
    held: list[Row] = []
    for element in drive(Bucket(window), script):
        drive(operator, [element])
        progress = Progress()
        if isinstance(element, Page):
            held += element.rows()
        else:
            progress.advance(element)
            bound = 2**62 if progress.ended else int(str(progress.bound("wid_from")))
            held = [row for row in held if int(str(row["wid_until"])) > bound]
        sizes: dict[object, int] = {}
        for row in held:
            item = (row["k"], row["wid_from"], row["wid_until"])
            sizes[item] = sizes.get(item, 0) + 1
        lists = [n for n in sizes.values() if n <= aggr]
        found = operator.statistics()
        assert found["state_tuples"] == sum(lists) + len(sizes) - len(lists)
        if held:
            assert (found["buffered"], found["partial_aggregates"]) == (sum(lists), len(sizes) - len(lists))
            volumes = operator.accounts().column("window_volume").to_pylist()
            assert sum(volumes) == len(held)


@given(sliding, costs, streams(SCHEMA, group=("k",), tuples=16))
def test_what_is_held_at_most_depends_on_the_order_of_tuples_and_not_on_pages(
    window: SlidingWindow, cost: Cost, script: Script
) -> None:
    def measured(script: Script) -> tuple[int, int]:
        operator = chained(window, ("k",), cost)
        drive(operator, script)
        return operator.statistics().get("peak_objects", 0), operator.statistics().get("switches_to_eager", 0)

    assert measured(script) == measured(repaged(script, 1)) == measured(repaged(script, None))


@given(st.integers(0, 40), streams(SCHEMA, group=("k",), tuples=16))
def test_saved_in_the_middle_and_restored_it_goes_on(cut: int, script: Script) -> None:
    window = SlidingWindow("ts", size=5, slide=2)
    tagged = drive(Bucket(window), script)

    def make() -> AdaptiveAggregate:
        return AdaptiveAggregate(window, FUNCTIONS, ("k",), cost=Cost(), panes=True)

    half, restored = make(), make()
    found = drive(half, tagged[:cut])
    restored.restore(decode_state(encode_state(half.state())))
    assert restored.accounts().to_pylist() == half.accounts().to_pylist()
    found += drive(restored, tagged[cut:])
    assert sorted(map(repr, rows(found))) == sorted(map(repr, rows(drive(make(), tagged))))


@share(1)
@given(st.integers(1, 4), st.integers(1, 3), streams(SCHEMA, tuples=12, promises=("linear",), nulls=("v",)))
def test_partitioned_rows_are_released_partition_by_partition(size: int, slide: int, script: Script) -> None:
    window = PartitionedWindow(SlidingWindow("row_num", size=size, slide=slide), ("k",))
    check_operator(
        lambda: chained(window, ("k",), Cost()),
        script,
        naive=lambda table: naive_windows(window, ANSWERS, ("k",), table),
        order_matters=True,
    )


def test_a_pane_switches_at_once_and_leaves_with_its_last_window() -> None:
    window = SlidingWindow("ts", size=4, slide=2)
    operator = AdaptiveAggregate(window, {"n": count()}, ("k",), cost=Cost(aggr=2), panes=True)
    chain = Chain([Bucket(window), operator])

    def page(*ts: int) -> Element:
        return Page.of(SCHEMA, {"ts": list(ts), "k": ["a"] * len(ts), "v": list(ts)})

    def held() -> tuple[int, int]:
        return operator.statistics()["buffered"], operator.statistics()["partial_aggregates"]

    drive(chain, [page(0, 1, 2)])
    assert held() == (3, 0)
    drive(chain, [page(1)])
    assert held() == (1, 1)
    assert [r["n"] for r in rows(drive(chain, [before("ts", 4)]))] == [3, 4]
    assert held() == (1, 0)
    assert operator.statistics()["switches_to_lazy"] == 0


def test_what_goes_by_arrival_is_refused_with_a_way_out() -> None:
    window = SlidingWindow("ts", size=4, slide=2)
    operator = AdaptiveAggregate(window, {"one": first("v")}, panes=True)
    with pytest.raises(SchemaError, match=r"one depends on the order[^$]*argmin\(x, ts\)"):
        operator.output_schema(Bucket(window).output_schema(SCHEMA))
    assert pa.types.is_int64(
        AdaptiveAggregate(window, {"one": first("v")})
        .output_schema(Bucket(window).output_schema(SCHEMA))
        .field("one")
        .type
    )
