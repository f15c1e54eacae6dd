"""A stream in order gets from stacks what it gets from buckets, by every technique, of every type, at any paging."""

from __future__ import annotations

import builtins
import math
from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, punctuations, rows
from operators.errors import AggregateOverflow, OperatorBug, SchemaError
from operators.functions import AggregateFunction, avg, count, max, min, stddev, sum
from operators.rows.number import Number
from operators.testing import Script, check_operator, streams
from operators.window import LIMIT, LandmarkWindow, SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.stacks import StackAggregate, Technique
from operators.window_aggregate.stores.stacks.panes import Panes
from operators.window_aggregate.strategy import stack_technique as choose
from punctuation import END, Progress, Punctuation, StreamViolation, before
from tests.examples import mostly_slow, share
from tests.naive_functions import naive_avg, naive_count, naive_count_all, naive_max, naive_min, naive_sum
from tests.naive_stacks import naive_panes, naive_stacks

TECHNIQUES: tuple[Technique, ...] = ("auto", "recompute", "subtract", "two_stacks", "daba")
SCHEMA = Schema.of(ts=pa.int64(), v=pa.int64(), f=pa.float64(), progress=["ts"])
FUNCTIONS: dict[str, AggregateFunction] = {
    "n": count(), "here": count("v"), "total": sum("v"), "mean": avg("v"), "least": min("v"), "most": max("v"),
    "floats": sum("f"), "float_mean": avg("f"), "float_least": min("f"), "float_most": max("f"),
}  # fmt: skip
ANSWERS = {
    "n": (naive_count_all, None), "here": (naive_count, "v"), "total": (naive_sum, "v"), "mean": (naive_avg, "v"),
    "least": (naive_min, "v"), "most": (naive_max, "v"), "floats": (naive_sum, "f"), "float_mean": (naive_avg, "f"),
    "float_least": (naive_min, "f"), "float_most": (naive_max, "f"),
}  # fmt: skip

windows = st.builds(
    SlidingWindow,
    st.just("ts"),
    size=st.integers(1, 9),
    slide=st.integers(1, 5),
    origin=st.integers(-2, 2),
    partial=st.sampled_from([True, True, False]),
)
scripts = streams(SCHEMA, tuples=14, disorder=0, promises=("linear", "general"))


def bucketed(window: SlidingWindow, functions: Mapping[str, AggregateFunction]) -> Chain:
    return Chain([Bucket(window), WindowAggregate(window, functions)])


def bag(found: Sequence[Row]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in found)


def highest(table: Sequence[Row], progress: Progress) -> int:
    """Give the greatest value below which no tuple can come any more."""
    bound = progress.bound("ts")
    return builtins.max([int(str(r["ts"])) for r in table] + ([] if bound is None else [int(str(bound))]), default=-99)


