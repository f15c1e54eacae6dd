"""Lanes with a limit give what the operator alone gives, however little of it stays in memory."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page
from operators.data.saved import decode_state, encode_state
from operators.data.schema import Schema
from operators.drive import deliver, drive
from operators.expression import Column
from operators.functions import count, max, sum
from operators.join import Band, OAJoin
from operators.join.shape import Kind
from operators.overflow import overflows
from operators.protocol import Element, Measured, Operator, Promises, TakesPromises
from operators.rows.distinct import Distinct
from operators.rows.filter import Filter
from operators.streams import spill as module
from operators.streams.lanes import Windows
from operators.streams.spill import MemoryShelf, SpillLanes
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow
from operators.window.session import SessionWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.group_by import GroupAggregate
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate
from punctuation import END, before
from tests.examples import mostly_slow, share
from tests.operators.test_lanes import LEFT, RIGHT, SCHEMA, alike, bag, met, no_more, pages_of

FUNCTIONS = {"n": count(), "total": sum("v"), "most": max("v")}
SLIDING = SlidingWindow("ts", size=4, slide=2)
_WINDOWS: Final = Windows("wid", "window_end", "window", "windows")
LIMITS = (1, 700, 5_000, 1 << 30)


def limited(operator: Operator, limit: int, lanes: int = 3, windows: Windows | None = _WINDOWS) -> SpillLanes:
    keys, kinds = [("k",)] * operator.inputs, [pa.string()]
    return SpillLanes(operator, lanes, keys, kinds, MemoryShelf(), limit, windows=windows, least=1)


def several() -> Operator:
    windows = {"a": SlidingWindow("ts", size=3, slide=3), "b": SlidingWindow("ts", size=4, slide=1)}
    return SlicingAggregate(windows, FUNCTIONS, ("k",), named=True)


OPERATORS: dict[str, Callable[[], Operator]] = {
    "sliding": lambda: Chain([Bucket(SLIDING), WindowAggregate(SLIDING, FUNCTIONS, ("k",))]),
    "tumbling": lambda: SlicingAggregate({"": SlidingWindow("ts", size=3, slide=3)}, FUNCTIONS, ("k",)),
    "sessions": lambda: SlicingAggregate({"": SessionWindow("ts", gap=2)}, FUNCTIONS, ("k",)),
    "two windows": several,
    "groups": lambda: GroupAggregate(FUNCTIONS, ("k",)),
    "distinct": lambda: Distinct(("k", "v")),
}


def made_of(name: str, limit: int, lanes: int = 3) -> SpillLanes:
    return limited(OPERATORS[name](), limit, lanes, None if name in ("groups", "distinct") else _WINDOWS)


def like_alone(made: SpillLanes, script: Script, promised: Callable[..., None] = alike) -> None:
    """Compare what lanes gave with what the operator alone gave: never more on the way, and the same at the end."""
    one = made.operator
    ours, theirs = list[Element](), list[Element]()
    for operator in (made, one):
        operator.output_schema(*script.schemas)
    for port, element in script:
        deliver(made, element, ours.append, port)
        deliver(one, element, theirs.append, port)
        assert bag(ours) <= bag(theirs)
    assert bag(ours) == bag(theirs)
    promised(met(ours), met(theirs))
    counts = one.statistics() if isinstance(one, Measured) else {}
    for name in ("late", "late_for_some", "results"):
        assert made.statistics().get(name) == counts.get(name), name
    # The operator alone counts a window anew for each promise that ends some of its groups.
    assert 0 <= made.statistics().get("windows", 0) <= counts.get("windows", 0)
    assert isinstance(made.shelf, MemoryShelf)
    assert len(made.shelf) == made.statistics()["away_bytes"] == 0


@share(2)
@given(st.sampled_from(sorted(OPERATORS)), st.sampled_from(LIMITS), streams(SCHEMA, group=("k",), tuples=14))
def test_lanes_with_a_limit_give_what_the_operator_gives(name: str, limit: int, script: Script) -> None:
    like_alone(made_of(name, limit), script)


@pytest.mark.parametrize("name", mostly_slow(sorted(OPERATORS), every=3))
def test_lanes_with_a_limit_keep_the_laws(name: str) -> None:
    @share(0.3)
    @given(st.sampled_from(LIMITS[:2]), streams(SCHEMA, group=("k",), tuples=8))
    def laws(limit: int, script: Script) -> None:
        check_operator(lambda: made_of(name, limit), script)

    laws()


@share(1)
@given(
    st.sampled_from(("inner", "left", "right", "full", "semi", "anti")),
    st.sampled_from(LIMITS[:3]),
    streams((LEFT, RIGHT), wattr=("lt", "rt"), tuples=10, promises=("linear",)),
)
def test_joins_find_partners_that_were_away(kind: Kind, limit: int, script: Script) -> None:
    join = OAJoin(Band("lt", "rt", left=2, right=1), (("k", "j"),), kind=kind)
    lanes = SpillLanes(join, 3, [("k",), ("j",)], [pa.int64()], MemoryShelf(), limit, least=1)
    like_alone(lanes, script, no_more)


@pytest.mark.parametrize(
    "keys",
    [
        pa.nulls(5_000, pa.string()),
        pa.array(["one"] * 5_000),
        pa.array([None, "a", "b"] * 1_666 + ["a", None], pa.string()),
        pa.array([str(i % 4_000) for i in range(5_000)]),
    ],
    ids=["null", "one key", "few", "many"],
)
@pytest.mark.parametrize("limit", mostly_slow([1, 100_000], but=[1]))
def test_any_share_of_keys_and_nulls_gives_the_same(keys: pa.Array, limit: int) -> None:
    wide = SlidingWindow("ts", size=1_000, slide=500)
    made = limited(SlicingAggregate({"": wide}, FUNCTIONS, ("k",)), limit, 6)
    like_alone(made, Script.of(SCHEMA, pages_of(5_000, keys, 700)))
    assert made.statistics()["windows"] == 11
    if limit == 1:
        assert made.statistics()["spills"] > 6


def test_a_page_with_its_promises_is_taken_in_one_call() -> None:
    page = Page.of(SCHEMA, {"ts": np.arange(100), "k": [str(i % 9) for i in range(100)], "v": np.arange(100)})
    promises = Promises("ts", np.array([0, 10, 50, 100]), np.array([-5, 8, 50, 100]))
    for name in ("sliding", "tumbling", "sessions"):
        made, found = made_of(name, 1), list[Element]()
        assert isinstance(made, TakesPromises)
        for _ in range(2):
            made.process_with(page, promises, found.append)
        made.punctuate(END, found.append)
        steps = list(promises.one_by_one(page))
        assert bag(found) == bag(drive(OPERATORS[name](), [*steps, *steps, END]))


@pytest.mark.parametrize("name", sorted(OPERATORS))
@pytest.mark.parametrize("limit", LIMITS[:3])
def test_a_state_goes_on_with_another_shelf_and_another_seed(name: str, limit: int) -> None:
    steps = pages_of(300, pa.array([str(i % 40) for i in range(300)]), 50)
    found = list[Element]()
    made = made_of(name, limit)
    made.seed = 12_345
    for step in steps:
        goes_on = made_of(name, limit, 5)
        goes_on.output_schema(SCHEMA)
        goes_on.restore(decode_state(encode_state(made.state())))
        assert goes_on.seed == made.seed
        made = goes_on
        deliver(made, step, found.append)
    assert bag(found) == bag(drive(OPERATORS[name](), steps))


def test_a_state_of_one_lane_goes_on_in_one() -> None:
    steps = pages_of(300, pa.array([str(i % 40) for i in range(300)]), 50)
    one, made = OPERATORS["sessions"](), made_of("sessions", 1)
    found = drive(one, steps[:5])
    made.output_schema(SCHEMA)
    made.restore(decode_state(encode_state(one.state())))
    found += drive(made, steps[5:])
    assert bag(found) == bag(drive(OPERATORS["sessions"](), steps))
    assert len(made.links()) == 1
    assert made.statistics()["spills"] > 0


def test_what_is_held_stays_below_the_limit_and_what_is_away_is_counted() -> None:
    keys = pa.array([str(i) for i in range(8_000)])
    made = limited(OPERATORS["groups"](), 400_000, 12, None)
    found, most = list[Element](), 0
    for step in pages_of(8_000, keys, 500)[:-1]:
        deliver(made, step, found.append)
        assert made.nbytes <= made.limit
        most = builtin_max(most, made.statistics()["away_bytes"])
    made.punctuate(END, found.append)
    told = made.statistics()
    assert told["spilled_bytes"] >= most > 400_000
    assert told["peak_state_bytes"] < 800_000
    assert len(bag(found)) == 8_000


def builtin_max(one: int, other: int) -> int:
    return one if one > other else other


def test_who_calls_for_parts_gets_them_one_by_one_and_the_next_call_gives_the_rest() -> None:
    steps = pages_of(400, pa.array([str(i) for i in range(400)]), 400)
    whole = drive(OPERATORS["groups"](), steps)
    made, found = limited(OPERATORS["groups"](), 1, 8, None), list[Element]()
    made.by_parts = True
    for step in steps:
        deliver(made, step, found.append)
    parts = [len(bag(found))]
    assert END not in found
    while made.go_on(found.append):
        parts.append(len(bag(found)))
    assert len(parts) == 7
    assert [*parts, 400] == sorted({*parts, 400})
    assert found[-1] == END
    assert bag(found) == bag(whole)
    early, rest = limited(OPERATORS["groups"](), 1, 8, None), list[Element]()
    early.by_parts = True
    for step in [*steps, END]:
        deliver(early, step, rest.append)
    assert bag(rest) == bag(whole)


def test_promises_fetch_what_is_away_once_enough_came_or_enough_of_them_wait() -> None:
    made = limited(SlicingAggregate({"": SlidingWindow("ts", size=300, slide=300)}, FUNCTIONS, ("k",)), 1)
    page, *_ = pages_of(9_000, pa.array([str(i) for i in range(9_000)]), 9_000)
    found = drive(made, [page, before("ts", 6_000)])
    assert len(bag(found)) == 6_000
    (few,) = drive(Filter(Column("ts") >= 8_990), [page])
    waiting = drive(made, [few, *(before("ts", 6_000 + 300 * i) for i in range(1, 8))])
    assert waiting == []
    given = drive(made, [before("ts", 8_400)])
    assert len(bag(given)) == 2_400
    assert made.statistics()["late"] == 0


def test_what_does_not_fit_is_forgiven_and_counted_also_of_lanes_that_were_away() -> None:
    most = (1 << 63) - 1
    schema = Schema.of(k=pa.string(), v=pa.int64())
    page = Page.of(schema, {"k": ["a", "b"] * 2, "v": [most] * 4})
    made = limited(GroupAggregate({"total": sum("v")}, ("k",)), 1, 4, None)
    made.output_schema(schema)
    for overflow in overflows(made):
        overflow.forgiving = True
    found = drive(made, [page, page, END])
    assert len(bag(found)) == 2
    assert builtin_sum([overflow.count for overflow in overflows(made)]) == 2


def builtin_sum(values: list[int]) -> int:
    return int(np.sum(values))


def test_examples_run() -> None:
    assert doctest.testmod(module).failed == 0
