"""A join in a plan: what a user may say of it, what is refused, what it asks of its inputs, and how it is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.join import Kind
from oop_engine.api.stream import Stream
from oop_engine.drive.synchronous import Run
from oop_engine.errors import PlanError, SchemaError
from oop_engine.plan.graph import OperatorNode, Plan
from oop_engine.plan.window_join import WindowJoin
from oop_engine.report.drawing import mermaid, svg
from oop_engine.report.explain import explain
from oop_engine.rewrite.demand import columns, demands, pruned
from oop_engine.rewrite.lateness import allowances
from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import deliver, rows
from operators.functions import count
from operators.join import Band, OAJoin, SameWindow, Steps, WidJoin
from operators.pace import Pace
from operators.protocol import Element
from operators.testing import check_operator
from operators.window import SlidingWindow
from operators.window_aggregate.group_by import GroupAggregate
from punctuation import Equals, Punctuation, before
from tests.examples import mostly_slow, share
from tests.naive_join import band, naive_join, related, same_window
from tests.operators.join.joining import LEFT, NAMES, ON, RIGHT, TIMES, Case, scripts

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("n", pa.int64()), ("at", pa.int64())])
TIMED = pa.schema([("ts", pa.timestamp("ns", tz="UTC")), ("k", pa.string()), ("n", pa.int64())])
COARSE = TIMED.set(0, pa.field("ts", pa.timestamp("us", tz="UTC")))
Results = Counter[tuple[object, ...]]


def source(
    data: Sequence[tuple[object, ...]] = (), name: str = "S", schema: pa.Schema = SCHEMA, **more: object
) -> Stream:
    """Make a stream of rows, in record batches of five."""
    columns = list(zip(*data, strict=True)) or [()] * len(schema)
    whole = pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )
    batches = [whole.slice(at, 5) for at in range(0, max(1, len(whole)), 5)]
    return oop.arrow(batches, name=name, **more)  # type: ignore[arg-type]


def table(seed: int, size: int = 40) -> list[Row]:
    ticks = [(seed * 7919 + 37 * i * i) % 61 + i // 3 for i in range(size)]
    return [{"ts": t, "k": "abc"[(t + i) % 3], "n": (t * 31 + i) % 10, "at": t + i % 4} for i, t in enumerate(ticks)]


LEFT_ROWS, RIGHT_ROWS = table(1), table(2)
A = source([tuple(row.values()) for row in LEFT_ROWS], "A")
B = source([tuple(row.values()) for row in RIGHT_ROWS], "B")
M1, M2 = source([], "M1", TIMED), source([], "M2", TIMED)
RENAMED = {name: f"right_{name}" for name in SCHEMA.names}


def answer(stream: Stream, page_rows: int = 8192) -> Results:
    found = Run(Plan((stream.node,)), page_rows)
    return Counter(tuple(row.values()) for _, e in found if isinstance(e, Page) for row in e.rows())


def naive(left: Sequence[Row] = LEFT_ROWS, right: Sequence[Row] = RIGHT_ROWS, **more: object) -> Results:
    found = naive_join(
        left,
        right,
        **{"times": ("ts", "ts"), "on": ON, "names": RENAMED, "columns": (SCHEMA.names, SCHEMA.names), **more},  # type: ignore[arg-type]
    )
    assert found
    return Counter(tuple(row.values()) for row in found)


def sliding(size: int, slide: int) -> SlidingWindow:
    return SlidingWindow("ts", size=size, slide=slide)


@pytest.mark.parametrize(
    ("joined", "expected"),
    [
        (A.join(B, "k", range=3), naive(meets=band(3, 3))),
        (A.join(B, "k", range=(5, 2)), naive(meets=band(5, 2))),
        (A.join(B, "k", range=(5, 0), closed=True), naive(meets=band(5, 0, closed=True))),
        (A.join(B, ["k"], tumbling=4), naive(meets=same_window(4))),
        (A.join(B, ["k"], tumbling=4, origin=-1), naive(meets=same_window(4, -1))),
        (A.join(B, {"k": "k"}, range=2, wattr=("at", "ts")), naive(meets=band(2, 2), times=("at", "ts"))),
        (A.join(B, ["k", ("n", "at")], range=20), naive(meets=band(20, 20), on=[("k", "k"), ("n", "at")])),
        (A.join(B, ("n", "at"), range=20), naive(meets=band(20, 20), on=[("n", "at")])),
        (A.join(B, range=1), naive(meets=band(1, 1), on=())),
        (
            A.join(B, "k", range=6, where=lambda p: p["n"] > p["right_n"]),
            naive(meets=band(6, 6), residual=lambda one, other: one["n"] > other["n"]),
        ),
        (
            A.join(B, "k", range=6, where="n > right_n and right_at < 30", kind="full"),
            naive(meets=band(6, 6), residual=lambda one, o: one["n"] > o["n"] and o["at"] < 30, kind="full"),
        ),
        (A.join(B, "k", range=2, kind="semi"), naive(meets=band(2, 2), kind="semi")),
        (A.join(B, "k", range=2, where="right_n > 4", kind="anti"), naive(
            meets=band(2, 2), residual=lambda one, other: other["n"] > 4, kind="anti"
        )),
        (A.join(A, "k", range=2, where="n < right_n"), naive(
            right=LEFT_ROWS, meets=band(2, 2), residual=lambda one, other: one["n"] < other["n"]
        )),
        (
            A.join(B, "k", window=WidJoin(sliding(5, 5), sliding(5, 5), Steps(-1))),
            naive(meets=related((5, 5), (5, 5), lambda i, j: j == i - 1)),
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("page_rows", mostly_slow([1, 8192], but=[1]))
def test_a_join_gives_the_pairs_that_asking_every_pair_gives(joined: Stream, expected: Results, page_rows: int) -> None:
    assert answer(joined, page_rows) == expected
    assert len(joined.run().table) == expected.total()


def test_a_chain_of_joins_over_one_stream() -> None:
    chain = A.join(B, "k", range=4, prefix="b_").join(A, ("b_n", "n"), range=4, wattr=("b_ts", "ts"), prefix="c_")
    pairs = naive_join(
        LEFT_ROWS,
        RIGHT_ROWS,
        meets=band(4, 4),
        times=("ts", "ts"),
        on=ON,
        names={name: f"b_{name}" for name in SCHEMA.names},
        columns=(SCHEMA.names, SCHEMA.names),
    )
    expected = naive_join(
        pairs,
        LEFT_ROWS,
        meets=band(4, 4),
        times=("b_ts", "ts"),
        on=[("b_n", "n")],
        names={name: f"c_{name}" for name in SCHEMA.names},
        columns=(list(pairs[0]), SCHEMA.names),
    )
    assert expected
    assert answer(chain, 3) == Counter(tuple(row.values()) for row in expected)
    assert chain.schema.names[4:8] == ["b_ts", "b_k", "b_n", "b_at"]


def test_a_join_of_arrival_numbers_numbers_each_input() -> None:
    expected = sum(
        abs(i - j) < 3 and one["k"] == other["k"]
        for i, one in enumerate(LEFT_ROWS)
        for j, other in enumerate(RIGHT_ROWS)
    )
    joined = A.filter("n >= 0").join(B, "k", range="3 rows", wattr="row-num")
    assert joined.schema.names[4] == "row_num"
    assert answer(joined).total() == expected
    itself = A.join(A, "k", range="1 row", wattr="row_num")
    assert len({id(node) for node in itself.node.inputs}) == 1
    assert answer(itself).total() == len(LEFT_ROWS)


def test_an_aggregate_may_progress_on_either_time_on_both_and_on_their_extremes() -> None:
    pairs = naive_join(
        LEFT_ROWS, RIGHT_ROWS, meets=band(3, 3), times=("ts", "ts"), on=ON, names=RENAMED, columns=(SCHEMA.names,) * 2
    )
    joined = A.join(B, "k", range=3, least="first", greatest="last")
    for row in pairs:
        row["first"], row["last"] = min(row["ts"], row["right_ts"]), max(row["ts"], row["right_ts"])  # type: ignore[type-var]
    for wattr in ("ts", "right_ts", "first", "last"):
        counts = Counter(row[wattr] // 7 for row in pairs)  # type: ignore[operator]
        counted = joined.window(range=7, wattr=wattr).aggregate(count())
        assert answer(counted.project("wid", "count"), 4) == Counter(counts.items())
        assert early(counted) > 0
    grouped = joined.aggregate(count(), by=("ts", "right_ts"))
    expected = Counter((row["ts"], row["right_ts"]) for row in pairs)
    assert answer(grouped, 4) == Counter((*key, n) for key, n in expected.items())
    assert early(grouped) > 0


def early(stream: Stream) -> float:
    """Give the share of results that leave before one of the inputs has ended."""
    run = Run(Plan((stream.node,)), 1)
    before_end = total = 0
    for _, element in run:
        if isinstance(element, Page):
            total += len(element)
            ended = sum(meter.tuples_in == len(LEFT_ROWS) for meter in run.circuit.meters[:2])
            before_end += len(element) * (ended == 0)
    return before_end / total


# Fig 7-5: joint against individual punctuation


@pytest.mark.parametrize(("promises", "released"), [("both", 1), ("joint", 1), ("individual", 0)])
def test_a_joint_promise_releases_a_group_that_individual_ones_hold(promises: str, released: int) -> None:
    schema = Schema.of(ts=pa.int64(), progress=["ts"])
    join = OAJoin(Band("ts", "ts", left=2, right=2, closed=True), promises=promises)  # type: ignore[arg-type]
    joined = WindowJoin(join, (schema, schema))
    groups = GroupAggregate({"count": count()}, ("ts", "right_ts"))
    groups.output_schema(joined.output_schema(schema, schema))
    found: list[Element] = []

    def forward(element: Element) -> None:
        deliver(groups, element, found.append, 0)

    # The exclusive rule: what the figure calls 1 is promised as [ts < 2] (semantics row 33).
    script = [
        (0, Page.of(schema, {"ts": [0]})),
        (1, Page.of(schema, {"ts": [1]})),
        (0, before("ts", 2)),
        (1, before("ts", 2)),
    ]
    for port, element in script:
        deliver(joined, element, forward, port)
    assert len(rows(found)) == released
    deliver(joined, before("ts", 4), forward, 0)
    assert len(rows(found)) == 1


def test_a_run_reads_and_stores_what_is_read_of_a_join_and_no_more() -> None:
    counted = A.join(B, "k", range=3).window(range=7, wattr="right_ts").aggregate(count())
    run = Run(Plan((counted.node,)))
    assert list(run)
    *_, join, _, _ = run.circuit.operators
    assert isinstance(join, WindowJoin) and join.join.attributes == ("right_ts",)
    assert "attributes right_ts int64 punctuated" in " ".join(counted.explain().replace("│", " ").split())


def test_a_window_over_a_join_that_nothing_releases_is_told_to_use_a_time_of_the_join() -> None:
    with pytest.raises(PlanError, match="Use an attribute that it promises as the windowing attribute"):
        LIVES.join(LIVES, "k", range=2).window(range=5, wattr="n").aggregate(count())


# What is refused


LIVES = oop.arrow(iter([]), schema=SCHEMA, name="lives", punctuate=oop.ordered("ts"))
LIVE = oop.arrow(iter([]), schema=SCHEMA, name="live")
REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "no window": (lambda: A.join(B, "k"), PlanError, 'Give range="2 minutes"'),
    "two windows": (lambda: A.join(B, "k", range=2, tumbling=3), PlanError, "keep one"),
    "a window and a range": (lambda: A.join(B, window=SameWindow("ts", "ts", size=2), range=2), PlanError, "leave ran"),
    "three ranges": (lambda: A.join(B, range=(1, 2, 3)), PlanError, "for the left and the right"),  # type: ignore[arg-type]
    "nothing": (lambda: A.join(B, range=0), PlanError, "With closed=True it may be 0"),
    "tumbling nothing": (lambda: A.join(B, tumbling=0), PlanError, "tumbling must be more than nothing"),
    "a closed tumbling window": (lambda: A.join(B, tumbling=2, closed=True), PlanError, "Leave closed out"),
    "an origin of a band": (lambda: A.join(B, range=2, origin=1), PlanError, "Leave origin out"),
    "a duration on a number": (lambda: A.join(B, range="3 s"), PlanError, "plain number in the unit of ts"),
    "text as a time": (lambda: A.join(B, range=2, wattr="k"), PlanError, "must be an integer, a time or a decimal"),
    "no such time": (lambda: A.join(B, range=2, wattr=("ts", "tz")), SchemaError, 'join, right input: the input has'),
    "no such key": (lambda: A.join(B, ("k", "key"), range=2), SchemaError, 'no attribute "key"'),
    "keys of different types": (lambda: A.join(B, ("k", "n"), range=2), SchemaError, "cannot be compared for equality"),
    "three keys in a tuple": (lambda: A.join(B, ("k", "n", "at"), range=2), PlanError, "in a list"),  # type: ignore[arg-type]
    "a number as key": (lambda: A.join(B, [1], range=2), PlanError, "1 is neither a name nor a pair"),  # type: ignore[list-item]
    "no condition": (lambda: A.join(B, range=2, where="n + 1"), SchemaError, "a condition is wanted"),
    "an unknown name": (lambda: A.join(B, range=2, where=lambda p: p["m"] > 1), SchemaError, 'no attribute "m"'),
    "an unknown kind": (lambda: A.join(B, range=2, kind="outer"), PlanError, 'kind="outer"'),  # type: ignore[arg-type]
    "unknown promises": (lambda: A.join(B, range=2, promises="single"), PlanError, 'promises="single"'),  # type: ignore[arg-type]
    "a prefix that is taken": (lambda: A.join(B, range=2, prefix=""), SchemaError, "Give another prefix"),
    "no stream": (lambda: A.join("B", range=2), PlanError, "join takes streams, and str is none"),  # type: ignore[arg-type]
    "units that differ": (
        lambda: source(schema=TIMED).join(source(schema=COARSE), tumbling="1 s"),
        SchemaError,
        "Windows need one unit",
    ),
    "arrival numbers of a duration": (lambda: A.join(B, range="3 s", wattr="row-num"), PlanError, "row_num"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_said_in_the_users_words(case: str) -> None:
    make, error, message = REFUSED[case]
    with pytest.raises(error) as caught:
        make()
    assert message in str(caught.value)


def test_a_join_that_nothing_could_purge_names_the_input_that_lacks_a_promise() -> None:
    with pytest.raises(PlanError) as caught:
        A.join(LIVE, "k", range=2)
    assert str(caught.value) == (
        'this join would keep the tuples of its left input, A, for ever: nothing promises "ts" of its right input.\n'
        "  live promises nothing.\n"
        '  Give live a punctuator, e.g. punctuate=oop.every("1s", on="ts"), or\n'
        '  oop.slack("2s", on="ts") if it is out of order.'
    )
    with pytest.raises(PlanError, match="keep the tuples of its right input, B, for ever"):
        A.meld(LIVE).join(B, "k", range=2)


def test_promises_of_single_keys_purge_a_join_on_them() -> None:
    schema = Schema(SCHEMA, progress=[("k", "ts")])
    script = [Page.of(schema, {"ts": [4], "k": ["a"], "n": [1], "at": [1]}), Punctuation({"k": Equals("a")})]
    grouped = oop.pages(script, schema, name="grouped")
    one = grouped.join(grouped, "k", range=2)
    assert len(one.run().table) == 1
    with pytest.raises(PlanError, match="for ever"):
        A.join(grouped, ("n", "n"), range=2)


# What is asked of the inputs


def read(*outputs: Stream) -> list[tuple[str, ...]]:
    return list(columns(pruned(Plan(tuple(s.node for s in outputs)))).values())


@pytest.mark.parametrize(
    ("shape", "left", "right"),
    [
        (lambda j: j, SCHEMA.names, SCHEMA.names),
        (lambda j: j.project("ts"), ["ts", "k"], ["ts", "k"]),
        (lambda j: j.project("right_n"), ["ts", "k"], ["ts", "k", "n"]),
        (lambda j: j.project("n", "right_at"), ["ts", "k", "n"], ["ts", "k", "at"]),
        (lambda j: j.window(range=9, wattr="right_ts").aggregate(count()), ["ts", "k"], ["ts", "k"]),
        (lambda j: j.aggregate(oop.sum("right_n"), by="at"), ["ts", "k", "at"], ["ts", "k", "n"]),
        (lambda j: j.filter("n > right_at").project("k"), ["ts", "k", "n"], ["ts", "k", "at"]),
        (lambda j: j.aggregate(count()), ["ts", "k"], ["ts", "k"]),
    ],
)
def test_what_nobody_reads_of_a_join_is_not_read_below_it(
    shape: Callable[[Stream], Stream], left: Sequence[str], right: Sequence[str]
) -> None:
    stream = shape(A.join(B, "k", range=3))
    assert read(stream) == [tuple(left), tuple(right)]
    small = pruned(Plan((stream.node,)))
    assert Counter(str(row) for _, e in Run(small, 3) if isinstance(e, Page) for row in e.rows()) == Counter(
        str(row) for _, e in Run(Plan((stream.node,)), 3) if isinstance(e, Page) for row in e.rows()
    )


def test_what_the_condition_asks_for_is_read_and_not_put_out() -> None:
    stream = A.join(B, "k", range=3, where="n < right_at").project("ts")
    (join,) = (
        n.operator
        for n in pruned(Plan((stream.node,))).nodes
        if isinstance(n, OperatorNode) and isinstance(n.operator, WindowJoin)
    )
    assert join.join.attributes == ("ts",)
    assert [sorted(names) for names in join.reads] == [["k", "n", "ts"], ["at", "k", "ts"]]


def test_a_chain_is_pruned_from_the_end() -> None:
    chain = A.join(B, "k", range=3, prefix="b_").join(A, ("b_n", "n"), range=3, prefix="c_").project("c_at")
    assert read(chain) == [("ts", "k", "n", "at"), ("ts", "k", "n")]
    assert answer(chain) == Counter(
        {row[0:1]: n for row, n in Counter(
            tuple(row.values()) for _, e in Run(pruned(Plan((chain.node,)))) if isinstance(e, Page) for row in e.rows()
        ).items()}
    )  # fmt: skip


def test_a_plan_without_joins_is_pruned_to_itself() -> None:
    plan = Plan((A.window(range=3).aggregate(count()).node,))
    assert pruned(plan) is plan


def test_a_join_in_several_places_is_pruned_to_what_any_reads() -> None:
    joined = A.join(B, "k", range=3)
    united = joined.project("ts", "n").meld(joined.project(ts="right_ts", n="n"))
    assert read(united, joined.project("right_at")) == [("ts", "k", "n"), ("ts", "k", "at")]
    assert (
        sum(
            isinstance(n, OperatorNode) and isinstance(n.operator, WindowJoin)
            for n in pruned(Plan((united.node,))).nodes
        )
        == 1
    )


def paces(*outputs: Stream) -> list[dict[str, Pace]]:
    return list(demands(Plan(tuple(s.node for s in outputs))).values())


@pytest.mark.parametrize(
    ("stream", "left", "right"),
    [
        # A fraction of the other's range, so that the other's tuples go in time.
        (A.join(B, "k", range=(80, 40)), {"ts": Pace(15)}, {"ts": Pace(15)}),
        (A.join(B, "k", range=(80, 0), closed=True), {"ts": Pace(10)}, {"ts": Pace(10)}),
        (A.join(B, "k", range=1), {"ts": Pace(1)}, {"ts": Pace(1)}),
        (A.join(B, "k", tumbling=6, origin=2), {"ts": Pace(6, 2)}, {"ts": Pace(6, 2)}),
        # As finely as is asked downstream; of the other input later, by the range.
        (
            A.join(B, "k", range=(80, 40)).window(range=8, slide=4, wattr="ts").aggregate(count()),
            {"ts": Pace(4)},
            {"ts": Pace(4)},
        ),
        (
            A.join(B, "k", range=(82, 82)).window(range=8, wattr="ts").aggregate(count()),
            {"ts": Pace(8)},
            {"ts": Pace(8, 2)},
        ),
        (
            A.join(B, "k", range=(48, 32)).window(range=100, wattr="right_ts").aggregate(count()),
            {"ts": Pace(10, 2)},
            {"ts": Pace(10)},
        ),
        (
            A.join(B, "k", range=80, greatest="last").window(range=8, wattr="last").aggregate(count()),
            {"ts": Pace(8)},
            {"ts": Pace(8)},
        ),
        (A.join(B, "k", range=80).filter("ts > 3").aggregate(count(), by="n"), {"ts": Pace(20)}, {"ts": Pace(20)}),
        (A.join(B, ("n", "at"), range=8, wattr=("at", "ts")), {"at": Pace(2)}, {"ts": Pace(2)}),
        # Not at every tick of a fine clock.
        (M1.join(M2, "k", range=0, closed=True), {"ts": Pace(1_000_000)}, {"ts": Pace(1_000_000)}),
    ],
)
def test_inputs_are_promised_as_finely_as_the_join_makes_use_of(
    stream: Stream, left: dict[str, Pace], right: dict[str, Pace]
) -> None:
    assert paces(stream) == [left, right]


def test_a_stream_joined_with_itself_is_asked_for_steps_that_serve_both_sides() -> None:
    minute = 60_000_000_000
    itself = source(schema=TIMED).join(source(schema=TIMED), "k", range="9 s")
    both = itself.window(range="1 minute", wattr="ts").aggregate(count())
    assert [pace["ts"].step for pace in paces(both)] == [2_000_000_000, 2_000_000_000]
    s = source(schema=TIMED)
    odd = s.join(s, "k", range="7000000001 ns").window(range="1 minute", wattr="ts").aggregate(count())
    ((pace,),) = [list(found.values()) for found in paces(odd)]
    assert pace.step is not None and pace.step > minute // 10_000


@share(2.5)
@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 90), st.integers(0, 90))
def test_steps_downstream_are_among_those_asked_of_the_inputs(left: int, right: int, step: int, origin: int) -> None:
    windowed = A.join(B, "k", range=(left, right)).window(range=step, wattr="ts", origin=origin)
    one, other = (found["ts"] for found in paces(windowed.aggregate(count())))
    assert one.step is not None and other.step is not None
    assert step % one.step == 0 and (origin - one.origin) % one.step == 0
    # Of the other input later, by the range.
    assert step % other.step == 0 and (other.origin - origin - left) % other.step == 0


def test_state_is_purged_while_the_inputs_go_on() -> None:
    size, span = 3000, 20
    rows = [(i, "a", 0, 0) for i in range(size)]
    run = Run(Plan((source(rows, "A").join(source(rows, "B"), range=span, kind="semi").node,)))
    assert sum(len(e) for _, e in run if isinstance(e, Page)) == size
    join = run.circuit.operators[-1]
    assert isinstance(join, WindowJoin)
    assert join.statistics()["peak_state_tuples"] < 3 * span
    assert join.statistics()["state_tuples"] == 0


# Late tuples


def test_a_join_relies_on_promises_so_late_tuples_stop_at_their_source_and_are_counted() -> None:
    ticks = [5, 9, 20, 8, 21, 30, 11, 31]
    late = source([(t, "a", t, t) for t in ticks], "late", slack=4)
    joined = late.join(A, "k", range=50, kind="left")
    assert allowances(Plan((joined.node,))) == {0: 0, 1: 0}
    outcome = joined.distinct("n").run()
    assert sorted(outcome.table["n"].to_pylist()) == [5, 9, 20, 21, 30, 31]
    assert outcome.statistics.late == 2


# How it is told


def test_explain_says_the_band_what_is_hashed_kept_and_promised() -> None:
    text = M1.join(M2, "k", range=("3 minutes", "2 minutes"), where="n < right_n", kind="left").explain()
    told = " ".join(text.replace("│", " ").split())
    for part in (
        "left join [RANGE 3 minutes, WA ts] with [RANGE 2 minutes, WA ts] on k",
        "punctuated on ts; right_ts; ts with right_ts",
        "band ts - 2 minutes < right_ts < ts + 3 minutes: the right one is less than 3 minutes after the left one,"
        " or less than 2 minutes before it",
        "hashed on k = right_k",
        "of these the pairs with n < right_n",
        "keeps of the left ts, k, n: a tuple until the right input is promised up to its ts + 3 minutes",
        "keeps of the right ts, k, n: a tuple until the left input is promised up to its right_ts + 2 minutes",
        "a left tuple without a partner leaves once, beside nulls",
    ):
        assert part in told


@pytest.mark.parametrize(
    ("stream", "label", "remark"),
    [
        (A.join(B, range=2, closed=True), "join [RANGE 2, WA ts, CLOSED] with", "ts - 2 <= right_ts <= ts + 2"),
        (A.join(B, range=(3, 0), closed=True), "join", "<= ts + 3: the right one is at most 3 after"),
        (A.join(B, range=(0, 3), closed=True), "join", "ts: the right one is at most 3 before the"),
        (A.join(B, range=0, closed=True), "join", "band ts <= right_ts <= ts: both have one time"),
        (A.join(B, "k", tumbling=5, origin=1), "join [RANGE TUMBLING 5, WA ts] on k", "window of 5, counted from 1"),
        (A.join(B, range=2), "join [RANGE 2, WA ts] with [RANGE 2, WA ts]", "no equality: all pairs"),
        (A.join(B, ("k", "k"), range=2, kind="anti"), "anti join", "forgotten when it gets one"),
        (A.join(B, "k", range=2, kind="semi", promises="individual"), "semi join", "with its first partner"),
        (A.join(B, "k", range=2, promises="joint"), "join", "makes joint promises only"),
        (A.join(B, "k", range=2, kind="full"), "full join", "a tuple without a partner leaves once"),
        (
            A.join(B, "k", window=WidJoin(sliding(5, 5), sliding(4, 2), Steps(-1))),
            "join [RANGE 5, SLIDE 5, WA ts] with [RANGE 4, SLIDE 2, WA ts] on k",
            "related by Steps",
        ),
    ],
)  # fmt: skip
def test_every_form_is_told(stream: Stream, label: str, remark: str) -> None:
    node = stream.node
    assert isinstance(node, OperatorNode)
    assert node.label.startswith(label)
    assert any(remark in said for said in node.remarks)


def test_after_pruning_what_is_kept_is_told_anew() -> None:
    plan = pruned(Plan((A.join(B, "k", range=2).project("right_n").node,)))
    assert "keeps of the right ts, k, n: a tuple" in " ".join(explain(plan).split())
    assert "keeps of the left ts, k: a tuple" in " ".join(explain(plan).replace("│", " ").split())


def test_a_join_is_drawn() -> None:
    plan = Plan((A.join(A.filter("n > 3"), "k", range=2).node,))
    assert "join [RANGE 2" in svg(plan)
    assert mermaid(plan).count("-->") == 4


# The operator as a plan has it


@share(2.5)
@given(scripts(tuples=5))
def test_a_join_that_knows_of_a_part_of_its_inputs_keeps_the_laws(script: object) -> None:
    case = Case(Band("s", "t", left=3, right=2), band(3, 2))

    def expected(left: list[Row], right: list[Row]) -> list[Row]:
        return [{"right_k": row["right_k"], "y": row["y"]} for row in case.naive(left, right)]

    def make() -> WindowJoin:
        return WindowJoin(OAJoin(case.window, ON), (LEFT, RIGHT)).keeping({"right_k", "y"})

    check_operator(make, script, naive=expected)  # type: ignore[arg-type]


def test_pages_may_bring_more_attributes_or_others_in_another_order() -> None:
    join = WindowJoin(OAJoin(Band(*TIMES, left=3, right=2), ON), (LEFT, RIGHT)).keeping({"right_k"})
    assert [sorted(names) for names in join.reads] == [["k", "s"], ["k", "t"]]
    found: list[Element] = []
    wide = Schema.of(x=pa.int32(), k=pa.string(), s=pa.int64())
    join.process(Page.of(wide, {"x": [1], "k": ["a"], "s": [4]}), found.append, 0)
    join.process(Page.of(Schema.of(k=pa.string(), s=pa.int64()), {"k": ["a"], "s": [5]}), found.append, 0)
    join.process(Page.of(RIGHT, {"t": [5], "k": ["a"], "y": [1]}), found.append, 1)
    assert rows(found) == [{NAMES["k"]: "a"}, {NAMES["k"]: "a"}]


def test_a_join_is_saved_and_restored_and_made_anew_for_each_run() -> None:
    make = WindowJoin(OAJoin(Band(*TIMES, left=3, right=2), ON), (LEFT, RIGHT))
    first, found = attrs.evolve(make), list[Element]()
    first.process(Page.of(LEFT, {"s": [4], "k": ["a"], "x": [1]}), found.append, 0)
    assert (first.statistics()["state_tuples"], make.statistics()["state_tuples"]) == (1, 0)
    second = attrs.evolve(make)
    second.restore(first.state())
    second.process(Page.of(RIGHT, {"t": [5], "k": ["a"], "y": [1]}), found.append, 1)
    assert rows(found) == [{"s": 4, "k": "a", "x": 1, "t": 5, "right_k": "a", "y": 1}]


def test_a_join_flushes_tuples_without_a_partner_slowly_and_gives_the_same() -> None:
    rows = [(n, n % 3) for n in range(40)]
    schema = oop.Schema.of(ts="int64", k="int64")
    one = oop.rows(rows, schema)
    other = oop.rows([(n, 5 if n % 2 else n % 3) for n in range(40)], schema)
    kinds: tuple[Kind, ...] = ("left", "right", "full", "anti")
    for kind in kinds:
        wanted = one.join(other, "k", tumbling=4, kind=kind).to_arrow().to_pylist()
        slow = one.join(other, "k", tumbling=4, kind=kind, flush="slow", every=3, delay=1)
        for joined in (slow, one.join(other, "k", tumbling=4, kind=kind, flush="lazy")):
            assert sorted(map(str, joined.to_arrow().to_pylist())) == sorted(map(str, wanted))
    text = str(one.join(other, "k", tumbling=4, kind="left", flush="slow", every=3).explain())
    assert "tuples without a partner leave one for every 3 tuples that come, and at most 8 late" in text
    ordered = str(oop.in_order(one.join(other, "k", tumbling=4, kind="left", flush="lazy")).explain())
    assert "tuples without a partner leave at once: results are held back for their order anyway" in ordered


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "left", "flush": "slwo"}, 'Did you mean "slow"'),
        ({"kind": "left", "flush": "in_order"}, "there is no such flush"),
        ({"flush": "slow"}, "only tuples without a partner wait for a flush"),
        ({"kind": "anti", "flush": "lazy", "every": 3}, "this flush has no such option"),
        ({"kind": "anti", "every": 3}, "this flush has no such option"),
        ({"kind": "anti", "flush": "slow", "every": 0}, "every is a whole number from 1 on"),
        ({"kind": "anti", "flush": "slow", "delay": 1.5}, "write a whole number"),
    ],
)
def test_a_flush_that_means_nothing_is_refused(options: dict[str, Any], message: str) -> None:
    stream = oop.rows([(1, 1)], oop.Schema.of(ts="int64", k="int64"))
    with pytest.raises(PlanError, match=message):
        stream.join(stream, "k", tumbling=4, **options)
