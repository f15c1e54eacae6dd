"""What a plan asks of its sources: no column that nobody looks at, and promises just as fine as they are used."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan
from oop_engine.rewrite.demand import columns, demands, promised_by
from operators.data.page import Page
from operators.data.schema import Schema
from operators.pace import Pace
from operators.protocol import Emit, State
from punctuation import Punctuation, before

SCHEMA = pa.schema(
    [("ts", pa.int64()), ("at", pa.int64()), ("length", pa.int64()), ("k", pa.string()), ("mark", pa.bool_())]
)
TIMES = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.string())])


def source(**options: object) -> Stream:
    return oop.arrow([], schema=SCHEMA, **options)  # type: ignore[arg-type]


def read(*outputs: Stream) -> list[tuple[str, ...]]:
    return list(columns(Plan(tuple(s.node for s in outputs))).values())


def paces(*outputs: Stream) -> list[dict[str, Pace]]:
    return list(demands(Plan(tuple(s.node for s in outputs))).values())


def counted(s: Stream, *functions: object, **window: object) -> Stream:
    options = {name: window.pop(name) for name in ("by", "strategy") if name in window}
    return s.window(**{"range": 10, "wattr": "ts", **window}).aggregate(*(functions or (oop.count(),)), **options)  # type: ignore[arg-type]


@attrs.define
class Own:
    """An operator of a user's: nobody knows what it looks at."""

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        return Schema.of(ts=pa.int64(), progress=["ts"])

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        emit(page)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        emit(punctuation)

    def state(self) -> State:
        return {}

    def restore(self, state: object) -> None:
        """Do nothing."""


ALL = tuple(SCHEMA.names)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (lambda s: s, ALL),
        (lambda s: s.project("k"), ("k",)),
        (lambda s: s.project("k", "at"), ("at", "k")),
        (lambda s: s.filter(lambda p: p["at"] > 1).project("k"), ("at", "k")),
        (lambda s: s.filter("len > 1").project("k"), ("length", "k")),
        (lambda s: s.derive(bits="len * 8").project("k"), ("length", "k")),
        (lambda s: s.derive(bits="len * 8").project("bits"), ("length",)),
        (lambda s: s.project(source="k", size="len").project("size"), ("length", "k")),
        (lambda s: s.distinct("k"), ("k",)),
        (lambda s: s.distinct(), ALL),
        (lambda s: s.number().project("row_num"), ("ts",)),
        (lambda s: s.number().project("row_num", "k"), ("k",)),
        (lambda s: s.meld(s.filter("at > 1")).project("k"), ("at", "k")),
        (lambda s: oop.merge(s, s, on="ts").project("k"), ALL),
        (lambda s: s.reorder(on="ts", slack=1).project("k"), ALL),
        (lambda s: s.apply(Own()), ALL),
        (lambda s: counted(s), ("ts",)),
        (lambda s: counted(s, oop.sum("length")), ("ts", "length")),
        (lambda s: counted(s, oop.sum("len")), ("ts", "length")),
        (lambda s: counted(s, oop.argmax("k", "at"), by="length"), ("ts", "at", "length", "k")),
        (lambda s: counted(s, wattr="at", by="k"), ("at", "k")),
        (lambda s: counted(s, strategy=oop.strategy("adaptive", source="k")), ("ts", "k")),
        (lambda s: counted(s, strategy=oop.strategy("adaptive_panes", source="len"), by="k"), ("ts", "length", "k")),
        (lambda s: counted(s, wattr="row_num"), ("ts",)),
        (lambda s: counted(s, wattr="row_num", partition="k"), ("k",)),
        (lambda s: counted(s.filter("at > 1"), wattr="row_num"), ("at",)),
        (lambda s: s.aggregate(oop.sum("len"), by="k"), ("length", "k")),
        (lambda s: s.aggregate(oop.count()), ("ts",)),
    ],
)
def test_only_what_is_looked_at_is_read(shape: Callable[[Stream], Stream], expected: tuple[str, ...]) -> None:
    assert read(shape(source())) == [expected]


def test_several_outputs_read_what_any_of_them_looks_at() -> None:
    s = source()
    assert read(counted(s), s.project("k")) == [("ts", "k")]
    assert read(counted(s), s) == [ALL]


def test_what_punctuators_look_at_is_read_too() -> None:
    assert read(source(slack=3).project("k")) == [("ts", "k")]
    assert read(source(punctuate=oop.blocks("at", block="length")).project("k")) == [("at", "length", "k")]
    assert read(source(punctuate=oop.embedded("mark", "ts")).project("k")) == [("ts", "k", "mark")]
    assert read(source(punctuate=oop.embedded("mark", "ts", group=("k",))).project("length")) == [
        ("ts", "length", "k", "mark")
    ]


def test_who_wants_late_tuples_gets_all_of_them() -> None:
    assert read(counted(source(slack=3, divert=print))) == [ALL]
    assert read(counted(source(slack=3, divert=print, punctuate=oop.embedded("mark", "at")))) == [ALL]


