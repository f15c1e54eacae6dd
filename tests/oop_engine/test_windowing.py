"""Windows of every kind are said in the same way, in Python and as text, and every strategy gives the same answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.api.windowed import Windowed
from oop_engine.plan.graph import OperatorNode, Plan
from oop_engine.plan.strategies import STRATEGIES
from oop_engine.rewrite.demand import demands, windows_of
from oop_engine.rewrite.passes import prepared
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.kernels.ticks import FAR
from operators.pace import Pace
from operators.window import MadeOf, SlidingWindow
from operators.window.counted import CountWindow, LastTuples, SlideByRank, SlideByRows, SlideByTuple
from operators.window.delimited import FixedBandWindow, Marks
from operators.window.session import SessionWindow
from operators.window.user import ContextWindow, ExtentWindow
from operators.window_aggregate.bucket import FROM, UNTIL, Bucket
from operators.window_aggregate.shell import StoreShell
from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate
from operators.window_aggregate.stores.stacks.aggregate import StackAggregate
from punctuation import before
from tests.examples import share
from tests.operators.slicing.contexts import LastTwo

SECOND = 1_000_000_000
TIMES = [3, 1, 8, 7, 2, 9, 15, 30, 31, 12]


def packets() -> Stream:
    table = pa.table(
        {
            "ts": pa.array([t * SECOND for t in TIMES]).cast(pa.timestamp("ns", "UTC")),
            "k": ["a", "b", "a", "a", "b", "b", "a", "a", "b", "a"],
            "v": range(10),
        }
    )
    return oop.arrow(table)


def rows(stream: Stream, *names: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row[name] for name in names) for row in stream.to_arrow().to_pylist())


def operators(stream: Stream) -> list[object]:
    return [node.operator for node in Plan((stream.node,)).nodes if isinstance(node, OperatorNode)]


@pytest.mark.parametrize(
    ("window", "specification"),
    [
        (oop.tumbling("10 s"), SlidingWindow("ts", size=10 * SECOND, slide=10 * SECOND)),
        (
            oop.sliding("10 s", "2 s", origin="1 s"),
            SlidingWindow("ts", size=10 * SECOND, slide=2 * SECOND, origin=SECOND),
        ),
        (oop.session("500 ms"), SessionWindow("ts", gap=SECOND // 2)),
        (oop.band("5 ns", "3 s"), FixedBandWindow("ts", start=5, size=3 * SECOND)),
        (oop.counted(100, slide=10), CountWindow("ts", size=100, slide=10)),
        (oop.latest(10, every="5 s"), LastTuples("ts", size=10, slide=5 * SECOND)),
        (oop.slide_by_tuple("5 s"), SlideByTuple("ts", size=5 * SECOND)),
        (oop.slide_by_rows("5 s", 3), SlideByRows("ts", size=5 * SECOND, rows=3, number="row_num")),
        (oop.slide_by_rank("5 s", 3), SlideByRank("ts", size=5 * SECOND, rows=3)),
    ],
)  # fmt: skip
def test_a_window_is_a_value_that_waits_for_its_stream(window: oop.WindowOf, specification: object) -> None:
    counted = packets().window(window).aggregate(oop.count())
    assert specification in [w for operator in operators(counted) for w in windows_of(operator)]
    text = f"SELECT count(*) [{window}] FROM Main"
    if "BAND" not in text and "ORIGIN" not in text and window.text != "RANGE 10 s, SLIDE 2 s, WA ts":
        assert oop.query(text, Main=packets()).to_arrow().equals(counted.to_arrow())


@pytest.mark.parametrize("strategy", [s for s in STRATEGIES if s not in ("auto", "slicing", "stacks")])
def test_every_strategy_gives_the_same_results_by_group(strategy: str) -> None:
    windowed = packets().window(range="10 s", slide="3 s")
    functions = {"n": oop.count(), "total": oop.sum("v"), "mean": oop.avg("v")}
    expected = rows(windowed.aggregate(by="k", **functions), "k", "wid", "n", "total", "mean")
    assert len(expected) == 19
    assert (
        rows(windowed.aggregate(by="k", strategy=strategy, **functions), "k", "wid", "n", "total", "mean") == expected
    )


@pytest.mark.parametrize(
    "strategy", [s for s in STRATEGIES if s not in ("auto", "stacks", "adaptive", "adaptive_panes")]
)
def test_every_strategy_gives_the_same_results_without_groups(strategy: str) -> None:
    windowed = packets().window(range="10 s", slide="3 s")
    expected = rows(windowed.aggregate(oop.count()), "wid", "count", "window_start", "window_end")
    found = windowed.aggregate(oop.count(), strategy=strategy)
    assert rows(found, "wid", "count", "window_start", "window_end") == expected


def test_concurrent_windows_share_slices_and_tell_which_is_which() -> None:
    together = packets().windows(short=oop.tumbling("10 s"), talk=oop.session("4 s"))
    found = together.aggregate(oop.count(), by="k")
    (slicing,) = operators(found)
    assert isinstance(slicing, SlicingAggregate)
    for name, alone in (("short", oop.tumbling("10 s")), ("talk", oop.session("4 s"))):
        apart = packets().window(alone).aggregate(oop.count(), by="k")
        expected = rows(apart, "k", "window_start", "window_end", "count")
        assert [
            row[1:] for row in rows(found, "window", "k", "window_start", "window_end", "count") if row[0] == name
        ] == expected


KINDS = {
    "short": oop.tumbling("10 s"),
    "long": oop.sliding("12 s", "5 s"),
    "talk": oop.session("4 s"),
    "band": oop.band("2 s", "7 s"),
    "four": oop.counted(4, slide=2),
    "last": oop.latest(3, every="5 s"),
    "each": oop.slide_by_tuple("6 s"),
    "third": oop.slide_by_rows("6 s", 3),
    "ranked": oop.slide_by_rank("6 s", 2),
    "rows": oop.sliding("5 rows", "2 rows", wattr="row_num"),
    "all": oop.sliding("ALL", "8 s"),
    "ends": oop.tumbling("9 s", wattr="end"),
}
RANKS = ("four", "rows")
BOUNDS = ("window_start", "window_end")


@share(2)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.sampled_from("ab"), st.integers(-9, 9)), max_size=20),
    st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=6, unique=True),
    st.sampled_from([(), ("k",)]),
)
def test_windows_of_any_kinds_stand_side_by_side(
    tuples: list[tuple[int, int, str, int]], names: list[str], by: tuple[str, ...]
) -> None:
    """Each window gives what it gives alone, with its name; ranks are no times, so they have no bounds beside those."""
    moment = pa.timestamp("ns", "UTC")
    table = pa.table(
        {
            "ts": pa.array([t * SECOND for t, *_ in tuples], pa.int64()).cast(moment),
            "end": pa.array([(t + long) * SECOND for t, long, *_ in tuples], pa.int64()).cast(moment),
            "k": pa.array([k for *_, k, _ in tuples], pa.string()),
            "v": pa.array([v for *_, v in tuples], pa.int64()),
        }
    )
    stream = oop.arrow(table)
    functions = {"n": oop.count(), "total": oop.sum("v")}
    columns = (*by, *functions, "wid", *BOUNDS)
    together = stream.windows({name: KINDS[name] for name in names}).aggregate(by=by, **functions)
    assert tuple(together.schema.names) == (*by, *functions, "window", "wid", *BOUNDS)
    ranked = any(name not in RANKS for name in names)
    found = together.to_arrow().to_pylist()
    for name in names:
        expected = stream.window(KINDS[name]).aggregate(by=by, **functions).to_arrow().to_pylist()
        if name in RANKS and ranked:
            expected = [row | dict.fromkeys(BOUNDS) for row in expected]
        of_name = [tuple(row[c] for c in columns) for row in found if row["window"] == name]
        assert sorted(of_name, key=repr) == sorted((tuple(row[c] for c in columns) for row in expected), key=repr)
    assert {row["window"] for row in found} <= set(names)


def test_what_can_share_slices_does_so_beside_windows_that_cannot() -> None:
    kinds = {name: KINDS[name] for name in ("short", "four", "talk", "last", "long")}
    found = packets().windows(kinds).aggregate(oop.count(), by="k", lateness=0)
    slicing = [o for o in operators(found) if isinstance(o, SlicingAggregate)]
    assert [list(operator.windows) for operator in slicing] == [["short", "talk", "long"]]
    assert "results of short, talk, long" in found.explain() and "results of four" in found.explain()


def test_windows_that_tuples_define_are_of_the_whole_stream_or_of_each_partition() -> None:
    whole = packets().window(oop.counted(4)).aggregate(oop.count(), by="k")
    assert rows(whole, "wid", "k", "count") == [
        (0, "a", 2),
        (0, "b", 2),
        (1, "a", 3),
        (1, "b", 1),
        (2, "a", 1),
        (2, "b", 1),
    ]
    each = packets().window(oop.counted(4), partition="k").aggregate(oop.count())
    assert rows(each, "k", "wid", "count") == [("a", 0, 4), ("a", 1, 2), ("b", 0, 4)]
    text = "SELECT k, count(*) [RANGE 4 rows, WA rank(ts), PA k] FROM Main"
    assert rows(oop.query(text, Main=packets()), "k", "wid", "count") == rows(each, "k", "wid", "count")


def test_row_windows_without_groups_are_answered_by_stacks() -> None:
    found = packets().window(range="4 rows", slide="2 rows", wattr="row_num").aggregate(oop.max("v"))
    assert any(isinstance(operator, StackAggregate) for operator in operators(found))
    assert rows(found, "wid", "max_v") == [(0, 1), (1, 3), (2, 5), (3, 7), (4, 9), (5, 9)]


def test_released_windows_are_given_again_when_a_late_tuple_comes_in_time() -> None:
    schema = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
    tuples = [(1, 1), (12, 2), (3, 4), (25, 8), (4, 16), (39, 32), (5, 64), (22, 128)]
    late = oop.rows(tuples, schema=schema, punctuate=oop.ordered("ts"))
    found = late.window(oop.tumbling(10)).aggregate(oop.sum("v"), lateness=12).run()
    assert sorted((r["wid"], r["revision"], r["sum_v"]) for r in found.table.to_pylist()) == [
        (0, 0, 1), (0, 1, 5), (1, 0, 2), (2, 0, 8), (2, 1, 136), (3, 0, 32),
    ]  # fmt: skip
    # At 25 the first window is over for good: it ended at 10, and 12 more were allowed.
    assert found.statistics.late == 2


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (oop.counted(2), r"\[RANGE 2 rows, SLIDE 2 rows, WA rank\(ts\)\]"),
        (oop.latest(2, every=10), r"\[RANGE 2 rows, SLIDE 10, WA ts\]"),
        (oop.slide_by_tuple(10), r"\[RANGE 10, RATTR ts, SLIDE 1, SATTR rank\(ts\)\]"),
        (oop.slide_by_rows(10, 2), r"\[RANGE 10, RATTR ts, SLIDE 2, SATTR row-num\]"),
        (oop.slide_by_rank(10, 2), r"\[RANGE 10, RATTR ts, SLIDE 2, SATTR rank\(ts\)\]"),
    ],
)
@pytest.mark.parametrize("partition", ["", "k"])
def test_a_lateness_is_refused_for_windows_that_tuples_define(window: oop.WindowOf, text: str, partition: str) -> None:
    stream = oop.rows([(1, "a")], pa.schema([("ts", pa.int64()), ("k", pa.string())]), punctuate=oop.ordered("ts"))
    windowed = stream.window(window, partition=partition or ())
    with pytest.raises(oop.PlanError, match=rf"lateness=\.\.\.\): {text} cannot be revised; sliding [^$]*more slack"):
        windowed.aggregate(oop.count(), lateness=12)
    assert "revision" not in windowed.aggregate(oop.count(), lateness=0).schema


def test_a_lateness_is_refused_for_windows_with_one_begin_and_those_counted_by_partition() -> None:
    stream = packets()
    for windowed, text in (
        (stream.window(range="ALL", slide="10 s"), r"\[RANGE ALL, SLIDE 10 s, WA ts\]"),
        (stream.window(range="3 rows", wattr="row_num", partition="k"), r"\[RANGE 3 rows, .* PA k\]"),
    ):
        with pytest.raises(oop.PlanError, match=rf"{text} cannot be revised; sliding [^$]*more slack"):
            windowed.aggregate(oop.count(), lateness="1 s")


def test_stacks_over_a_disordered_stream_say_what_to_write_and_it_helps() -> None:
    stream = oop.rows([(1, 1), (7, 1), (3, 1)], pa.schema([("ts", pa.int64()), ("v", pa.int64())]), slack=5)

    def found(stream: Stream, strategy: str) -> list[tuple[object, ...]]:
        return rows(stream.window(range=5).aggregate(oop.count(), strategy=strategy), "wid", "count")

    with pytest.raises(oop.StreamViolation) as refused:
        found(stream, "stacks")
    said = str(refused.value)
    assert '.reorder(on="ts", slack=...)' in said and 'strategy="two_stacks"' in said
    assert "Bucket" not in said and "WindowAggregate" not in said
    assert found(stream.reorder(on="ts", slack=5), "stacks") == found(stream, "two_stacks") == [(0, 2), (1, 1)]


@pytest.mark.parametrize(
    ("window", "released"),
    [
        (oop.counted(2), 3),
        (oop.latest(2, every=5), 4),
        (oop.slide_by_tuple(10), 5),
        (oop.slide_by_rows(10, 2), 2),
        (oop.slide_by_rank(10, 2), 2),
        (oop.sliding("2 rows", "2 rows", wattr="row_num"), 3),
    ],
)
def test_windows_of_every_kind_are_counted(window: oop.WindowOf, released: int) -> None:
    tuples = [(1, "a"), (3, "b"), (2, "a"), (12, "b"), (16, "a")]
    stream = oop.rows(tuples, pa.schema([("ts", pa.int64()), ("k", pa.string())]), slack=5)
    found = stream.window(window).aggregate(oop.count()).run()
    assert found.statistics.windows == released == len(found.table)


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (lambda w: w.aggregate(oop.count(), strategy="pains"), r'no such strategy.\n  Did you mean "panes"'),
        (lambda w: w.aggregate(oop.count(), strategy="stacks", by="k"), "without groups, not for groups"),
        (
            lambda w: w.aggregate(oop.count(), strategy="buffer", empty=True),
            'this is strategy="buffer".\n  Leave empty out, or ask for strategy="panes".$',
        ),
        (
            lambda w: w.aggregate(oop.count(), lateness="1 s", empty=True),
            'this is strategy="slicing".\n  Leave empty out, or leave lateness out.$',
        ),
        (
            lambda w: w.aggregate(oop.concat("k"), strategy="slicing", empty=True),
            'Leave empty out, or ask for strategy="panes".$',
        ),
        (
            lambda w: w.stream.window(oop.session("1 s")).aggregate(oop.count(), empty=True),
            r"this is \[SESSION 1 s, WA ts\].\n  Leave empty out.$",
        ),
        (
            lambda w: w.stream.window(oop.counted(3)).aggregate(oop.count(), empty=True),
            r"this is \[RANGE 3 rows, SLIDE 3 rows, WA rank\(ts\)\].\n  Leave empty out.$",
        ),
        (
            lambda w: w.stream.windows(a=oop.tumbling("1 s"), b=oop.tumbling("2 s")).aggregate(oop.count(), empty=True),
            "these are several.\n  Leave empty out, or aggregate each window by itself.$",
        ),
        (
            lambda w: w.stream.windows(a=oop.session("1 s"), b=oop.tumbling("2 s")).aggregate(oop.count(), empty=True),
            "these are several.\n  Leave empty out.$",
        ),
        (lambda w: w.aggregate(oop.count(), by="k", strategy="buffer", empty=True), '"buffer".\n  Leave empty out.$'),
        (lambda w: w.aggregate(oop.count(), strategy="panes", lateness="1 s"), "lateness"),
        (lambda w: w.stream.window(oop.session("1 s")).aggregate(oop.count(), strategy="wid"), "no window-ids"),
        (lambda w: w.stream.window(oop.counted(3)).aggregate(oop.count(), strategy="panes"), "defined by the tuples"),
        (lambda w: w.stream.window(oop.session("1 s"), slide="1 s"), "this defines the whole window"),
        (lambda w: w.stream.window(oop.own(object())), r"own\(object\): a window of your own is an EdgeWindow"),
        (lambda w: oop.counted(0), r"counted\(tuples\) is a number of tuples, a whole number from 1 on, not 0"),
        (lambda w: oop.counted(3, slide=0), r"counted\(slide=...\) is a number of tuples, [^$]* not 0"),
        (lambda w: oop.counted("3"), "whole number from 1 on, not '3'"),
        (lambda w: oop.latest(True, every="1 s"), r"latest\(tuples\) is a number of tuples, [^$]* not True"),
        (lambda w: oop.slide_by_rows("1 s", 0), r"slide_by_rows\(rows\) is a number of tuples"),
        (lambda w: oop.slide_by_rank("1 s", 1.5), r"slide_by_rank\(rows\) is a number of tuples"),
        (lambda w: oop.session("0 s"), "the gap of a session must be more than nothing, not 0 s"),
        (lambda w: oop.session(-3), "the gap of a session must be more than nothing, not -3"),
        (lambda w: oop.band(0, "0 s"), "the size of a band must be more than nothing"),
        (lambda w: oop.latest(3, every="0 s"), "every must be more than nothing"),
        (lambda w: oop.tumbling("0 s"), "RANGE must be more than nothing"),
        (lambda w: oop.sliding("ALL", "-1 s"), "SLIDE must be more than nothing"),
        (lambda w: oop.slide_by_tuple(0), "RANGE must be more than nothing"),
        (
            lambda w: w.stream.windows(a=oop.session("1 s"), b=oop.tumbling("1 s"), consistent=True).aggregate(
                oop.count()
            ),
            r"^windows\(consistent=True\): [^$]*slicing cannot do. Leave consistent out.$",
        ),
        (
            lambda w: w.stream.windows(a=oop.tumbling("2 s"), b=oop.tumbling("1 s"), consistent=True).aggregate(
                oop.count()
            ),
            "Leave consistent out, or aggregate each window by itself.$",
        ),
        (
            lambda w: w.stream.window(oop.session("1 s"), consistent=True).aggregate(oop.count()),
            r"^window\(consistent=True\): [^$]*Leave consistent out.$",
        ),
        (
            lambda w: w.stream.window("2 s", slide="1 s", consistent=True).aggregate(oop.count(), strategy="slicing"),
            'Leave consistent out, or ask for strategy="panes".$',
        ),
        (lambda w: w.stream.window(oop.tumbling("1 s", wattr="k")), "must be an integer, a time or a decimal"),
        (lambda w: w.stream.windows(), "needs at least one"),
        (lambda w: w.stream.windows(a="10 s"), "no window"),
        (
            lambda w: w.stream.windows(a=oop.tumbling(3, wattr="v"), b=oop.tumbling("1 s")).aggregate(oop.count()),
            r"a is over v \(int64\), b over ts \(timestamp.*\),\n[^$]*window_start is of one type",
        ),
        (
            lambda w: w.stream.windows(a=oop.counted(3), b=oop.tumbling("1 s")).aggregate(
                oop.count(), strategy="panes"
            ),
            r'strategy="panes"\): a, b are windows [^$]*side by side[^$]*Leave strategy out',
        ),
        (
            lambda w: w.stream.windows(a=oop.counted(3), b=oop.tumbling("1 s")).aggregate(oop.count(), empty=True),
            "Leave empty out",
        ),
        (
            lambda w: w.stream.windows(a=oop.counted(3), b=oop.tumbling("1 s")).aggregate(oop.count(), lateness="1 s"),
            "cannot be revised",
        ),
        (
            lambda w: w.stream.windows(a=oop.counted(3), b=oop.tumbling("1 s")).aggregate(window=oop.count()),
            "two results are named window",
        ),
        (
            lambda w: w.stream.window(oop.sliding("ALL", "1 s")).aggregate(oop.count(), strategy="slicing"),
            "is not made of slices",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_a_way_out(refused: object, words: str) -> None:
    windowed: Windowed = packets().window(range="10 s", slide="3 s")
    with pytest.raises((oop.PlanError, oop.SchemaError), match=words):
        refused(windowed)  # type: ignore[operator]


def test_explain_says_the_strategy_why_and_what_is_kept() -> None:
    def explained(stream: Stream) -> str:
        return " ".join(stream.explain().replace("│", " ").split())

    text = explained(packets().window(range="9 s", slide="6 s").aggregate(oop.count(), by="k"))
    assert "panes [RANGE 3 s, SLIDE 3 s, WA ts], windows over them [RANGE 3, SLIDE 2, WA pane-id]" in text
    assert "strategy panes" in text and "bytes for each slice and group" in text
    session = explained(packets().window(oop.session("4 s")).aggregate(oop.count(), by="k"))
    assert "[SESSION 4 s, WA ts], class FCF" in session and "strategy slicing" in session
    assert "tuples are not kept besides slices: a late tuple only updates, extends or merges slices (Fig 4)" in session
    assert "slices need not be split: a gap has no tuples, so a cut in it is an update (Fig 5)" in session
    assert "store lazy, with groups, slices are combined when a window is complete" in session
    many = explained(packets().window(range="10 s", slide="10 ms").aggregate(oop.count()))
    assert "store eager: slices are combined ahead, about 1000 slices a window" in many
    marks = explained(packets().derive(m=oop.Column("v") > 1).window(oop.marked("m")).aggregate(oop.count()))
    assert "tuples are kept besides slices: a late tuple may set an edge within a slice (Fig 4)" in marks
    assert "slices may be split: a late tuple may set an edge within a slice (Fig 5)" in marks


LOOKS_BACK = {
    **{name: KINDS[name] for name in ("four", "each", "third", "ranked")},
    "last": oop.latest(3, every="5 s", idle=False),
    "busy": oop.when("v > 4", within="9 s"),
    "two": oop.own(ContextWindow("ts", LastTwo)),
}


def tags(stream: Stream) -> bool:
    """Return whether the plan that is run has tuples with window-ids between its operators."""
    nodes = prepared(stream.node).nodes
    return any({FROM, UNTIL} & {*node.schema.names} for node in nodes if isinstance(node, OperatorNode))


@pytest.mark.parametrize("name", LOOKS_BACK)
def test_no_bucket_tags_tuples_whose_windows_later_tuples_decide(name: str) -> None:
    """Windows of class FCA have no Bucket in front of them, and every strategy that would need one refuses them."""
    windowed = packets().window(LOOKS_BACK[name])
    found = windowed.aggregate(oop.count(), by="k")
    assert "class FCA (" in found.explain()
    assert not tags(found)
    taken = [strategy for strategy in STRATEGIES if _taken(windowed, strategy)]
    assert "auto" in taken and set(taken) <= {"auto", "slicing"}
    for strategy in taken:
        assert not tags(windowed.aggregate(oop.count(), by="k", strategy=strategy))
    assert tags(packets().window(KINDS["long"]).aggregate(oop.count(), by="k", strategy="wid")), "CF"
    assert tags(packets().window(KINDS["rows"], partition="k").aggregate(oop.count(), strategy="wid")), "FCF"


def _taken(windowed: Windowed, strategy: str) -> bool:
    try:
        windowed.aggregate(oop.count(), by="k", strategy=strategy)
    except oop.PlanError:
        return False
    return True


def test_windows_ask_for_promises_as_often_as_they_need_them() -> None:
    def pace(stream: Stream) -> list[Pace]:
        return [found["ts"] for found in demands(Plan((stream.node,))).values()]

    assert pace(packets().window(oop.session("4 s")).aggregate(oop.count())) == [Pace(SECOND)]
    assert pace(packets().window(oop.slide_by_tuple("4 s")).aggregate(oop.count())) == [Pace(SECOND)]
    assert pace(packets().window(oop.latest(3, every="4 s")).aggregate(oop.count())) == [Pace(4 * SECOND)]
    both = packets().windows(a=oop.tumbling("4 s"), b=oop.tumbling("6 s"))
    assert pace(both.aggregate(oop.count())) == [Pace(2 * SECOND)]


def test_windows_of_ones_own_are_windows_like_any_other() -> None:
    def decade(t: int) -> int:
        return (t // (10 * SECOND) + 1) * (10 * SECOND)

    found = packets().window(oop.edges(decade)).aggregate(oop.count(), by="k")
    expected = packets().window(oop.tumbling("10 s")).aggregate(oop.count(), by="k")
    names = ("k", "window_start", "window_end", "count")
    assert rows(found, *names) == rows(expected, *names)
    assert "[EdgeWindow, WA ts], class CF" in found.explain()


def test_marked_tuples_delimit_windows() -> None:
    marks = packets().derive(new="v = 4 or v = 6 or v = 8")  # at 2 s, 15 s and 31 s
    found = marks.window(oop.marked("new")).aggregate(oop.count())
    assert rows(found, "window_start", "count") == [
        (pa.scalar(2 * SECOND, pa.timestamp("ns", "UTC")).as_py(), 6),
        (pa.scalar(15 * SECOND, pa.timestamp("ns", "UTC")).as_py(), 2),
    ]


@pytest.mark.parametrize("window", [oop.tumbling("2 s"), oop.sliding("3 s", slide="1 s"), oop.session("1 s")])
def test_over_a_time_partitions_are_groups(window: oop.WindowOf) -> None:
    apart = packets().window(window, partition="k").aggregate(oop.sum("v"))
    grouped = packets().window(window).aggregate(oop.sum("v"), by="k")
    assert apart.run().table.equals(grouped.run().table) and apart.run().table.num_rows > 1
    more = packets().window(window, partition="k").aggregate(oop.count(), by=("v", "k"))
    assert more.run().table.equals(packets().window(window).aggregate(oop.count(), by=("k", "v")).run().table)
    text = "SELECT k, sum(v) AS x [RANGE 2 s{}, WA ts] FROM P{}"
    one, other = (oop.query(text.format(*t), P=packets()) for t in ((", PA k", ""), ("", " GROUP BY k")))
    assert one.run().table.equals(other.run().table)
    assert packets().window("2 s", partition="k").aggregate(oop.count()).schema.names[0] == "k"


def test_a_slide_that_is_too_small_is_refused_before_it_takes_for_ever() -> None:
    told = (
        r"RANGE 1 hour and SLIDE 1 ns put each tuple into 3,600,000,000,000 windows, .*\n"
        r"  Let them SLIDE by 360 us at least"
    )
    stream = packets()
    for refused in (
        lambda: stream.window("1 hour", slide="1 ns"),
        lambda: stream.windows(a=oop.sliding("1 hour", "1 ns"), b=oop.tumbling("1 s")),
        lambda: oop.query("SELECT count(*) [RANGE 1 hour, SLIDE 1 ns, WA ts] FROM main", {"main": stream}),
        lambda: oop.query(
            "SELECT k, count(*) [RANGE 1 hour, SLIDE 1 ns, WA ts] FROM main GROUP BY k", {"main": stream}
        ),
    ):
        with pytest.raises((oop.PlanError, oop.LanguageError), match=f"(?s){told}"):
            refused()
    stream.window("1 hour", slide="360 us")
    stream.window("1 ns")
    oop.rows([(1,)], pa.schema([("ts", pa.int64())])).window(10**12, slide=1)


@pytest.mark.parametrize(
    "refused",
    [
        lambda s: s.window(60),
        lambda s: s.window("1 hour", slide=60),
        lambda s: s.window("1 hour", origin=60),
        lambda s: s.window("ALL", slide=60),
        lambda s: s.window(oop.tumbling(60)),
        lambda s: s.window(oop.sliding("1 hour", 60)),
        lambda s: s.window(oop.session(60)),
        lambda s: s.window(oop.band("0 s", 60)),
        lambda s: s.window(oop.latest(3, every=60)),
        lambda s: s.window(oop.slide_by_tuple(60)),
        lambda s: s.window(oop.slide_by_rows(60, 2)),
        lambda s: s.window(oop.slide_by_rank(60, 2)),
        lambda s: s.window("1 hour").aggregate(oop.count(), lateness=60),
        lambda s: s.window("1 hour").aggregate(oop.count(), early=60),
        lambda s: s.window("1 hour").aggregate(oop.count(), early=oop.early(at=60)),
        lambda s: s.join(s, range=60),
        lambda s: s.join(s, range=("1 s", 60)),
        lambda s: s.join(s, tumbling=60),
        lambda s: s.join(s, tumbling="1 hour", origin=60),
        lambda s: s.reorder(slack=60),
        lambda s: s.spread("v", step=60, end="ts"),
        lambda s: oop.arrow(s.to_arrow(), slack=60),
        lambda s: oop.arrow(s.to_arrow(), punctuate=oop.every(60)).window("1 hour").aggregate(oop.count()),
        lambda s: oop.arrow(s.to_arrow(), punctuate=oop.ordered(lull=60)).window("1 hour").aggregate(oop.count()),
        lambda s: oop.arrow(s.to_arrow(), punctuate=oop.blocks(length=60)).window("1 hour").aggregate(oop.count()),
        lambda s: oop.netflow(listen="127.0.0.1:0", active=60),
        lambda s: oop.query("SELECT count(*) [RANGE 60, WA ts] FROM main", main=s),
        lambda s: oop.query("SELECT count(*) [RANGE 1 hour, SLIDE 60, WA ts] FROM main", main=s),
        lambda s: oop.query("SELECT count(*) [SESSION 60, WA ts] FROM main", main=s),
        lambda s: oop.query("SELECT count(*) [RANGE 1 hour, WA ts, ORIGIN 60] FROM main", main=s),
        lambda s: oop.query("SELECT count(*) [RANGE 1 hour, WA ts, EARLY 60] FROM main", main=s),
        lambda s: oop.query("SELECT v FROM main WHERE ts > 60", main=s),
        lambda s: s.filter("ts > 60"),
        lambda s: s.filter(lambda p: p["ts"] + 60 > p["ts"]),
    ],
)  # fmt: skip
def test_a_bare_number_beside_a_time_is_asked_for_its_unit(refused: Callable[[Stream], Stream]) -> None:
    with pytest.raises((oop.PlanError, oop.SchemaError, oop.LanguageError), match=r"60 of what(.|\n)*Write"):
        refused(packets()).explain()


def test_a_windowing_attribute_that_is_no_whole_number_is_refused_with_ways_out_that_work(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,d,v\n0.5,0.50,1\n5.25,5.25,2\n1.5,1.50,3\n")
    told = (
        r'types={"x": "decimal\(18, 2\)"}[^$]*--types "x=decimal\(18, 2\)"[^$]*'
        r'table\["x"\].cast\(pa.decimal128\(18, 2\)\)[^$]*types={"x": "epoch"}[^$]*--types x=epoch'
    )
    floats = oop.table(path)
    for refused in (
        lambda: floats.window(5, wattr="x"),
        lambda: floats.window(oop.session(5, wattr="x")),
        lambda: floats.join(floats, range=5, wattr="x"),
        lambda: oop.query("SELECT count(*) [RANGE 5, WA x] FROM s", s=floats),
        lambda: oop.query("SELECT s.v FROM s [RANGE 5, WA x], t [RANGE 5, WA x]", s=floats, t=floats),
        lambda: oop.table(path, slack=5, on="x"),
    ):
        with pytest.raises((oop.PlanError, oop.SchemaError, oop.LanguageError), match=told):
            refused()
    times = oop.table(path, types={"x": "epoch", "d": "epoch"})
    assert rows(times.window("5 s", wattr="x").aggregate(oop.count()), "wid", "count") == [(0, 2), (1, 1)]
    decimals = oop.table(path, types={"x": "decimal(18, 2)", "d": "decimal(18, 2)"})
    cast = oop.arrow(floats.to_arrow().set_column(0, "x", floats.to_arrow()["x"].cast(pa.decimal128(18, 2))))
    for stream in (decimals, cast):
        assert rows(stream.window(5, wattr="x").aggregate(oop.count()), "wid", "count") == [(0, 2), (1, 1)]
    table = times.to_arrow()
    table = pa.table({"x": pc.floor(pa.array([0.5, 5.25, 1.5])).cast("int64"), "v": table["v"]})
    whole = oop.arrow(table).derive(half="x // 2")
    assert rows(whole.window(5, wattr="x").aggregate(oop.count()), "wid", "count") == [(0, 2), (1, 1)]
    assert rows(whole.window(1, wattr="half").aggregate(oop.count()), "wid", "count") == [(0, 2), (2, 1)]


def test_times_that_are_text_are_refused_with_a_way_out_that_works(tmp_path: Path) -> None:
    stamps = ("2026-11-21T10:00:00", "21st", "2026-11-21T10:00:07+00:00")
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["x", *stamps, ""]))
    with pytest.raises(oop.PlanError, match=r'types={"x": "timestamp"} \(ISO 8601 text\)[^$]*--types x=timestamp'):
        oop.table(path).window("5 s", wattr="x")
    path.write_text("\n".join(["x", stamps[0], stamps[2], ""]))
    counted = oop.table(path, types={"x": "timestamp"}).window("5 s", wattr="x").aggregate(oop.count())
    assert len(rows(counted, "wid")) == 2


def test_ticks_are_written_with_their_unit() -> None:
    counted = packets().window("10000000000 ns").aggregate(oop.count()).to_arrow()
    assert counted.equals(packets().window("10 s").aggregate(oop.count()).to_arrow())
    assert oop.query("SELECT count(*) [RANGE 10000000000 ns, WA ts] FROM main", main=packets()).to_arrow() == counted
    compound = oop.query("SELECT count(*) [RANGE 1h30m, SLIDE 1 m 30 s, WA ts] FROM main", main=packets())
    assert "[RANGE 90 minutes, SLIDE 90 s, WA ts]" in compound.explain()


@pytest.mark.parametrize(
    ("window", "grows"),
    [
        (oop.counted(3), True),
        (oop.latest(3, every="1 s", idle=False), True),
        (oop.latest(3, every="1 s"), False),
        (oop.slide_by_rank("10 s", 2), True),
        (oop.slide_by_tuple("10 s"), False),
    ],
    ids=str,
)
def test_explain_says_that_what_is_counted_by_partition_grows(window: oop.WindowOf, grows: bool) -> None:
    told = "state grows with every new value of k: its tuples are counted on for ever"
    text = " ".join(packets().window(window, partition="k").aggregate(oop.count(), by="k").explain().split())
    assert (told in text) == grows
    assert told not in " ".join(packets().window(window).aggregate(oop.count(), by="k").explain().split())


def test_explain_says_nothing_of_growth_where_rows_are_not_by_partition_or_a_partition_ends() -> None:
    rows = packets().window("3 rows", wattr="row_num", partition="k").aggregate(oop.count())
    assert "state grows with every new value of k" in rows.explain()
    schema = oop.Schema.of(ts=pa.int64(), k=pa.string(), progress=["ts", "k"])
    ends = oop.pages([], schema).window(oop.counted(3), partition="k").aggregate(oop.count(), by="k")
    assert "state grows" not in ends.explain()


def test_a_tuple_in_too_many_windows_is_told_where_each_has_an_aggregate() -> None:
    integers = oop.rows([(5,), (7,)], pa.schema([("ts", pa.int64())]))
    told = r"(?s)a tuple is in 1,000,000,000,000 windows, from 5 on, .*RANGE 1000000000000, SLIDE 1, in ticks of ts"
    with pytest.raises(oop.SchemaError, match=told):
        integers.window(10**12, slide=1).aggregate(oop.count(), strategy="wid").run()


PARTED = {
    "tumbling": oop.tumbling(4),
    "rows": oop.sliding("3 rows", "2 rows", wattr="row_num"),
    "all rows": oop.sliding("ALL", "2 rows", wattr="row_num"),
    "session": oop.session(3),
    "band": oop.band(2, 9),
    "counted": oop.counted(3, slide=2),
    "latest": oop.latest(2, every=4, idle=False),
    "by tuple": oop.slide_by_tuple(4),
    "by rows": oop.slide_by_rows(4, 2),
    "by rank": oop.slide_by_rank(4, 2),
    "marked": oop.marked("v"),
    "runs": oop.when("v % 3 > 0"),
    "when": oop.when(enter="v % 2 = 0", leave=lambda p: p["ts"] > 9, within=5),
}


@pytest.mark.parametrize("name", PARTED)
@share(1)
@given(
    tuples=st.lists(st.tuples(st.integers(0, 20), st.sampled_from("abc"), st.booleans()), max_size=16),
    page_rows=st.integers(1, 16),
)
def test_each_partition_has_the_windows_that_it_would_have_alone(
    name: str, tuples: list[tuple[int, str, bool]], page_rows: int
) -> None:
    table = pa.table(
        {
            "ts": pa.array([ts for ts, _, _ in tuples], pa.int64()),
            "k": pa.array([k for _, k, _ in tuples], pa.string()),
            "v": pa.array(range(len(tuples)), pa.int64()),
            "kept": pa.array([kept for _, _, kept in tuples], pa.bool_()),
        }
    )

    def found(stream: Stream, partition: str = "") -> list[tuple[object, ...]]:
        result = stream.window(PARTED[name], partition=partition or ()).aggregate(oop.count(), oop.sum("v"), by="k")
        return sorted(tuple(row.values()) for page in result.start(page_rows=page_rows) for row in page.rows())

    # A filter before: tuples of a partition are counted where its windows are.
    stream = oop.arrow(table).filter("kept")
    alone = [found(oop.arrow(table.filter(pc.and_(pc.equal(table["k"], k), table["kept"])))) for k in "abc"]
    assert found(stream, partition="k") == sorted(row for rows in alone for row in rows)


@attrs.frozen
class Halves:
    """Windows of 7 ticks every 4 ticks, that a user numbers in arithmetic of their own."""

    wattr: str
    context = "CF"

    def extent(self, wid: int) -> tuple[int, int]:
        return 4 * wid, 4 * wid + 7

    def extents(self, wids: Int64s) -> tuple[Int64s, Int64s]:
        return 4 * wids, 4 * wids + 7

    def wids(self, values: Int64s) -> tuple[Int64s, Int64s]:
        return -((6 - values) // 4), values // 4 + 1

    def windows(self, values: Int64s) -> Int64s:
        first, last = self.wids(values)
        found = [np.arange(a, b) for a, b in zip(first, last, strict=True)]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def complete(self, bound: int) -> int:
        return (bound - 7) // 4 + 1


@given(st.lists(st.tuples(st.integers(-9, 30), st.integers(0, 2)), max_size=12), st.booleans())
@share(0.3)
def test_a_window_of_the_users_own_that_tells_window_ids_equals_the_one_that_only_has_extents(
    tuples: list[tuple[int, int]], grouped: bool
) -> None:
    stream = oop.rows(tuples, pa.schema([("ts", pa.int64()), ("k", pa.int64())]), slack=9)
    by = "k" if grouped else ()
    fast, slow = oop.own(Halves("ts")), oop.own(ExtentWindow("ts", Halves("ts").extent, range(-5, 9)))
    answers = [stream.window(window).aggregate(oop.count(), oop.sum("k"), by=by) for window in (fast, slow)]
    found, wanted = ([tuple(row.values()) for row in answer.to_arrow().to_pylist()] for answer in answers)
    assert sorted(found) == sorted(wanted)


def test_a_window_of_the_users_own_lives_in_the_shell_of_all() -> None:
    stream = oop.rows([(1, 5), (12, 2), (3, 7)], pa.schema([("ts", pa.int64()), ("k", pa.int64())]))
    totals = stream.window(oop.own(Halves("ts"))).aggregate(oop.count())
    node = Plan((totals.node,)).nodes[-1]
    operator = node.operator if isinstance(node, OperatorNode) else None
    assert isinstance(operator, StoreShell)
    assert "[Halves, WA ts]" in totals.explain()
    assert "a window of your own that tells the window-ids" in totals.explain()
    fresh = attrs.evolve(operator)
    bucketed = stream.apply(Bucket(Halves("ts"))).run().table.to_batches()[0]
    fresh.process(Page(Schema(bucketed.schema), bucketed), lambda _: None)
    assert fresh.open_windows().column("wid").to_pylist() == [-1, 0, 2, 3]
    assert fresh.closed_by(2) == before("wid_from", 3)
    for strategy in ("panes", "buffer", "two_level", "slicing"):
        with pytest.raises(oop.PlanError, match=r"\[Halves, WA ts\] [^$]*Leave strategy out"):
            stream.window(oop.own(Halves("ts"))).aggregate(oop.count(), strategy=strategy)
    with pytest.raises(oop.PlanError, match="has wids"):
        oop.own(object())  # type: ignore[arg-type]


@attrs.frozen
class Squares:
    """Windows between square numbers, that a user makes of slices: it says where its edges are, and no more."""

    wattr: str
    context = "CF"
    made_of = MadeOf.SLICES

    def around(self, tick: int) -> tuple[int, int, int, bool]:
        if tick < 0:
            return -FAR, 0, -FAR, False
        root = math.isqrt(tick)
        return root**2, (root + 1) ** 2, (root + 1) ** 2, True

    def complete(self, after: int, bound: int, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
        for root in sorted({math.isqrt(begin) for begin, _ in spans if begin >= 0}):
            if after < (root + 1) ** 2 <= bound:
                yield root, root**2, (root + 1) ** 2

    def unfinished(self, bound: int) -> int:
        return math.isqrt(bound) ** 2 if bound >= 0 else 0


@given(st.lists(st.tuples(st.integers(-9, 70), st.integers(0, 2)), max_size=12), st.booleans())
@share(0.3)
def test_a_window_of_the_users_own_that_is_made_of_slices_shares_them_as_ours_do(
    tuples: list[tuple[int, int]], grouped: bool
) -> None:
    stream = oop.rows(tuples, pa.schema([("ts", pa.int64()), ("k", pa.int64())]), slack=9)
    by = "k" if grouped else ()
    extents = ExtentWindow("ts", lambda root: (root**2, (root + 1) ** 2), range(9))
    answers = [
        stream.windows(a=oop.tumbling(5), b=oop.own(window)).aggregate(oop.count(), oop.sum("k"), by=by)
        for window in (Squares("ts"), extents)
    ]
    found, wanted = ([tuple(row.values()) for row in answer.to_arrow().to_pylist()] for answer in answers)
    assert sorted(found) == sorted(wanted)


def test_a_plan_treats_a_window_by_what_it_states_and_not_by_its_class() -> None:
    stream = oop.rows([(1, 5), (12, 2), (3, 7)], pa.schema([("ts", pa.int64()), ("k", pa.int64())]), slack=20)
    squares = stream.window(oop.own(Squares("ts")))
    assert "slicing" in squares.aggregate(oop.count()).explain()
    late = squares.aggregate(oop.count(), lateness=5).to_arrow()
    assert late.column("window_start").to_pylist() == [1, 9]
    with pytest.raises(oop.PlanError, match=r"\[Squares, WA ts\] has no window-ids that a tuple alone tells"):
        squares.aggregate(oop.count(), strategy="panes")

    @attrs.frozen
    class Half:
        wattr: str
        made_of = MadeOf.SLICES

    with pytest.raises(oop.PlanError, match=r"made_of =\n  MadeOf.SLICES and has around\(\)"):
        oop.own(Half("ts"))  # type: ignore[arg-type]


def test_windows_that_all_tuples_end_together_are_refused_by_partition() -> None:
    schema = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("m", pa.bool_())])
    stream = oop.rows([(1, "a", True), (2, "b", True), (3, "a", True)], schema, punctuate=oop.ordered("ts"))
    own = oop.own(ContextWindow("ts", lambda: Marks("m"), reads=("m",)))
    with pytest.raises(oop.PlanError, match=r'window\(ContextWindow, WA ts, partition="k"\): [^$]*Filter [^$]*by="k"'):
        stream.window(own, partition="k")
    # What the message says: all have the same windows, or one has its own.
    shared = stream.window(own).aggregate(oop.count(), by="k")
    assert rows(shared, "k", "wid", "window_end", "count") == [("a", 1, 2, 1), ("b", 2, 3, 1)]
    alone = stream.filter("k = 'a'").window(own).aggregate(oop.count())
    assert rows(alone, "wid", "window_end", "count") == [(1, 3, 1)]
    # Marks are of each partition alone, where it is asked for.
    marked = stream.window(oop.marked("m"), partition="k").aggregate(oop.count())
    assert rows(marked, "k", "wid", "window_end", "count") == [("a", 1, 3, 1)]


def test_when_says_what_it_lacks_and_where_it_cannot_be() -> None:
    with pytest.raises(oop.PlanError, match=r"(?s)begins and ends by two.*Write when\("):
        oop.when(leave="v > 2")
    with pytest.raises(oop.PlanError, match=r"(?s)one condition is true.*Write when\("):
        oop.when("v > 2", leave="v < 1")
    stream = oop.rows([(1, 5), (2, 0), (3, 5)], oop.Schema.of(ts="int64", v="int64"))
    with pytest.raises(oop.SchemaError, match=r"(?s)when\(v\): this is of type int64.*load > 80"):
        stream.window(oop.when("v"))
    with pytest.raises(oop.PlanError, match=r"(?s)windows: busy has windows of its own for each v.*by itself"):
        stream.windows(busy=oop.when("v > 2", by="v"), tens=oop.tumbling(10))
    beside = stream.windows(busy=oop.when(lambda p: p["v"] > 2), tens=oop.tumbling(10)).aggregate(oop.count())
    assert sorted(rows(beside, "window", "wid", "count")) == [("busy", 1, 1), ("busy", 3, 1), ("tens", 0, 3)]
    with pytest.raises(oop.PlanError, match=r"\[WHEN v > 2 WITHIN 9, WA ts\] cannot be revised"):
        stream.window(oop.when("v > 2", within=9)).aggregate(oop.count(), lateness=3)


def test_rows_of_a_partition_are_counted_in_query_text_as_in_python() -> None:
    tuples = [(1, "b"), (2, "a"), (3, "b"), (4, "a"), (5, "b")]
    stream = oop.rows(tuples, pa.schema([("ts", pa.int64()), ("k", pa.string())]), punctuate=oop.ordered("ts"))
    result = oop.query("SELECT k, count(*) [RANGE 9, RATTR ts, SLIDE 2, SATTR row-num, PA k] FROM M", M=stream)
    # Every second tuple of each ends a window; of the whole stream these are tuples of a, and none of b.
    assert rows(result, "k", "wid", "count") == [("a", 4, 2), ("b", 3, 2)]
    assert "row_num" not in result.explain()


def test_explain_says_that_a_window_without_an_end_holds_back_promises() -> None:
    stream = oop.rows([(1, 2)], oop.Schema.of(ts="int64", v="int64"))
    told = [stream.window(oop.when("v > 1", within=w)).aggregate(oop.count()).explain() for w in (None, 5)]
    assert ["WITHIN bounds it" in one for one in told] == [True, False]
