"""What is not commutative sees its tuples in order of the windowing attribute, what goes by arrival in that of arrival.

Whatever the disorder, the pages, the promises, the groups, the windows beside, and the moments of saving.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.baselines.adaptive.adaptive import AdaptiveAggregate
from operators.baselines.buffer.aggregate import BufferAggregate
from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import AggregateOverflow, SchemaError
from operators.functions import argmin, concat, count, first, last, m4, user_aggregate
from operators.functions.arrival import ARRIVAL
from operators.functions.protocol import AggregateFunction
from operators.protocol import Operator
from operators.testing import Script, check_operator, streams
from operators.window import LandmarkWindow, PartitionedWindow, SlidingWindow, Window, tumbling
from operators.window.delimited import DelimitedWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.group_by import GroupAggregate
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END, before
from tests.examples import share
from tests.naive_aggregate import naive_windows
from tests.naive_slicing import naive_slicing
from tests.operators.slicing.mixes import SCHEMA, kinds, mixed, slidings

PRIME = 1_000_003
DIGITS = user_aggregate(
    "digits",
    lambda v: ((v + 7) % PRIME, 31),
    lambda a, b: ((a[0] * b[1] + b[0]) % PRIME, a[1] * b[1] % PRIME),
    lambda s: s[0],
    arguments="v",
    identity=(0, 1),
    output=pa.int64(),
    commutative=False,
    interpreted=True,
)
ORDERED: dict[str, AggregateFunction] = {"n": count(), "digits": DIGITS}
ARRIVING: dict[str, AggregateFunction] = {
    "first": first("v"),
    "last": last("v"),
    "texts": concat("k", separator=","),
}
Answer = Callable[[list[Row]], object]


def digits(members: list[Row]) -> int | None:
    values = [int(row["v"]) for row in members if row["v"] is not None]  # type: ignore[arg-type]
    total = 0
    for value in values:
        total = (total * 31 + value + 7) % PRIME
    return total if values else None


def by_time(members: list[Row]) -> int | None:
    """Ties stay in order of arrival."""
    return digits(sorted(members, key=lambda row: int(row["ts"])))  # type: ignore[arg-type]


def texts(members: list[Row]) -> list[str]:
    return [str(row["k"]) for row in members if row["k"] is not None]


ARRIVED: dict[str, Answer] = {
    "first": lambda members: next((row["v"] for row in members if row["v"] is not None), None),
    "last": lambda members: next((row["v"] for row in reversed(members) if row["v"] is not None), None),
    "texts": lambda members: ",".join(texts(members)) if texts(members) else None,
}
IN_TIME: dict[str, Answer] = {"n": len, "digits": by_time}
BY = st.sampled_from([(), ("k",)])
nulls = streams(SCHEMA, group=("k",), tuples=12, nulls=("v", "k"))
marked = st.just(DelimitedWindow("ts", "v"))


@share(1)
@given(st.lists(kinds | marked, min_size=1, max_size=3).map(mixed), BY, st.sampled_from(["auto", "lazy"]), nulls)
def test_slices_give_ordered_functions_the_order_of_time_and_others_that_of_arrival(
    mix: Mapping[str, object], by: tuple[str, ...], store: str, script: Script
) -> None:
    functions = {**ORDERED, **ARRIVING}
    check_operator(
        lambda: SlicingAggregate(mix, functions, by, store=store),  # type: ignore[arg-type]
        script,
        naive=lambda table: naive_slicing(mix, {**IN_TIME, **ARRIVED}, by, table),
        order_matters=True,
    )


@share(0.6)
@given(st.lists(kinds | marked, min_size=1, max_size=3).map(mixed), BY, nulls)
def test_what_goes_by_arrival_does_so_whether_tuples_wait_for_other_windows_or_not(
    mix: Mapping[str, object], by: tuple[str, ...], script: Script
) -> None:
    check_operator(
        lambda: SlicingAggregate(mix, ARRIVING, by),  # type: ignore[arg-type]
        script,
        naive=lambda table: naive_slicing(mix, ARRIVED, by, table),
        order_matters=True,
    )


@share(0.6)
@given(slidings, st.booleans(), BY, nulls)
def test_a_buffer_orders_tuples_by_time_when_a_window_is_complete(
    window: SlidingWindow, landmark: bool, by: tuple[str, ...], script: Script
) -> None:
    chosen: Window = LandmarkWindow("ts", slide=window.slide) if landmark else window
    check_operator(
        lambda: Chain([Bucket(chosen), BufferAggregate(chosen, {**ORDERED, **ARRIVING}, by)]),
        script,
        naive=lambda table: naive_windows(chosen, {**IN_TIME, **ARRIVED}, by, table),
        order_matters=True,
    )


HOW: dict[str, Callable[[Window, Mapping[str, AggregateFunction], tuple[str, ...]], Operator]] = {
    "auto": WindowAggregate,
    "wid": lambda *given: WindowAggregate(*given, strategy="wid"),
    "panes": lambda *given: WindowAggregate(*given, strategy="panes"),
    "two_stacks": lambda *given: WindowAggregate(*given, strategy="two_stacks"),
    "buffer": BufferAggregate,
    "adaptive": AdaptiveAggregate,
}


@pytest.mark.parametrize("how", HOW)
@share(0.25)
@given(st.integers(1, 5), st.integers(1, 4), nulls)
def test_rows_of_partitions_are_in_order_as_they_arrive(how: str, size: int, slide: int, script: Script) -> None:
    window = PartitionedWindow(SlidingWindow("row_num", size=size, slide=slide), ("k",))
    check_operator(
        lambda: Chain([Bucket(window), HOW[how](window, {**ORDERED, **ARRIVING}, ("k",))]),
        script,
        naive=lambda table: naive_windows(window, {"n": len, "digits": digits, **ARRIVED}, ("k",), table),
        order_matters=True,
    )


@pytest.mark.parametrize("how", HOW)
@share(0.25)
@given(slidings, BY, nulls)
def test_what_goes_by_arrival_does_so_under_every_strategy(
    how: str, window: SlidingWindow, by: tuple[str, ...], script: Script
) -> None:
    check_operator(
        lambda: Chain([Bucket(window), HOW[how](window, ARRIVING, by)]),
        script,
        naive=lambda table: naive_windows(window, ARRIVED, by, table),
        order_matters=True,
    )


def test_windows_of_rows_keep_the_order_when_saved_and_restored_after_each_page() -> None:
    """The script of the audit: 1,21,321,... came straight, and 1,21,312,... when restored."""
    schema = Schema.of(ts=pa.int64(), g=pa.string(), v=pa.int64(), progress=["ts"])
    window = PartitionedWindow(SlidingWindow("row_num", size=3, slide=1), ("g",))
    ten = user_aggregate(
        "ten", lambda v: (v, 10), lambda a, b: (a[0] * b[1] + b[0], a[1] * b[1]), lambda s: s[0],
        arguments="v", identity=(0, 1), output=pa.int64(), commutative=False, interpreted=True,
    )  # fmt: skip
    pages = [Page.of(schema, {"ts": [0], "g": ["a"], "v": [v]}) for v in (1, 2, 3, 4)]
    for saving in (False, True):
        operator, found = Chain([Bucket(window), WindowAggregate(window, {"d": ten}, ("g",))]), list[object]()
        for element in (*pages, END):
            found += [row["d"] for row in rows(drive(operator, [element]))]
            if saving:
                saved = operator.state()
                operator = Chain([Bucket(window), WindowAggregate(window, {"d": ten}, ("g",))])
                operator.restore(saved)
        assert found == [1, 12, 123, 234, 34, 4]


@pytest.mark.parametrize("how", ["auto", "wid", "panes", "two_stacks", "adaptive"])
def test_a_strategy_that_cannot_order_tuples_says_so_and_names_one_that_can(how: str) -> None:
    window = SlidingWindow("ts", size=4, slide=2)
    tagged = Bucket(window).output_schema(SCHEMA)
    with pytest.raises(SchemaError, match=r'digits \(digits\) is not commutative.*order of ts(.|\n)*strategy="buffer"'):
        HOW[how](window, ORDERED, ()).output_schema(tagged)
    by_number = SlidingWindow("row_num", size=4, slide=2)
    numbered = Schema.of(row_num=pa.int64(), v=pa.int64(), progress=["row_num"])
    HOW[how](by_number, ORDERED, ()).output_schema(Bucket(by_number).output_schema(numbered))


def test_groups_without_windows_are_aggregated_as_tuples_arrive() -> None:
    page = Page.of(SCHEMA, {"ts": [5, 1, 3], "k": ["a", "a", "a"], "v": [1, 2, 3]})
    (row,) = rows(drive(GroupAggregate({"digits": DIGITS}, ("k",)), [page, END]))
    assert row["digits"] == ((1 + 7) * 31 + 2 + 7) * 31 + 3 + 7


SIMPLE = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts"])


def test_windows_that_wait_begin_among_others_and_all_go_on_by_arrival() -> None:
    """What arrived before any tuple waited is before what did, in texts too."""
    page = Page.of(SIMPLE, {"ts": [15, 13], "k": ["a", "b"], "v": [0, 0]})
    later = Page.of(SIMPLE, {"ts": [18, 11, 17], "k": ["c", "d", "e"], "v": [0, 0, 1]})
    for saving in (False, True):
        windows: dict[str, object] = {"all": tumbling("ts", 100)}
        functions = {"first": first("ts"), "last": last("ts"), "texts": concat("k"), "line": m4("ts")}
        operator = SlicingAggregate(windows, functions, named=True)  # type: ignore[arg-type]
        drive(operator, [page])
        operator.add("marks", DelimitedWindow("ts", "v"))
        drive(operator, [later])
        if saving:
            saved = operator.state()
            operator = SlicingAggregate(windows, functions, named=True)  # type: ignore[arg-type]
            operator.restore(saved)
        (row,) = (row for row in rows(drive(operator, [before("ts", 18), END])) if row["window"] == "all")
        assert (row["first"], row["last"], row["texts"]) == (15, 17, "abcde")
        assert row["line"] == {"min": 11, "max": 18, "first": 15, "last": 17}


def test_tuples_that_wait_for_a_window_that_is_removed_are_not_lost_when_saved() -> None:
    windows = {"all": tumbling("ts", 100), "marks": DelimitedWindow("ts", "v")}
    operator = SlicingAggregate(windows, {"n": count()})
    drive(operator, [Page.of(SIMPLE, {"ts": [5, 3], "k": ["a", "b"], "v": [0, 0]})])
    operator.remove("marks")
    restored = SlicingAggregate(windows, {"n": count()})
    restored.restore(operator.state())
    assert [row["n"] for row in rows(drive(restored, [END]))] == [2]


def test_values_without_an_order_are_chosen_by_arrival_though_tuples_wait() -> None:
    schema = Schema.of(ts=pa.int64(), v=pa.int64(), xs=pa.list_(pa.int64()), progress=["ts"])
    page = Page.of(schema, {"ts": [5, 3], "v": [1, 1], "xs": [[5], [3]]})
    last_one = Page.of(schema, {"ts": [4], "v": [1], "xs": [[4]]})
    windows = {"all": tumbling("ts", 100), "marks": DelimitedWindow("ts", "v")}
    found = rows(drive(SlicingAggregate(windows, {"of": argmin("xs", "v")}), [page, last_one, END]))
    assert [row["of"] for row in found if row["window"] == "all"] == [[5]]


def test_an_attribute_named_as_the_numbers_of_arrival_is_refused() -> None:
    schema = Schema(pa.schema([("ts", pa.int64()), ("v", pa.int64()), (ARRIVAL, pa.int64())]), progress=["ts"])
    with pytest.raises(SchemaError, match="rename yours"):
        SlicingAggregate({"w": tumbling("ts", 2)}, ORDERED).output_schema(schema)
    SlicingAggregate({"w": tumbling("ts", 2)}, {"n": count()}).output_schema(schema)


@pytest.mark.parametrize("how", ["auto", "wid", "panes", "two_stacks", "buffer", "adaptive", "slicing"])
@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()])
def test_a_users_number_that_does_not_fit_names_the_aggregate_the_window_and_the_group(
    how: str, kind: pa.DataType
) -> None:
    total = user_aggregate(
        "total", lambda v: v, lambda a, b: a + b, arguments="v", identity=0, output=kind, interpreted=True
    )
    window, most = SlidingWindow("ts", size=4, slide=2), 2 ** (kind.bit_width - 1) - 1
    page = Page.of(SCHEMA, {"ts": [0, 3, 2, 2], "k": ["a", "b", "b", "a"], "v": [1, 1, most, 2]})
    operator: Operator = SlicingAggregate({"w": window}, {"t": total}, ("k",))
    if how != "slicing":
        operator = Chain([Bucket(window), HOW[how](window, {"t": total}, ("k",))])
    with pytest.raises(AggregateOverflow, match=r"aggregate t of window .*k = b: total\(v\): (.|\n)* does not fit"):
        drive(operator, [page, END])