def test_promises_that_come_with_a_stream_are_read_with_it() -> None:
    own = oop.pages([], oop.Schema.of(ts=pa.int64(), k=pa.string(), n=pa.int64(), progress=["ts", ("k", "ts")]))
    assert read(own.project("n")) == [("ts", "k", "n")]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (lambda s: s, {}),
        (lambda s: counted(s), {"ts": Pace(10)}),
        (lambda s: counted(s, slide=4), {"ts": Pace(4)}),
        (lambda s: counted(s, slide=4, origin=3), {"ts": Pace(4, 3)}),
        (lambda s: counted(s, range="ALL", slide=4), {"ts": Pace(4)}),
        (lambda s: counted(s.filter("at > 1").distinct(), slide=4), {"ts": Pace(4)}),
        (lambda s: counted(s.project(t="ts"), wattr="t", slide=4), {"ts": Pace(4)}),
        (lambda s: counted(s.project(t="ts", u="at"), wattr="u"), {"at": Pace(10)}),
        (lambda s: counted(s.derive(t=lambda p: p["ts"] // 60), wattr="t"), {"ts": Pace(None)}),
        (lambda s: counted(s.number(), wattr="row_num"), {}),
        (lambda s: counted(s, wattr="row_num", partition="k"), {}),
        (lambda s: counted(s.meld(s), slide=4), {"ts": Pace(4)}),
        (lambda s: counted(counted(s, slide=4), wattr="wid", range=3), {"ts": Pace(4)}),
        (lambda s: counted(counted(s, slide=4), wattr="window_end", range=8), {"ts": Pace(4)}),
        (lambda s: counted(counted(s, slide=4, by="at"), wattr="at", range=8), {"ts": Pace(4), "at": Pace(8)}),
        (lambda s: counted(s.apply(Own()), slide=4), {"ts": Pace(4)}),
    ],
)
def test_promises_are_asked_for_as_finely_as_they_are_used(
    shape: Callable[[Stream], Stream], expected: dict[str, Pace]
) -> None:
    assert paces(shape(source())) == [expected]


def timed(ticks: list[int]) -> pa.Table:
    return pa.table({"ts": pa.array(ticks, pa.int64()).cast(pa.timestamp("ms", "UTC"))})


def promised_before(ticks: list[int]) -> Stream:
    """Make a stream with a promise behind each tuple: no later one is below the least that is still to come."""
    schema = Schema(timed([]).schema, progress=["ts"])
    elements = list[Page | Punctuation]()
    for place, tick in enumerate(ticks):
        bound = pa.scalar(min(ticks[place + 1 :], default=tick), pa.int64()).cast(timed([]).schema.field("ts").type)
        elements += [Page(schema, timed([tick]).to_batches()[0]), before("ts", bound.value)]
    return oop.pages(elements, schema)


FROM: dict[str, Callable[[list[int]], Stream]] = {
    "slack": lambda ticks: oop.arrow(timed(ticks), slack="3 s"),
    "ordered": lambda ticks: oop.arrow(timed(ticks), punctuate=oop.ordered("ts")),
    "exact": lambda ticks: oop.arrow(timed(ticks)),
    "meld": lambda ticks: oop.meld(oop.arrow(timed(ticks), slack="3 s"), oop.arrow(timed(ticks[::2]), slack="1 ms")),
}


FINER: dict[str, Callable[[list[int]], Stream]] = {
    "a step": lambda ticks: oop.arrow(timed(ticks), punctuate=oop.every("1 ms", on="ts")),
    "its own": promised_before,
}


@pytest.mark.parametrize("name", [*FROM, *FINER])
@given(st.lists(st.integers(-20_000, 40_000), min_size=1, max_size=40), st.integers(1, 9))
def test_where_windows_slide_by_five_seconds_at_most_one_promise_is_forwarded_in_five_seconds(
    name: str, ticks: list[int], page_rows: int
) -> None:
    """No operator forwards more. Promises that a stream brings or a user asked for pass up to the windows."""
    stream = (FROM | FINER)[name](ticks)
    run = Run(Plan((stream.window(range="20 s", slide="5 s").aggregate(oop.count()).node,)), page_rows)
    assert [element for _, element in run]
    low, high = (min(ticks) - 3_000) // 5_000, max(ticks) // 5_000
    operators = run.circuit.statistics()
    *upstream, bucket, _ = operators
    assert upstream and bucket.label.startswith("bucket")
    for operator in [bucket] if name in FINER else [*upstream, bucket]:
        forwarded = operator.punctuations_out - 1  # and END
        assert forwarded <= high - low + 1, "as many as there are multiples of five seconds"


def test_windows_of_one_attribute_share_the_coarsest_pace_that_serves_all() -> None:
    s = source()
    assert paces(counted(s, slide=4), counted(s, slide=6)) == [{"ts": Pace(2)}]
    assert paces(counted(s, slide=4, origin=1), counted(s, slide=4, origin=3)) == [{"ts": Pace(2, 1)}]
    assert paces(counted(s, slide=4, origin=5), counted(s, slide=8, origin=1)) == [{"ts": Pace(4, 1)}]
    assert paces(counted(s), counted(s, wattr="at", slide=7)) == [{"ts": Pace(10), "at": Pace(7)}]
    renamed = s.project(a="ts", b="ts")
    assert paces(counted(renamed, wattr="a", slide=4), counted(renamed, wattr="b", slide=6)) == [{"ts": Pace(2)}]


def test_each_source_of_a_meld_is_asked_under_its_own_names() -> None:
    one, other = source().project(t="ts"), source().project(t="at")
    assert paces(counted(one.meld(other), wattr="t", slide=4)) == [{"ts": Pace(4)}, {"at": Pace(4)}]


def test_groups_of_a_time_are_ended_about_once_a_second() -> None:
    s = oop.arrow([], schema=TIMES)
    assert paces(s.aggregate(oop.count(), by=("ts", "k"))) == [{"ts": Pace(10**6)}]
    assert paces(s.distinct()) == [{"ts": Pace(10**6)}]
    assert paces(s.distinct("k")) == [{}]


small = st.builds(Pace, st.integers(1, 12), st.integers(-20, 20))


@given(small, small)
def test_a_shared_pace_passes_every_bound_of_both(one: Pace, other: Pace) -> None:
    both = one.and_also(other)
    assert both.step is not None and one.step is not None and other.step is not None
    for pace in (one, other):
        assert pace.step is not None
        assert all((pace.origin + k * pace.step - both.origin) % both.step == 0 for k in range(-5, 6))
    # Coarsest: every number that divides all the distances divides the step.
    assert both.step == gcd(one.step, other.step, one.origin - other.origin)
    assert both == other.and_also(one) or both.origin % both.step == other.and_also(one).origin % both.step


@given(small)
def test_without_a_step_a_pace_is_as_fine_as_can_be(pace: Pace) -> None:
    assert pace.and_also(Pace(None)) == Pace(None) == Pace(None).and_also(pace)


def test_promises_read_as_sets_of_attributes() -> None:
    assert (
        promised_by(oop.pages([], oop.Schema.of(a=pa.int64(), b=pa.int64(), progress=["b", ("b", "a")])).node)
        == "{a, b} {b}"
    )
    assert promised_by(oop.pages([], oop.Schema.of(a=pa.int64())).node) == "nothing"


def test_a_time_that_nobody_asks_for_is_promised_once_a_second() -> None:
    stream = oop.arrow([], schema=TIMES, slack="2 s")
    rows = stream.number("row_num").window(range=3, wattr="row_num").aggregate(oop.count())
    assert paces(rows) == [{"ts": Pace(1_000_000)}]
    windows = stream.window(range="10 s", slide="4 s", wattr="ts").aggregate(oop.count())
    assert [pace.step for pace in paces(rows, windows)[0].values()] == [4_000_000]
    plain = oop.arrow([], schema=SCHEMA, slack=2)
    assert paces(plain.filter(lambda p: p["length"] > 1)) == [{"ts": Pace(None)}]


def test_groups_of_no_time_ask_for_what_rises_and_make_no_pace_finer() -> None:
    s = oop.arrow(pa.table({"n": [1], "m": [2], "name": ["x"]}))
    maybe = Pace(None, optional=True)
    assert paces(s.aggregate(oop.count(), by=("n", "name"))) == [{"n": maybe}]
    assert paces(s.project("n", "m").distinct()) == [{"n": maybe, "m": maybe}]
    assert paces(s.derive(tens="n // 10").aggregate(oop.count(), by="tens")) == [{"n": maybe}]
    assert paces(s.derive(length="n * m").aggregate(oop.count(), by="length")) == [{}]
    timed = oop.arrow(pa.table({"ts": [1], "n": [2]}))
    joined = timed.join(timed, range=80)
    assert paces(joined.aggregate(oop.count(), by=("ts", "n"))) == paces(joined)
    grouped, windowed = s.aggregate(oop.count(), by="n"), s.window(10, wattr="n").aggregate(oop.count())
    assert paces(grouped, windowed) == [{"n": Pace(10)}]
    assert Pace(7, 3).and_also(maybe) == Pace(7, 3) == maybe.and_also(Pace(7, 3))
    assert maybe.and_also(maybe) == maybe


def test_a_promise_of_the_users_is_as_coarse_as_if_no_group_asked() -> None:
    schema = pa.schema([("ts", pa.timestamp("ns", "UTC")), ("k", pa.int64())])
    slack = oop.rows([], schema, slack="1 s").derive(minute="ts // '1 minute'")
    assert paces(slack.aggregate(oop.count(), by="minute")) == [{"ts": Pace(10**9)}]