@pytest.mark.parametrize("technique", mostly_slow(TECHNIQUES, but=("auto", "daba")))
@share(1)
@given(window=windows, script=scripts)
def test_every_technique_keeps_the_laws(technique: Technique, window: SlidingWindow, script: Script) -> None:
    def naive(table: list[Row]) -> list[Row]:
        return naive_stacks(window, ANSWERS, table)

    def settled(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Row]:
        over, bound = progress[0].ended, highest(tables[0], progress[0])
        return [r for r in naive(tables[0]) if over or int(str(r["window_end"])) <= bound]

    def promised(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Punctuation]:
        bound = progress[0].bound("ts")
        if bound is None:
            return []
        begin, end = window.extent(wid := window.complete(int(str(bound))))
        return [before("wid", wid), before("window_start", begin), before("window_end", end)]

    def kept(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> int:
        if progress[0].ended:
            return 0
        done = window.complete(highest(tables[0], progress[0]))
        return len([p for p in naive_panes(window, [int(str(r["ts"])) for r in tables[0]]) if p[1] > done])

    check_operator(
        lambda: StackAggregate(window, FUNCTIONS, technique=technique),
        script,
        naive=naive,
        order_matters=True,
        settled=settled,
        promised=promised,
        kept=kept,
    )


TYPES = [
    pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.bool_(), pa.float16(),
    pa.float32(), pa.float64(), pa.date32(), pa.time32("s"), pa.timestamp("us"), pa.duration("ms"),
    pa.dictionary(pa.int8(), pa.int32()),
]  # fmt: skip


def cells(kind: pa.DataType) -> list[object]:
    """Give the extremes of a type and something between them."""
    if pa.types.is_dictionary(kind):
        return [None, 5, -5, 0]
    if pa.types.is_boolean(kind):
        return [None, True, False]
    if pa.types.is_floating(kind):
        return [None, 0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan]
    if pa.types.is_temporal(kind):
        return [None, 0, 1, 1000, 2**31 - 1 if pa.types.is_date32(kind) else 9]
    limits = np.iinfo(kind.to_pandas_dtype())
    return [None, int(limits.min), int(limits.max), 1, 2]


@pytest.mark.parametrize("kind", mostly_slow(TYPES, every=4), ids=str)
@share(1)
@given(
    technique=st.sampled_from(TECHNIQUES),
    window=windows,
    steps=st.lists(st.integers(0, 3), max_size=14),
    data=st.data(),
)
def test_types_and_extremes_as_by_buckets(
    kind: pa.DataType, technique: Technique, window: SlidingWindow, steps: list[int], data: st.DataObject
) -> None:
    schema = Schema.of(ts=pa.int64(), x=kind, progress=["ts"])
    pool = [v for v in cells(kind) if v is not None or data.draw(st.booleans())]
    values = data.draw(st.lists(st.sampled_from(pool), min_size=len(steps), max_size=len(steps)))
    page = Page.of(schema, {"ts": np.cumsum(np.array(steps, np.int64)), "x": pa.array(values, kind)})
    functions: dict[str, AggregateFunction] = {"least": min("x"), "most": max("x"), "n": count("x")}
    adds = not pa.types.is_temporal(kind) or pa.types.is_duration(kind)
    if adds and not (pa.types.is_int64(kind) or pa.types.is_uint64(kind)):
        functions |= {"total": sum("x"), "mean": avg("x")}
    elif adds:
        # The sum may not fit; the average of more than 64 bits is exact.
        functions |= {"mean": avg("x")}
    stack = StackAggregate(window, functions, technique=technique)
    chain = bucketed(window, functions)
    assert stack.output_schema(schema) == chain.output_schema(schema)
    middle = len(page) // 2
    script = [page.slice(0, middle), page.slice(middle, len(page)), END]
    ours, theirs = drive(stack, script), drive(chain, script)
    assert bag(rows(ours)) == bag(rows(theirs))
    for element in ours:
        assert not isinstance(element, Page) or element.batch.validate(full=True) is None


@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize(("size", "slide"), [(50, 1), (64, 16), (50, 7), (16, 16), (3, 5)])
def test_long_streams_in_pages_of_every_size(technique: Technique, size: int, slide: int) -> None:
    random = np.random.default_rng(size * slide)
    n = 2000
    # Bursts, lulls and gaps of many windows.
    steps = np.where(random.random(n) < 0.01, 5 * size, random.integers(0, 3, n))
    steps[n // 2 :] = 1
    columns = {
        "ts": pa.array(np.cumsum(steps)),
        "v": pa.array(random.integers(-(2**40), 2**40, n), mask=random.random(n) < 0.1),
        "f": pa.array(random.integers(-100, 100, n) / 4),
    }
    page = Page.of(SCHEMA, columns)
    window = SlidingWindow("ts", size=size, slide=slide, origin=3)
    sizes = random.choice([1, 2, 30, 700], n)
    stops = [stop for stop in np.cumsum(sizes).tolist() if stop < n]
    script = [page.slice(a, b) for a, b in zip([0, *stops], [*stops, n], strict=True)]
    stack = StackAggregate(window, FUNCTIONS, technique=technique)
    found = drive(stack, [*script, END])
    assert bag(rows(found)) == bag(rows(drive(bucketed(window, FUNCTIONS), [page, END])))
    assert stack.statistics()["peak_state_tuples"] <= 2 * (size // slide + 2) + 700
    assert stack.statistics()["state_bytes"] == 0


@pytest.mark.parametrize("rates", [[500], [1, 1, 1, 4_000, 0], [2_000, 0, 0, 1]], ids=str)
def test_state_does_not_grow_with_the_rate(rates: list[int]) -> None:
    """Tuples a tick, over and over again: also where the rate jumps, a slide has one partial aggregate."""
    window = SlidingWindow("ts", size=60, slide=10)
    stack = StackAggregate(window, FUNCTIONS)
    ticks = np.repeat(np.arange(200), np.resize(rates, 200))
    page = Page.of(SCHEMA, {"ts": ticks, "v": np.arange(len(ticks)), "f": np.ones(len(ticks))})
    assert len(page) > 90_000
    for start in range(0, len(page), 1000):
        drive(stack, [page.slice(start, start + 1000)])
        assert stack.statistics()["state_tuples"] <= 7
    assert stack.statistics()["peak_state_bytes"] < 10_000


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_rows_counted_on_arrival(technique: Technique) -> None:
    window = SlidingWindow("row_num", size=4, slide=2)
    page = Page.of(Schema.of(v=pa.int32()), {"v": [5, 3, 8, 1, 9, 2, 7]})
    operator = Chain([Number(), StackAggregate(window, {"least": min("v"), "total": sum("v")}, technique=technique)])
    found = drive(operator, [page.slice(0, 3), page.slice(3, 7), END])
    results = [(r["wid"], r["least"], r["total"]) for r in rows(found)]
    assert results == [(0, 3, 8), (1, 1, 17), (2, 1, 20), (3, 2, 18), (4, 7, 7)]
    # The promises on row numbers become promises on windows; the last windows are not over before END.
    assert [str(p) for p in punctuations(found)][:3] == ["[wid < 1]", "[window_start < 0]", "[window_end < 4]"]
    assert isinstance(found[0], Page) and found[0]["wid"].tolist() == [0]


@pytest.mark.parametrize(
    "kind",
    [pa.timestamp("us", "UTC"), pa.date32(), pa.date64(), pa.time32("s"), pa.duration("s"), pa.uint8(), pa.uint64()],
)
def test_every_type_that_counts_is_a_windowing_attribute(kind: pa.DataType) -> None:
    window = SlidingWindow("ts", size=3, slide=2)
    schema = Schema.of(ts=kind, v=pa.int64(), progress=["ts"])
    ts = pa.array([1, 1, 4, None, 9, 30], pa.int32() if kind.bit_width == 32 else pa.int64())
    ts = ts.cast(kind) if pa.types.is_integer(kind) else ts.view(kind)
    page = Page.of(schema, {"ts": ts, "v": [5, 3, 8, 1, 9, 2]})
    functions = {"least": min("v"), "total": sum("v")}
    found, expected = (
        drive(StackAggregate(window, functions), [page, END]),
        drive(bucketed(window, functions), [page, END]),
    )
    assert bag(rows(found)) == bag(rows(expected))
    assert isinstance(found[0], Page) and isinstance(expected[0], Page) and found[0].schema == expected[0].schema


def test_a_jump_over_empty_windows_costs_and_gives_nothing() -> None:
    far = 10**15
    page = Page.of(SCHEMA, {"ts": [1, far], "v": [1, 2], "f": [1.0, 2.0]})
    found = rows(drive(StackAggregate(SlidingWindow("ts", size=10, slide=5), FUNCTIONS), [page, END]))
    assert [r["wid"] for r in found] == [0, 1, far // 5, far // 5 + 1]


@pytest.mark.parametrize("value", [-1, 1, 4])
def test_a_tuple_out_of_order_is_refused_by_name(value: int) -> None:
    window = SlidingWindow("ts", size=2, slide=2)
    stack = StackAggregate(window, {"n": count()})
    out: list[object] = []
    drive(stack, [Page.of(SCHEMA, {"ts": [0, 1], "v": [1, 1], "f": [0.0, 0.0]})])
    page = Page.of(SCHEMA, {"ts": [3, 5, value], "v": [1, 1, 1], "f": [0.0, 0.0, 0.0]})
    with pytest.raises(
        StreamViolation, match=rf"tuple 4 \(page 1\) has ts = {value}\n  after a tuple with ts = 5"
    ) as error:
        stack.process(page, out.append)
    assert '.reorder(on="ts", slack=...)' in str(error.value)
    # What came before is not lost with it.
    assert [r["wid"] for page in out if isinstance(page, Page) for r in page.rows()] == [0, 1]


def test_a_tuple_below_a_promise_is_refused() -> None:
    stack = StackAggregate(SlidingWindow("ts", size=2, slide=2), {"n": count()})
    page = Page.of(SCHEMA, {"ts": [0, 7], "v": [1, 1], "f": [0.0, 0.0]})
    with pytest.raises(StreamViolation, match=r"tuple 1 \(page 1\) has ts = 7\n  after the punctuation \[ts < 8\]"):
        drive(stack, [page.slice(0, 1), before("ts", 8), page.slice(1, 2)])


def test_times_are_told_as_times() -> None:
    schema = Schema.of(ts=pa.timestamp("ns", "UTC"), progress=["ts"])
    stack = StackAggregate(SlidingWindow("ts", size=2, slide=2), {"n": count()})
    with pytest.raises(StreamViolation, match="has ts = 1970-01-01T00:00:01Z"):
        drive(stack, [Page.of(schema, {"ts": [2 * 10**9, 10**9]})])


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_tuples_without_a_usable_time_are_counted_and_disturb_no_order(technique: Technique) -> None:
    page = Page.of(SCHEMA, {"ts": [5, None, LIMIT, 6, -LIMIT, 7], "v": [1, 2, 3, 4, 5, 6], "f": [0.0] * 6})
    stack = StackAggregate(SlidingWindow("ts", size=2, slide=3), FUNCTIONS, technique=technique)
    found = rows(drive(stack, [page, END]))
    assert [(r["wid"], r["total"]) for r in found] == [(1, 1), (2, 6)]
    assert stack.statistics()["without_value"] == 3
    assert stack.statistics()["in_no_window"] == 1


def test_the_windows_released_are_counted_across_a_restore() -> None:
    page = Page.of(SCHEMA, {"ts": [1, 3, 9], "v": [1] * 3, "f": [0.0] * 3})
    window = SlidingWindow("ts", size=2, slide=2)
    stack, restored = StackAggregate(window, {"n": count()}), StackAggregate(window, {"n": count()})
    early = drive(stack, [page])
    restored.restore(stack.state())
    late = drive(restored, [END])
    assert (stack.statistics()["windows"], restored.statistics()["windows"]) == (2, 3)
    assert (len(rows(early)), len(rows(late))) == (2, 1)


def test_nulls_are_skipped_and_counted() -> None:
    page = Page.of(SCHEMA, {"ts": [1, 2, 3], "v": [1, None, 3], "f": [None, 1.0, 1.0]})
    functions = {"least": min("v"), "mean": avg("v"), "floats": sum("f"), "n": count()}
    stack = StackAggregate(SlidingWindow("ts", size=10, slide=10), functions)
    drive(stack, [page])
    assert stack.statistics()["null_arguments"] == 3


def test_a_sum_that_does_not_fit_names_the_aggregate_and_the_window() -> None:
    page = Page.of(SCHEMA, {"ts": [1, 11, 12], "v": [1, 2**63 - 1, 1], "f": [0.0] * 3})
    stack = StackAggregate(SlidingWindow("ts", size=10, slide=10), {"total": sum("v")})
    with pytest.raises(AggregateOverflow, match=f"total of window 1, all tuples: .*{2**63}"):
        drive(stack, [page, END])


@pytest.mark.parametrize(
    ("make", "schema", "match"),
    [
        (lambda: StackAggregate(SlidingWindow("ts", size=1, slide=1), {"x": stddev("v")}), SCHEMA, "count, sum, avg"),
        (lambda: StackAggregate(SlidingWindow("f", size=1, slide=1), {"x": count()}), SCHEMA, "a time or a decimal"),
        (lambda: StackAggregate(SlidingWindow("ts", size=1, slide=1), {"wid": count()}), SCHEMA, "two results"),
        (lambda: StackAggregate(LandmarkWindow("ts", slide=1), {"n": count()}), SCHEMA, "LandmarkWindow"),
        (lambda: StackAggregate(SlidingWindow("ts", size=1, slide=1), {"x": min("k")}), None, "not string"),
        (lambda: StackAggregate(SlidingWindow("tss", size=1, slide=1), {"x": count()}), SCHEMA, 'Did you mean "ts"'),
    ],
)
def test_what_stacks_cannot_do_is_refused_with_a_way_out(make: object, schema: Schema | None, match: str) -> None:
    assert callable(make)
    with pytest.raises(SchemaError, match=match):
        make().output_schema(schema or Schema.of(ts=pa.int64(), k=pa.string()))


def test_an_unknown_technique_is_refused() -> None:
    with pytest.raises(SchemaError, match='Did you mean "two_stacks"'):
        StackAggregate(SlidingWindow("ts", size=1, slide=1), {}, technique="two_stack")  # type: ignore[arg-type]


@attrs.define(eq=False)
class ForgetfulPanes(Panes):
    """Forget panes one window too early."""

    def drop(self, wid: int) -> bool:
        return Panes.drop(self, wid + 1)


@attrs.define(eq=False)
class Forgetful(StackAggregate):
    """Hold forgetful panes."""

    def _bind(self, schema: Schema) -> Panes:
        if self._panes is None:
            real = StackAggregate._bind(self, schema)
            self._panes = ForgetfulPanes(self.window)
            for column in real._columns:
                self._panes.admit(column)
        return self._panes


@attrs.define(eq=False)
class Hasty(StackAggregate):
    """Release a window at a tuple one tick before its end."""

    def _release(self, wid: int, emit: object) -> None:
        StackAggregate._release(self, self.window.complete(self._floor + 1), emit)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [Forgetful, Hasty])
def test_panes_forgotten_and_windows_released_too_early_are_caught(wrong: type[StackAggregate]) -> None:
    caught = 0

    @given(streams(SCHEMA, tuples=12, disorder=0, promises=("linear",)))
    def attempt(script: Script) -> None:
        nonlocal caught
        window = SlidingWindow("ts", size=3, slide=2)
        try:
            check_operator(
                lambda: wrong(window, {"n": count()}),
                script,
                naive=lambda table: naive_stacks(window, {"n": (naive_count_all, None)}, table),
                order_matters=True,
            )
        except (OperatorBug, StreamViolation):
            caught += 1

    attempt()
    assert caught > 0


def test_auto_never_subtracts_what_rounds() -> None:
    assert choose("auto", 1024, 1, few=4, invertible_exactly=True) == "subtract"
    assert choose("auto", 1024, 1, few=4, invertible_exactly=False) == "two_stacks"
    # 1000 is no multiple of 300: a window of 4 slides has up to 8 panes.
    assert choose("auto", 1000, 300, few=7, invertible_exactly=True) == "subtract"
    assert choose("auto", 1000, 300, few=8, invertible_exactly=True) == "recompute"
    assert choose("daba", 10, 10, few=4, invertible_exactly=True) == "daba"
    chosen = StackAggregate(SlidingWindow("ts", size=1024, slide=1), FUNCTIONS).techniques(SCHEMA)
    assert (chosen["n"], chosen["total"], chosen["least"], chosen["floats"]) == (
        "subtract", "subtract", "two_stacks", "two_stacks",
    )  # fmt: skip


def test_a_refused_tuple_is_counted_among_all_that_came() -> None:
    stack = StackAggregate(SlidingWindow("ts", size=2, slide=2), {"n": count()})
    page = Page.of(SCHEMA, {"ts": [None, 3, LIMIT, 5, 4], "v": [1] * 5, "f": [0.0] * 5})
    with pytest.raises(StreamViolation, match=r"tuple 4 \(page 0\) has ts = 4"):
        drive(stack, [page])
